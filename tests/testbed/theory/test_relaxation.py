import math

import numpy as np
import pytest
from scipy.linalg import eigvals, expm

from testbed.runs.nominal import nominal
from testbed.scenario import Scenario
from testbed.theory.relaxation import mean_missing_fraction, missing_fraction, queue_relaxation_time

HYPEREXPONENTIAL = {"kind": "hyperexponential", "mean": 1.0, "scv": 4.0}


def slowest(load, arrival_phases, service_phases, longest=100):
    """Relaxation time of the queue with Erlang gaps and sizes, from its generator cut off at a queue length.

    States (length, arrival phase, service phase), phases counted from 0; mean size 1.
    """
    a, s = load * arrival_phases, float(service_phases)
    Q = np.zeros((longest, arrival_phases, service_phases, longest, arrival_phases, service_phases))
    for n in range(longest):
        for i in range(arrival_phases):
            for j in range(service_phases):
                if i + 1 < arrival_phases:
                    Q[n, i, j, n, i + 1, j] += a
                elif n + 1 < longest:
                    Q[n, i, j, n + 1, 0, j] += a
                else:
                    Q[n, i, j, n, 0, j] += a
                if n and j + 1 < service_phases:
                    Q[n, i, j, n, i, j + 1] += s
                elif n:
                    Q[n, i, j, n - 1, i, 0] += s
    Q = Q.reshape(2 * [longest * arrival_phases * service_phases])
    if service_phases > 1:  # an idle server is in phase 0
        kept = [k for k in range(len(Q)) if k // service_phases >= arrival_phases or k % service_phases == 0]
        Q = Q[np.ix_(kept, kept)]
    Q -= np.diag(Q.sum(axis=1))
    values = np.sort(-eigvals(Q).real)
    assert abs(values[0]) < 1e-9
    return 1 / values[1]


def quickstart(**settings):
    scenario = Scenario.from_file("quickstart").with_settings({"variants": None, "workload.load_per": "server"})
    return scenario.with_settings({key.replace("__", "."): value for key, value in settings.items()})


def test_an_exponential_queue_relaxes_as_its_generator_does():
    # Cut off at K the rate is 1 + load - 2 sqrt(load) cos(pi / (K + 1)): 3 % more at 100 and load 0.7.
    assert queue_relaxation_time(0.7, 1.0, 1.0) == pytest.approx(slowest(0.7, 1, 1), rel=0.04)
    assert queue_relaxation_time(0.95, 1.0, 1.0) == pytest.approx(1559.75, rel=1e-5)


@pytest.mark.parametrize(("arrival_phases", "service_phases"), [(1, 2), (3, 1)])
def test_other_queues_relax_faster_by_their_mean_variation(arrival_phases, service_phases):
    found = queue_relaxation_time(0.7, 1 / arrival_phases, 1 / service_phases)
    assert found == pytest.approx(slowest(0.7, arrival_phases, service_phases), rel=0.1)


def test_a_scenario_has_the_relaxation_time_of_a_server():
    assert nominal(quickstart()).relaxation_time == pytest.approx(1 / (1 - math.sqrt(0.8)) ** 2)
    assert nominal(quickstart(workload__size=HYPEREXPONENTIAL)).relaxation_time == pytest.approx(2.5 * 89.72, rel=1e-3)
    doubled = quickstart(workload__size={"kind": "exponential", "mean": 2.0})
    assert nominal(doubled).relaxation_time == pytest.approx(2 * 89.72, rel=1e-3)


def test_round_robin_evens_the_arrivals_out():
    found = nominal(quickstart(dispatch__policy="round-robin")).relaxation_time
    assert found == pytest.approx((1 + 1 / 40) / 2 * 89.72, rel=1e-3)


def test_the_slowest_server_decides():
    pools = {"name": "slow", "servers": 20}, {"name": "fast", "servers": 20}
    types = [{"name": "default", "probability": 1.0, "speed": {"fast": 2.0}}]
    found = nominal(quickstart(cluster__pools=list(pools), workload__types=types)).relaxation_time
    assert found == pytest.approx(89.72, rel=1e-3)
    limited = quickstart(cluster__pools=[{"name": "slow", "servers": 20, "buffer": 3}, pools[1]], workload__types=types)
    assert nominal(limited).relaxation_time == pytest.approx(0.5 / (1 - math.sqrt(0.4)) ** 2)


@pytest.mark.parametrize(
    "settings",
    [
        {"dispatch__policy": "jsq"},
        {"workload__load": 1.0},
        {"workload__size": {"kind": "pareto", "index": 1.5, "minimum": 1 / 3}},
        {"cluster__pools": [{"name": "main", "servers": 40, "buffer": 5}]},
        {"balance": {"policy": "stealing", "probe_rate": 1.0}},
        {"dispatch__policy": "random", "workload__tasks": 2},
    ],
)
def test_it_is_not_known_for_other_queues(settings):
    assert nominal(quickstart(**settings)).relaxation_time is None


def test_a_scenario_is_stable_below_the_bound_or_with_finite_buffers():
    assert nominal(quickstart(workload__load=0.99, dispatch__policy="jsq")).stable
    assert not nominal(quickstart(workload__load=1.0, dispatch__policy="jsq")).stable
    assert nominal(quickstart(workload__load=1.5, cluster__pools=[{"name": "main", "servers": 40, "buffer": 5}])).stable


def test_servers_that_move_tasks_are_not_held_to_a_fixed_share():
    slow_pool = {
        "dispatch__policy": "random",
        "workload__load": 0.6,
        "cluster__pools": [{"name": "slow", "servers": 20}, {"name": "fast", "servers": 20}],
        "workload__types": [{"name": "default", "probability": 1.0, "speed": {"slow": 0.5}}],
    }
    assert not nominal(quickstart(**slow_pool)).stable
    assert nominal(quickstart(**slow_pool, balance={"policy": "stealing", "probe_rate": 1.0})).stable


def test_the_missing_fraction_is_that_of_a_queue_near_saturation():
    # The M/M/1 queue at load 0.95 from its generator, cut off at length 300, by uniformisation.
    load, longest = 0.95, 300
    Q = np.diag(np.full(longest - 1, load), 1) + np.diag(np.ones(longest - 1), -1)
    np.fill_diagonal(Q, -Q.sum(axis=1))
    relaxation = queue_relaxation_time(load, 1.0, 1.0)
    length = np.arange(longest)
    steady = load**length / (load**length).sum()
    for times in (0.1, 0.5, 1.0, 2.0):
        missing = 1 - (expm(Q * times * relaxation)[0] @ length) / (steady @ length)
        assert missing_fraction(times) == pytest.approx(missing, abs=0.02)
    assert missing_fraction(0.0) == 1.0
    assert missing_fraction(1.0) == pytest.approx(0.0568, abs=1e-4)
    assert missing_fraction(2.0) == pytest.approx(0.0115, abs=2e-4)
    grid = np.linspace(0.5, 3.0, 2001)
    assert mean_missing_fraction(0.5, 3.0) == pytest.approx(np.mean([missing_fraction(t) for t in grid]), rel=1e-3)
    assert mean_missing_fraction(30.0, 40.0) == 0.0
    assert mean_missing_fraction(0.0, 100.0) == pytest.approx(0.25 / 100, rel=1e-3)
