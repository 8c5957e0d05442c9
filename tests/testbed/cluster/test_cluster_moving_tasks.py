"""Servers that move tasks over real sockets, and runs that go on when a node dies."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.cluster.controller import Controller
from testbed.core.records import COUNTED, Measurements
from testbed.measure.accounting import check
from testbed.measure.summary import Summary, measured_window, summarise
from testbed.runs.experiment import run
from testbed.runs.nominal import nominal
from testbed.runs.replay import replay
from testbed.runtime.build import slice_edges
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario

pytestmark = pytest.mark.cluster

POLICIES: dict[str, dict[str, Any]] = {
    "stealing": {"policy": "stealing", "probe_rate": 2.0},
    "sharing": {"policy": "sharing", "probe_rate": 2.0, "moves": "oldest"},
    "hybrid": {"policy": "hybrid", "probe_rate": 1.0, "sharing_probe_rate": 1.0},
    "half of a chosen victim's": {"policy": "stealing", "probe_rate": 1.0, "steal": "half", "victim_choices": 2},
    "when idle": {"policy": "stealing", "max_probes": 2},
    "on arrival": {"policy": "sharing", "max_probes": 2},
}
CLUSTERS: dict[str, dict[str, Any]] = {
    "one node": {"cluster.nodes": 1},
    "tcp": {"cluster.nodes": 3, "cluster.transport": "tcp", "cluster.dispatchers": 2},
}


def assert_all_done_once(measured: Measurements) -> None:
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert accounting.completed == accounting.arrived > 300


def summary_of(measured: Measurements, scenario: Scenario, twin: Measurements | None = None) -> Summary:
    return summarise(
        measured,
        nominal(scenario),
        variant="v",
        replication=0,
        time_unit_seconds=scenario.run.time_unit_seconds,
        window=measured_window(measured, scenario.run.warmup, scenario.horizon),
        twin=twin,
    )


@pytest.mark.parametrize(
    ("policy", "cluster"),
    [
        *((policy, {}) for policy in POLICIES if policy != "half of a chosen victim's"),
        ("hybrid", CLUSTERS["tcp"]),
        pytest.param("hybrid", CLUSTERS["one node"], marks=pytest.mark.long),
        pytest.param("half of a chosen victim's", {}, marks=pytest.mark.long),
    ],
)
def test_tasks_move_and_every_job_is_done_once(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    policy: str,
    cluster: dict[str, Any],
) -> None:
    scenario = make_scenario(balance=POLICIES[policy], **cluster, **{"workload.load": 0.8})
    measured = run_cluster(scenario)
    assert measured.failure is None
    assert measured.incidents == []
    assert_all_done_once(measured)
    counters = measured.counters
    assert counters["tasks moved"] > 30
    answered = counters["answered yes"] + counters["answered no"]
    # Some are on their way when the run ends: how many depends on the machine.
    assert 0 < answered <= counters["balancing probes"]
    assert 0 <= counters["moved too late"] <= counters["tasks moved"]

    # Nothing passes from agent to agent but over a socket, also within a node: what is sent comes in.
    sent = sum(process.messages_sent for process in measured.processes)
    received = sum(process.messages_received for process in measured.processes)
    assert received <= sent == counters["messages"]
    assert received > 0.8 * sent
    assert sum(process.rejected_frames for process in measured.processes) == 0

    # The books of the servers' time, over the same slices as those of the probes.
    edges = measured.occupancy_edges
    assert edges.tolist() == pytest.approx(slice_edges(scenario))
    np.testing.assert_allclose(measured.occupancy.sum(axis=1), scenario.servers * np.diff(edges), rtol=1e-9)
    assert measured.counted.shape == (len(edges), len(COUNTED))
    assert np.all(np.diff(measured.counted, axis=0) >= 0)

    summary = summary_of(measured, scenario, twin=simulate(scenario))
    assert summary.pathwise is not None
    assert summary.overall_probe_rate is not None
    assert 0 < summary.overall_probe_rate < 4  # on a machine that stalls servers are seldom idle, and seldom ask


class Calamity:
    """Pauses node 2, kills node 1 meanwhile, and lets node 2 go on; each at its time of the run."""

    def __init__(self) -> None:
        self.deeds = [(15.0, 2, signal.SIGSTOP), (20.0, 1, signal.SIGKILL), (45.0, 2, signal.SIGCONT)]

    def __call__(self, controller: Controller) -> None:
        time = max((word.time for word in controller.progress), default=0.0)
        while self.deeds and time >= self.deeds[0][0]:
            _, node, number = self.deeds.pop(0)
            member = next(member for member in controller.members if member.name == f"node-{node}")
            os.kill(member.process.pid, number)


@pytest.mark.parametrize(
    ("policy", "more"),
    [
        ("stealing", {"cluster.transport": "tcp"}),
        ("hybrid", {"dispatch.policy": "power-of-d", "cluster.dispatchers": 2}),
        pytest.param("on arrival", {"dispatch.policy": "least-outstanding"}, marks=pytest.mark.long),
        (None, {"dispatch.policy": "jiq", "cluster.dispatchers": 2}),
    ],
)
def test_when_a_node_is_killed_while_another_is_paused_no_job_is_lost_or_done_twice(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    policy: str | None,
    more: dict[str, Any],
) -> None:
    settings = {"cluster.nodes": 3, "cluster.on_failure": "redispatch", "run.duration": 150, "workload.load": 0.5}
    scenario = make_scenario(balance=POLICIES[policy] if policy else None, **settings, **more)
    calamity = Calamity()
    measured = run_cluster(scenario, calamity)
    assert calamity.deeds == []
    assert measured.failure is None
    assert_all_done_once(measured)
    assert measured.counters["tasks done twice"] == 0
    assert measured.counters["tasks dispatched again"] > 0
    # The survivors' servers did the rest: node 1 had servers 6 to 12.
    late = measured.columns["arrival"] > 130
    assert not set(measured.columns["server"][late].tolist()) & set(range(6, 13))
    (incident,) = measured.incidents
    said = r"process node-1 was ended by signal SIGKILL at time [0-9.]+; the run went on without its servers"
    assert re.fullmatch(said, incident)
    summary = summary_of(measured, scenario)
    assert not summary.verdict.valid
    assert any(incident in reason for reason in summary.verdict.reasons)


def test_when_the_last_node_dies_the_run_ends_and_says_so(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
) -> None:
    def kill_all(controller: Controller) -> None:
        for member in controller.members:
            if member.servers is not None:
                os.kill(member.process.pid, signal.SIGKILL)

    settings = {"cluster.on_failure": "redispatch", "run.duration": 3000, "run.warmup": 0}
    scenario = make_scenario(balance=POLICIES["stealing"], **settings)
    measured = run_cluster(scenario, at_time(30.0, kill_all))
    assert measured.failure == "all node processes have died"
    assert len(measured.incidents) == 2
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced
    assert accounting.lost > 0


def test_without_redispatch_a_death_ends_the_run_and_breaks_no_connection(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
) -> None:
    def kill(controller: Controller) -> None:
        os.kill(next(m for m in controller.members if m.name == "node-1").process.pid, signal.SIGKILL)

    scenario = make_scenario(balance=POLICIES["sharing"], **{"run.duration": 3000, "run.warmup": 0})
    measured = run_cluster(scenario, at_time(20.0, kill))
    assert measured.failure is not None
    assert measured.failure.startswith("process node-1 was ended by signal SIGKILL.")
    assert sum(process.rejected_frames for process in measured.processes) == 0
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced


def test_a_calibrated_run_is_replayed_at_the_rate_that_it_was_run_at(
    tmp_path: Path, temporary: Path, make_scenario: Callable[..., Scenario], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    scenario = make_scenario(balance={"policy": "sharing", "overall_probe_rate": 0.3}, **{"workload.load": 0.7})
    result = run(scenario, output=tmp_path)
    (ours,) = result.runs
    assert ours.calibration is not None
    assert ours.summary.calibration == ours.calibration
    assert result.folder is not None
    (again,) = replay(result.folder).runs
    assert again.scenario == ours.scenario
    assert again.twin is not None
    assert again.twin.overall_probe_rate == pytest.approx(ours.calibration.overall_probe_rate, rel=1e-9)
    assert again.cluster is not None
    assert again.cluster.pathwise is not None
