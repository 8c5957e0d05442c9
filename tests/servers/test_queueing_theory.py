"""Servers and dispatchers on the virtual runtime against exact results of queueing theory.

Each test takes the mean response time over one long run with a fixed seed. Its interval is 4.5 standard errors wide to
each side, estimated from the run itself by means of 40 batches: with Student's t on 39 degrees of freedom a false alarm
of 6e-5 over seeds. The runs start empty; the first of 41 batches is left out.
"""

from functools import partial

import numpy as np
import pytest

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.placement import DirectPlacement
from servers.server import Server
from testbed.core.records import JobRecords, Occupancy
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario.policies import policies

BATCHES = 40


def response_times(policy, *, servers, load, jobs, seed=5, **parameters):
    """Return the response times of Poisson jobs with exponential sizes of mean 1, in order of arrival."""
    rng = np.random.default_rng(seed)
    arrivals = np.cumsum(rng.exponential(1 / (load * servers), jobs)).tolist()
    sizes = rng.exponential(1.0, jobs).tolist()
    runtime = VirtualRuntime(seed)
    records = JobRecords(jobs)
    kind = policies()[policy]
    placement = DirectPlacement(Jobs(runtime, servers, Surroundings(0, servers), DispatcherRecords(records)))
    dispatcher = Dispatcher(placement, partial(kind, kind.Parameters(**parameters)))
    meter = Occupancy()
    reports = [dispatcher.address] if kind.idle_reports else []
    for address in range(servers):
        runtime.add(Server(runtime, address, speeds=[1.0], meter=meter, idle_report_to=reports))
    runtime.add(dispatcher)
    runtime.start()
    numbers = iter(range(jobs))

    def arrive():
        job = next(numbers)
        dispatcher.arrive(job, 0, (sizes[job],))
        if job + 1 < jobs:
            runtime.call_at(arrivals[job + 1], arrive)

    runtime.call_at(arrivals[0], arrive)
    runtime.run()
    columns = records.columns()
    return columns["response"][np.argsort(columns["job"])]


def erlang_arrivals(stages, load):
    """Return the mean response time of E_n/M/1: 1 / (1 - sigma), sigma = A*(1 - sigma) (Kleinrock 1975, ch. 6)."""
    sigma = 0.5
    for _ in range(1000):
        sigma = (stages * load / (stages * load + 1 - sigma)) ** stages
    return 1 / (1 - sigma)


def shorter_of_two_queues(load, levels=40):
    """Return the mean response time of two servers and the shorter queue: the Markov chain on both queue lengths.

    Truncated at ``levels`` tasks a queue, where the chance of being is below load ** (2 * levels) or so.
    """
    states = [(i, j) for i in range(levels) for j in range(levels)]
    number = {state: n for n, state in enumerate(states)}
    rates = np.zeros((len(states), len(states)))
    for (i, j), n in number.items():
        for to, rate in (
            ((i + 1, j), load * 2 * (1 if i < j else 0.5 if i == j else 0)),
            ((i, j + 1), load * 2 * (1 if j < i else 0.5 if i == j else 0)),
            ((i - 1, j), 1.0),
            ((i, j - 1), 1.0),
        ):
            if to in number:
                rates[n, number[to]] += rate
                rates[n, n] -= rate
    balance = rates.T.copy()
    balance[0] = 1.0
    chances = np.linalg.solve(balance, np.eye(len(states))[0])
    return float(chances @ [i + j for i, j in states]) / (2 * load)


@pytest.fixture(scope="module")
def shorter_of_two():
    exact = shorter_of_two_queues(0.8)
    assert exact == pytest.approx(2.955737, rel=1e-6)  # as in the project's formula sheet
    return exact


@pytest.mark.parametrize(
    ("policy", "servers", "load", "exact"),
    [
        ("random", 3, 0.6, 1 / (1 - 0.6)),  # M/M/1
        ("round-robin", 3, 0.7, erlang_arrivals(3, 0.7)),
        ("jsq", 2, 0.8, "shorter of two"),
        ("power-of-d", 2, 0.8, "shorter of two"),  # a sample of two of two
        ("least-outstanding", 2, 0.8, "shorter of two"),
    ],
)
def test_the_mean_response_time_is_that_of_the_theory(policy, servers, load, exact, shorter_of_two):
    if exact == "shorter of two":
        exact = shorter_of_two
    responses = response_times(policy, servers=servers, load=load, jobs=41 * 1000)
    means = responses.reshape(BATCHES + 1, -1).mean(axis=1)[1:]
    error = means.std(ddof=1) / BATCHES**0.5
    assert error < 0.05 * exact
    assert abs(means.mean() - exact) < 4.5 * error


def test_response_times_of_random_routing_are_exponential():
    """In M/M/1 they have the distribution function 1 - exp(-(1 - load) t), at every t."""
    responses = response_times("random", servers=3, load=0.6, jobs=41 * 1000)
    for level in (0.1, 0.5, 0.9, 0.99):
        t = -np.log(1 - level) / (1 - 0.6)
        shares = (responses <= t).reshape(BATCHES + 1, -1).mean(axis=1)[1:]
        assert abs(shares.mean() - level) < 4.5 * shares.std(ddof=1) / BATCHES**0.5
