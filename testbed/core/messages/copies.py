"""Copies of a job on several servers, and their cancellation."""

from __future__ import annotations

import msgspec

from testbed.core.messages.message import Address, Message
from testbed.core.outcomes import StateAtCancellation


class Peer(msgspec.Struct, array_like=True, gc=False):
    """Another copy of the same job: its server, which of the job's copies it is, and its number there."""

    server: Address
    copy: int
    number: int


class AssignCopy(Message, tag=50, gc=True):
    """A dispatcher places a copy of a job on a server, whose Done says ``copy`` for the task.

    ``copy`` counts the job's copies from 0, ``number`` the copies that this dispatcher has placed on this server, from
    1. By ``number`` the server knows whether a cancellation that another server sends is for a copy that is yet to come
    or for one that has gone. ``reports_start`` asks for a Started. When the copy starts, its server cancels the
    ``peers``.
    """

    job: int
    copy: int
    number: int
    job_type: int
    size: float
    reports_start: bool = False
    peers: list[Peer] = msgspec.field(default_factory=list)


class Started(Message, tag=51):
    """A copy's service has begun."""

    job: int
    copy: int


class CancelCopy(Message, tag=52):
    """A dispatcher, or the server of a peer, cancels a copy of a job of ``dispatcher``.

    ``by`` is the peer, -1 if it is the dispatcher. Of two peers that have both started the one with the lower ``copy``
    goes on. A copy that is done already has nothing to answer; all others answer Cancelled to the dispatcher, once.
    """

    dispatcher: Address
    job: int
    copy: int
    number: int
    by: int = -1


class Cancelled(Message, tag=53):
    """A cancelled copy has ended. ``wait`` is its time in the queue."""

    job: int
    copy: int
    state: StateAtCancellation
    wait: float
    received: float
