"""The life of an exchange: one server asks another to move tasks, and the other answers.

Each side keeps its own end of an exchange, in one of these states:

* ``ASKING``: it has asked to steal, and waits for tasks or a refusal
* ``OFFERING``: it has offered a task, and waits for the answer whether the other is idle
* ``PROMISED``: it is idle, has accepted an offer and waits for the task
* ``SENT``: it has sent tasks, which the other owns from their receipt on; it keeps copies until the other confirms

Exactly one server owns a task at any time: its server until it sends a Transfer, the addressee once it has received the
Transfer. In between the task is in the message alone. The copies serve only to tell the tasks' dispatchers where they
went, when the addressee has received them or has died (dispatchers.recovery explains why both servers must report).

``TRANSITIONS`` is the whole protocol; an event that it lacks cannot happen, and raises KeyError.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Final

from testbed.core.messages import MovedTask


class State(Enum):
    """The state of one end of an exchange; the last six are final."""

    ASKING = "asking"
    OFFERING = "offering"
    PROMISED = "promised"
    SENT = "sent"
    GOT = "got tasks"
    FAILED = "failed"
    WITHDREW = "withdrew"
    FREED = "freed"
    SETTLED = "settled"
    MISSING = "missing"


class Event(Enum):
    """What can happen to an exchange."""

    TRANSFER = "Transfer"
    REFUSED = "Refused"
    ACCEPTED = "Accepted"
    ACCEPTED_TOO_LATE = "Accepted, but no task waits any more"
    WITHDRAWN = "Withdrawn"
    RECEIVED = "Received"
    PEER_DOWN = "the other has died"


TRANSITIONS: Final = {
    (State.ASKING, Event.TRANSFER): State.GOT,
    (State.ASKING, Event.REFUSED): State.FAILED,
    (State.ASKING, Event.PEER_DOWN): State.FAILED,
    (State.OFFERING, Event.ACCEPTED): State.SENT,
    (State.OFFERING, Event.ACCEPTED_TOO_LATE): State.WITHDREW,
    (State.OFFERING, Event.REFUSED): State.FAILED,
    (State.OFFERING, Event.PEER_DOWN): State.FAILED,
    (State.PROMISED, Event.TRANSFER): State.GOT,
    (State.PROMISED, Event.WITHDRAWN): State.FREED,
    (State.PROMISED, Event.PEER_DOWN): State.FREED,
    (State.SENT, Event.RECEIVED): State.SETTLED,
    (State.SENT, Event.PEER_DOWN): State.MISSING,
}

#: States in which an exchange is open.
OPEN: Final = frozenset(state for state, _ in TRANSITIONS)


class Exchange:
    """One end of an exchange. ``number`` is unique in the cluster; ``tries`` counts the probes of its cause so far."""

    __slots__ = ("number", "offered", "peer", "state", "tasks", "tries")

    def __init__(self, number: int, peer: int, state: State, tries: int = 1) -> None:
        self.number = number
        self.peer = peer
        self.state = state
        self.tries = tries
        self.offered: tuple[int, int] | None = None  # job and task of an offer, if it offers a certain one
        self.tasks: Sequence[MovedTask] = ()

    def advance(self, event: Event) -> State:
        """Move to the next state and return it. Raises KeyError for an event that cannot happen here."""
        self.state = TRANSITIONS[self.state, event]
        return self.state


def diagram() -> str:
    """Return the states as a Mermaid diagram, drawn from ``TRANSITIONS``."""
    ends = [state for state in State if state not in OPEN]
    lines = ["stateDiagram-v2"]
    lines += [f"    {state.name}: {state.value}" for state in State]
    lines += [
        "    [*] --> ASKING: Steal sent",
        "    [*] --> OFFERING: Offer sent",
        "    [*] --> PROMISED: Offer received, idle",
        "    [*] --> SENT: Steal received, tasks waiting",
    ]
    lines += [f"    {old.name} --> {new.name}: {event.value}" for (old, event), new in TRANSITIONS.items()]
    lines += [f"    {state.name} --> [*]" for state in ends]
    return "\n".join(lines) + "\n"
