"""Central queues on the twin: what a job uses is a function of its sizes, whatever the queues do (sheet, section 3)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import testbed
from testbed.core.outcomes import CopyOutcome, JobOutcome
from testbed.core.records import Measurements
from testbed.measure.accounting import check
from testbed.runs.tables import remarks
from testbed.runtime.build import build_workload
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.theory.pool_loads import pool_requirements
from testbed.theory.rerouting_replication import Model, Replicate, Reroute, processing_time

SLOW = 0.2


def two_pools(**settings: Any) -> Scenario:
    return decode(
        {
            "name": "two pools",
            "seed": 5,
            "run": {"warmup": 0, "duration": 150, "drain": 600},
            "cluster": {
                "dispatchers": 2,
                "pools": [{"name": name, "servers": 5, "queue": "central"} for name in ("a", "b")],
            },
            "workload": {
                "rate": 3.0,
                "types": [
                    {"name": "one", "probability": 0.5, "speed": {"a": 1.0, "b": SLOW}},
                    {"name": "two", "probability": 0.5, "speed": {"a": SLOW, "b": 1.0}},
                ],
            },
            "dispatch": {"policy": "static"},
            "threshold": {"action": "replicate", "tau": 1.5},
        }
    ).with_settings(settings)


def used(measured: Measurements, jobs: int, pools: int) -> np.ndarray:
    """The processing time of each job in each pool, as the records of its copies have it."""
    found = np.zeros((jobs, pools))
    np.add.at(found, (measured.copies["job"], measured.copies["pool"]), measured.copies["received"])
    return found


def expected(scenario: Scenario, measured: Measurements) -> np.ndarray:
    """The same by the formula, from the workload and the pools where the jobs started."""
    threshold = scenario.threshold
    assert threshold is not None
    pools = [pool.name for pool in scenario.pools]
    job_types = scenario.workload.types
    model = Model(
        tuple(pool.servers for pool in scenario.pools),
        tuple(job_type.probability for job_type in job_types),
        tuple(tuple(job_type.speed.get(pool, 1.0) for job_type in job_types) for pool in pools),
        scenario.workload.size,
    )
    policy = Reroute() if threshold.action == "reroute" else Replicate()
    by_pool = threshold.by_pool(pools)
    first = measured.copies["copy"] == 0
    start = dict(zip(measured.copies["job"][first].tolist(), measured.copies["pool"][first].tolist(), strict=True))
    rows = []
    for block in build_workload(scenario, 0).blocks():
        for job, job_type, sizes in zip(block.job.tolist(), block.job_type.tolist(), block.sizes(), strict=True):
            if job not in start:
                return np.array(rows)
            path = [(start[job] + hop) % len(pools) for hop in range(threshold.hops + 1)]
            taus = [by_pool[pool] for pool in path[:-1]]
            rows.append(processing_time(model, policy, path, job_type, sizes, taus))
    raise AssertionError("the workload has ended")


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"workload.dependence": "independent"},
        {"threshold.action": "reroute"},
        {"threshold.action": "reroute", "workload.dependence": 0.5},
        {"threshold.tau": 0.0, "workload.rate": 2.0},
        {"threshold.tau": {"a": "inf", "b": 0.7}, "dispatch.assignment": {"a": 0.3, "b": 0.7}},
        {
            "threshold.action": "reroute",
            "workload.size": {"kind": "pareto", "index": 1.5, "minimum": 1 / 3},
            "workload.rate": 2.0,
        },
        {
            "workload.dependence": "independent",
            "dispatch.knows": {"noisy": 0.8},
            "dispatch.assignment": {"one": {"a": 0.9, "b": 0.1}, "two": {"a": 0.2, "b": 0.8}},
            "cluster.pools": [
                {"name": "a", "servers": 2, "queue": "central"},
                {"name": "b", "servers": 5, "queue": "central"},
            ],
        },
        {
            "threshold.action": "reroute",
            "threshold.hops": 2,
            "cluster.pools": [{"name": name, "servers": 4, "queue": "central"} for name in ("a", "b", "c")],
        },
        {"cluster.message_delay": 0.01, "threshold.action": "reroute"},
    ],
    ids=lambda settings: ", ".join(f"{key.split('.')[1]}={value}" for key, value in settings.items())[:60],
)
def test_each_job_uses_the_processing_time_that_its_sizes_and_thresholds_say(settings: dict[str, Any]) -> None:
    scenario = two_pools(**settings)
    measured = simulate(scenario)
    jobs = len(measured.columns["job"])
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced
    assert (measured.columns["outcome"] == JobOutcome.COMPLETED).all()
    assert jobs > 200
    found = used(measured, jobs, len(scenario.pools))
    assert found == pytest.approx(expected(scenario, measured), rel=1e-9, abs=1e-9)
    order = np.argsort(measured.columns["job"])
    assert measured.columns["work"][order] == pytest.approx(found.sum(axis=1), abs=1e-9)
    copies = measured.copies
    assert (np.bincount(copies["job"][copies["fate"] == CopyOutcome.WON]) == 1).all()
    other = CopyOutcome.SUPERSEDED if scenario.threshold.action == "replicate" else CopyOutcome.REROUTED
    assert set(copies["fate"].tolist()) == {CopyOutcome.WON, other}, CopyOutcome.labels()


def test_response_times_are_waiting_and_service_where_messages_take_no_time() -> None:
    for action in ("reroute", "replicate"):
        columns = simulate(two_pools(**{"threshold.action": action})).columns
        assert columns["overhead"] == pytest.approx(0.0, abs=1e-9)
        assert columns["response"] == pytest.approx(columns["wait"] + columns["inherent"])


def test_what_is_assigned_by_signal_is_what_the_scenario_says() -> None:
    """All jobs of each type go to the pool that suits them, and never leave it."""
    scenario = two_pools(
        **{"dispatch.knows": "types", "dispatch.assignment": {"one": {"a": 1.0}, "two": {"b": 1.0}}, "threshold": None}
    )
    measured = simulate(scenario)
    of_job = np.argsort(measured.columns["job"])
    job_types = measured.columns["type"][of_job]
    assert measured.copies["pool"].tolist() == job_types[measured.copies["job"]].tolist()


@pytest.mark.parametrize("action", ["reroute", "replicate"])
@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_with_known_sizes_pools_are_used_as_the_theory_says(action: str, dependence: str) -> None:
    scenario = two_pools(
        **{
            "threshold": {"action": action, "tau": "rational"},
            "dispatch.knows": "sizes",
            "workload.dependence": dependence,
            "run.duration": 600,
        }
    )
    measured = simulate(scenario)
    found = used(measured, len(measured.columns["job"]), 2)
    requirement = pool_requirements(scenario)
    # Jobs use their times independently. About 1,800 of them, a fixed seed, and a false alarm below 1e-4.
    error = found.std(axis=0) / np.sqrt(len(found))
    assert (np.abs(found.mean(axis=0) - requirement) < 4.1 * error).all()


def test_a_job_that_takes_exactly_as_long_as_it_is_waited_for_is_not_moved() -> None:
    scenario = two_pools(
        **{
            "threshold": {"action": "reroute", "tau": "rational"},
            "dispatch.knows": "sizes",
            "workload.types": [
                {"name": "one", "probability": 0.5, "speed": {"a": 0.9, "b": 0.3}},
                {"name": "two", "probability": 0.5, "speed": {"a": 0.3, "b": 0.9}},
            ],
        }
    )
    measured = simulate(scenario)
    copies, of_job = measured.copies, np.argsort(measured.columns["job"])
    moved = copies["fate"] == CopyOutcome.REROUTED
    assert moved.sum() > 50
    # Whoever leaves a pool has found out that it was the wrong one.
    assert (measured.columns["type"][of_job][copies["job"]] != copies["pool"])[moved].all()


@pytest.mark.parametrize("settings", [{"workload.dependence": "independent"}, {"threshold.action": "reroute"}])
def test_the_summary_holds_the_theory_and_servers_are_as_busy_as_copies_say(settings: dict[str, Any]) -> None:
    result = testbed.run(two_pools(**{"run.duration": 1500, "workload.rate": 2.5, **settings}), where="twin")
    summary = result.runs[0].summary
    for pool in summary.pools:
        assert pool.theory_service_requirement is not None
        assert pool.service_requirement.mean is not None
        assert pool.service_requirement.half_width is not None
        # 3,700 jobs, a fixed seed; twice the 95 % interval is a false alarm of 1e-4.
        off = abs(pool.service_requirement.mean - pool.theory_service_requirement)
        assert off < 2 * pool.service_requirement.half_width
        parts = (pool.useful, pool.wasted_by_rerouting, pool.wasted_by_losing)
        assert sum(part or 0.0 for part in parts) == pytest.approx(pool.service_requirement.mean)
    assert next(check for check in summary.verdict.checks if check.name == "served load").passed
    assert summary.cancellations is not None
    assert summary.cancellations.by_outcome["won"] == summary.outcomes["completed"]
    words = "\n".join(remarks(result))
    assert "pool a: effective load" in words
    assert "% of it wasted by" in words


def test_a_pool_with_queues_at_its_servers_beside_one_with_a_central_queue_is_accounted_for_alike() -> None:
    pools = [{"name": "a", "servers": 5, "queue": "central"}, {"name": "b", "servers": 5}]
    settings = {"cluster.pools": pools, "threshold": None, "run.duration": 1500, "workload.rate": 2.0}
    scenario = two_pools(**settings)
    measured = simulate(scenario)
    columns, copies = measured.columns, measured.copies
    order, of_job = np.argsort(columns["job"]), np.argsort(copies["job"])
    assert copies["job"][of_job].tolist() == columns["job"][order].tolist()
    assert set(copies["pool"].tolist()) == {0, 1}
    assert set(copies["fate"].tolist()) == {CopyOutcome.WON}
    assert ((copies["server"] < 5) == (copies["pool"] == 0)).all()
    for name, same in (("received", "work"), ("wait", "wait"), ("server", "server")):
        assert copies[name][of_job] == pytest.approx(columns[same][order], abs=1e-9)

    summary = testbed.run(scenario, where="twin").runs[0].summary
    for pool in summary.pools:
        assert pool.theory_effective_load == pytest.approx(0.6)
        assert pool.effective_load.mean is not None
        assert pool.effective_load.half_width is not None
        # 3,000 jobs, a fixed seed; twice the 95 % interval is a false alarm of 1e-4.
        assert abs(pool.effective_load.mean - 0.6) < 2 * pool.effective_load.half_width < 0.2
    assert summary.cancellations is not None
    assert summary.cancellations.copies_per_job == 1.0
    assert next(check for check in summary.verdict.checks if check.name == "served load").passed


def test_the_number_in_system_counts_jobs_in_central_queues() -> None:
    """Beyond its stability bound: many times more jobs than servers, which have one each at most."""
    settings = {"workload.rate": 9.0, "run.duration": 100, "run.drain": 1}
    scenario = two_pools(**settings)
    summary = testbed.run(scenario, where="twin").runs[0].summary
    columns = simulate(scenario).columns
    times = np.arange(0.005, 100, 0.01)
    ends = np.sort((columns["arrival"] + columns["response"])[columns["outcome"] == JobOutcome.COMPLETED])
    present = np.searchsorted(np.sort(columns["arrival"]), times) - np.searchsorted(ends, times)
    assert present.mean() > 200
    assert summary.number_in_system_mean == pytest.approx(present.mean(), rel=1e-3)
    assert len(summary.queue_length.number_in_system) == 100
    assert summary.queue_length.number_in_system == pytest.approx(
        present.reshape(100, -1).mean(axis=1), rel=0.02, abs=1
    )
    assert summary.queue_length.mean is not None
    assert summary.queue_length.mean <= 1
