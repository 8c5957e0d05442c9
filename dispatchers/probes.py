"""The probes and reservations that a dispatcher sends on behalf of its policy."""

from __future__ import annotations

from collections.abc import Sequence

from dispatchers.jobs import Jobs
from testbed.core.messages import Cancel, Probe, Reserve


class Probes:
    """Sends probes and reservations, and counts them. See dispatchers.view for what the methods do."""

    def __init__(self, jobs: Jobs) -> None:
        self.sent = 0
        self.cancellations = 0
        self._policies = jobs.policies
        self._in_system = jobs.in_system
        self._env = jobs.env
        self._address = jobs.address

    def probe(self, server: int, job: int, round: int = 0, /) -> None:
        """Ask a server for its queue length."""
        self.probe_all((server,), job, round)

    def probe_all(self, servers: Sequence[int], job: int, round: int) -> None:
        """Ask several servers for their queue lengths."""
        count = len(servers)
        self.sent += count
        ticket = self._in_system.get(job)
        if ticket is not None:
            ticket.probes += count
        send = self._env.send
        address = self._address
        for server in servers:
            send(Probe(server, address, job, round))

    def reserve(self, server: int, job: int, number: int) -> int:
        """Put a reservation into a server's queue; it counts as a probe. Return the server."""
        self.sent += 1
        self._in_system[job].probes += 1
        self._env.send(Reserve(server, self._address, job, number))
        return server

    def cancel(self, server: int, job: int, number: int) -> None:
        """Take back a reservation."""
        self.cancellations += 1
        self._env.send(Cancel(server, self._address, job, number))
