"""Central queues on real processes: the pool agent's process, deaths, and the same copies as on the twin."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from testbed.cluster.controller import Controller
from testbed.core.outcomes import CopyOutcome, JobOutcome
from testbed.core.records import Measurements
from testbed.measure.accounting import check
from testbed.runtime.build import build_workload
from testbed.scenario import Scenario, decode

pytestmark = pytest.mark.cluster


def two_pools(**settings: Any) -> Scenario:
    return decode(
        {
            "name": "two pools",
            "seed": 5,
            "run": {"time_unit": "20ms", "warmup": 0, "duration": 60, "drain": 200},
            "cluster": {
                "nodes": 3,
                "pools": [{"name": name, "servers": 5, "queue": "central"} for name in ("a", "b")],
            },
            "workload": {
                "rate": 3.0,
                "dependence": "independent",
                "types": [
                    {"name": "one", "probability": 0.5, "speed": {"a": 1.0, "b": 0.2}},
                    {"name": "two", "probability": 0.5, "speed": {"a": 0.2, "b": 1.0}},
                ],
            },
            "dispatch": {"policy": "static"},
            "threshold": {"action": "replicate", "tau": 1.0},
        }
    ).with_settings(settings)


def whole_times(scenario: Scenario, jobs: int) -> np.ndarray:
    """What each job needs in each pool, shape (jobs, pools)."""
    pools = [pool.name for pool in scenario.pools]
    rows: list[list[float]] = []
    for block in build_workload(scenario, 0).blocks():
        for job_type, sizes in zip(block.job_type.tolist(), block.sizes(), strict=True):
            speed = scenario.workload.types[job_type].speed
            rows.append([size / speed[pool] for size, pool in zip(sizes, pools, strict=True)])
        if len(rows) >= jobs:
            break
    return np.array(rows[:jobs])


def all_done_once(measured: Measurements) -> None:
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert accounting.completed == accounting.arrived > 100
    assert (np.bincount(measured.copies["job"][measured.copies["fate"] == CopyOutcome.WON]) == 1).all()


def test_what_a_copy_receives_is_what_its_size_and_its_threshold_say(
    run_cluster: Callable[..., Measurements],
) -> None:
    for action in ("replicate", "reroute"):
        scenario = two_pools(**{"threshold.action": action})
        measured = run_cluster(scenario)
        assert measured.failure is None
        all_done_once(measured)
        copies = measured.copies
        whole = whole_times(scenario, len(measured.columns["job"]))[copies["job"], copies["pool"]]
        fate, received = copies["fate"], copies["received"]
        assert received[fate == CopyOutcome.WON] == pytest.approx(whole[fate == CopyOutcome.WON], abs=1e-9)
        assert received[fate == CopyOutcome.REROUTED] == pytest.approx(1.0, abs=1e-9)
        # What a losing copy gets depends on when the word of the other's end comes; never more than it needs.
        assert (received[fate == CopyOutcome.SUPERSEDED] <= whole[fate == CopyOutcome.SUPERSEDED] + 1e-9).all()
        assert (np.count_nonzero(fate == CopyOutcome.SUPERSEDED) > 20) == (action == "replicate")
        assert (np.count_nonzero(fate == CopyOutcome.REROUTED) > 20) == (action == "reroute")
        assert {process.name for process in measured.processes} == {
            "dispatcher-0",
            "node-0",
            "node-1",
            "node-2",
            "pools",
        }


@pytest.mark.parametrize("action", ["reroute", "replicate"])
def test_what_a_node_holds_when_it_is_killed_is_served_elsewhere_once(
    run_cluster: Callable[..., Measurements],
    death_while_paused: Callable[[float], Any],
    action: str,
) -> None:
    settings = {"cluster.on_failure": "redispatch", "workload.rate": 2.5, "run.duration": 100}
    scenario = two_pools(**{"threshold.action": action, **settings})
    death = death_while_paused(25.0)
    measured = run_cluster(scenario, death)
    assert death.resumed
    assert measured.failure is None
    assert len(measured.incidents) == 1
    all_done_once(measured)
    # The node may have been idle when it was killed; what died, if anything, was on its servers.
    died = measured.copies["fate"] == CopyOutcome.DIED
    assert (measured.copies["server"][died] >= 6).all()
    assert measured.counters["tasks done twice"] == 0
    assert (measured.columns["outcome"] == JobOutcome.COMPLETED).all()


def test_what_dies_beside_a_central_queue_is_served_elsewhere_once_and_every_copy_is_recorded(
    run_cluster: Callable[..., Measurements], death_while_paused: Callable[[float], Any]
) -> None:
    """Node 2, which is killed, has three of the five servers with queues of their own."""
    pools = [{"name": "a", "servers": 5, "queue": "central"}, {"name": "b", "servers": 5}]
    settings = {"cluster.pools": pools, "cluster.on_failure": "redispatch", "threshold": None}
    scenario = two_pools(**settings, **{"workload.rate": 1.5, "run.duration": 100})
    death = death_while_paused(25.0)
    measured = run_cluster(scenario, death)
    assert death.resumed
    assert measured.failure is None
    all_done_once(measured)
    assert (measured.columns["outcome"] == JobOutcome.COMPLETED).all()
    assert measured.counters["tasks done twice"] == 0
    columns, copies = measured.columns, measured.copies
    won = copies["fate"] == CopyOutcome.WON
    for name, same in (("received", "work"), ("server", "server")):
        found = copies[name][won][np.argsort(copies["job"][won])]
        assert found == pytest.approx(columns[same][np.argsort(columns["job"])], abs=1e-9)
    assert set(copies["pool"][won].tolist()) == {0, 1}
    assert set(copies["fate"].tolist()) <= {CopyOutcome.WON, CopyOutcome.DIED}


def test_the_end_of_the_pool_agents_process_ends_the_run(
    run_cluster: Callable[..., Measurements], at_time: Callable[..., Callable[[Controller], None]]
) -> None:
    scenario = two_pools(**{"cluster.on_failure": "redispatch", "run.duration": 2000})

    def kill(controller: Controller) -> None:
        os.kill(next(member.process.pid for member in controller.members if member.name == "pools"), signal.SIGKILL)

    measured = run_cluster(scenario, at_time(15.0, kill))
    assert measured.failure is not None
    assert measured.failure.startswith("process pools was ended by signal SIGKILL")
    assert check(measured.columns, measured.counters["jobs arrived"]).balanced
