"""The life of a copy of a job: its states and the events that change them.

A job that is replicated, rerouted or hedged is served in several copies. One agent manages them: the pool agent
(servers.pool_agent) for central queues, the job's dispatcher (dispatchers.copying) for the queues of servers. As far as
it knows from messages, each copy is in one of these states:

* ``QUEUED``: in a queue, or on its way there
* ``SERVED``: on a server, or on its way there
* ``PAIRED``: the same, as one of two copies that are served at once
* ``STOPPING``: a Stop was sent to its server; the copy will go on later
* ``PREEMPTED``: back at the head of its queue; keeps the processing time that it has received
* ``WAITING``: waits until it and its replica can both be served; keeps the processing time that it has received
* ``CANCELLED``: another copy has finished, or has started where that suffices; the end of this one is not yet reported

``TRANSITIONS`` is the whole life; an event that it lacks cannot happen, and raises KeyError.
"""

from __future__ import annotations

from enum import Enum
from typing import Final


class State(Enum):
    """The state of a copy; the last four are final."""

    QUEUED = "queued"
    SERVED = "in service"
    PAIRED = "in service, one of a pair"
    STOPPING = "being stopped"
    PREEMPTED = "preempted"
    WAITING = "waiting as a pair"
    CANCELLED = "cancelled"
    WON = "won"
    SUPERSEDED = "superseded"
    REROUTED = "rerouted"
    DIED = "died with its server"


class Event(Enum):
    """What can happen to a copy."""

    START = "a server is free"
    START_PAIR = "two servers are free for the pair"
    PAIR = "threshold; a replica starts elsewhere"
    REROUTE = "threshold, or its pool has died; the job moves"
    STOP = "preempted, or must wait as a pair, or its replica has died"
    REJOIN = "back to the head of the queue"
    AWAIT = "to wait until the pair can be served"
    FINISH = "first to finish"
    CANCEL = "another has finished or started, or its original has died; cancellation sent"
    DISCARD = "another has finished; it was on no server"
    CONFIRMED = "the cancellation has stopped it"
    TOO_LATE = "it had finished already"
    LOSE = "its server has died"


_ON_SERVER = (State.SERVED, State.PAIRED, State.STOPPING)
_OFF_SERVER = (State.QUEUED, State.PREEMPTED, State.WAITING)

TRANSITIONS: Final = {
    (State.QUEUED, Event.START): State.SERVED,
    (State.PREEMPTED, Event.START): State.SERVED,
    (State.QUEUED, Event.START_PAIR): State.PAIRED,
    (State.PREEMPTED, Event.START_PAIR): State.PAIRED,
    (State.WAITING, Event.START_PAIR): State.PAIRED,
    (State.SERVED, Event.REROUTE): State.REROUTED,
    **{(state, Event.REROUTE): State.REROUTED for state in _OFF_SERVER},
    (State.SERVED, Event.PAIR): State.PAIRED,
    (State.SERVED, Event.STOP): State.STOPPING,
    (State.PAIRED, Event.STOP): State.STOPPING,
    (State.STOPPING, Event.REJOIN): State.PREEMPTED,
    **{(state, Event.AWAIT): State.WAITING for state in (State.STOPPING, State.QUEUED, State.PREEMPTED)},
    (State.WAITING, Event.REJOIN): State.PREEMPTED,
    **{(state, Event.FINISH): State.WON for state in (*_ON_SERVER, State.CANCELLED)},
    **{(state, Event.CANCEL): State.CANCELLED for state in _ON_SERVER},
    **{(state, Event.DISCARD): State.SUPERSEDED for state in _OFF_SERVER},
    (State.CANCELLED, Event.CONFIRMED): State.SUPERSEDED,
    (State.CANCELLED, Event.TOO_LATE): State.SUPERSEDED,
    **{(state, Event.LOSE): State.DIED for state in (*_ON_SERVER, State.CANCELLED)},
}

#: States that are not final.
OPEN: Final = frozenset(state for state, _ in TRANSITIONS)


def advance(state: State, event: Event) -> State:
    """Return the state after an event. Raises KeyError for an event that cannot happen."""
    return TRANSITIONS[state, event]


def diagram() -> str:
    """Return the states as a Mermaid diagram, drawn from ``TRANSITIONS``."""
    lines = ["stateDiagram-v2"]
    lines += [f"    {state.name}: {state.value}" for state in State]
    lines += ["    [*] --> QUEUED: made, or assigned", "    [*] --> PAIRED: made as a replica"]
    lines += [f"    {old.name} --> {new.name}: {event.value}" for (old, event), new in TRANSITIONS.items()]
    lines += [f"    {state.name} --> [*]" for state in State if state not in OPEN]
    return "\n".join(lines) + "\n"
