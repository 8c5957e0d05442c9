"""Copies in servers' queues on real processes: cancelled from server to server, and made again after a death."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import numpy as np
import pytest

from testbed.cluster.controller import Controller
from testbed.copy_life import DIED, LOST, MET_NOT_ARRIVED, MET_QUEUED, WON
from testbed.measure.accounting import check
from testbed.measure.records import Measurements
from testbed.scenario import Scenario

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("policy", ["tied", "hedge"])
def test_copies_of_a_killed_node_are_made_again_where_none_is_left(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
    policy: str,
) -> None:
    settings = {"dispatch.delay": 0.5} if policy == "hedge" else {}
    scenario = make_scenario(
        **{
            "run.time_unit": "20ms",
            "cluster.on_failure": "redispatch",
            "workload.load": 0.25,
            "workload.dependence": "independent",
            "dispatch.policy": policy,
            **settings,
        }
    )

    def kill(controller: Controller) -> None:
        os.kill(next(member.process.pid for member in controller.members if member.name == "node-1"), signal.SIGKILL)

    measured = run_cluster(scenario, at_time(25.0, kill))
    assert measured.failure is None
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert accounting.completed == accounting.arrived > 100
    copies = measured.copies
    assert (np.bincount(copies["job"][copies["fate"] == WON]) == 1).all()
    assert np.count_nonzero(copies["fate"] == DIED) > 0
    assert measured.counters["tasks done twice"] == 0
    if policy == "tied":  # a peer that started elsewhere has cancelled a copy that was queued, or on its way
        met = copies["met"][copies["fate"] == LOST]
        assert np.isin(met, (MET_QUEUED, MET_NOT_ARRIVED)).any()
