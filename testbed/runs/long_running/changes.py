"""Which settings of a long-running cluster can be changed, and the scenario with the changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dispatchers.policy import Policy
from testbed.runs.long_running.register import LongRunningError
from testbed.scenario.modes import MODES, Mode, mode_of
from testbed.scenario.policies import PolicyLike, policies

if TYPE_CHECKING:
    from testbed.scenario import Scenario

LOADS = ("workload.load", "workload.rate")


def changed(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return the scenario with other settings.

    Raises ScenarioError for wrong values, and LongRunningError for what can't be changed while the cluster runs.
    """
    for key in settings:
        if key not in LOADS and not key.startswith("dispatch."):
            raise LongRunningError(
                f"{key} can't be changed while the cluster runs, only {', '.join(LOADS)} and the settings in dispatch; "
                "shut it down and start another one"
            )
    found = scenario.with_settings(settings)
    if found.dispatch != scenario.dispatch:
        if mode_of(scenario) is Mode.CENTRAL_QUEUES:
            raise LongRunningError(
                "dispatch can't be changed while a cluster with central queues runs; shut it down and start another one"
            )
        for each in (scenario, found):
            mode = mode_of(each)
            if MODES[mode].binds_servers:
                possible = ", ".join(sorted(name for name, policy in policies().items() if may_follow(policy)))
                raise LongRunningError(
                    f"{each.dispatch.policy}: {mode.value}, so that servers would have to change too; policies that "
                    f"can follow one another: {possible}"
                )
        if found.knows != scenario.knows:
            raise LongRunningError("dispatch.knows can't be changed: what is known of jobs is fixed at the start")
    return found


def may_follow(policy: type[PolicyLike]) -> bool:
    """Return whether a policy, whatever its parameters, can replace another one: its servers are plain ones."""
    makes_copies = any("copies" in vars(each) for each in policy.__mro__ if each is not Policy)
    return not (policy.reserves or makes_copies)
