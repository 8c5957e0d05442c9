"""Rerouting and replication on the twin against their theory: effective loads, latencies, stability.

That each single job uses the time that its sizes say is tested in test_twin_central_queues; here are the averages. All
intervals come from the data, by independent replications or jobs. The seeds are fixed.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.measure.stationarity import steady
from testbed.runs.nominal import nominal
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.theory.predict import Prediction, pool_requirements, predict, stability_bound

FALSE_ALARM = 1e-6  # of one interval; with less than 60 of them below 1e-4 in all
HEAVY = {"kind": "pareto", "index": 3.0, "minimum": 2 / 3}


def two_pools(
    n: tuple[int, int], slow: float, action: str, tau: Any, *, load: float = 0.1, duration: float = 100, **settings: Any
) -> Scenario:
    """The paper's two types, each served at speed 1 in its own pool and ``slow`` in the other; mean sizes are 1."""
    mapping: dict[str, Any] = {
        "name": "two pools",
        "run": {"warmup": 0.1 * duration, "duration": duration, "drain": 100 * duration},
        "cluster": {
            "pools": [{"name": name, "servers": m, "queue": "central"} for name, m in zip(("a", "b"), n, strict=True)]
        },
        "workload": {
            "load": load,
            "types": [
                {"name": "one", "probability": 0.5, "speed": {"b": slow}},
                {"name": "two", "probability": 0.5, "speed": {"a": slow}},
            ],
        },
        "dispatch": {"policy": "static"},
        "threshold": {"action": action, "tau": tau},
    }
    for key, value in settings.items():
        table, _, name = key.partition("__")
        mapping[table][name] = value
    return decode(mapping)


def at_effective_load(scenario: Scenario, effective: float, jobs: float) -> Scenario:
    """The scenario with this effective load in its fullest pool, and so long that about that many jobs arrive."""
    bound = stability_bound(scenario)
    busy = scenario.with_settings({"workload.load": bound.bound * effective})
    duration = jobs / busy.rate
    return busy.with_settings({"run.duration": duration, "run.warmup": 0.1 * duration, "run.drain": 100 * duration})


def used(measured: Measurements) -> np.ndarray[Any, Any]:
    """The processing time of each job in each pool, shape (jobs, 2)."""
    found = np.zeros((int(measured.columns["job"].max()) + 1, 2))
    np.add.at(found, (measured.copies["job"], measured.copies["pool"]), measured.copies["received"])
    return found


@pytest.mark.parametrize(
    ("action", "dependence", "size", "n"),
    list(
        itertools.product(
            ("reroute", "replicate"),
            ("identical", "independent"),
            ({"kind": "exponential"}, HEAVY),
            ((5, 5), (2, 5)),
        )
    ),
)
def test_the_effective_load_of_each_pool_is_the_theorys(action, dependence, size, n):
    """The time that jobs use is independent from job to job: 32 normal intervals."""
    scenario = two_pools(n, 0.2, action, {"a": 1.5, "b": 0.8}, workload__size=size, workload__dependence=dependence)
    scenario = at_effective_load(scenario, 0.7, 2500)
    measured = simulate(scenario)
    assert (measured.columns["outcome"] == JobOutcome.COMPLETED).all()
    time, servers = used(measured), np.array(n)
    requirement = np.array(pool_requirements(scenario))
    assert scenario.rate * max(requirement / servers) == pytest.approx(0.7)
    half_width = norm.ppf(1 - FALSE_ALARM / 2) * time.std(axis=0, ddof=1) / len(time) ** 0.5
    assert (np.abs(time.mean(axis=0) - requirement) < half_width).all()
    assert (half_width < 0.25 * requirement).all()


@pytest.mark.parametrize("tau", [0.0, {"a": 1.5, "b": 0.8}], ids=["at once", "later"])
@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_copies_that_start_and_stop_late_add_to_the_effective_load_what_the_theory_says(tau, dependence):
    """With a message delay of 0.2, and of 8 normal intervals; without a delay the loads differ by more than these."""
    scenario = two_pools((5, 5), 0.2, "replicate", tau, workload__dependence=dependence)
    at_once = np.array(pool_requirements(scenario))
    delayed = at_effective_load(scenario.with_settings({"cluster.message_delay": 0.2}), 0.4, 8000)
    measured = simulate(delayed)
    time, requirement = used(measured), np.array(pool_requirements(delayed))
    half_width = norm.ppf(1 - FALSE_ALARM / 2) * time.std(axis=0, ddof=1) / len(time) ** 0.5
    assert (np.abs(time.mean(axis=0) - requirement) < half_width).all()
    assert (requirement - at_once > half_width).all()


