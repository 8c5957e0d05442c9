"""Round robin: jobs are dealt to the servers in turn, whatever the queues.

With one dispatcher and Poisson arrivals each server is an E_N/M/1 queue (exponential sizes), and a D/M/1 queue as the
number N of servers grows. The turn starts at a server chosen at random, so that several dispatchers do not march in
step; each has its own turn and knows nothing of the others', and their superposition at a server is no longer regular.
"""

from __future__ import annotations

from typing import Any

from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.view import DispatcherView


class RoundRobin(Policy):
    """The servers in turn."""

    name = "round-robin"
    source = "classical; E_N/M/1 (Kleinrock, Queueing Systems I, 1975)"
    theory = "testbed.theory.queue_oblivious_policies:ROUND_ROBIN"

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._next = dispatcher.rng.integer(dispatcher.servers)

    @override
    def place(self, job: int) -> None:
        server = self._next
        self._next = server + 1 if server + 1 < self.dispatcher.servers else 0
        self.dispatcher.assign(job, server)
