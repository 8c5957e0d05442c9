"""Dispatching again what died with servers, exactly once.

A dispatcher knows of each task the server where it is, according to the messages so far. It learns of a death when its
connection ends, but must not dispatch again what it believes to be there: a waiting task may just have been stolen, its
new server may report so any moment, and then it would be served twice. So it waits until every server that is left has
sent ``PeerDown``, which each does when its own connection to the dead has ended, after all its other reports:

* a server that has got a task reports so at once (``Moved``). Messages between two agents keep their order, so whatever
  it got from the dead is known before its ``PeerDown``;
* a server that has sent a task away reports so as well, when the other has received it or has died. Else a task that
  died with a server whose own report was cut off would stay where it was before, and never be missed.

With several deaths the dispatcher waits until all servers have reported all of them: a task may have gone from one dead
server over another to a live one. Then every task that is recorded at a dead server is nowhere. Where tasks never move,
the end of the dispatcher's own connection is enough. No clock is involved: a server that is paused only delays the
recovery.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from typing_extensions import override

from dispatchers.jobs import Jobs
from dispatchers.live_servers import LiveServers
from dispatchers.placement import Placement
from dispatchers.probes import Probes
from dispatchers.ticket import Ticket
from testbed.core.messages import Assign, Message, PeerDown


class Recovery:
    """Recovers from the failures of servers, for a placement that knows which are up (``live``).

    ``tasks_move`` says whether servers move tasks among themselves.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {PeerDown: "on_peer_down"}

    def __init__(self, placement: Placement, *, tasks_move: bool = False) -> None:
        assert placement.live is not None, "a placement without the servers that are up"
        self.live = placement.live
        self.probes = RecoveringProbes(placement.jobs, self.live)
        self._placement = placement
        self._jobs = placement.jobs
        self._tasks_move = tasks_move
        self._returning: list[range] = []  # up again, while notices of their failure are still awaited
        self._awaited: dict[tuple[int, int], set[int]] = {}  # by dead servers: those whose notice is awaited
        self._early: dict[tuple[int, int], set[int]] = {}  # those whose notice came before the connection ended here

    def assign(self, job: int, server: int) -> None:
        """Place the next task of a job on a server, or instead of a dead one; those placed once more go first."""
        chosen = self.live.instead_of(server)
        jobs = self._jobs
        ticket = jobs.in_system[job]
        if ticket.again:
            *ticket.again, task = ticket.again
            ticket.at[task] = chosen
            moves = ticket.moves.get(task, 0)
            jobs.env.send(Assign(chosen, jobs.address, job, task, ticket.job_type, ticket.sizes[task], moves))
        else:
            self._placement.assign(job, chosen)
        if chosen != server:
            jobs.policies.of(job).on_moved(server, chosen)

    def on_down(self, first: int, last: int) -> None:
        """Stop using servers ``first`` to ``last``, and wait until all others have reported their death."""
        self.live.on_down(first, last)
        for awaited in self._awaited.values():
            awaited.difference_update(range(first, last + 1))
        if self._tasks_move:
            self._awaited[first, last] = set(self.live.addresses) - self._early.pop((first, last), set())
        for policy in self._jobs.policies.all():
            policy.on_down(first, last)
        self._placement.on_down(first, last)
        self._recover()

    def on_up(self, first: int, last: int) -> None:
        """Use servers ``first`` to ``last`` again, as soon as everything that died with them is placed again."""
        self._returning.append(range(first, last + 1))
        self._recover()

    def on_peer_down(self, notice: PeerDown) -> None:
        """Note that ``notice.sender`` will get no more messages from the dead."""
        group = notice.first, notice.last
        if group in self._awaited:
            self._awaited[group].discard(notice.sender)
            self._recover()
        else:  # messages from the dead to this dispatcher may still be on their way
            self._early.setdefault(group, set()).add(notice.sender)

    def _recover(self) -> None:
        if any(self._awaited.values()):
            return
        self._awaited.clear()
        if self.live:
            self._place_lost()
        if self._returning:
            self._take_back()

    def _take_back(self) -> None:
        """Use the servers that are up again. If no other was up, what died could not be placed until now."""
        back, self._returning = self._returning, []
        self.live.use_again({server for servers in back for server in servers})
        self._place_lost()
        for servers in back:
            self.live.down.difference_update(servers)
            for policy in self._jobs.policies.all():
                policy.on_up(servers[0], servers[-1])

    def _place_lost(self) -> None:
        """Place once more what is recorded at dead servers."""
        down = self.live.down
        for job, ticket in list(self._jobs.in_system.items()):
            gone = [task for task, at in enumerate(ticket.at) if at in down and task not in ticket.again]
            if gone:
                self._jobs.dispatched_again += len(gone)
                self._place_again(job, ticket, gone)

    def _place_again(self, job: int, ticket: Ticket, tasks: list[int]) -> None:
        """Have the policy place some of a job's tasks once more: like a job of so many tasks.

        A policy counts the tasks of a job and does not distinguish them, so that it may just as well place one of these
        for one that it was about to place anyhow.
        """
        ticket.again = [*ticket.again, *tasks]
        policy = self._jobs.policies.of(job)
        if len(tasks) == 1:
            policy.place(job)
        else:
            policy.place_tasks(job, len(tasks))


class RecoveringProbes(Probes):
    """Sends probes and reservations to servers that are up; a policy learns that the others will not reply."""

    def __init__(self, jobs: Jobs, live: LiveServers) -> None:
        super().__init__(jobs)
        self._live = live

    @override
    def probe_all(self, servers: Sequence[int], job: int, round: int) -> None:
        """Ask the servers that are up, and tell the policy of the others."""
        down = self._live.down
        if down:
            env = self._env
            for server in servers:
                if server in down:
                    env.call_at(env.now, partial(self._tell_unreachable, server, job, round))
            servers = [server for server in servers if server not in down]
        super().probe_all(servers, job, round)

    def _tell_unreachable(self, server: int, job: int, round: int) -> None:
        self._policies.of(job).on_unreachable(server, job, round)

    @override
    def reserve(self, server: int, job: int, number: int) -> int:
        """Put a reservation into the queue of a server that is up; return it."""
        return super().reserve(self._live.instead_of(server), job, number)
