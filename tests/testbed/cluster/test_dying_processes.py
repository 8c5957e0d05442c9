"""A process that dies ends the run soon; the failure says which and how, and what the others measured is kept."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trio

from testbed.cluster.control import Channel, Report
from testbed.cluster.controller import Controller
from testbed.cluster.members import Member
from testbed.cluster.processes import ClusterError
from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.measure.accounting import check
from testbed.scenario import Scenario

pytestmark = pytest.mark.cluster


def member(controller: Controller, name: str) -> Member:
    return next(found for found in controller.members if found.name == name)


@pytest.fixture
def long(make_scenario: Callable[..., Scenario]) -> Scenario:
    """A scenario that would take half a minute."""
    return make_scenario(**{"run.duration": 3000, "run.warmup": 0, "cluster.dispatchers": 2, "workload.load": 0.8})


class Killer:
    """Sends signals to a process, and notes when."""

    def __init__(self, name: str, *signals: signal.Signals) -> None:
        self.name = name
        self.signals = signals
        self.at = 0.0

    def __call__(self, controller: Controller) -> None:
        found = member(controller, self.name)
        with found.log.open("a") as log:
            log.write("first line\nthe last words\n")
        for number in self.signals:
            os.kill(found.process.pid, number)
        self.at = time.monotonic()


@pytest.mark.parametrize("signals", [(signal.SIGKILL,), (signal.SIGSTOP, signal.SIGKILL)], ids=["kill", "stop, kill"])
def test_a_killed_node_ends_the_run_and_its_jobs_are_lost(
    run_cluster: Callable[..., Measurements],
    long: Scenario,
    at_time: Callable[..., Callable[[Controller], None]],
    signals: tuple[signal.Signals, ...],
) -> None:
    killer = Killer("node-1", *signals)
    measured = run_cluster(long, at_time(50.0, killer))
    assert time.monotonic() - killer.at < 8
    assert measured.failure is not None
    assert measured.failure.startswith("process node-1 was ended by signal SIGKILL. Its last lines:")
    assert measured.failure.endswith("\n    first line\n    the last words")
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    outcome, server = measured.columns["outcome"], measured.columns["server"]
    assert set(server[outcome == JobOutcome.LOST].tolist()) <= set(range(10, 20))
    assert accounting.lost > 0
    assert np.count_nonzero(outcome == JobOutcome.COMPLETED) > 300
    # Jobs at the servers that live are not lost, only unfinished.
    assert set(server[outcome == JobOutcome.IN_SYSTEM].tolist()) <= set(range(10))
    assert sorted(process.name for process in measured.processes) == ["dispatcher-0", "dispatcher-1", "node-0"]
    assert 40 < measured.stopped_at < 1500


def test_a_dispatcher_that_is_made_to_end_ends_the_run_and_what_it_had_sent_is_kept(
    run_cluster: Callable[..., Measurements], long: Scenario, at_time: Callable[..., Callable[[Controller], None]]
) -> None:
    killer = Killer("dispatcher-0", signal.SIGTERM)
    measured = run_cluster(long, at_time(50.0, killer))
    assert time.monotonic() - killer.at < 8
    assert measured.failure is not None
    assert measured.failure.startswith("process dispatcher-0 was ended by signal SIGTERM.")
    accounting = check(measured.columns, measured.counters["jobs arrived"], measured.unrecorded)
    assert accounting.balanced
    assert accounting.completed > 200
    mine = measured.columns["dispatcher"] == 0
    # Four times a second it sends its records: those of the time 50 and earlier, but for a part of a second, are here.
    assert np.count_nonzero(measured.columns["outcome"][mine] == JobOutcome.COMPLETED) > 100
    assert 0 < accounting.lost == measured.counters["jobs lost with dispatcher-0"]


@pytest.fixture
def crash_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make every process of a cluster fail before it has said a word."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if 'TESTBED_CONTROL' in os.environ:\n"
        "    print('the reason why', file=sys.stderr, flush=True)\n"
        "    os._exit(7)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))


def cluster_error(run: Callable[[], object]) -> str:
    """Return what the ClusterError says that ``run`` raises, alone or from within trio's groups."""
    with pytest.raises((ClusterError, BaseExceptionGroup)) as caught:
        run()
    error = caught.value
    while isinstance(error, BaseExceptionGroup):
        assert len(error.exceptions) == 1
        error = error.exceptions[0]
    assert isinstance(error, ClusterError)
    return str(error)


