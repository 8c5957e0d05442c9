"""Jobs for pools with central queues: the pool agent admits them, and reports their ends.

The dispatcher chooses a pool, and the pool agent (servers.pool_agent) does all the rest: queues, thresholds, replicas
and cancellations, and dispatching again what dies with servers. It sends a ``CopyEnded`` for each copy of a job, and
``JobDone`` when the job is done, which some of the former may follow (dispatchers.awaiting_cancellation).

A cluster may also have pools whose servers have queues of their own. All jobs have records of copies, so that what is
computed from these is right for every pool: a job of such a server is one copy, which wins with its ``Done`` or dies
with the server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import nan
from typing import ClassVar

from typing_extensions import override

from dispatchers.awaiting_cancellation import AwaitingCancellation
from dispatchers.jobs import Jobs
from dispatchers.live_servers import LiveServers
from dispatchers.placement import DirectPlacement
from testbed.core.messages import Admit, CopyEnded, Done, JobDone, Message
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.rows import CopyRecord


class CentralQueues(DirectPlacement):
    """Places jobs in central queues, through the agent at ``pool_agent``, and on servers with queues of their own."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **DirectPlacement.HANDLES,
        CopyEnded: "on_copy_ended",
        JobDone: "on_job_done",
    }
    in_copies = True

    def __init__(self, jobs: Jobs, live: LiveServers | None = None, *, pool_agent: int) -> None:
        super().__init__(jobs, live)
        self._awaiting = AwaitingCancellation(jobs)
        self._pool_agent = pool_agent
        self._first_of_pool = [pool.first for pool in jobs.pools]
        self._died: dict[int, int] = {}  # by job: how often it has died with a server that has a queue of its own

    @property
    @override
    def awaiting_cancellation(self) -> int:
        return self._awaiting.jobs

    @override
    def admit(self, job: int, pool: int, thresholds: Sequence[float] = (), /) -> None:
        """Have a job join the queue of a pool, with thresholds of its own if there are any."""
        ticket = self._in_system[job]
        if ticket.at:  # dispatched again: it is not at the dead server any more
            ticket.at, ticket.again = [], ()
        sizes = list(ticket.every_size)
        self._env.send(Admit(self._pool_agent, self._address, job, ticket.job_type, pool, sizes, list(thresholds)))

    def on_copy_ended(self, ended: CopyEnded) -> None:
        """Note the end of a copy."""
        record = ended.record
        record.copy += self._died.get(record.job, 0)
        self._awaiting.copy_ended(record)

    def on_job_done(self, done: JobDone) -> None:
        """Note that a job is done."""
        ticket = self._in_system.pop(done.job, None)
        if ticket is None:
            self.jobs.done_twice += 1
            return
        last = Done(self._address, done.server, done.job, 0, done.wait, done.service, 0, done.lateness)
        self._awaiting.job_done(done.job, ticket, last, done.copies)

    # --- jobs of servers with queues of their own ---

    @override
    def on_done(self, done: Done) -> None:
        """Note a job that such a server has finished."""
        if done.job in self._in_system:
            self._write(done.job, done.sender, done.wait, done.service, CopyOutcome.WON)
        super().on_done(done)

    @override
    def on_down(self, first: int, last: int) -> None:
        """Note that the jobs at servers ``first`` to ``last`` have died there."""
        for job, ticket in self._in_system.items():
            if ticket.at and first <= ticket.at[0] <= last:
                self._write(job, ticket.at[0], nan, nan, CopyOutcome.DIED)
                self._died[job] = self._died.get(job, 0) + 1

    def _write(self, job: int, server: int, wait: float, received: float, outcome: CopyOutcome) -> None:
        pool = bisect_right(self._first_of_pool, server) - 1
        copy, state = self._died.get(job, 0), StateAtCancellation.NOT_CANCELLED
        self._awaiting.write_copy(CopyRecord(job, copy, pool, server, wait, received, 0, outcome, state))

    @override
    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write the records of jobs that await cancellation."""
        self._awaiting.close()
