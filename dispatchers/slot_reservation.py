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
from typing import ClassVar

from typing_extensions import override

from dispatchers.jobs import Jobs
from dispatchers.live_servers import LiveServers
from dispatchers.placement import DirectPlacement
from testbed.core.messages import Commit, Message, ReleaseSlots, ReserveSlots, SlotsRefused, SlotsReserved
from testbed.core.outcomes import JobOutcome


class _Request:
    """The slots that are asked for a job, by server in the order of asking, and those that are reserved."""

    __slots__ = ("asked", "refused", "reserved", "unanswered")

    def __init__(self) -> None:
        self.asked: defaultdict[int, deque[int]] = defaultdict(deque)
        self.unanswered = 0
        self.reserved: Counter[int] = Counter()
        self.refused = False


class SlotReservation(DirectPlacement):
    """Places jobs of several tasks in reserved slots, and those of one task directly."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **DirectPlacement.HANDLES,
        SlotsReserved: "on_slots_reserved",
        SlotsRefused: "on_slots_refused",
    }

    def __init__(self, jobs: Jobs, live: LiveServers | None = None) -> None:
        super().__init__(jobs, live)
        self._open: dict[int, _Request] = {}  # by job, from its first task on

    @override
    def assign(self, job: int, server: int) -> None:
        """Note the server of the job's next task; with the last one, ask for the slots."""
        ticket = self._in_system[job]
        if len(ticket.at) == 0 and ticket.remaining == 1:
            super().assign(job, server)
            return
        if not ticket.at:
            self._open[job] = _Request()
        ticket.at.append(server)
        if len(ticket.at) == ticket.remaining:
            for chosen, slots in Counter(ticket.at).items():
                self._ask(job, chosen, slots)

    def _ask(self, job: int, server: int, slots: int) -> None:
        request = self._open[job]
        request.asked[server].append(slots)
        request.unanswered += 1
        self._env.send(ReserveSlots(server, self._address, job, slots))

    def on_slots_reserved(self, reserved: SlotsReserved) -> None:
        """Note that a server has reserved the slots."""
        request = self._open[reserved.job]
        request.reserved[reserved.sender] += request.asked[reserved.sender].popleft()
        request.unanswered -= 1
        self._settle(reserved.job, request)

    def on_slots_refused(self, refused: SlotsRefused) -> None:
        """Note that a server has refused: the job will be dropped."""
        request = self._open[refused.job]
        request.asked[refused.sender].popleft()
        request.refused = True
        request.unanswered -= 1
        self._settle(refused.job, request)

    def _settle(self, job: int, request: _Request) -> None:
        """Commit or release, when every server has answered."""
        if request.unanswered:
            return
        del self._open[job]
        if request.refused:
            for server, count in request.reserved.items():
                self._env.send(ReleaseSlots(server, self._address, job, count))
            self._drop(job)
        else:
            self._commit(job)

    def _commit(self, job: int) -> None:
        """Send the tasks of a job to the servers that have reserved slots for them."""
        ticket = self._in_system[job]
        for task, server in enumerate(ticket.at):
            self._env.send(Commit(server, self._address, job, task, ticket.job_type, ticket.sizes[task]))

    def _drop(self, job: int) -> None:
        """Drop a job of which no task has been sent to a server; its ticket says where they would have gone."""
        for task, server in enumerate(self._in_system[job].at):
            self._tell_dropped(job, task, server)
        self.jobs.end(job, JobOutcome.DROPPED)

    @override
    def on_down(self, first: int, last: int) -> None:
        """Choose other servers for tasks that are not committed yet, and ask those."""
        assert self.live is not None, "the dispatcher recovers from failures"
        for job, request in list(self._open.items()):
            ticket = self._in_system[job]
            asking = len(ticket.at) == ticket.remaining
            for task, server in enumerate(ticket.at):
                if first <= server <= last:
                    ticket.at[task] = chosen = self.live.instead_of(server)
                    self._policies.of(job).on_moved(server, chosen)
                    if asking and not request.refused:
                        self._ask(job, chosen, 1)
            for server in [server for server in request.asked if first <= server <= last]:
                request.unanswered -= len(request.asked.pop(server))
            for server in [server for server in request.reserved if first <= server <= last]:
                del request.reserved[server]
            if asking:
                self._settle(job, request)
