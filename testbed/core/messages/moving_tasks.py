"""Waiting tasks that move between servers: work stealing and work sharing."""

from __future__ import annotations

import msgspec

from testbed.core.messages.message import Message


class Steal(Message, tag=7):
    """An idle server asks another for waiting tasks. ``exchange`` numbers the asking server's exchanges."""

    exchange: int


class Offer(Message, tag=8):
    """A server with waiting tasks asks another whether it is idle, and if so to reserve itself for one of them."""

    exchange: int


class Accepted(Message, tag=9):
    """The server to which a task was offered is idle, and waits for it."""

    exchange: int


class Refused(Message, tag=10):
    """The server has no waiting task to give, or is not idle, or waits for a task of another server."""

    exchange: int


class Withdrawn(Message, tag=11):
    """The offered task has started at its old server; the server that waits for it is free again."""

    exchange: int


class MovedTask(msgspec.Struct, array_like=True, gc=False):
    """A waiting task on its way to another server: the content of its Assign, and how long it has waited so far.

    ``moves`` is how often it has moved, this time included.
    """

    dispatcher: int
    job: int
    task: int
    job_type: int
    size: float
    waited: float
    moves: int


class Transfer(Message, tag=12, gc=True):
    """Waiting tasks move to the addressee, which owns them from its receipt on."""

    exchange: int
    tasks: list[MovedTask]


class Received(Message, tag=13):
    """The tasks of an exchange have arrived; their former server may forget them."""

    exchange: int


class Moved(Message, tag=14):
    """A server tells the dispatcher of a task that the task's move number ``moves`` took it to ``server``.

    The new server reports it; where dispatchers dispatch lost tasks again, the former server does so too. Reports of
    several servers come in any order; the one with the most moves is the latest.
    """

    job: int
    task: int
    server: int
    moves: int