def mean_latency(scenario: Scenario, replications: int) -> tuple[float, float]:
    """The mean response time after a warm-up, and the half width of its interval, by independent replications."""
    means = []
    for replication in range(replications):
        columns = simulate(scenario, replication).columns
        assert (columns["outcome"] == JobOutcome.COMPLETED).all()
        means.append(columns["response"][columns["arrival"] >= scenario.run.warmup].mean())
    quantile = t.ppf(1 - FALSE_ALARM / 2, replications - 1)
    return float(np.mean(means)), float(quantile * np.std(means, ddof=1) / replications**0.5)


@pytest.mark.parametrize(
    ("action", "dependence", "tau", "error"),
    [
        ("reroute", "identical", 0.0, -0.25),
        ("reroute", "identical", 2.0, 0.01),
        ("replicate", "identical", 0.0, 0.0),
        ("replicate", "identical", 1.0, -0.07),
        ("replicate", "independent", 1.0, -0.07),
    ],
)
def test_the_latency_between_single_servers_is_as_far_from_the_formula_as_the_sheet_says(
    action, dependence, tau, error
):
    """Sheet section 9, effective load 0.5: the error of the formula against long simulations, here of short ones."""
    scenario = two_pools((1, 1), 0.4, action, tau, workload__dependence=dependence)
    scenario = at_effective_load(scenario, 0.5, 300)
    prediction = predict(scenario)
    assert isinstance(prediction, Prediction)
    mean, half_width = mean_latency(scenario, 40)
    assert abs(mean - prediction.mean_response_time / (1 + error)) < half_width + 0.01 * mean
    assert half_width < 0.35 * mean


@pytest.mark.parametrize(
    ("action", "dependence", "load", "latency"),
    [
        ("reroute", "identical", 0.33513, 2.651),
        ("replicate", "identical", 0.35074, 1.872),
        ("reroute", "independent", 0.46489, 1.844),
        ("replicate", "independent", 0.46549, 1.517),
    ],
)
def test_the_latency_with_five_servers_in_each_pool_is_that_of_the_sheets_simulation(action, dependence, load, latency):
    """Sheet section 14.4, where the mean size is 10: latencies of 2 million jobs, to 0.6 %."""
    scenario = two_pools((5, 5), 0.4, action, 1.5, workload__dependence=dependence)
    assert stability_bound(scenario).bound * 0.7 == pytest.approx(load, rel=1e-4)
    mean, half_width = mean_latency(at_effective_load(scenario, 0.7, 600), 20)
    assert abs(mean - latency) < half_width + 0.006 * latency
    assert half_width < 0.25 * mean


@pytest.mark.parametrize(
    ("n", "slow", "action", "tau", "delay"),
    [((5, 5), 0.2, "replicate", 0.0, 0.0), ((1, 1), 1.0, "reroute", "inf", 0.2)],
)
def test_full_redundancy_is_one_queue_and_message_delay_is_service_that_nobody_gets(n, slow, action, tau, delay):
    """Where the prediction is exact: pools of five as one M/M/5; servers that wait two delays for their next job."""
    scenario = at_effective_load(two_pools(n, slow, action, tau, cluster__message_delay=delay), 0.6, 600)
    prediction = predict(scenario)
    assert isinstance(prediction, Prediction)
    assert prediction.kind == "exact"
    mean, half_width = mean_latency(scenario, 20)
    assert abs(mean - prediction.mean_response_time) < half_width
    assert half_width < 0.25 * mean


POLICIES: dict[str, dict[str, Any]] = {
    "reroute": {"action": "reroute", "tau": 2.0},
    "replicate": {"action": "replicate", "tau": 2.0},
    "zero redundancy": {"action": "reroute", "tau": "inf"},
    "full redundancy": {"action": "replicate", "tau": 0.0},
    "known sizes": {"action": "reroute", "tau": "rational", "dispatch__knows": "sizes"},
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("effective", [0.75, 1.25])
def test_a_run_below_the_bound_is_called_stable_and_one_above_it_is_not(policy, effective):
    """By what it measured: the trend of the number in system. What the theory says beforehand agrees."""
    scenario = at_effective_load(two_pools((5, 5), 0.2, **POLICIES[policy]), effective, 4000)
    scenario = scenario.with_settings({"run.drain": 0})
    wanted = nominal(scenario)
    columns = simulate(scenario).columns
    window = (scenario.run.warmup, scenario.horizon)
    assert wanted.stable == (effective < 1)
    assert steady(columns, wanted, window).passed == (effective < 1)
