"""The virtual runtime: the event loop on a clock that jumps from event to event.

It drives the same agents as the real-time runtime, with the same random streams and without the machine: it runs the
cluster's *twin*, the discrete-event simulation of the same agents. A run is a deterministic function of the seed.
Messages take the given delay (default 0) and stay in order between the same two agents. Simultaneous events happen in
the order in which they were scheduled, arrivals of jobs last; messages without delay are delivered before any later
event.
"""

from __future__ import annotations

from math import inf

from testbed.runtime.loop import EventLoop


class VirtualRuntime(EventLoop):
    """The event loop on a virtual clock, which is never late."""

    def start(self) -> None:
        """Let the agents act at time 0."""
        for agent in self.agents.values():
            agent.start()
        self.deliver(self._mail)
        self._mail.clear()

    def run(self, until: float = inf) -> None:
        """Handle all events due up to ``until``, or until none is left; afterwards ``now`` is ``until`` if finite."""
        self.run_due(until)
        if until != inf:
            self.now = until
