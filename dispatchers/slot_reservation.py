"""Placing a job of several tasks whole or not at all, where servers have finite buffers.

A job one of whose tasks meets a full buffer is dropped, and nothing of it is served (Weng and Wang 2021). Between the
probes and the tasks of one dispatcher another may take the last slots, so the dispatcher first *reserves* all slots:

    ReserveSlots to every server of the job         -> SlotsReserved or SlotsRefused from each
    all have reserved: Commit, with each task       one has refused: ReleaseSlots to the others, the job is dropped

A reserved slot is not given to anyone else, and no task is sent before all slots are reserved, so that no race can end
with half a job served. It costs one round trip more for each job and two messages more per server; and while slots are
reserved for a job that will be dropped, another may be dropped for want of them. Jobs of one task are placed directly:
a single Assign is whole by itself.

A task that is dispatched again after a server has died is placed directly too; if it meets a full buffer then, its job
counts as dropped though other tasks of it were served.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from testbed.core.messages import ReleaseSlots, ReserveSlots, SlotsRefused, SlotsReserved

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher


class _Places:
    """The slots that are asked for a job, by server in the order of asking, and those that are reserved."""

    __slots__ = ("asked", "refused", "reserved", "unanswered")

    def __init__(self) -> None:
        self.asked: defaultdict[int, deque[int]] = defaultdict(deque)
        self.unanswered = 0
        self.reserved: Counter[int] = Counter()
        self.refused = False


class Holding:
    """What a dispatcher does to place jobs whole; ``assign`` places a task directly."""

    def __init__(self, dispatcher: Dispatcher, assign: Callable[[int, int], None]) -> None:
        self._dispatcher = dispatcher
        self._assign = assign
        self._open: dict[int, _Places] = {}  # by job, from its first task on

    def assign(self, job: int, server: int) -> None:
        """Take the choice for the job's next task; with the last one, ask for the places."""
        ticket = self._dispatcher.in_system[job]
        if len(ticket.at) == 0 and ticket.remaining == 1:
            self._assign(job, server)
            return
        if not ticket.at:
            self._open[job] = _Places()
        ticket.at.append(server)
        if len(ticket.at) == ticket.remaining:
            for chosen, places in Counter(ticket.at).items():
                self._ask(job, chosen, places)

    def _ask(self, job: int, server: int, places: int) -> None:
        dispatcher = self._dispatcher
        asked = self._open[job]
        asked.asked[server].append(places)
        asked.unanswered += 1
        dispatcher.env.send(ReserveSlots(server, dispatcher.address, job, places))

    def on_slots_reserved(self, reserved: SlotsReserved) -> None:
        """Note that a server has reserved the slots."""
        places = self._open[reserved.job]
        places.reserved[reserved.sender] += places.asked[reserved.sender].popleft()
        self._answered(reserved.job, places)

    def on_slots_refused(self, refused: SlotsRefused) -> None:
        """Note that a server has refused: the job will be dropped."""
        places = self._open[refused.job]
        places.asked[refused.sender].popleft()
        places.refused = True
        self._answered(refused.job, places)

    def _answered(self, job: int, places: _Places) -> None:
        places.unanswered -= 1
        self._settle(job, places)

    def _settle(self, job: int, places: _Places) -> None:
        """Commit or release, when every server has answered."""
        if places.unanswered:
            return
        del self._open[job]
        dispatcher = self._dispatcher
        send, address = dispatcher.env.send, dispatcher.address
        if places.refused:
            for server, count in places.reserved.items():
                send(ReleaseSlots(server, address, job, count))
            dispatcher.drop(job)
        else:
            dispatcher.commit(job)

    def on_lost(self, first: int, last: int) -> None:
        """Choose live servers instead of the dead ones for tasks that are not committed yet, and ask them."""
        dispatcher = self._dispatcher
        recovery = dispatcher.recovery
        assert recovery is not None
        for job, places in list(self._open.items()):
            ticket = dispatcher.in_system[job]
            asking = len(ticket.at) == ticket.remaining
            for task, server in enumerate(ticket.at):
                if first <= server <= last:
                    ticket.at[task] = chosen = recovery.instead_of(server)
                    dispatcher.policy.on_moved(server, chosen)
                    if asking and not places.refused:
                        self._ask(job, chosen, 1)
            for server in [server for server in places.asked if first <= server <= last]:
                places.unanswered -= len(places.asked.pop(server))
            for server in [server for server in places.reserved if first <= server <= last]:
                del places.reserved[server]
            if asking:
                self._settle(job, places)
