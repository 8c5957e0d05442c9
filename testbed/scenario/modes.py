"""The modes of a scenario: how its jobs are placed, and what follows from that for servers, records and changes.

Every scenario is in one of the modes of ``MODES``. Whether jobs have several tasks, and whether servers move waiting
tasks among themselves, is asked of the scenario apart from its mode.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

from testbed.scenario.policies import PolicyLike
from testbed.scenario.settings import Scenario


class Mode(Enum):
    """How the jobs of a scenario are placed."""

    DIRECT = "each task goes to a server at once"
    LATE_BINDING = "it puts reservations into queues"
    SLOT_RESERVATION = "slots of finite buffers are reserved for jobs of several tasks"
    COPIES = "it makes copies"
    CENTRAL_QUEUES = "there are central queues"


class PlacementKind(Enum):
    """The placement of the dispatchers (dispatchers.placement)."""

    DIRECT = "tasks directly"
    SLOT_RESERVATION = "whole jobs, in reserved slots"
    COPYING = "copies"
    CENTRAL_QUEUES = "central queues, and servers with queues of their own"


class ServerKind(Enum):
    """The servers that have queues of their own."""

    PLAIN = "a queue of tasks"
    LATE_BINDING = "a queue of reservations"
    SLOT_RESERVING = "a buffer whose slots can be reserved"
    COPIES = "a queue of copies, which can be cancelled"


@dataclass(frozen=True)
class Traits:
    """What a mode implies."""

    placement: PlacementKind
    server: ServerKind
    #: Whether there is a table of copies: jobs may have several copies, or visit several pools.
    records_copies: bool
    #: Whether servers do something special for the dispatchers: then the policy of a long-running cluster can't be
    #: replaced, and no dispatcher restarted, since only the dead one could release what is reserved for it.
    binds_servers: bool


MODES: Final = {
    Mode.DIRECT: Traits(PlacementKind.DIRECT, ServerKind.PLAIN, records_copies=False, binds_servers=False),
    Mode.LATE_BINDING: Traits(PlacementKind.DIRECT, ServerKind.LATE_BINDING, records_copies=False, binds_servers=True),
    Mode.SLOT_RESERVATION: Traits(
        PlacementKind.SLOT_RESERVATION, ServerKind.SLOT_RESERVING, records_copies=False, binds_servers=True
    ),
    Mode.COPIES: Traits(PlacementKind.COPYING, ServerKind.COPIES, records_copies=True, binds_servers=True),
    Mode.CENTRAL_QUEUES: Traits(
        PlacementKind.CENTRAL_QUEUES, ServerKind.PLAIN, records_copies=True, binds_servers=True
    ),
}


def mode_of_policy(policy: type[PolicyLike], parameters: Any, *, central: bool, reserves_slots: bool) -> Mode:
    """Return the mode under a policy, with central queues or not.

    ``reserves_slots``: whether jobs of several tasks may find a full buffer, and are then dropped whole.
    """
    if central:
        return Mode.CENTRAL_QUEUES
    if policy.reserves:
        return Mode.LATE_BINDING
    if policy.copies(parameters) > 1:
        return Mode.COPIES
    return Mode.SLOT_RESERVATION if reserves_slots else Mode.DIRECT


def mode_of(scenario: Scenario) -> Mode:
    """Return the mode of a scenario."""
    return mode_of_policy(
        scenario.policy_class,
        scenario.dispatch.parameters,
        central=bool(scenario.central_pools),
        reserves_slots=has_tasks(scenario) and any(pool.buffer is not None for pool in scenario.cluster.pools),
    )


def traits_of(scenario: Scenario) -> Traits:
    """Return what the mode of a scenario implies."""
    return MODES[mode_of(scenario)]


def has_tasks(scenario: Scenario) -> bool:
    """Return whether jobs may have several tasks: each of these then has a record."""
    return scenario.workload.task_numbers.most > 1


def has_copies(scenario: Scenario) -> bool:
    """Return whether jobs may have several copies, or visit several pools: each of these then has a record."""
    return traits_of(scenario).records_copies


def tasks_move(scenario: Scenario) -> bool:
    """Return whether servers move waiting tasks among themselves."""
    return scenario.balance is not None


def servers_talk(scenario: Scenario) -> bool:
    """Return whether servers send messages to each other: where tasks move, and where copies are tied."""
    return tasks_move(scenario) or scenario.policy_class.ties


def recovers(scenario: Scenario) -> bool:
    """Return whether dispatchers dispatch again what dies with servers."""
    return scenario.cluster.on_failure == "redispatch"
