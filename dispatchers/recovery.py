"""Dispatching again what died with servers, exactly once.

A dispatcher learns of a death when its connection ends. It must not dispatch the dead servers' tasks again at once: a
waiting task may just have been stolen, its new server may tell so any moment, and then it would be served twice. Every
server that is left says ``Noticed`` to every dispatcher when its own connection to the dead has ended; messages between
two agents keep their order, so that whatever it had to tell of a task it got from the dead (``Moved``), or sent to them
in vain (``Missing``), has come by then. When all have noticed, the tasks that are still recorded at the dead, and the
missing ones, are nowhere. No clock is involved: a server that is paused only delays the recovery.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.protocol import Missing, Noticed, ProbeReply

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher

#: The queue length that a dead server is given in reply to a probe: no policy prefers it.
UNREACHABLE = 2**31


class Recovery:
    """What a dispatcher does about dead servers."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self.dispatched_again = 0
        self._dispatcher = dispatcher
        self._live = list(range(dispatcher.servers))
        self._rng = dispatcher.env.stream(f"dispatcher/{dispatcher.index}/recovery")
        self._awaited: dict[tuple[int, int], set[int]] = {}  # by dead servers: those that have not noticed yet
        self._missing: set[tuple[int, int]] = set()  # job and task

    def on_lost(self, first: int, last: int) -> None:
        """Stop using servers ``first`` to ``last``, and wait until all others have noticed their death."""
        dead = range(first, last + 1)
        self._live = [server for server in self._live if server not in dead]
        for awaited in self._awaited.values():
            awaited.difference_update(dead)
        self._awaited[first, last] = set(self._live)
        policy = self._dispatcher.policy
        policy.on_lost(first, last)
        self._recover()

    def on_noticed(self, noticed: Noticed) -> None:
        """Note that ``noticed.sender`` will hear no more from the dead."""
        awaited = self._awaited.get((noticed.first, noticed.last))
        if awaited is None:  # it noticed before this dispatcher did
            self._dispatcher.on_lost(noticed.first, noticed.last)
            awaited = self._awaited.get((noticed.first, noticed.last), set())
        awaited.discard(noticed.sender)
        self._recover()

    def on_missing(self, missing: Missing) -> None:
        """Note that a task was on its way to a server that has died."""
        self._missing.add((missing.job, missing.task))

    def probe(self, server: int, job: int) -> bool:
        """Answer a probe of a dead server in its place; return whether it is dead."""
        if server in self._live:
            return False
        dispatcher = self._dispatcher
        reply = ProbeReply(dispatcher.address, server, job, UNREACHABLE)
        dispatcher.env.call_at(dispatcher.env.now, lambda: dispatcher.policy.on_probe_reply(reply))
        return True

    def instead_of(self, server: int) -> int:
        """Return the server itself if it is alive, else a live one, uniformly chosen."""
        if server in self._live or not self._live:
            return server
        return self._live[self._rng.integer(len(self._live))]

    def _recover(self) -> None:
        for dead in [dead for dead, awaited in self._awaited.items() if not awaited]:
            del self._awaited[dead]
            if self._live:
                self._dispatch_again(range(dead[0], dead[1] + 1))

    def _dispatch_again(self, dead: range) -> None:
        dispatcher = self._dispatcher
        for job, ticket in list(dispatcher.in_system.items()):
            gone = [task for task, server in enumerate(ticket.at) if server in dead or (job, task) in self._missing]
            for task in gone:
                self._missing.discard((job, task))
                self.dispatched_again += 1
                dispatcher.place_again(job, task)
