"""Copies in the queues of servers on real processes: deaths, pauses, and the same copies as on the twin."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.records import Measurements
from testbed.measure.accounting import check
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode

pytestmark = pytest.mark.cluster

POLICIES: dict[str, dict[str, Any]] = {
    "hedge": {"policy": "hedge", "delay": 0.5},
    "on completion": {"policy": "redundancy-d", "d": 2, "cancel": "on-completion"},
    "on start": {"policy": "redundancy-d", "d": 3, "cancel": "on-start"},
    "tied": {"policy": "tied"},
}


def copied(policy: str, **settings: Any) -> Scenario:
    return decode(
        {
            "name": "copies",
            "seed": 6,
            "run": {"time_unit": "20ms", "warmup": 0, "duration": 45, "drain": 200},
            "cluster": {"nodes": 3, "dispatchers": 2, "pools": [{"name": "main", "servers": 9}]},
            "workload": {"rate": 4.0, "dependence": "independent"},
            "dispatch": POLICIES[policy],
        }
    ).with_settings(settings)


def check_copies(measured: Measurements) -> None:
    """Check that each job is done once, and that its work is what its copies have received."""
    assert measured.failure is None
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert accounting.completed == accounting.arrived > 100
    assert (measured.columns["outcome"] == JobOutcome.COMPLETED).all()
    copies = measured.copies
    assert (np.bincount(copies["job"][copies["fate"] == CopyOutcome.WON]) == 1).all()
    known = copies["fate"] != CopyOutcome.DIED
    received = np.bincount(copies["job"][known], copies["received"][known])
    assert received[measured.columns["job"]] == pytest.approx(measured.columns["work"], abs=1e-9)


@pytest.mark.parametrize("policy", ["hedge", "on start", "tied"])
def test_when_a_node_is_killed_while_another_is_paused_every_job_is_done_once(
    run_cluster: Callable[..., Measurements], death_while_paused: Callable[[float], Any], policy: str
) -> None:
    scenario = copied(policy, **{"cluster.on_failure": "redispatch", "run.duration": 90})
    death = death_while_paused(15.0)
    measured = run_cluster(scenario, death)
    assert death.resumed
    assert len(measured.incidents) == 1
    assert measured.counters["tasks done twice"] == 0
    check_copies(measured)
    fate = measured.copies["fate"]
    # The node may have been idle when it was killed: one time in six its three servers are.
    assert set(measured.copies["server"][fate == CopyOutcome.DIED].tolist()) <= {6, 7, 8}
    if policy == "tied":  # a peer that started elsewhere has cancelled a copy that was queued, or on its way
        assert np.isin(
            measured.copies["met"][fate == CopyOutcome.SUPERSEDED],
            (StateAtCancellation.QUEUED, StateAtCancellation.NOT_YET_ARRIVED),
        ).any()


@pytest.mark.parametrize("policy", ["on completion", "tied"])
def test_cancelled_copies_stop_and_the_copies_are_those_of_the_twin(
    run_cluster: Callable[..., Measurements], policy: str
) -> None:
    scenario = copied(policy)
    measured, twin = run_cluster(scenario), simulate(scenario)
    for run in (measured, twin):
        check_copies(run)
    # Two copies of each job, on the same servers; which of them wins may differ.
    placed = [
        sorted(zip(*(run.copies[name].tolist() for name in ("job", "copy", "server")), strict=True))
        for run in (measured, twin)
    ]
    assert placed[0] == placed[1]
    assert len(placed[0]) == 2 * len(measured.columns["job"])
    delay = measured.copies["delay"][measured.copies["fate"] == CopyOutcome.SUPERSEDED]
    if policy == "tied":
        assert np.isnan(delay).any()  # cancelled by another server, of which the dispatcher only hears
    else:
        assert (delay >= 0).all()
