"""How a dispatcher places jobs, and how it notes their ends: one object, which the dispatcher is given.

* ``DirectPlacement`` sends each task to the server that the policy chooses;
* dispatchers.slot_reservation: a job of several tasks is placed whole or not at all, in reserved slots of buffers;
* dispatchers.copying: a job is placed in several copies;
* dispatchers.admission: a job joins the central queue of a pool, or goes to a server of a pool without one.

Dispatching again what died with servers is the business of dispatchers.recovery, which uses the placement.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from typing_extensions import override

from dispatchers.jobs import COMPLETED, Jobs
from dispatchers.live_servers import LiveServers
from dispatchers.ticket import Ticket
from testbed.core.messages import Assign, Done, Dropped, Message, Moved
from testbed.core.outcomes import JobOutcome
from testbed.core.rows import TaskRecord

#: In place of a task's server, once the task is done.
FINISHED = -1


class Placement:
    """Base of all placements. ``live`` are the servers that are up, where the dispatcher recovers from failures."""

    #: Which message goes to which method; the dispatcher adds these to its own table.
    HANDLES: ClassVar[dict[type[Message], str]] = {}
    #: Whether a job is a single task that has a size for each of its copies, or for each pool.
    in_copies: ClassVar[bool] = False
    #: Whether ``assign`` itself chooses other servers in place of those that are down.
    avoids_down_servers: ClassVar[bool] = False

    def __init__(self, jobs: Jobs, live: LiveServers | None = None) -> None:
        self.jobs = jobs
        self.live = live

    def assign(self, job: int, server: int) -> None:
        """Place the next task of a job, or its next copy, on a server."""
        raise NotImplementedError

    def assign_tied(self, job: int, servers: Sequence[int]) -> None:
        """Place copies of a job that cancel each other."""
        raise AssertionError("the policy makes no copies")

    def admit(self, job: int, pool: int, thresholds: Sequence[float] = (), /) -> None:
        """Have a job join the central queue of a pool."""
        raise AssertionError("there is no central queue")

    def on_down(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` are down; what was placed there is about to be placed again."""

    @property
    def awaiting_cancellation(self) -> int:
        """The number of jobs that are done while the end of some copy is not known."""
        return 0

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Prepare for the end of the run; ``is_lost(server)`` says whether a server has died."""


class DirectPlacement(Placement):
    """Each task goes to its server at once; the job is done with the last of its tasks."""

    HANDLES: ClassVar[dict[type[Message], str]] = {Done: "on_done", Dropped: "on_dropped", Moved: "on_moved"}

    def __init__(self, jobs: Jobs, live: LiveServers | None = None) -> None:
        super().__init__(jobs, live)
        self._in_system = jobs.in_system
        self._env = jobs.env
        self._address = jobs.address
        self._policies = jobs.policies
        self._tasks = jobs.records.tasks
        self._ended = jobs.records.jobs

    @override
    def assign(self, job: int, server: int) -> None:
        ticket = self._in_system[job]
        task = len(ticket.at)
        ticket.at.append(server)
        self._env.send(Assign(server, self._address, job, task, ticket.job_type, ticket.sizes[task]))

    def on_done(self, done: Done) -> None:
        """Note a finished task; with the last one the job is done."""
        job = done.job
        ticket = self._in_system.get(job)
        if ticket is None:
            self.jobs.done_twice += 1
            return
        several = len(ticket.sizes) > 1
        if several:
            if ticket.at[done.task] == FINISHED:
                self.jobs.done_twice += 1
                return
            ticket.at[done.task] = FINISHED
        if self._tasks is not None:
            self._tasks.write(
                TaskRecord(job, done.task, done.sender, done.position, done.wait, done.service, self._env.now)
            )
        policy_on_done = self._policies.on_done
        if policy_on_done is not None:
            policy_on_done(done)
        if several:
            self._add_up(job, ticket, done)
        else:  # spelled out, as it takes less time than to add up and compare
            ticket.inherent = ticket.work = done.service
            ticket.wait = done.wait
            ticket.position = done.position
            del self._in_system[job]
            self._ended.write(self.jobs.record(job, ticket, COMPLETED, done))

    def _add_up(self, job: int, ticket: Ticket, done: Done) -> None:
        """Note the end of one of several tasks."""
        ticket.inherent = max(ticket.inherent, done.service)
        ticket.wait = max(ticket.wait, done.wait)
        ticket.position = max(ticket.position, done.position)
        ticket.work += done.service
        ticket.remaining -= 1
        if ticket.remaining:
            return
        if ticket.dropped:
            self.jobs.end(job, JobOutcome.DROPPED)
        else:
            del self._in_system[job]
            self._ended.write(self.jobs.record(job, ticket, COMPLETED, done))

    def on_dropped(self, dropped: Dropped) -> None:
        """Note a task that found a full buffer; its job counts as dropped."""
        ticket = self._in_system.get(dropped.job)
        if ticket is None:  # sent before this dispatcher was restarted
            return
        self._tell_dropped(dropped.job, dropped.task, dropped.sender)
        ticket.dropped = True
        ticket.remaining -= 1
        if not ticket.remaining:
            self.jobs.end(dropped.job, JobOutcome.DROPPED)

    def on_moved(self, moved: Moved) -> None:
        """Note that a task has gone to another server, unless a later move of it is known already.

        Two servers report a task that moves twice quickly; their messages may come in any order, and after the end of
        the task.
        """
        ticket = self._in_system.get(moved.job)
        if ticket is None or moved.moves <= ticket.moves.get(moved.task, 0):
            return
        ticket.moves = {**ticket.moves, moved.task: moved.moves}
        old = ticket.at[moved.task]
        if old not in (moved.server, FINISHED):
            ticket.at[moved.task] = moved.server
            self._policies.of(moved.job).on_moved(old, moved.server)

    def _tell_dropped(self, job: int, task: int, server: int) -> None:
        self._policies.of(job).on_done(Done(self._address, server, job, task, 0.0, 0.0))
