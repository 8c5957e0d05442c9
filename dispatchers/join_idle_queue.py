"""Join the idle queue: a server that becomes idle reports to a dispatcher, which places a later job there.

Each dispatcher keeps a list of servers that have reported to it. A job goes to a server chosen uniformly from the list,
which leaves it; when the list is empty the job goes to a server chosen at random. An idle server reports to one
dispatcher chosen at random, and makes no other report until that one has been used (servers.server): it is known as
idle to one dispatcher only (the paper's JIQ-Random). All servers report at the start.

Where the paper is silent: a listed server may be busy by now, because another dispatcher placed a job there at random;
it stays listed, as in the paper, and may get the next job. With message delay a job that is placed at random can cross
a report of its server; the server may then be listed at two dispatchers until either uses it. One that is listed
already is not listed twice. With one server every job goes there. A server that has died takes one listed job with it.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.server_set import ServerSet
from dispatchers.view import DispatcherView


class JoinIdleQueue(Policy):
    """A server that has reported as idle, else one chosen at random."""

    name = "jiq"
    source = "Lu, Xie, Kliot, Geller, Larus and Greenberg 2011"
    theory = "testbed.theory.queue_aware_policies:JOIN_IDLE_QUEUE"
    idle_reports = True

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self.listed = ServerSet()  # the servers known as idle

    @override
    def place(self, job: int) -> None:
        """Place the job on a listed server if there is one."""
        dispatcher = self.dispatcher
        draw = dispatcher.rng.uniform()  # one number for either case
        if self.listed:
            server = self.listed.pick(draw)
            self.listed.remove(server)
        else:
            server = int(draw * dispatcher.servers)
        dispatcher.assign(job, server)

    @override
    def on_down(self, first: int, last: int) -> None:
        for server in [server for server in self.listed if first <= server <= last]:
            self.listed.remove(server)

    @override
    def on_idle(self, server: int) -> None:
        self.listed.add(server)
