"""Which settings of a standing cluster can be changed, and what it is to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dispatchers.policy import Policy
from testbed.runs.long_running.register import LongRunningError
from testbed.runtime.build import holds
from testbed.scenario.policies import PolicyLike, policies

if TYPE_CHECKING:
    from testbed.scenario import Scenario

LOADS = ("workload.load", "workload.rate")


def changed(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return the scenario with other settings. Raises ScenarioError for values that don't fit, and LongRunningError for
    what can't be changed while the cluster stands.
    """
    for key in settings:
        if key not in LOADS and not key.startswith("dispatch."):
            raise LongRunningError(
                f"{key} can't be changed while the cluster stands, only {', '.join(LOADS)} and what is in dispatch; "
                "take it down and start another one"
            )
    found = scenario.with_settings(settings)
    if found.dispatch != scenario.dispatch:
        if scenario.central_pools:
            raise LongRunningError(
                "dispatch can't be changed while a cluster with central queues stands; take it down and start another"
            )
        for each in (scenario, found):
            why = binds_servers(each)
            if why is not None:
                possible = ", ".join(sorted(name for name, policy in policies().items() if policy_is_free(policy)))
                raise LongRunningError(
                    f"{each.dispatch.policy}: {why}, so that servers would have to change too; policies that can "
                    f"follow one another: {possible}"
                )
        if found.knows != scenario.knows:
            raise LongRunningError(
                "dispatch.knows can't be changed while the cluster stands: what is known of jobs is fixed at the start"
            )
    return found


def policy_is_free(policy: type[PolicyLike]) -> bool:
    """Return whether servers with queues of their own are the same under a policy as under most."""
    copies = any("copies" in vars(each) for each in policy.__mro__ if each is not Policy)
    return not (policy.reserves or copies)


def binds_servers(scenario: Scenario) -> str | None:
    """Return what servers do for the dispatchers that is special to the scenario's policy, or None."""
    policy = scenario.policy_class
    if policy.reserves:
        return "it puts reservations into queues"
    if policy.copies(scenario.dispatch.parameters) > 1:
        return "it makes copies"
    if scenario.central_pools:
        return "there are central queues"
    if holds(scenario):
        return "places are held for jobs of several tasks"
    return None
