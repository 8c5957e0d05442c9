"""What is told of a traced job agrees with its records, whatever happens to it; and telling changes nothing."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import trio

from testbed.cluster.controller import Controller
from testbed.cluster.live_records import LiveRecords
from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.core.rows import JobRecord
from testbed.core.trace_choice import are_traced, is_traced
from testbed.core.trace_recorder import TraceEvent
from testbed.runs.job_history import Job, Names, Step, history
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode

CENTRAL = {"pools": [{"name": name, "servers": 3, "queue": "central"} for name in ("a", "b")], "nodes": 1}
EQUAL = {"pools": [{"servers": 8}], "nodes": 2, "dispatchers": 2}
CASES: dict[str, dict[str, Any]] = {
    "probe": {"dispatch": {"policy": "power-of-d", "d": 2}},
    "stolen": {"dispatch": {"policy": "random"}, "balance": {"policy": "stealing", "probe_rate": 2.0}},
    "shared": {"dispatch": {"policy": "random"}, "balance": {"policy": "sharing", "probe_rate": 2.0}},
    "rerouted": {
        "cluster": CENTRAL,
        "dispatch": {"policy": "static"},
        "threshold": {"action": "reroute", "tau": 0.5},
    },
    "won": {
        "cluster": CENTRAL,
        "dispatch": {"policy": "static"},
        "threshold": {"action": "replicate", "tau": 0.5},
    },
    "cancelled": {"dispatch": {"policy": "redundancy-d", "d": 2}},
    "reserve": {"dispatch": {"policy": "late-binding"}, "tasks": 2},
}


def scenario(case: str, traced: float = 1.0) -> Scenario:
    settings = {**CASES[case]}
    return decode(
        {
            "name": "traced",
            "seed": 7,
            "run": {"time_unit": "10ms", "warmup": 0, "duration": 40, "traced": traced},
            "cluster": EQUAL,
            "workload": {"load": 0.4, "tasks": settings.pop("tasks", 1)},
            **settings,
        }
    )


def histories(scenario: Scenario, measured: Measurements) -> dict[int, list[Step]]:
    names = Names(scenario.servers, scenario.cluster.dispatchers, [pool.name for pool in scenario.pools])
    by_job: dict[int, list[TraceEvent]] = {}
    for event in measured.events:
        by_job.setdefault(event.job, []).append(event)
    c = measured.columns
    found = {}
    for i, number in enumerate(c["job"].tolist()):
        if is_traced(number, scenario.run.traced):
            response = float(c["response"][i]) if c["outcome"][i] == JobOutcome.COMPLETED else None
            job = Job(
                number,
                int(c["dispatcher"][i]),
                float(c["arrival"][i]),
                float(c["lag"][i]),
                response,
                JobOutcome.labels()[int(c["outcome"][i])],
            )
            found[number] = history(job, by_job[number], names)
    return found


def check(scenario: Scenario, measured: Measurements, word: str) -> None:
    columns = measured.columns
    told = histories(scenario, measured)
    assert set(told) == set(columns["job"].tolist())
    assert len(told) > 50
    for i, number in enumerate(columns["job"].tolist()):
        steps = told[number]
        assert columns["outcome"][i] == JobOutcome.COMPLETED
        assert steps[0].what.startswith(f"job {number} arrives")
        assert steps[-1].time == pytest.approx(columns["arrival"][i] + columns["response"][i])
        assert all(step.delivered is None or step.delivered >= step.time for step in steps)
        services = [step for step in steps if step.what.startswith("in service") and step.until is not None]
        worked = sum(step.until - step.time for step in services if step.until is not None)
        # A pool server stops a little after it was told to, which its word Stopped says too.
        assert worked == pytest.approx(columns["work"][i], rel=0.02, abs=0.05)
        probes = sum(step.what in ("probe", "reserve") for step in steps)
        assert probes == columns["probes"][i]
    # What the case is about happens, to jobs that are not alone in it.
    assert sum(any(word in step.what for step in steps) for steps in told.values()) > 5


@pytest.mark.parametrize("case", CASES)
def test_on_the_twin_the_histories_of_all_jobs_agree_with_their_records(case: str) -> None:
    what = scenario(case)
    measured = simulate(what)
    check(what, measured, case)
    # Without message delay every message is delivered at once, except to copies that end at this very time.
    steps = [step for steps in histories(what, measured).values() for step in steps]
    undelivered = [step for step in steps if step.to and step.delivered is None]
    assert {step.what.split(":")[0] for step in undelivered} <= {"stop"}


@pytest.mark.parametrize("case", CASES)
def test_tracing_some_jobs_changes_nothing_and_tells_of_them_what_tracing_all_tells(case: str) -> None:
    plain, some, every = (simulate(scenario(case, traced)) for traced in (0.0, 0.3, 1.0))
    assert plain.events == []
    for measured in (some, every):
        for name, column in plain.columns.items():
            np.testing.assert_array_equal(measured.columns[name], column)
    chosen = {event.job for event in some.events}
    assert chosen == {job for job in plain.columns["job"].tolist() if is_traced(job, 0.3)}
    assert some.events == [event for event in every.events if event.job in chosen]


@pytest.mark.cluster
@pytest.mark.parametrize("case", ["stolen", "won"])
def test_on_the_cluster_too(case: str) -> None:
    what = scenario(case)
    measured = trio.run(Controller(what, 0, labels={}).run)
    assert measured.failure is None
    check(what, measured, case)
    sent = Counter(event.kind for event in measured.events if not event.heard)
    heard = Counter(event.kind for event in measured.events if event.heard)
    assert all(abs(sent[kind] - heard[kind]) <= 2 for kind in sent)  # a word may still be on its way at the end


def test_jobs_are_chosen_by_their_numbers_alone_and_evenly() -> None:
    jobs = np.arange(100_000)
    for share in (0.0, 0.01, 0.3, 1.0):
        chosen = are_traced(jobs, share)
        assert chosen.tolist() == [is_traced(job, share) for job in range(100_000)]
        assert chosen.mean() == pytest.approx(share, abs=0.001)
        if 0 < share < 1:
            gaps = np.diff(np.flatnonzero(chosen))
            assert gaps.max() < 3 / share
    assert np.all(are_traced(jobs, 0.3)[are_traced(jobs, 0.01)])


def test_exemplars_name_traced_jobs_where_there_are_some() -> None:
    records = LiveRecords(0, 1.0, 0.1)
    for job in range(2000):
        records.write(JobRecord(job, 0, 0, JobOutcome.COMPLETED, 0, 0, job % 7 + 0.5, 0.1, 0, 0, 0, 0, 1, 0, 0, 0, 0.0))
    records.catch_up()
    examples = [example for example in records.examples if example is not None]
    assert len(examples) == 7
    assert all(is_traced(job, 0.1) and response == job % 7 + 0.5 for job, response in examples)
