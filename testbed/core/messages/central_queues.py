"""Jobs of pools with central queues, where the pool agent schedules, reroutes and replicates them."""

from __future__ import annotations

import msgspec

from testbed.core.messages.message import Message
from testbed.core.rows import CopyRecord


class Admit(Message, tag=40):
    """A dispatcher gives a job to the pool agent: it joins the tail of the queue of pool ``pool``.

    ``sizes`` has the job's size in each pool with a central queue. ``thresholds`` are the received processing times,
    visit by visit, after which this job moves; empty for those of the scenario.
    """

    job: int
    job_type: int
    pool: int
    sizes: list[float]
    thresholds: list[float] = msgspec.field(default_factory=list)


class Serve(Message, tag=41):
    """The pool agent starts a copy on an idle server; the copy has received ``received`` time units before.

    When ``threshold`` is received without an end the server reports Reached; it stops, unless ``goes_on``. ``copy``
    numbers the pool agent's copies. ``job`` is for traces; the server's answers name the copy only.
    ``waited``: the copy waited for this very server, which has just reported the end of its last service.
    """

    copy: int
    job_type: int
    size: float
    received: float
    threshold: float
    goes_on: bool
    job: int
    waited: bool


class Reached(Message, tag=42):
    """A copy has received its threshold of processing time without an end."""

    copy: int
    received: float


class Served(Message, tag=43):
    """A copy is done; ``received`` is its whole processing time, ``lateness`` as in Done."""

    copy: int
    received: float
    lateness: float = 0.0


class Stop(Message, tag=44):
    """The server must stop serving a copy. It does not answer if the copy has gone."""

    copy: int


class Stopped(Message, tag=45):
    """A copy's service was stopped after ``received`` time units."""

    copy: int
    received: float


class CopyEnded(Message, tag=46):
    """The pool agent reports the end of a copy to its job's dispatcher.

    In its record ``delay`` runs to the time when the agent knew of the copy's end; the dispatcher sets ``end``.
    """

    record: CopyRecord


class JobDone(Message, tag=47):
    """A job is done, with the copy that ``server`` served; it had ``copies`` copies in all.

    The CopyEnded of some may be still to come. ``lateness`` is as in Done.
    """

    job: int
    server: int
    copies: int
    wait: float
    service: float
    lateness: float = 0.0
