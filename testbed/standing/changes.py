"""Which settings of a standing cluster can be changed, and what it is to go on with."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from testbed.standing.register import StandingError

if TYPE_CHECKING:
    from testbed.scenario import Scenario

LOADS = ("workload.load", "workload.rate")


def changed(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return the scenario with other settings. Raises ScenarioError for values that don't fit, and StandingError for
    what can't be changed while the cluster stands.
    """
    for key in settings:
        if key not in LOADS:
            raise StandingError(
                f"{key} can't be changed while the cluster stands, only {' and '.join(LOADS)}; "
                "take it down and start another one"
            )
    return scenario.with_settings(settings)
