"""Least outstanding: place the job on a server with the fewest unfinished tasks of this dispatcher.

It asks nobody: a dispatcher counts the tasks that it has placed and that have not yet been reported done or dropped.
With one dispatcher and no message delay that is joining the shortest queue; with several, each sees only its own tasks;
with delay it is better informed than probing, as it knows of its own tasks in flight. Ties are broken uniformly at
random. Servers that have died are left out.

Servers are grouped by their count. A job raises one count by one and a finished task lowers one by one, so the lowest
group moves by at most one step at a time, and a job's cost does not depend on the number of servers.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.server_set import ServerSet
from dispatchers.view import DispatcherView
from testbed.core.messages import Done

DEAD = -1  # in place of the count of a server that has died


class LeastOutstanding(Policy):
    """A server with the fewest unfinished tasks of this dispatcher."""

    name = "least-outstanding"
    source = "common practice ('least connections'); local form of join the shortest queue"
    theory = "testbed.theory.queue_aware_policies:LEAST_OUTSTANDING"

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._counts = [0] * dispatcher.servers
        self._groups = [ServerSet(range(dispatcher.servers))]  # by count
        self._least = 0  # the lowest count that some server has

    @override
    def place(self, job: int) -> None:
        """Place the job on a server of the lowest group; on any when all have died."""
        group = self._groups[self._least]
        if not group:
            self.dispatcher.assign(job, 0)
            return
        server = group.pick(self.dispatcher.rng.uniform())
        self._move(server, self._least + 1)
        if not group:
            self._least += 1
        self.dispatcher.assign(job, server)

    @override
    def on_down(self, first: int, last: int) -> None:
        for server in range(first, last + 1):
            self._groups[self._counts[server]].remove(server)
            self._counts[server] = DEAD
        self._find_least()

    @override
    def on_up(self, first: int, last: int) -> None:
        for server in range(first, last + 1):
            self._counts[server] = 0
            self._groups[0].add(server)
        self._least = 0

    @override
    def on_done(self, done: Done) -> None:
        self._lower(done.sender)

    @override
    def on_moved(self, old: int, new: int) -> None:
        if self._counts[new] != DEAD:
            self._move(new, self._counts[new] + 1)
        self._lower(old)
        self._find_least()

    def _find_least(self) -> None:
        while not self._groups[self._least] and self._least < len(self._groups) - 1:
            self._least += 1

    def _lower(self, server: int) -> None:
        count = self._counts[server] - 1
        if count >= 0:
            self._move(server, count)
            self._least = min(self._least, count)

    def _move(self, server: int, count: int) -> None:
        groups = self._groups
        if count == len(groups):
            groups.append(ServerSet())
        groups[self._counts[server]].remove(server)
        groups[count].add(server)
        self._counts[server] = count
