"""Copies of one job in the queues of several servers: the first to finish is the job, the others are cancelled.

A policy that makes copies places each of them with ``dispatcher.assign``, or several that know of each other (tied
requests) with ``dispatcher.assign_tied``. The dispatcher numbers a job's copies and keeps for each a state of
testbed.core.copy_life. A copy is ``SERVED``, "on a server, or on its way there", as soon as it is placed, since only
the server knows when its service begins. Three things end the copies that are not wanted any more:

* with the job's first ``Done`` the dispatcher cancels all that are left;
* where the policy cancels on start, the first ``Started`` that comes has the same effect. Another copy may have started
  by then; it is cancelled all the same. If it is done before its cancellation comes, it is the job;
* a tied copy cancels its peers when it starts, from server to server (testbed.core.messages.CancelCopy): the dispatcher
  only gets ``Cancelled``. At the first ``Done`` it cancels those copies whose peer died before it could.

The end of a copy that was done before its cancellation came is reported by its ``Done``, that of all others by
``Cancelled``; copies on a dead server end with the connection to it. When a job's last copy has ended and none of them
was done (servers have died, or one that had cancelled the others) the policy places the job once more.
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
from dispatchers.placement import Placement
from testbed.core.copy_life import OPEN, Event, State, advance
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Done, Message, Peer, Started
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.rows import CopyRecord


class Copy:
    """A copy on a server."""

    __slots__ = ("cancelled_at", "number", "placed_at", "server", "state")

    def __init__(self, server: int, number: int, placed_at: float) -> None:
        self.server = server
        self.number = number
        self.placed_at = placed_at
        self.cancelled_at = nan  # when the end, or the start, of another copy was reported
        self.state = State.SERVED


class Copying(Placement):
    """Places jobs in copies. ``cancels_on_start``: the start of one copy, not its end, cancels the others."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        Started: "on_started",
        Done: "on_done",
        Cancelled: "on_cancelled",
    }
    in_copies = True
    avoids_down_servers = True

    def __init__(self, jobs: Jobs, live: LiveServers | None = None, *, cancels_on_start: bool = False) -> None:
        super().__init__(jobs, live)
        self.copies: dict[int, list[Copy]] = {}  # of each job in the system or with a copy whose end is not known
        self._awaiting = AwaitingCancellation(jobs)
        self._first_of_pool = [pool.first for pool in jobs.pools]
        self._cancels_on_start = cancels_on_start
        self._numbers = [0] * jobs.surroundings.servers  # copies placed, by server
        self._in_system = jobs.in_system
        self._env = jobs.env
        self._address = jobs.address

    @property
    @override
    def awaiting_cancellation(self) -> int:
        return self._awaiting.jobs

    @override
    def assign(self, job: int, server: int) -> None:
        """Place the next copy of a job on a server.

        If that is down, or a failure has put another copy of the job there, the copy goes to another server; if none is
        left, it is not made.
        """
        copies = self.copies.setdefault(job, [])
        for order in self._place(copies, [server]):
            self._send(job, order, [])

    @override
    def assign_tied(self, job: int, servers: Sequence[int]) -> None:
        """Place copies of a job that know of each other: the one that starts cancels the others. See ``assign``."""
        copies = self.copies.setdefault(job, [])
        orders = self._place(copies, servers)
        for order in orders:
            others = [Peer(copies[other].server, other, copies[other].number) for other in orders if other != order]
            self._send(job, order, others)

    def _place(self, copies: list[Copy], servers: Sequence[int]) -> range:
        """Add a copy for each of the servers, or those in their place; return their numbers among the job's copies."""
        first = len(copies)
        for wanted in servers:
            server: int | None = wanted
            if self.live is not None:
                taken = {copy.server for copy in copies if copy.state in OPEN}
                server = self.live.apart_from(wanted, taken)
            if server is not None:
                self._numbers[server] += 1
                copies.append(Copy(server, self._numbers[server], self._env.now))
        return range(first, len(copies))

    def _send(self, job: int, order: int, peers: list[Peer]) -> None:
        ticket = self._in_system[job]
        copy = self.copies[job][order]
        # A job that is placed once more, after failures, uses its sizes once more.
        size = ticket.every_size[order % len(ticket.every_size)]
        self._env.send(
            AssignCopy(
                copy.server,
                self._address,
                job,
                order,
                copy.number,
                ticket.job_type,
                size,
                self._cancels_on_start,
                peers,
            )
        )

    # --- messages from servers ---

    def on_started(self, started: Started) -> None:
        """Cancel the other copies, unless this one is to be cancelled itself."""
        copies = self.copies.get(started.job)
        if copies is not None and copies[started.copy].state is State.SERVED:
            self._cancel_others(started.job, copies, copies[started.copy])

    def on_done(self, done: Done) -> None:
        """Note a finished copy; the first one is the job."""
        copies = self.copies.get(done.job)
        if copies is None or copies[done.task].state not in OPEN:
            self.jobs.done_twice += 1
            return
        copy = copies[done.task]
        ticket = self._in_system.pop(done.job, None)
        if ticket is None:
            copy.state = advance(copy.state, Event.TOO_LATE)
            outcome, state = CopyOutcome.SUPERSEDED, StateAtCancellation.ALREADY_DONE
            self._ended(done.job, done.task, done.wait, done.service, outcome, state)
            return
        was_cancelled = copy.state is State.CANCELLED
        copy.state = advance(copy.state, Event.FINISH)
        self._cancel_others(done.job, copies, copy)
        self.jobs.policies.of(done.job).on_done(done)
        wait = copy.placed_at - ticket.arrival + done.wait  # since the job's arrival
        last = Done(done.to, copy.server, done.job, 0, wait, done.service, done.position, done.lateness)
        self._awaiting.job_done(done.job, ticket, last, len(copies))
        state = StateAtCancellation.ALREADY_DONE if was_cancelled else StateAtCancellation.NOT_CANCELLED
        self._ended(done.job, done.task, done.wait, done.service, CopyOutcome.WON, state)

    def on_cancelled(self, cancelled: Cancelled) -> None:
        """Note that a cancelled copy has ended."""
        copy = self.copies[cancelled.job][cancelled.copy]
        if copy.state is State.SERVED:  # cancelled by a peer that has started, which the dispatcher does not know
            copy.state = advance(copy.state, Event.CANCEL)
        copy.state = advance(copy.state, Event.CONFIRMED)
        self._ended(
            cancelled.job, cancelled.copy, cancelled.wait, cancelled.received, CopyOutcome.SUPERSEDED, cancelled.state
        )

    @override
    def on_down(self, first: int, last: int) -> None:
        """Note that the copies on servers ``first`` to ``last`` have died with them."""
        for job, copies in list(self.copies.items()):
            for order, copy in enumerate(copies):
                if first <= copy.server <= last and copy.state in OPEN:
                    copy.state = advance(copy.state, Event.LOSE)
                    self._ended(job, order, nan, nan, CopyOutcome.DIED, StateAtCancellation.NOT_CANCELLED)

    def _cancel_others(self, job: int, copies: list[Copy], wanted: Copy) -> None:
        for order, copy in enumerate(copies):
            if copy is not wanted and copy.state is State.SERVED:
                copy.state = advance(copy.state, Event.CANCEL)
                copy.cancelled_at = self._env.now
                self._env.send(CancelCopy(copy.server, self._address, self._address, job, order, copy.number))

    def _ended(
        self, job: int, order: int, wait: float, received: float, outcome: CopyOutcome, state: StateAtCancellation
    ) -> None:
        copies = self.copies[job]
        copy = copies[order]
        delay = self._env.now - copy.cancelled_at if outcome is CopyOutcome.SUPERSEDED else nan
        pool = bisect_right(self._first_of_pool, copy.server) - 1
        self._awaiting.copy_ended(CopyRecord(job, order, pool, copy.server, wait, received, 0, outcome, state, delay))
        if not any(other.state in OPEN for other in copies):
            if job in self._in_system:
                self._place_again(job)
            else:
                del self.copies[job]

    def _place_again(self, job: int) -> None:
        if self.live:
            self.jobs.dispatched_again += 1
            self.jobs.policies.of(job).place(job)

    @override
    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write what is left to the tickets and records; a job with a copy on a server that is up is not lost."""
        for job, ticket in self._in_system.items():
            copies = self.copies.get(job, [])
            open_at = [copy.server for copy in copies if copy.state in OPEN] or [copy.server for copy in copies]
            ticket.at = [server for server in open_at if not is_lost(server)] or open_at
        self._awaiting.close()
