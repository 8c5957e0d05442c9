"""The central queue of a pool, and the jobs and copies in it: the data of the pool agent (servers.pool_agent)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from math import inf, nan

from testbed.core.copy_life import Event, State, advance
from testbed.core.messages import Admit
from testbed.core.outcomes import StateAtCancellation


@dataclass(frozen=True)
class CentralPool:
    """A pool with a central queue: its index in the scenario, its servers' addresses, their speed by job type."""

    index: int
    first: int
    servers: int
    speeds: Sequence[float]


class Job:
    """A job among the pools."""

    __slots__ = ("admission", "copies", "dispatcher", "done", "made", "number", "order", "past", "visited", "waited")

    def __init__(self, admission: Admit, order: int) -> None:
        self.admission = admission
        self.number = admission.job
        self.dispatcher = admission.sender
        self.order = order  # in the order of admission
        self.visited: list[int] = []  # pools, in order
        self.past = 0.0  # processing time in pools that it has left
        self.waited = 0.0  # time in queues of copies that have ended
        self.copies: list[Copy] = []  # that have not ended
        self.made = 0  # copies in all
        self.done = False


class Copy:
    """One copy of a job: where it is, and how much processing time it has received."""

    __slots__ = (
        "base",
        "cancelled",
        "done_work",
        "job",
        "joined",
        "number",
        "order",
        "original",
        "partner",
        "pool",
        "preemptions",
        "received",
        "server",
        "since",
        "state",
        "state_at_cancellation",
        "target",
        "wait",
        "waits",
    )

    def __init__(self, number: int, job: Job, pool: int, done_work: float) -> None:
        self.number = number
        self.job = job
        self.pool = pool
        self.done_work = done_work  # on earlier copies, where work carries over
        self.order = job.made
        self.state = State.QUEUED
        self.server = -1
        self.received = 0.0
        self.original = True
        self.base = 0.0  # of a replica: time that its original had received when the pair was made
        self.partner: Copy | None = None  # the other of a pair
        self.target: int | None = None  # the pool of its replica, while it waits as a pair
        self.wait = 0.0
        self.since = 0.0  # when it began to wait
        self.joined = number  # its place in the queue; a preempted copy keeps it
        self.waits = False  # whether it will wait as a pair when it has stopped
        self.preemptions = 0
        self.state_at_cancellation = StateAtCancellation.NOT_CANCELLED
        self.cancelled = nan  # when its cancellation was sent

    @property
    def size(self) -> float:
        """The work that remains, in time units at speed 1."""
        return max(self.job.admission.sizes[self.pool] - self.done_work, 0.0)

    def become(self, event: Event) -> None:
        """Move to the next state. Raises KeyError for an event that cannot happen."""
        self.state = advance(self.state, event)


class Queue:
    """One pool's servers and its queue."""

    def __init__(self, pool: CentralPool) -> None:
        self.index = pool.index
        self.speeds = pool.speeds
        self._servers = range(pool.first, pool.first + pool.servers)
        self.idle: deque[int] = deque(self._servers)
        self.line: deque[Copy] = deque()
        self.serving: dict[int, Copy] = {}  # by server

    @property
    def alive(self) -> bool:
        """Whether a server is up."""
        return bool(self.idle or self.serving)

    def whole(self, copy: Copy) -> float:
        """Return the whole processing time that a copy needs in this pool."""
        speed = self.speeds[copy.job.admission.job_type]
        return copy.size / speed if speed else inf if copy.size else 0.0

    @property
    def has_room(self) -> bool:
        """Whether it has a server for a copy of a pair."""
        return bool(self.idle) or self.preemptible() is not None

    def preemptible(self) -> Copy | None:
        """Return the copy in service that isn't one of a pair and has joined the queue last."""
        copies = (copy for copy in self.serving.values() if copy.state is State.SERVED)
        return max(copies, key=lambda copy: copy.joined, default=None)

    def forget(self, first: int, last: int) -> None:
        """Note that servers are down."""
        self.idle = deque(server for server in self.idle if not first <= server <= last)
        self.serving = {server: copy for server, copy in self.serving.items() if not first <= server <= last}

    def remember(self, first: int, last: int) -> None:
        """Note that servers are up again, idle."""
        self.idle.extend(range(max(first, self._servers.start), min(last + 1, self._servers.stop)))

    def take_server(self, server: int) -> None:
        """Make a server idle."""
        del self.serving[server]
        self.idle.append(server)
