"""Which settings of a long-running cluster can be changed."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.runs.long_running.changes import changed
from testbed.runs.long_running.register import LongRunningError
from testbed.scenario import Scenario, decode


def scenario(**tables: Any) -> Scenario:
    base = {"workload": {"load": 0.5}, "dispatch": {"policy": "random"}, "cluster": {"pools": [{"servers": 4}]}}
    return decode({"name": "a", "run": {"time_unit": "10ms", "duration": 100}, **base, **tables})


@pytest.mark.parametrize("policy", ["random", "static", "power-of-d", "jiq", "batch-filling"])
def test_policies_that_leave_servers_as_they_are_follow_one_another(policy: str) -> None:
    assert changed(scenario(), {"dispatch.policy": policy}).dispatch.policy == policy
    assert changed(scenario(dispatch={"policy": policy}), {"dispatch.policy": "random"}).dispatch.policy == "random"


@pytest.mark.parametrize("policy", ["hedge", "late-binding"])
def test_a_policy_that_servers_take_part_in_is_refused_and_the_possible_ones_named(policy: str) -> None:
    with pytest.raises(LongRunningError) as refusal:
        changed(scenario(), {"dispatch.policy": policy})
    possible = str(refusal.value).partition("follow one another: ")[2].split(", ")
    assert policy not in possible
    for other in possible:
        assert changed(scenario(), {"dispatch.policy": other}).dispatch.policy == other


def test_what_a_policy_is_told_of_jobs_stays() -> None:
    types = [{"name": "short", "probability": 0.5}, {"name": "long", "probability": 0.5}]
    pools = [{"name": "one", "servers": 2}, {"name": "two", "servers": 2}]
    settings = {
        "dispatch.policy": "static",
        "dispatch.knows": "types",
        "dispatch.assignment": {"short": {"one": 1.0}, "long": {"two": 1.0}},
    }
    with pytest.raises(LongRunningError, match=r"dispatch.knows can't be changed"):
        changed(scenario(workload={"load": 0.5, "types": types}, cluster={"pools": pools}), settings)


def test_with_central_queues_dispatching_cannot_be_changed() -> None:
    pools = [{"name": name, "servers": 2, "queue": "central"} for name in ("one", "two")]
    central = scenario(dispatch={"policy": "static"}, cluster={"pools": pools})
    with pytest.raises(LongRunningError, match="with central queues runs; shut it down"):
        changed(central, {"dispatch.assignment": {"one": 1.0}})
    assert changed(central, {"workload.load": 0.6}).load == 0.6
