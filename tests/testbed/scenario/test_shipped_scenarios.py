"""Every scenario that is shipped can be had by name, does what its name says, runs, and accounts for each job."""

from __future__ import annotations

import numpy as np
import pytest

import testbed
from testbed.core.outcomes import JobOutcome
from testbed.scenario import Scenario, sweep_points, variants
from testbed.scenario.scenario_files import shipped
from testbed.theory.predict import NoPrediction, Prediction, predict

SHIPPED = shipped()
FOR_JOBS_OF_TASKS = (
    "batch-filling",
    "batch-sampling",
    "power-of-d",
    "per-task-power-of-d",
    "per-task-power-of-kd",
    "late-binding",
    "random",
    "round-robin",
    "jsq",
    "jiq",
)
#: Variants that no theory covers, and what the reason must speak of.
NO_THEORY = {
    ("parallel-jobs-random-numbers", "batch-filling"): "fixed number of tasks",
    ("parallel-jobs-random-numbers", "heavy-tailed"): "fixed number of tasks",
    ("hedging", "hedge"): "delay of 0 or inf",
    ("hedging", "redundancy-2 on completion"): "exponential service times only",
    ("hedging", "redundancy-2 on start"): "exponential service times only",
    ("hedging", "tied"): "exponential service times only",
    ("known-sizes", "static+reroute"): "none for the latency",
    ("known-sizes", "rational replication"): "none for the latency",
    ("power-of-d-with-stealing", "power-of-d+stealing"): "random routing",
    ("power-of-d-with-stealing", "jiq+stealing"): "random routing",
}


def points(name: str) -> list[Scenario]:
    """Return what is shipped under a name: one scenario, or those of a sweep's points."""
    scenario = Scenario.from_file(name)
    return [point.scenario for point in sweep_points(scenario)] or [scenario]


@pytest.mark.parametrize("name", SHIPPED)
def test_it_bears_its_files_name_and_says_how_to_run_it(name: str) -> None:
    scenario = Scenario.from_file(name)
    assert scenario.name == name
    comment = SHIPPED[name].partition("\nname =")[0]
    assert f"`testbed {'run' if scenario.sweep is None else 'sweep'} {name}`" in comment


@pytest.mark.parametrize("policy", FOR_JOBS_OF_TASKS)
def test_each_policy_for_jobs_of_several_tasks_has_its_example(policy: str) -> None:
    scenario = Scenario.from_file(f"parallel-jobs-{policy}")
    assert scenario.dispatch.policy == policy
    # All on one workload and one cluster, so that their results can be laid side by side.
    compared = Scenario.from_file("parallel-jobs")
    assert (scenario.workload, scenario.cluster, scenario.seed) == (compared.workload, compared.cluster, compared.seed)
    assert scenario.workload.task_numbers.most == 5


@pytest.mark.parametrize("name", SHIPPED)
def test_theory_speaks_of_each_variant_or_says_why_not(name: str) -> None:
    for variant, scenario in [pair for point in points(name) for pair in variants(point)]:
        found = predict(scenario)
        reason = NO_THEORY.get((name, variant))
        if reason is None:
            assert isinstance(found, Prediction), f"{variant}: {found.reason}"
        else:
            assert isinstance(found, NoPrediction)
            assert reason in found.reason


@pytest.mark.parametrize("name", SHIPPED)
def test_it_runs_in_a_short_form_and_every_job_is_accounted_for(name: str) -> None:
    in_short = {"run.warmup": 5, "run.duration": 25, "run.drain": 500, "run.replications": 1}
    for point in points(name):
        short = point.with_settings(in_short)
        if short.balance is not None and short.balance.overall_probe_rate is not None:
            short = short.with_settings({"balance.calibration": "mean-field"})  # the twin's takes longer than the run
        result = testbed.run(short, where="twin")
        assert [run.variant for run in result.runs] == [variant for variant, _ in variants(short)]
        for run in result.runs:
            accounting = run.summary.accounting
            assert accounting.problems == []
            assert accounting.completed + accounting.dropped == accounting.arrived > 50
            finite = any(pool.buffer is not None for pool in run.scenario.cluster.pools)
            assert (accounting.dropped > 0) == finite
            for reason in run.summary.verdict.reasons:
                if name == "hedging" and reason.startswith("servers were busy for"):
                    continue  # the check takes service that ended in a cancellation for lost time
                assert "use a longer warmup and duration" in reason  # nothing else may be amiss


def test_of_jobs_that_are_dropped_no_task_is_served_though_dispatchers_race() -> None:
    scenario = Scenario.from_file("parallel-jobs-finite-buffers").with_settings({"run.duration": 50})
    assert scenario.cluster.dispatchers > 1
    for run in testbed.run(scenario, where="twin").runs:
        measured = run.twin_measurements
        assert measured is not None
        outcome, jobs = measured.columns["outcome"], measured.columns["job"]
        numbers, tasks_done = np.unique(measured.tasks["job"], return_counts=True)
        assert set(numbers.tolist()) == set(jobs[outcome == JobOutcome.COMPLETED].tolist())
        assert set(tasks_done.tolist()) == {5}
        assert np.count_nonzero(outcome == JobOutcome.DROPPED) > 10
