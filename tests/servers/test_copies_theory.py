"""Copies against queueing theory, and against policies that are the same thing when messages take no time."""

from __future__ import annotations

from functools import partial
from math import comb
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import t

from dispatchers.copying import Copying
from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.placement import DirectPlacement
from servers.copy_server import CopyServer
from servers.server import Server
from testbed.core.records import CopyRecords, JobRecords, Occupancy
from testbed.core.streams import Stream, generator
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario.policies import policies

Floats = npt.NDArray[np.float64]


def run(policy: str, servers: int, arrivals: Floats, sizes: Floats, *, seed: int = 1, **parameters: Any) -> Floats:
    """Return the response times of jobs with the given arrival times and sizes of copies, (jobs, copies)."""
    kind = policies()[policy]
    chosen = kind.Parameters(**parameters)
    runtime = VirtualRuntime(seed)
    jobs = JobRecords(len(arrivals))
    records = DispatcherRecords(jobs, copies=CopyRecords(2 * len(arrivals)))
    table = Jobs(runtime, servers, Surroundings(0, servers), records)
    copied = kind.copies(chosen) > 1
    placement = Copying(table, cancels_on_start=kind.cancels_on_start(chosen)) if copied else DirectPlacement(table)
    dispatcher = Dispatcher(placement, partial(kind, chosen))
    server_class = CopyServer if copied else Server
    for address in range(servers):
        runtime.add(server_class(runtime, address, speeds=[1.0], meter=Occupancy()))
    runtime.add(dispatcher)
    runtime.start()
    for job, (when, of_job) in enumerate(zip(arrivals.tolist(), sizes.tolist(), strict=True)):
        runtime.call_at(when, partial(dispatcher.arrive, job, 0, of_job))
    runtime.run()
    columns = jobs.columns()
    assert len(columns["job"]) == len(arrivals)
    response: Floats = np.empty(len(arrivals))
    response[columns["job"]] = columns["response"]
    return response


def poisson(rng: np.random.Generator, rate: float, jobs: int) -> Floats:
    return np.cumsum(rng.exponential(1 / rate, jobs))


def mean_response_time(servers: int, d: int, load: float) -> float:
    """Redundancy-d, independent exponential copies of mean 1: Gardner et al. 2017, Theorem 1."""
    return sum(1 / (servers * (comb(servers - 1, d - 1) / comb(i - 1, d - 1) - load)) for i in range(d, servers + 1))


@pytest.mark.parametrize(("servers", "d", "load"), [(4, 2, 0.6), (6, 3, 0.5)])
def test_redundant_exponential_copies_have_the_mean_response_time_of_gardner(servers: int, d: int, load: float) -> None:
    """False alarm: 5e-5, from 16 independent runs."""
    means = []
    for seed in range(16):
        rng = np.random.default_rng(seed)
        arrivals, sizes = poisson(rng, servers * load, 1200), rng.exponential(1.0, (1200, d))
        means.append(run("redundancy-d", servers, arrivals, sizes, seed=seed, d=d)[200:].mean())
    width = t.isf(2.5e-5, 15) * np.std(means, ddof=1) / 4
    expected = mean_response_time(servers, d, load)
    assert width < 0.25 * expected
    assert np.mean(means) == pytest.approx(expected, abs=width)


def test_copies_on_all_servers_make_one_queue_whose_services_are_the_shortest_copies() -> None:
    """Job by job by Lindley's recursion; with exponential sizes an M/M/1 queue N times as fast."""
    rng = np.random.default_rng(8)
    arrivals, sizes = poisson(rng, 2.4, 3000), rng.exponential(1.0, (3000, 3))
    free_at = 0.0
    expected = []
    for now, service in zip(arrivals.tolist(), sizes.min(axis=1).tolist(), strict=True):
        free_at = max(free_at, now) + service
        expected.append(free_at - now)
    np.testing.assert_allclose(run("redundancy-d", 3, arrivals, sizes, d=3), expected, rtol=0, atol=1e-8)
    assert mean_response_time(3, 3, 0.8) == pytest.approx(1 / (3 - 2.4))


@pytest.mark.parametrize(
    ("policy", "d", "parameters"),
    [("redundancy-d", 2, {"cancel": "on-start"}), ("redundancy-d", 3, {"d": 3, "cancel": "on-start"}), ("tied", 2, {})],
)
def test_the_first_to_start_is_the_one_with_the_least_work(policy: str, d: int, parameters: dict[str, Any]) -> None:
    """Job by job: the server of d, sampled from the same stream, that would have been free first."""
    servers, jobs = 5, 3000
    rng = np.random.default_rng(7)
    arrivals, sizes = poisson(rng, 0.8 * servers, jobs), rng.gamma(0.5, 2.0, jobs)
    choices = Stream(generator(3, 0, "dispatcher/0/choices"))
    free_at = [0.0] * servers
    expected = []
    for now, size in zip(arrivals.tolist(), sizes.tolist(), strict=True):
        chosen = min(choices.sample(servers, d), key=lambda server: max(free_at[server], now))
        free_at[chosen] = max(free_at[chosen], now) + size
        expected.append(free_at[chosen] - now)
    response = run(policy, servers, arrivals, np.tile(sizes, (d, 1)).T, seed=3, **parameters)
    np.testing.assert_allclose(response, expected, rtol=0, atol=1e-8)


def test_a_hedge_that_never_comes_is_random_routing() -> None:
    rng = np.random.default_rng(5)
    arrivals, sizes = poisson(rng, 3.0, 2000), rng.exponential(1.0, (2000, 2))
    random = run("random", 5, arrivals, sizes[:, :1])
    np.testing.assert_array_equal(run("hedge", 5, arrivals, sizes, delay="inf"), random)
    np.testing.assert_array_equal(run("redundancy-d", 5, arrivals, sizes[:, :1], d=1), random)
    hedged = run("hedge", 5, arrivals, sizes, delay=2.0)
    short = random < 2.0
    assert 0.2 < short.mean() < 0.9
    assert hedged.mean() < random.mean()


def test_with_one_server_there_is_one_copy() -> None:
    rng = np.random.default_rng(6)
    arrivals, sizes = poisson(rng, 0.8, 500), rng.exponential(1.0, (500, 2))
    alone = run("random", 1, arrivals, sizes[:, :1])
    for policy, parameters in (("hedge", {"delay": 0.1}), ("tied", {}), ("redundancy-d", {})):
        np.testing.assert_array_equal(run(policy, 1, arrivals, sizes, **parameters), alone)


def test_a_hedge_is_placed_on_another_server_after_its_delay() -> None:
    """An idle server finishes the copy long before the original, whose size is large."""
    arrivals = np.array([0.0, 20.0])
    sizes = np.array([[9.0, 1.0], [1.5, 1.0]])
    np.testing.assert_allclose(run("hedge", 4, arrivals, sizes, delay=2.0), [3.0, 1.5])
