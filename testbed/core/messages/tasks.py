"""A task's way to a server's queue and through it, and what dispatchers and servers report to each other."""

from __future__ import annotations

from typing import Final

from testbed.core.messages.message import Message

#: In place of a job's number, in probes that one server sends to another.
NO_JOB: Final = -1


class Probe(Message, tag=1):
    """A dispatcher asks a server for its queue length, for a job; or a server asks another one, for NO_JOB.

    ``round`` numbers the sender's probe rounds: a late reply to one that has ended is no reply to another.
    """

    job: int
    round: int = 0


class ProbeReply(Message, tag=2):
    """A server answers a probe: the number of its tasks, the one in service included."""

    job: int
    queue_length: int
    round: int = 0


class Assign(Message, tag=3):
    """A dispatcher places a task of a job on a server. ``job_type`` indexes the job type; ``size`` is in time units.

    ``moves``: how often the task had moved between servers before it was lost with one of them and dispatched again.
    """

    job: int
    task: int
    job_type: int
    size: float
    moves: int = 0


class Done(Message, tag=4):
    """A server has finished a task: how long the task waited and how long it was served, in time units.

    ``position`` is the task's place in the server's queue when it came, 1 if it was served at once. ``lateness`` is the
    time from the end of the service until the server's process noticed it.
    """

    job: int
    task: int
    wait: float
    service: float
    position: int = 1
    lateness: float = 0.0


class Dropped(Message, tag=5):
    """A server has not accepted a task because its buffer was full."""

    job: int
    task: int


class Idle(Message, tag=6):
    """A server reports to a dispatcher that it has become idle."""


class PeerDown(Message, tag=15):
    """A server tells a dispatcher that servers ``first`` to ``last`` are down and send it nothing more."""

    first: int
    last: int
