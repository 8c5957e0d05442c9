"""Dispatching again what died with servers, exactly once.

A dispatcher knows of each task the server where it is, as far as it has been told. It learns of a death when its
connection ends, but must not dispatch again what it believes to be there: a waiting task may just have been stolen, its
new server may tell so any moment, and then it would be served twice. So it waits until every server that is left has
said ``PeerDown``, which each does when its own connection to the dead has ended, after all that it has to tell:

* a server that has got a task tells so at once (``Moved``). Messages between two agents keep their order, so whatever
  it got from the dead is known before its ``PeerDown``;
* a server that has sent a task away tells so as well, when the other has received it or has died. Else a task that died
  with a server whose own word was cut off would stay where it was before, and never be missed.

With several deaths the dispatcher waits until all of them have been noticed by all: a task may have gone from one dead
server over another to a live one. Then every task that is recorded at a dead server is nowhere. Where tasks never move,
the end of the dispatcher's own connection is enough. No clock is involved: a server that is paused only delays the
recovery.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from typing import TYPE_CHECKING

from testbed.core.messages import Assign, PeerDown, ProbeReply

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from dispatchers.ticket import Ticket

#: The queue length that a dead server is given in reply to a probe: no policy prefers it.
UNREACHABLE = 2**31


class Recovery:
    """What a dispatcher does about dead servers."""

    def __init__(self, dispatcher: Dispatcher, tasks_move: bool) -> None:
        self.dispatched_again = 0
        self._dispatcher = dispatcher
        self._tasks_move = tasks_move
        self._probe = dispatcher.probe
        self._assign = dispatcher.assign  # or the assignment of whole jobs, where places are held
        # Servers that have queues; jobs for the others enter by the pool agent, which sees to their deaths itself.
        own = [pool for pool in dispatcher.pools if not pool.central]
        self._placed_on = {server for pool in own for server in range(pool.first, pool.first + pool.servers)}
        self._live = sorted(self._placed_on)
        self._dead: set[int] = set()
        self._returning: list[range] = []  # there again, while something is still awaited
        self._rng = dispatcher.env.stream(f"dispatcher/{dispatcher.index}/recovery")
        self._awaited: dict[tuple[int, int], set[int]] = {}  # by dead servers: those that have not noticed yet
        self._early: dict[tuple[int, int], set[int]] = {}  # those that noticed before this dispatcher did

    def on_lost(self, first: int, last: int) -> None:
        """Stop using servers ``first`` to ``last``, and wait until all others have noticed their death."""
        dead = range(first, last + 1)
        self._dead.update(dead)
        self._live = [server for server in self._live if server not in dead]
        for awaited in self._awaited.values():
            awaited.difference_update(dead)
        if self._tasks_move:
            self._awaited[first, last] = set(self._live) - self._early.pop((first, last), set())
        dispatcher = self._dispatcher
        for policy in dispatcher.policies:
            policy.on_lost(first, last)
        if dispatcher.holding is not None:
            dispatcher.holding.on_lost(first, last)
        self._recover()

    def on_found(self, first: int, last: int) -> None:
        """Use servers ``first`` to ``last`` again, as soon as all is recovered that died with them."""
        self._returning.append(range(first, last + 1))
        self._recover()

    def _take_back(self) -> None:
        """Use those again that are there again. Without any other alive, what died could not be placed until now."""
        back, self._returning = self._returning, []
        found = {server for servers in back for server in servers}
        self._live = sorted({*self._live, *(found & self._placed_on)})
        self._place_lost()
        for servers in back:
            self._dead.difference_update(servers)
            for policy in self._dispatcher.policies:
                policy.on_found(servers[0], servers[-1])

    def on_peer_down(self, notice: PeerDown) -> None:
        """Note that ``notice.sender`` will hear no more from the dead."""
        group = notice.first, notice.last
        if group in self._awaited:
            self._awaited[group].discard(notice.sender)
            self._recover()
        else:  # the dead may still have something to say to this dispatcher
            self._early.setdefault(group, set()).add(notice.sender)

    # --- what the dispatcher does with these instead of its own methods, once a server has died ---

    def probe(self, server: int, job: int, question: int = 0) -> None:
        """Probe a server, or answer in the place of a dead one."""
        if server not in self._dead:
            self._probe(server, job, question)
            return
        dispatcher = self._dispatcher
        reply = ProbeReply(dispatcher.address, server, job, UNREACHABLE, question)
        dispatcher.env.call_at(dispatcher.env.now, lambda: dispatcher.policy_of(job).on_probe_reply(reply))

    def probe_all(self, servers: Sequence[int], job: int, question: int) -> None:
        """Probe several servers, or answer in their place."""
        for server in servers:
            self.probe(server, job, question)

    def assign(self, job: int, server: int) -> None:
        """Place the next task of a job on a server, or instead of a dead one; those placed once more go first."""
        chosen = self.instead_of(server)
        dispatcher = self._dispatcher
        ticket = dispatcher.in_system[job]
        if ticket.again:
            *ticket.again, task = ticket.again
            ticket.at[task] = chosen
            moves = ticket.moves.get(task, 0)
            dispatcher.env.send(
                Assign(chosen, dispatcher.address, job, task, ticket.job_type, ticket.sizes[task], moves)
            )
        else:
            self._assign(job, chosen)
        if chosen != server:
            dispatcher.policy_of(job).on_moved(server, chosen)

    # --- choosing and placing ---

    def instead_of(self, server: int) -> int:
        """Return the server itself if it is alive, else a live one, uniformly chosen."""
        if server not in self._dead or not self._live:
            return server
        return self._live[self._rng.integer(len(self._live))]

    def apart_from(self, server: int, taken: Set[int]) -> int | None:
        """Return the server itself if it is alive and not ``taken``, else one that is, uniformly chosen, or None.

        With no server alive it is the server itself, or none if that is taken.
        """
        while server in taken or server in self._dead:
            if len(self._live) <= sum(other not in self._dead for other in taken):
                return server if not self._live and server not in taken else None
            server = self._live[self._rng.integer(len(self._live))]
        return server

    @property
    def can_place(self) -> bool:
        """Whether any server is alive."""
        return bool(self._live)

    def _recover(self) -> None:
        if any(self._awaited.values()):
            return
        self._awaited.clear()
        if self.can_place:
            self._place_lost()
        if self._returning:
            self._take_back()

    def _place_lost(self) -> None:
        """Place once more what is recorded at dead servers."""
        dispatcher = self._dispatcher
        for job, ticket in list(dispatcher.in_system.items()):
            gone = [task for task, at in enumerate(ticket.at) if at in self._dead and task not in ticket.again]
            if gone:
                self.dispatched_again += len(gone)
                self._place_again(job, ticket, gone)

    def _place_again(self, job: int, ticket: Ticket, tasks: list[int]) -> None:
        """Have the policy place some of a job's tasks once more: like a job of so many tasks.

        A policy counts the tasks of a job and does not tell them apart, so that it may just as well place one of
        these for one that it was about to place anyhow.
        """
        ticket.again = [*ticket.again, *tasks]
        if len(tasks) == 1:
            self._dispatcher.policy_of(job).place(job)
        else:
            self._dispatcher.policy_of(job).place_tasks(job, len(tasks))
