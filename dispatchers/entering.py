"""Jobs for pools with central queues: they enter by the pool agent, which says what becomes of them.

The dispatcher chooses a pool, and the pool agent (servers.pool_agent) does all the rest: queues, thresholds, replicas
and cancellations, and dispatching again what dies with servers. One ``CopyEnded`` comes for each copy of a job, and
``Left`` when the job is done, with some of the former perhaps still to come (dispatchers.closing).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dispatchers.closing import Closing
from testbed.protocol import CopyEnded, Enter, Left

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from testbed.measure.records import CopyRecords


class Entering:
    """What a dispatcher does about jobs in central queues."""

    def __init__(self, dispatcher: Dispatcher, records: CopyRecords, pool_agent: int) -> None:
        self.closing = Closing(dispatcher, records)
        self._dispatcher = dispatcher
        self._pool_agent = pool_agent

    def enter(self, job: int, pool: int, thresholds: Sequence[float] = ()) -> None:
        """Have a job join the queue of a pool, with thresholds of its own if there are any."""
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system[job]
        dispatcher.env.send(
            Enter(
                self._pool_agent,
                dispatcher.address,
                job,
                ticket.kind,
                pool,
                list(ticket.every_size),
                list(thresholds),
            )
        )

    def on_copy_ended(self, copy: CopyEnded) -> None:
        """Note what has become of a copy."""
        self.closing.copy_ended(
            copy.job,
            copy.order,
            copy.pool,
            copy.server,
            copy.wait,
            copy.received,
            copy.preemptions,
            copy.fate,
            copy.met,
            copy.delay,
        )

    def on_left(self, left: Left) -> None:
        """Note that a job is done."""
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system.pop(left.job, None)
        if ticket is None:
            dispatcher.done_twice += 1
            return
        self.closing.job_done(
            left.job,
            ticket,
            server=left.server,
            wait=left.wait,
            service=left.service,
            position=0,
            lateness=left.lateness,
            copies=left.copies,
        )
