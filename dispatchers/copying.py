"""Copies of one job in the queues of several servers: the first to finish is the job, the others are cancelled.

A policy that makes copies places each of them with ``dispatcher.assign``; copies that are to know of each other (tied
requests) it places with ``dispatcher.assign_tied``. The dispatcher numbers a job's copies and keeps for each a state
of testbed.core.copy_life: a copy is ``SERVED``, "on a server, or on its way there", from its placement on, since only
the server knows when its queue has let it through. What ends the copies that are not wanted any more:

* with the job's first ``Done`` the dispatcher cancels all that are left;
* where the policy cancels on start, the first ``Started`` that it hears of has the same effect. Another copy may have
  started meanwhile, which is cancelled all the same; should it be done before its cancellation comes, it is the job;
* a tied copy cancels its peers when it starts, from server to server (testbed.core.messages.CancelCopy): the dispatcher
  only hears ``Cancelled``, and needs to cancel nothing at the first ``Done`` but what a death has kept from it.

A copy that was done before its cancellation came is known from its ``Done``, all others from ``Cancelled``, and those
of a dead server from the end of the connection. When a job's last copy has ended and none of them was done (servers
have died, or one that had cancelled the others) the policy places the job once more.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from math import nan
from typing import TYPE_CHECKING

from dispatchers.awaiting_cancellation import Closing
from testbed.core.copy_life import OPEN, Event, State, advance
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Done, Peer, Started
from testbed.core.outcomes import CopyOutcome, StateAtCancellation

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from testbed.core.records import CopyRecords


class Copy:
    """A copy on a server."""

    __slots__ = ("cancelled_at", "number", "placed_at", "server", "state")

    def __init__(self, server: int, number: int, placed_at: float) -> None:
        self.server = server
        self.number = number
        self.placed_at = placed_at
        self.cancelled_at = nan  # when another was heard to have finished, or started
        self.state = State.SERVED


class Copying:
    """What a dispatcher does about copies. ``first_of_pool`` are the addresses of each pool's first server."""

    def __init__(
        self, dispatcher: Dispatcher, records: CopyRecords, first_of_pool: Sequence[int], *, cancels_on_start: bool
    ) -> None:
        self.closing = Closing(dispatcher, records)
        self._dispatcher = dispatcher
        self._first_of_pool = first_of_pool
        self._cancels_on_start = cancels_on_start
        self._copies: dict[int, list[Copy]] = {}  # of each job in the system or with a copy whose end is not known
        self._numbers = [0] * dispatcher.servers  # copies placed, by server

    def assign(self, job: int, server: int) -> None:
        """Place the next copy of a job on a server.

        If that has died, or a death has put another copy of the job there, the copy goes to another server; if none is
        left, it is not made.
        """
        copies = self._copies.setdefault(job, [])
        for order in self._place(copies, [server]):
            self._send(job, order, [])

    def assign_tied(self, job: int, servers: Sequence[int]) -> None:
        """Place copies of a job that know of each other: the one that starts cancels the others. See ``assign``."""
        copies = self._copies.setdefault(job, [])
        orders = self._place(copies, servers)
        for order in orders:
            others = [Peer(copies[other].server, other, copies[other].number) for other in orders if other != order]
            self._send(job, order, others)

    def _place(self, copies: list[Copy], servers: Sequence[int]) -> range:
        """Add a copy for each of the servers, or those in their place; return their numbers among the job's copies."""
        dispatcher = self._dispatcher
        first = len(copies)
        for wanted in servers:
            server: int | None = wanted
            if dispatcher.recovery is not None:
                taken = {copy.server for copy in copies if copy.state in OPEN}
                server = dispatcher.recovery.apart_from(wanted, taken)
            if server is not None:
                self._numbers[server] += 1
                copies.append(Copy(server, self._numbers[server], dispatcher.env.now))
        return range(first, len(copies))

    def _send(self, job: int, order: int, peers: list[Peer]) -> None:
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system[job]
        copy = self._copies[job][order]
        # A job that is placed once more, after deaths, has its sizes once more.
        size = ticket.every_size[order % len(ticket.every_size)]
        dispatcher.env.send(
            AssignCopy(
                copy.server,
                dispatcher.address,
                job,
                order,
                copy.number,
                ticket.job_type,
                size,
                self._cancels_on_start,
                peers,
            )
        )

    # --- what servers tell ---

    def on_started(self, started: Started) -> None:
        """Cancel the other copies, unless this one is to be cancelled itself."""
        copies = self._copies.get(started.job)
        if copies is not None and copies[started.copy].state is State.SERVED:
            self._cancel_others(started.job, copies, copies[started.copy])

    def on_done(self, done: Done) -> None:
        """Note a finished copy; the first one is the job."""
        dispatcher = self._dispatcher
        copies = self._copies.get(done.job)
        if copies is None or copies[done.task].state not in OPEN:
            dispatcher.done_twice += 1
            return
        copy = copies[done.task]
        ticket = dispatcher.in_system.pop(done.job, None)
        if ticket is None:
            copy.state = advance(copy.state, Event.TOO_LATE)
            self._ended(
                done.job, done.task, done.wait, done.service, CopyOutcome.SUPERSEDED, StateAtCancellation.ALREADY_DONE
            )
            return
        state = StateAtCancellation.ALREADY_DONE if copy.state is State.CANCELLED else StateAtCancellation.NOT_CANCELLED
        copy.state = advance(copy.state, Event.FINISH)
        self._cancel_others(done.job, copies, copy)
        dispatcher.policy.on_done(done)
        self.closing.job_done(
            done.job,
            ticket,
            server=copy.server,
            wait=copy.placed_at - ticket.arrival + done.wait,
            service=done.service,
            position=done.position,
            lateness=done.lateness,
            copies=len(copies),
        )
        self._ended(done.job, done.task, done.wait, done.service, CopyOutcome.WON, state)

    def on_cancelled(self, cancelled: Cancelled) -> None:
        """Note that a cancelled copy has ended."""
        copy = self._copies[cancelled.job][cancelled.copy]
        if copy.state is State.SERVED:  # by a peer that has started; of that the dispatcher knows nothing
            copy.state = advance(copy.state, Event.CANCEL)
        copy.state = advance(copy.state, Event.CONFIRMED)
        self._ended(
            cancelled.job, cancelled.copy, cancelled.wait, cancelled.received, CopyOutcome.SUPERSEDED, cancelled.state
        )

    def on_lost(self, first: int, last: int) -> None:
        """Note that the copies on servers ``first`` to ``last`` have died with them."""
        for job, copies in list(self._copies.items()):
            for order, copy in enumerate(copies):
                if first <= copy.server <= last and copy.state in OPEN:
                    copy.state = advance(copy.state, Event.LOSE)
                    self._ended(job, order, nan, nan, CopyOutcome.DIED, StateAtCancellation.NOT_CANCELLED)

    def _cancel_others(self, job: int, copies: list[Copy], wanted: Copy) -> None:
        dispatcher = self._dispatcher
        for order, copy in enumerate(copies):
            if copy is not wanted and copy.state is State.SERVED:
                copy.state = advance(copy.state, Event.CANCEL)
                copy.cancelled_at = dispatcher.env.now
                dispatcher.env.send(
                    CancelCopy(copy.server, dispatcher.address, dispatcher.address, job, order, copy.number)
                )

    def _ended(
        self, job: int, order: int, wait: float, received: float, outcome: CopyOutcome, state: StateAtCancellation
    ) -> None:
        dispatcher = self._dispatcher
        copies = self._copies[job]
        copy = copies[order]
        delay = dispatcher.env.now - copy.cancelled_at if outcome is CopyOutcome.SUPERSEDED else nan
        pool = bisect_right(self._first_of_pool, copy.server) - 1
        self.closing.copy_ended(job, order, pool, copy.server, wait, received, 0, outcome, state, delay)
        if not any(other.state in OPEN for other in copies):
            if job in dispatcher.in_system:
                self._place_again(job)
            else:
                del self._copies[job]

    def _place_again(self, job: int) -> None:
        recovery = self._dispatcher.recovery
        if recovery is not None and recovery.can_place:
            recovery.dispatched_again += 1
            self._dispatcher.policy.place(job)

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """End the accounts at the end of the run; tickets of jobs that are left say where their copies are.

        ``is_lost(server)``: whether a server has died. A job with a copy on another one is not lost.
        """
        for job, ticket in self._dispatcher.in_system.items():
            copies = self._copies.get(job, [])
            open_at = [copy.server for copy in copies if copy.state in OPEN] or [copy.server for copy in copies]
            ticket.at = [server for server in open_at if not is_lost(server)] or open_at
        self.closing.close()
