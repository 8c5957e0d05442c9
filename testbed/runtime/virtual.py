"""The virtual runtime: one event heap and a virtual clock.

It drives the same agents as the real-time runtime, with the same random streams and no machine in the way: the
cluster's *twin*. A run is a deterministic function of the seed. Messages take the given delay (default 0) and stay in
order between the same two agents; simultaneous events happen in the order in which they were asked for, and messages
without delay are delivered before any later event.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from math import inf

from testbed.core.agent import Agent, Timer
from testbed.core.messages import Message
from testbed.core.streams import Stream, generator
from testbed.core.trace_recorder import TraceRecorder
from testbed.runtime.delay import Delay


class VirtualRuntime:
    """An environment for agents (testbed.core.agent.Environment) on a virtual clock.

    ``delay`` draws the one-way delay of each message, in time units; None for no delay. ``trace`` records the
    messages of traced jobs; None for nothing.
    """

    lateness = 0.0

    def __init__(
        self, seed: int, replication: int = 0, delay: Delay | None = None, trace: TraceRecorder | None = None
    ) -> None:
        self.now = 0.0
        self.agents: dict[int, Agent] = {}
        self.messages = 0  # delivered
        self._seed = seed
        self._replication = replication
        self._heap: list[tuple[float, int, Timer]] = []
        self._scheduled = 0
        self._mail: deque[Message] = deque()
        self._delay = delay
        #: Part of the environment: without delay, sending is appending.
        self.send: Callable[[Message], object] = self._mail.append if delay is None else self._send_later
        self._trace = trace
        if trace is not None:
            self.send = trace.sending(self, self.send)

    def stream(self, name: str) -> Stream:
        """Return the random stream of that name."""
        return Stream(generator(self._seed, self._replication, name))

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback()`` at time ``when``; at once if that is past."""
        timer = Timer(callback)
        self._scheduled = order = self._scheduled + 1
        heappush(self._heap, (when if when > self.now else self.now, order, timer))
        return timer

    def _send_later(self, message: Message) -> None:
        assert self._delay is not None
        self.call_at(self._delay.arrival(self.now, message.sender, message.to), lambda: self._mail.append(message))

    def add(self, agent: Agent) -> None:
        """Host an agent."""
        self.agents[agent.address] = agent
        if self._trace is not None:
            self._trace.listen(self, agent)

    def start(self) -> None:
        """Let the agents act at time 0."""
        for agent in self.agents.values():
            agent.start()
        self._deliver()

    def run(self, until: float = inf) -> None:
        """Handle all events due up to ``until``, or until none is left; afterwards ``now`` is ``until`` if finite."""
        heap = self._heap
        mail = self._mail
        while heap:
            entry = heappop(heap)
            if entry[0] > until:
                heappush(heap, entry)
                break
            callback = entry[2].callback
            if callback is not None:
                self.now = entry[0]
                callback()
                if mail:
                    self._deliver()
        if until != inf:
            self.now = until

    def _deliver(self) -> None:
        mail = self._mail
        next_message = mail.popleft
        agents = self.agents
        delivered = 0
        while mail:
            message = next_message()
            delivered += 1
            agents[message.to].handlers[type(message)](message)
        self.messages += delivered
