"""Least outstanding: place the job on a server with the fewest unfinished tasks of this dispatcher.

It asks nobody: a dispatcher counts the tasks that it has placed and that have not yet been reported done or dropped.
With one dispatcher and no message delay that is joining the shortest queue; with several, each sees only its own tasks;
with delay it is better informed than probing, as it knows of its own tasks in flight. Ties are broken uniformly at
random. A server that has died never finishes its tasks, so it is passed over once its count is above the others'.

Servers are grouped by their count. A job raises one count by one and a finished task lowers one by one, so the lowest
group moves by at most one step at a time, and a job's cost does not depend on the number of servers.
"""

from __future__ import annotations

from typing import Any

from dispatchers.policy import Policy
from dispatchers.server_set import ServerSet
from testbed.protocol import Done


class LeastOutstanding(Policy):
    """A server with the fewest unfinished tasks of this dispatcher."""

    name = "least-outstanding"
    source = "common practice ('least connections'); local form of join the shortest queue"

    def __init__(self, parameters: Any, dispatcher: Any) -> None:
        super().__init__(parameters, dispatcher)
        self._counts = [0] * dispatcher.servers
        self._groups = [ServerSet(range(dispatcher.servers))]  # by count
        self._least = 0  # the lowest count that some server has

    def place(self, job: int) -> None:
        """Place the job on a server of the lowest group."""
        group = self._groups[self._least]
        server = group.pick(self.dispatcher.rng.uniform())
        self._move(server, self._least + 1)
        if not group:
            self._least += 1
        self.dispatcher.assign(job, server)

    def on_done(self, done: Done) -> None:
        """Lower the server's count."""
        self._lower(done.sender)

    def on_moved(self, old: int, new: int) -> None:
        """Count the task at its new server."""
        self._move(new, self._counts[new] + 1)
        self._lower(old)
        while not self._groups[self._least]:
            self._least += 1

    def _lower(self, server: int) -> None:
        count = self._counts[server] - 1
        self._move(server, count)
        self._least = min(self._least, count)

    def _move(self, server: int, count: int) -> None:
        groups = self._groups
        if count == len(groups):
            groups.append(ServerSet())
        groups[self._counts[server]].remove(server)
        groups[count].add(server)
        self._counts[server] = count
