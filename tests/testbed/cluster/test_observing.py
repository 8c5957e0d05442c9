"""Snapshots from what the processes of a cluster say."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from testbed.cluster import observing
from testbed.cluster.collected import RecordsInMemory
from testbed.cluster.control import Progress, Records
from testbed.cluster.members import Member
from testbed.cluster.observing import MOST_TOTALS, RECENT_SECONDS, Observer, theory_of
from testbed.core.records import RESPONSE_BUCKETS, TABLES, row_type
from testbed.measure.histogram import LogHistogram
from testbed.scenario import Scenario, decode
from testbed.theory.predict import predict

UNIT = 0.05  # seconds


BASE: dict[str, Any] = {
    "name": "observed",
    "run": {"time_unit": "50ms", "warmup": 20, "duration": 80},
    "cluster": {"pools": [{"servers": 4}]},
    "workload": {"load": 0.5},
    "dispatch": {"policy": "random"},
}


def scenario(**run: Any) -> Scenario:
    return decode({**BASE, "run": {**BASE["run"], **run}})


class Cluster:
    """A dispatcher and two nodes with two servers each, as their controller sees them, and a clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = 1000.0
        monkeypatch.setattr(observing, "time", SimpleNamespace(monotonic=lambda: self.clock, time=lambda: self.clock))
        process: Any = SimpleNamespace(pid=7, returncode=None)
        self.members: list[Any] = [
            Member(number, name, dispatcher, servers, False, process, Path())
            for number, name, dispatcher, servers in (
                (0, "dispatcher-0", 0, None),
                (1, "node-0", None, (0, 2)),
                (2, "node-1", None, (2, 4)),
            )
        ]
        self.histogram = LogHistogram(*RESPONSE_BUCKETS)
        self.arrived = 0

    def goes_on(self, time: float, responses: list[float], **more: Any) -> None:
        """Let the dispatcher have completed ``responses`` by ``time``, of which the clock is told as well."""
        for response in responses:
            self.histogram.add(response)
        self.arrived += len(responses)
        self.clock = 1000.0 + time * UNIT
        self.members[0].progress = Progress(
            time=time,
            arrived=self.arrived + 3,
            ended=self.arrived,
            in_system=3,
            responses=list(self.histogram.counts),
            response_sum=self.histogram.sum,
            outcomes=[self.arrived, 0, 0, 0],
            **more,
        )


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    return Cluster(monkeypatch)


def test_a_snapshot_sums_up_the_processes(cluster: Cluster) -> None:
    cluster.goes_on(10.0, [1.0, 3.0], counters={"probes": 10, "messages": 6}, lag_sum=0.5)
    cluster.members[1].progress = Progress(time=9.0, queue_lengths=bytes([1, 255]), counters={"messages": 4})
    cluster.members[2].progress = Progress(time=9.5, queue_lengths=bytes([0, 2]), cpu_share=0.95)
    settings = scenario()
    found = Observer(settings, "random", 1, theory=theory_of(settings, predict(settings)), horizon=100.0).snapshot(
        cluster.members, ["node-7 died"]
    )
    assert (found.scenario, found.variant, found.replication, found.policy) == ("observed", "random", 1, "random")
    assert (found.time, found.horizon, found.arrived, found.ended, found.in_system) == (10.0, 100.0, 5, 2, 3)
    assert found.outcomes["completed"] == 2
    assert found.counters == {"probes": 10, "messages": 10}
    assert found.queue_lengths == [1, 255, 0, 2]
    assert found.responses.mean == found.recent.mean == pytest.approx(2.0)
    assert found.jobs_per_second == pytest.approx(5 / (10.0 * UNIT))
    assert (found.probes_per_job, found.messages_per_job) == (pytest.approx(2.0), pytest.approx(2.0))
    assert found.theory is not None
    assert found.theory.mean == pytest.approx(2.0)  # M/M/1 at load 0.5
    assert dict(found.theory.response_tail) == pytest.approx(
        {t: math.exp(-t / 2) for t, _ in found.theory.response_tail}
    )
    assert found.incidents == ["node-7 died"]
    assert {check.name: check.passed for check in found.checks} == {
        "load below the stability bound": True,
        "dispatch lag": False,  # 0.5 over 5 jobs, 5 % of the mean
        "timer lateness": True,
        "CPU usage": False,
        "processes alive": True,
        "run ended as planned": False,  # not so far: a process died
    }


@pytest.mark.parametrize("time", [None, -0.5, 0.0])
def test_before_anything_has_happened_there_is_nothing_to_show(time: float | None, cluster: Cluster) -> None:
    if time is not None:
        cluster.members[0].progress = Progress(time=time)
    found = Observer(scenario(), "random", 0, horizon=100.0).snapshot(cluster.members)
    assert (found.time, found.arrived, found.responses.mean, found.jobs_per_second) == (0.0, 0, None, 0.0)
    assert str(found) == "0 jobs have arrived"


def test_timers_count_by_their_mean_lateness_where_there_are_enough(cluster: Cluster) -> None:
    cluster.goes_on(10.0, [1.0])
    observer = Observer(scenario(), "random", 0, horizon=100.0)
    verdicts = []
    for timers in (9, 10):
        cluster.members[1].progress = Progress(time=10.0, timers=timers, lateness_mean=0.1 * UNIT)
        verdicts.append(observer.snapshot(cluster.members).valid)
    assert verdicts == [True, False]


def test_a_process_that_has_died_is_said(cluster: Cluster) -> None:
    cluster.goes_on(10.0, [1.0])
    cluster.members[2].process = SimpleNamespace(pid=9, returncode=-9)
    found = Observer(scenario(), "random", 0, horizon=100.0).snapshot(cluster.members)
    assert [state.alive for state in found.processes] == [True, True, False]
    assert [check.explanation for check in found.checks if not check.passed] == [
        "not running: node-1: the results are not those of the cluster that the scenario describes"
    ]


