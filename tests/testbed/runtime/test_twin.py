"""The twin: deterministic, and whole or cut off, but never something else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.measure.accounting import check
from testbed.runtime.build import slice_edges
from testbed.runtime.twin import simulate
from testbed.scenario import ClusterSettings, Dispatch, Pool, RunSettings, Scenario, WorkloadSettings


def scenario(**settings: Any) -> Scenario:
    from testbed.scenario.policies import policies

    return Scenario(
        name="twin",
        seed=11,
        run=RunSettings(warmup=20, duration=100),
        cluster=ClusterSettings(dispatchers=2, pools=[Pool(servers=10)]),
        workload=WorkloadSettings(load=0.7),
        dispatch=Dispatch("power-of-d", policies()["power-of-d"].Parameters()),
    ).with_settings(settings)


def test_a_run_is_a_function_of_the_scenario_and_the_replication() -> None:
    first, again, other = simulate(scenario()), simulate(scenario()), simulate(scenario(), 1)
    for name, column in first.columns.items():
        np.testing.assert_array_equal(column, again.columns[name])
    np.testing.assert_array_equal(first.occupancy, again.occupancy)
    assert not np.array_equal(first.columns["arrival"], other.columns["arrival"])
    assert first.stopped_at == 120
    assert first.failure is None


def test_every_job_is_accounted_for_and_every_server_at_every_time() -> None:
    measured = simulate(scenario())
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced
    np.testing.assert_allclose(measured.occupancy.sum(axis=1), 10 * np.diff(measured.occupancy_edges))
    assert measured.occupancy_edges.tolist() == pytest.approx(slice_edges(scenario()))


@pytest.mark.parametrize("drain", [0.0, 0.5])
def test_jobs_that_the_drain_is_too_short_for_are_still_in_the_system(drain: float) -> None:
    measured = simulate(scenario(**{"run.drain": drain, "workload.load": 1.2}))
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced
    assert np.count_nonzero(measured.columns["outcome"] == JobOutcome.IN_SYSTEM) > 0


def test_a_twin_that_is_stopped_is_the_beginning_of_the_whole_one() -> None:
    asked = 0

    def stopped() -> bool:
        nonlocal asked
        asked += 1
        return asked > 50

    whole, half = simulate(scenario()), simulate(scenario(), 0, stopped)
    assert 0 < half.stopped_at < 120
    assert check(half.columns, half.counters["jobs arrived"]).balanced
    response = dict(zip(whole.columns["job"].tolist(), whole.columns["response"].tolist(), strict=True))
    ended = half.columns["outcome"] != JobOutcome.IN_SYSTEM
    assert 100 < np.count_nonzero(ended) < len(response)
    assert half.columns["response"][ended].tolist() == [response[job] for job in half.columns["job"][ended].tolist()]
    assert half.columns["arrival"].max() <= half.stopped_at
    np.testing.assert_allclose(half.occupancy.sum(axis=1), 10 * np.diff(half.occupancy_edges))


def test_a_twin_that_is_stopped_before_it_begins_has_measured_nothing() -> None:
    measured = simulate(scenario(), 0, lambda: True)
    assert measured.stopped_at == 0.0
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced
    assert len(measured.columns["job"]) == 0


@pytest.mark.parametrize("rate", [0.1, 1, 3, 7, 10, 13])
@pytest.mark.parametrize(("gaps", "buffer", "dropped"), [(1, 1, 0), (1, 2, 0), (2, 1, 499), (3, 1, 666)])
def test_rounding_does_not_decide_which_jobs_are_dropped(rate: float, gaps: int, buffer: int, dropped: int) -> None:
    """A service that takes so many gaps between arrivals ends before the job arrives that comes at the same time."""
    regular = {
        "cluster.dispatchers": 1,
        "cluster.pools": [{"name": "main", "servers": 1, "buffer": buffer}],
        "workload": {
            "rate": rate,
            "arrivals": {"kind": "deterministic"},
            "size": {"kind": "deterministic", "value": gaps / rate},
        },
        "run.warmup": 0,
        "run.duration": 1000 / rate,
        "dispatch.policy": "random",
    }
    outcome = simulate(scenario(**regular)).columns["outcome"]
    assert len(outcome) == pytest.approx(999, abs=1)
    assert np.count_nonzero(outcome == JobOutcome.DROPPED) == pytest.approx(dropped, abs=1)
