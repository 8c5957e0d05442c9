"""Reservations: of slots in servers' buffers, and of turns in servers' queues for tasks that are bound late."""

from __future__ import annotations

from testbed.core.messages.message import Message
from testbed.core.messages.tasks import Assign


class ReserveSlots(Message, tag=30):
    """A dispatcher asks a server to reserve ``slots`` free slots of its buffer for tasks of a job."""

    job: int
    slots: int


class SlotsReserved(Message, tag=31):
    """The server has reserved the slots."""

    job: int


class SlotsRefused(Message, tag=32):
    """The server has fewer free slots, and has reserved none of them."""

    job: int


class ReleaseSlots(Message, tag=33):
    """The tasks will not come: the job is dropped, since another server has refused."""

    job: int
    slots: int


class Commit(Assign, tag=34):
    """A task comes for a slot that is reserved for it."""


class Reserve(Message, tag=35):
    """A dispatcher puts a reservation for one of a job's tasks, whichever, into a server's queue.

    ``number`` tells the dispatcher's reservations apart: a job may have several at a server, after a death.
    """

    job: int
    number: int


class Fetch(Message, tag=36):
    """A reservation has reached the head of the server's queue: which task is it?"""

    job: int
    number: int


class Cancel(Message, tag=37):
    """No task is left for the reservation: the answer to a Fetch, or ahead of it."""

    job: int
    number: int
