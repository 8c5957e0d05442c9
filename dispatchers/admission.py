"""Jobs for pools with central queues: they enter by the pool agent, which says what becomes of them.

The dispatcher chooses a pool, and the pool agent (servers.pool_agent) does all the rest: queues, thresholds, replicas
and cancellations, and dispatching again what dies with servers. One ``CopyEnded`` comes for each copy of a job, and
``JobDone`` when the job is done, with some of the former perhaps still to come (dispatchers.awaiting_cancellation).

Beside pools with central queues there may be others, whose servers have queues of their own. The copies' records are
of all jobs, so that what is computed from them is right for every pool: a job of such a server is one copy, which wins
with its ``Done`` or dies with the server.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from math import nan
from typing import TYPE_CHECKING

from dispatchers.awaiting_cancellation import Closing
from testbed.core.messages import Admit, CopyEnded, Done, JobDone
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.records import CopyRecord

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from testbed.core.records import CopyRecords


class Entering:
    """What a dispatcher does about jobs in central queues, and about the records of those in others beside them."""

    def __init__(self, dispatcher: Dispatcher, records: CopyRecords, pool_agent: int) -> None:
        self.closing = Closing(dispatcher, records)
        self._dispatcher = dispatcher
        self._pool_agent = pool_agent
        self._records = records
        self._first_of_pool = [pool.first for pool in dispatcher.pools]
        self._died: dict[int, int] = {}  # by job: how often it has died with a server that has a queue of its own

    def enter(self, job: int, pool: int, thresholds: Sequence[float] = ()) -> None:
        """Have a job join the queue of a pool, with thresholds of its own if there are any."""
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system[job]
        if ticket.at:  # dispatched again: it is not at the dead server any more
            ticket.at, ticket.again = [], ()
        dispatcher.env.send(
            Admit(
                self._pool_agent,
                dispatcher.address,
                job,
                ticket.job_type,
                pool,
                list(ticket.every_size),
                list(thresholds),
            )
        )

    def on_copy_ended(self, copy: CopyEnded) -> None:
        """Note what has become of a copy."""
        self.closing.copy_ended(
            copy.job,
            copy.order + self._died.get(copy.job, 0),
            copy.pool,
            copy.server,
            copy.wait,
            copy.received,
            copy.preemptions,
            copy.outcome,
            copy.state_at_cancellation,
            copy.delay,
        )

    def on_job_done(self, done: JobDone) -> None:
        """Note that a job is done."""
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system.pop(done.job, None)
        if ticket is None:
            dispatcher.done_twice += 1
            return
        self.closing.job_done(
            done.job,
            ticket,
            server=done.server,
            wait=done.wait,
            service=done.service,
            position=0,
            lateness=done.lateness,
            copies=done.copies,
        )

    # --- jobs of servers with queues of their own ---

    def on_done(self, done: Done) -> None:
        """Note a job that such a server has finished."""
        dispatcher = self._dispatcher
        if done.job in dispatcher.in_system:
            self._write(done.job, done.sender, done.wait, done.service, CopyOutcome.WON)
        dispatcher.on_done(done)

    def on_lost(self, first: int, last: int) -> None:
        """Note that the jobs at servers ``first`` to ``last`` have died there, before they are placed once more."""
        for job, ticket in self._dispatcher.in_system.items():
            if ticket.at and first <= ticket.at[0] <= last:
                self._write(job, ticket.at[0], nan, nan, CopyOutcome.DIED)
                self._died[job] = self._died.get(job, 0) + 1

    def _write(self, job: int, server: int, wait: float, received: float, outcome: CopyOutcome) -> None:
        copy, pool = self._died.get(job, 0), bisect_right(self._first_of_pool, server) - 1
        end = self._dispatcher.env.now
        self._records.write(
            CopyRecord(job, copy, pool, server, wait, received, 0, outcome, StateAtCancellation.NOT_CANCELLED, nan, end)
        )
