"""How long a cluster runs, and what becomes of it when one of its processes dies."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from testbed.cluster.control import Setup
    from testbed.cluster.controller import Controller
    from testbed.cluster.members import Member
    from testbed.scenario import Scenario

GRACE_SECONDS = 5.0  # that a process may be behind the others when the run's time is over


class Lifetime(Protocol):
    """What a controller asks about the course of its cluster."""

    @property
    def most_events(self) -> int:
        """How many events of traced jobs are kept of each process, the latest."""

    def setup(self, controller: Controller, setup: Setup) -> Setup:
        """Return the setup of a process that starts now, given that of a run that ends."""

    def longest(self, scenario: Scenario) -> float:
        """Return the seconds after which the run is over in any case."""

    def is_over(self, controller: Controller) -> bool:
        """Return whether the run is over; asked whenever a process has reported."""

    def arrivals_end(self, controller: Controller) -> float:
        """Return when arrivals stop, or have stopped."""

    async def died(self, controller: Controller, member: Member, how: str) -> None:
        """Go on without a process that ended before its time, replace it, or fail."""


class UntilHorizon:
    """The lifetime of a run: until the scenario's horizon, and until no job is left or the drain time is over.

    The death of a process ends it, unless other servers take over the tasks of those that went down.
    """

    most_events = sys.maxsize

    def setup(self, controller: Controller, setup: Setup) -> Setup:
        """Return the setup as it is."""
        return setup

    def longest(self, scenario: Scenario) -> float:
        """Return the seconds until horizon and drain time are over, also for a process that is a little behind."""
        return (scenario.horizon + scenario.drain) * scenario.run.time_unit_seconds + GRACE_SECONDS

    def is_over(self, controller: Controller) -> bool:
        """Return whether all processes have reached the end.

        Times are those of the processes, which begin a little later than the controller, each on its own clock: every
        one has to reach the horizon, where servers close their last slice of time.
        """
        scenario = controller.scenario
        alive = [member for member in controller.members if member.alive]
        reached = min((member.progress.time if member.progress else 0.0 for member in alive), default=0.0)
        return reached >= scenario.horizon + (0.0 if controller.drained else scenario.drain)

    def arrivals_end(self, controller: Controller) -> float:
        """Return the horizon."""
        return controller.scenario.horizon

    async def died(self, controller: Controller, member: Member, how: str) -> None:
        """Go on without a node where the scenario says so, or fail."""
        processes = controller.processes
        redispatches = controller.scenario.cluster.on_failure == "redispatch"
        if not (controller.started and member.servers is not None and redispatches):
            processes.fail(f"process {member.name} {how}. Its last lines:{member.last_lines()}")
            return
        at = max((progress.time for progress in controller.progress), default=0.0)
        controller.incidents.append(
            f"process {member.name} {how} at time {at:.1f}; the run went on without its servers"
        )
        if controller.all_nodes_dead:
            processes.fail("all node processes have died")
