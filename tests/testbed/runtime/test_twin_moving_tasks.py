"""Stealing and sharing on the twin: what is exact at every number of servers, and what the mean field says of many."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from scipy.stats import ttest_1samp

from servers.balancer import MOVED, PROBES, YES
from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.measure.probes import overall_probe_rate
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.theory.stealing_sharing import mean_field, probe_rate_for, traditional_sharing, traditional_stealing
from testbed.workload.distributions import Erlang, Exponential, Hyperexponential

Floats = npt.NDArray[np.float64]
SIZES: dict[str, tuple[Any, dict[str, Any]]] = {
    "exponential": (Exponential(), {"kind": "exponential"}),
    "erlang": (Erlang(phases=5), {"kind": "erlang", "phases": 5}),
    "hyperexponential": (Hyperexponential(scv=5.0, f=0.5), {"kind": "hyperexponential", "scv": 5.0, "f": 0.5}),
}


def scenario(balance: dict[str, Any], *, servers: int, load: float, size: str = "exponential", **run: Any) -> Scenario:
    return decode(
        {
            "name": "moving",
            "seed": 17,
            "run": {"warmup": 50, "duration": 150, **run},
            "cluster": {"pools": [{"servers": servers}]},
            "workload": {"load": load, "size": SIZES[size][1]},
            "dispatch": {"policy": "random"},
            "balance": balance,
        }
    )


def responses(of: Scenario, measurements: Measurements) -> Floats:
    columns = measurements.columns
    inside = (columns["arrival"] >= of.horizon - of.run.duration) & (columns["outcome"] == JobOutcome.COMPLETED)
    return columns["response"][inside].astype(np.float64)


def probe_rate(of: Scenario, measurements: Measurements) -> float:
    found = overall_probe_rate(measurements, of.servers, (of.horizon - of.run.duration, of.horizon))
    assert found is not None
    return found


def agrees(values: Floats, expected: float, tolerance: float = 0.0) -> bool:
    """Whether replications agree with their expected mean, give or take ``tolerance`` (a share): false alarm 1e-5."""
    nearest = np.clip(values.mean(), expected * (1 - tolerance), expected * (1 + tolerance))
    return bool(ttest_1samp(values, nearest).pvalue > 1e-5)


@cache
def features(policy: str, servers: int, moves: str, size: str) -> Floats:
    """Mean response time and the shares of responses above some times, by replication: shape (replications, 4)."""
    of = scenario({"policy": policy, "probe_rate": 2.0, "moves": moves}, servers=servers, load=0.8, size=size)
    of = of.with_settings({"run.duration": 3000 / servers})
    rows = []
    for replication in range(12):
        times = responses(of, simulate(of, replication))
        rows.append([times.mean(), *(np.mean(times > t) for t in (1.0, 3.0, 8.0))])
    return np.array(rows)


@pytest.mark.parametrize("servers", [2, 5, 20])
def test_at_equal_rates_stealing_and_sharing_have_the_same_response_times_at_every_number_of_servers(
    servers: int,
) -> None:
    """The same arrivals and sizes in pairs, so that the differences are small; false alarm 4e-5 (four of 1e-5)."""
    stealing = features("stealing", servers, "newest", "exponential")
    difference = features("sharing", servers, "newest", "exponential") - stealing
    assert np.all(ttest_1samp(difference, 0.0).pvalue > 1e-5)
    # Sharp enough to tell rate 2 from rate 1, which at 20 servers is a fifth of the mean.
    assert difference[:, 0].std(ddof=1) / 12**0.5 < 0.05 * stealing[:, 0].mean()


def test_which_task_moves_first_does_not_matter_for_the_mean() -> None:
    newest, oldest = (features("stealing", 5, moves, "hyperexponential") for moves in ("newest", "oldest"))
    assert ttest_1samp(newest[:, 0] - oldest[:, 0], 0.0).pvalue > 1e-5
    assert not np.array_equal(newest, oldest)


@pytest.mark.parametrize("policy", ["stealing", "sharing", "hybrid"])
def test_probes_are_a_poisson_process_while_the_condition_holds(policy: str) -> None:
    """Given the time for which the clocks ran, the number of probes is Poisson: false alarm 7e-6.

    A server that asked at the moment of its becoming idle, too, would send a third more here.
    """
    balance = {"policy": policy, "probe_rate": 2.0, **({"sharing_probe_rate": 0.7} if policy == "hybrid" else {})}
    of = scenario(balance, servers=50, load=0.8)
    measurements = simulate(of)
    time = measurements.occupancy.sum(axis=0)
    idle, waiting = time[0], time[2:].sum()
    expected = {"stealing": 2.0 * idle, "sharing": 2.0 * waiting, "hybrid": 2.0 * idle + 0.7 * waiting}[policy]
    counted = measurements.counted[-1] - measurements.counted[0]
    assert abs(counted[PROBES] - expected) < 4.5 * expected**0.5
    # Each probe of stealing succeeds if its target has a waiting task, each of sharing if it is idle.
    assert counted[YES] == counted[MOVED]
    if policy == "stealing":
        assert probe_rate(of, measurements) == pytest.approx(2.0 * (1 - 0.8), rel=0.1)


@pytest.mark.parametrize(
    ("policy", "servers", "load", "size", "overall", "duration", "replications"),
    [
        ("stealing", 50, 0.5, "exponential", 0.25, 100, 10),
        ("sharing", 50, 0.8, "erlang", 0.5, 100, 10),
        ("stealing", 50, 0.7, "hyperexponential", 0.5, 150, 10),
        ("stealing", 1000, 0.5, "exponential", 0.25, 15, 4),
        ("sharing", 1000, 0.5, "erlang", 0.25, 15, 4),
    ],
)
def test_the_mean_is_that_of_the_mean_field_with_its_correction(
    policy: Any, servers: int, load: float, size: str, overall: float, duration: float, replications: int
) -> None:
    law = SIZES[size][0]
    rate = probe_rate_for(policy, load, law, overall)
    field = mean_field(load, law, rate)
    correction = field.finite_size_correction()
    of = scenario({"policy": policy, "probe_rate": rate}, servers=servers, load=load, size=size)
    of = of.with_settings({"run.duration": duration, "run.warmup": 50 if servers < 1000 else 20})
    runs = [simulate(of, replication) for replication in range(replications)]
    means = np.array([responses(of, run).mean() for run in runs])
    # The next term of the expansion, and what is left of the warm-up: below half a percent.
    assert agrees(means, field.mean_response_time + correction.mean_response_time / servers, tolerance=0.005)
    assert means.std(ddof=1) / replications**0.5 < 0.05 * means.mean()
    pending = field.pending_probability + correction.pending_probability / servers
    asked = np.array([probe_rate(of, run) for run in runs])
    assert agrees(asked, rate * (1 - load) if policy == "stealing" else rate * pending, tolerance=0.005)


@pytest.mark.parametrize("policy", ["stealing", "sharing"])
def test_the_traditional_forms_are_those_of_the_theory(policy: str) -> None:
    """The theory is that of infinitely many servers; at 200, 2 % are left for what it lacks."""
    size = "exponential" if policy == "stealing" else "erlang"
    formula = traditional_stealing if policy == "stealing" else traditional_sharing
    expected = formula(0.8, SIZES[size][0], 2)
    of = scenario({"policy": policy, "max_probes": 2}, servers=200, load=0.8, size=size, warmup=25, duration=25)
    runs = [simulate(of, replication) for replication in range(5)]
    assert agrees(np.array([responses(of, run).mean() for run in runs]), expected.mean_response_time, 0.02)
    assert agrees(np.array([probe_rate(of, run) for run in runs]), expected.overall_probe_rate, 0.02)


def test_no_task_comes_too_late_where_messages_take_no_time_and_some_do_where_they_take_some() -> None:
    of = scenario({"policy": "stealing", "probe_rate": 5.0}, servers=10, load=0.8)
    prompt = simulate(of).counters
    slow = simulate(of.with_settings({"cluster.message_delay": 0.2})).counters
    assert (prompt["moved too late"], slow["moved too late"] > 10) == (0, True)
    assert prompt["tasks moved"] > 100


def test_half_of_the_waiting_tasks_and_a_choice_of_victims_move_more_for_the_same_probes() -> None:
    base = {"policy": "stealing", "probe_rate": 0.5}
    plain, half, choice = (
        simulate(scenario({**base, **more}, servers=20, load=0.9)).counters
        for more in ({}, {"steal": "half"}, {"victim_choices": 3})
    )
    assert half["tasks moved"] > 1.1 * plain["tasks moved"]
    assert choice["tasks moved"] / (choice["balancing probes"] / 3) > plain["tasks moved"] / plain["balancing probes"]