def test_response_times_of_the_warm_up_are_left_out_once_it_is_over(cluster: Cluster) -> None:
    observer = Observer(scenario(), "random", 0, horizon=100.0)
    cluster.goes_on(10.0, [100.0])
    assert observer.snapshot(cluster.members).responses.mean == pytest.approx(100.0)
    cluster.goes_on(20.1, [50.0])
    observer.snapshot(cluster.members)
    cluster.goes_on(30.0, [1.0, 2.0])
    found = observer.snapshot(cluster.members)
    assert (found.responses.mean, found.since) == (pytest.approx(1.5), 20.1)


def test_recent_response_times_are_those_of_the_last_seconds(cluster: Cluster) -> None:
    observer = Observer(scenario(), "random", 0)
    for second in range(200):
        cluster.goes_on(second / UNIT, [float(second)] * 10)
        found = observer.snapshot(cluster.members)
    assert found.recent_seconds == pytest.approx(RECENT_SECONDS, abs=1.0)
    assert found.recent.count == pytest.approx(10 * RECENT_SECONDS, abs=10)
    assert found.recent.mean == pytest.approx(199 - RECENT_SECONDS / 2 + 0.5, abs=1.0)
    assert found.jobs_per_second == pytest.approx(10.0)
    assert found.responses.count == 2000


def test_after_a_change_of_settings_only_later_response_times_count(cluster: Cluster) -> None:
    observer = Observer(scenario(), "random", 0)
    cluster.goes_on(50.0, [100.0])
    observer.snapshot(cluster.members)
    changed = decode({**BASE, "workload": {"load": 0.9}})
    observer.restart(changed, None, 55.0)
    cluster.goes_on(54.0, [50.0])
    before = observer.snapshot(cluster.members)
    assert (before.since, before.load) == (0.0, 0.5)
    cluster.goes_on(55.0, [50.0], counters={"probes": 100, "messages": 0})
    after = observer.snapshot(cluster.members)
    assert (after.since, after.load) == (55.0, 0.9)
    cluster.goes_on(60.0, [1.0, 2.0], counters={"probes": 104, "messages": 0})
    found = observer.snapshot(cluster.members)
    assert (found.responses.mean, found.since, found.arrived) == (pytest.approx(1.5), 55.0, 8)
    assert (found.recent.mean, found.probes_per_job) == (pytest.approx(1.5), 2.0)


def test_when_arrivals_are_over_no_job_arrives_per_second(cluster: Cluster) -> None:
    observer = Observer(scenario(), "random", 0)
    cluster.goes_on(10.0, [1.0] * 10)
    assert observer.snapshot(cluster.members).jobs_per_second > 0
    cluster.goes_on(12.0, [], arrivals_over=True)
    assert observer.snapshot(cluster.members).jobs_per_second == 0


def test_the_interval_covers_the_mean_and_memory_is_bounded(cluster: Cluster) -> None:
    """Independent response times: the 95 % interval is then of the width that the textbook gives, within a half.

    Of the standard deviation of 20 batch means, which has a relative error of 16 %, so three of them.
    """
    observer = Observer(scenario(), "random", 0)
    values = np.random.default_rng(5).exponential(2.0, 40_000)
    for step in range(1000):
        cluster.goes_on(float(step), values[40 * step : 40 * step + 40].tolist())
        found = observer.snapshot(cluster.members)
        assert len(observer._history) <= MOST_TOTALS + 1
        assert len(observer._recent) <= RECENT_SECONDS / UNIT + 2
    assert found.responses.half_width == pytest.approx(2.09 * 2.0 / np.sqrt(40_000), rel=0.5)


def test_what_a_process_had_counted_before_it_was_started_again_counts(cluster: Cluster) -> None:
    """Of 13 jobs that arrived at the dispatcher 10 are recorded: 3 are lost with it."""
    observer = Observer(scenario(), "random", 0)
    cluster.goes_on(10.0, [1.0] * 10, counters={"messages": 40})
    member = cluster.members[0]
    member.recorded = 10
    assert observer.snapshot(cluster.members).in_system == 3
    assert member.unsent() == 3
    member.end_life()
    found = observer.snapshot(cluster.members)
    assert (found.arrived, found.ended, found.in_system, found.outcomes["lost"]) == (13, 13, 0, 3)
    cluster.histogram = LogHistogram(*RESPONSE_BUCKETS)
    cluster.arrived = 0
    cluster.goes_on(20.0, [4.0] * 5, counters={"messages": 20})
    found = observer.snapshot(cluster.members)
    assert (found.arrived, found.ended, found.in_system) == (21, 18, 3)
    assert (found.outcomes["completed"], found.outcomes["lost"], found.counters["messages"]) == (15, 3, 60)
    assert found.responses.mean == pytest.approx(2.0)


def test_records_of_a_process_that_dies_before_the_word_that_counts_them_are_of_lost_jobs(cluster: Cluster) -> None:
    """They are sent ahead of it; of some of their jobs nobody knows yet that they had arrived."""

    def records(jobs: int) -> Records:
        return Records("jobs", np.zeros(jobs, row_type(TABLES["jobs"])).tobytes())

    kept, member = RecordsInMemory(), cluster.members[0]
    member.take(records(10), kept)
    member.take(Progress(time=10.0, arrived=13, ended=10, outcomes=[10, 0, 0, 0]), kept)
    member.take(records(20), kept)
    assert member.unsent() == 3
    member.end_life()
    assert len(kept.columns("jobs")["job"]) == 10
    assert (member.lost, member.earlier.arrived, member.earlier.ended) == (3, 13, 13)
