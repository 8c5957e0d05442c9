"""Tasks that a server is promised before it gets them: places held in buffers, and reservations in queues."""

from __future__ import annotations

from testbed.core.messages.message import Message
from testbed.core.messages.tasks import Assign


class Hold(Message, tag=30):
    """A dispatcher asks a server to hold ``places`` free places of its buffer for tasks of a job."""

    job: int
    places: int


class Held(Message, tag=31):
    """The server holds the places."""

    job: int


class Full(Message, tag=32):
    """The server has fewer free places, and holds none of them."""

    job: int


class Release(Message, tag=33):
    """The tasks will not come: the job is dropped, as another server was full."""

    job: int
    places: int


class Commit(Assign, tag=34):
    """A task comes for a place that is held for it."""


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