@pytest.mark.usefixtures("crash_at_start")
def test_a_process_that_fails_at_its_start_is_an_error_with_its_last_lines(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario]
) -> None:
    begin = time.monotonic()
    message = cluster_error(lambda: run_cluster(make_scenario()))
    assert time.monotonic() - begin < 10
    assert "ended with exit status 7. Its last lines:\n    the reason why" in message


def test_a_cluster_that_does_not_come_up_in_time_says_who_is_missing(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("testbed.cluster.processes.READY_SECONDS", 0.0)
    monkeypatch.setattr("testbed.cluster.processes.PER_PROCESS_SECONDS", 0.001)
    message = cluster_error(lambda: run_cluster(make_scenario()))
    assert message.startswith("not ready after 0 s: dispatcher-0, node-0, node-1")


def test_a_process_that_hangs_is_not_waited_for_forever(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.cluster.controller.REPORT_SECONDS", 4.0)  # enough for the others
    monkeypatch.setattr("testbed.cluster.lifetime.GRACE_SECONDS", 0.5)
    scenario = make_scenario(**{"run.duration": 150, "run.drain": 5})
    measured = run_cluster(scenario, at_time(5.0, Killer("node-1", signal.SIGSTOP)))
    assert measured.failure == "no report after 4 s from node-1"
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced
    assert accounting.in_system > 0


class ReadsReportsLate(Channel[object]):
    """The controller's end of a connection on a busy machine: a process has ended before its report is looked at."""

    async def receive(self) -> object:
        message = await super().receive()
        if isinstance(message, Report):
            await trio.sleep(0.5)
        return message


def test_a_process_that_has_ended_after_its_report_is_no_death_though_the_report_is_read_later(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.cluster.processes.Channel", ReadsReportsLate)
    for on_failure in ("stop", "redispatch"):
        scenario = make_scenario(**{"run.duration": 10, "run.warmup": 0, "cluster.on_failure": on_failure})
        measured = run_cluster(scenario)
        assert measured.failure is None
        assert measured.incidents == []
        assert len(measured.processes) == 3
        accounting = check(measured.columns, measured.counters["jobs arrived"])
        assert accounting.completed == accounting.arrived > 50


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("batch-filling", {"cluster.dispatchers": 2}),
        pytest.param(
            "per-task-power-of-d",
            {"workload.tasks": {"kind": "table", "values": [1, 6], "shares": [0.5, 0.5]}},
            marks=pytest.mark.long,
        ),
        ("late-binding", {"cluster.dispatchers": 2}),
        ("jiq", {}),
        ("batch-sampling", {"cluster.dispatchers": 2, "cluster.pools.main.buffer": 4}),
    ],
)
def test_when_a_node_is_killed_that_has_tasks_of_jobs_each_job_ends_once_with_each_task_done_once(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
    policy: str,
    more: dict[str, Any],
) -> None:
    settings = {
        "cluster.pools.main.servers": 40,  # node 1 has 13 of them: never all idle, but with probability 1e-5
        "cluster.nodes": 3,
        "cluster.on_failure": "redispatch",
        "dispatch.policy": policy,
        "workload.tasks": 4,
        "workload.load": 0.6,
        "run.duration": 150,
        "run.drain": 400,
    }
    scenario = make_scenario(**{**settings, **more})
    measured = run_cluster(scenario, at_time(30.0, Killer("node-1", signal.SIGKILL)))
    assert measured.failure is None
    assert len(measured.incidents) == 1
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert accounting.completed + accounting.dropped == accounting.arrived > 100
    assert measured.counters["tasks dispatched again"] > 0
    assert measured.counters["tasks done twice"] == 0
    columns, tasks = measured.columns, measured.tasks
    done = list(zip(tasks["job"].tolist(), tasks["task"].tolist(), strict=True))
    assert len(set(done)) == len(done)
    outcome = columns["outcome"]
    whole = {
        (job, task)
        for job, number in zip(
            columns["job"][outcome == JobOutcome.COMPLETED],
            columns["tasks"][outcome == JobOutcome.COMPLETED],
            strict=True,
        )
        for task in range(number)
    }
    # Of a job that is dropped because a task of it was dispatched again, to a full server, others may have been served.
    dropped = set(columns["job"][outcome == JobOutcome.DROPPED].tolist())
    assert whole == {(job, task) for job, task in done if job not in dropped}
    if "cluster.pools.main.buffer" not in more:
        assert not dropped
