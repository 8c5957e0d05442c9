"""The real-time runtime: the event loop of one OS process, on the wall clock, with messages from sockets.

A loop iteration begins when the wake-up timer expires or when bytes have arrived. It fires the agents' timers that are
due, each with ``now`` at its own deadline. Then it delivers the messages, with ``now`` at the present. Then it sends
what the agents wrote, one frame per peer, and sets the wake-up timer to the earliest deadline. Three properties follow:

* deadlines chain: an agent that schedules from ``now`` loses nothing to a late wake-up (testbed/docs/architecture.md,
  rule 5);
* ``now`` never decreases, and a message never finds a server in a state from before the end of a service that is over;
* batches grow with the load by themselves: the more messages wait for a process, the fewer wake-ups, frames and system
  calls each one costs.

This module knows the length of a time unit; agents and messages do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from math import inf

import trio

from testbed.core.agent import Agent
from testbed.core.messages import Message
from testbed.core.trace_recorder import TraceRecorder
from testbed.measure.histogram import LogHistogram
from testbed.runtime.connection import Connection
from testbed.runtime.delay import Delay
from testbed.runtime.loop import EventLoop
from testbed.runtime.timerfd import WakeUpTimer

#: The coalescing interval, as a fraction of a time unit. The wake-up timer expires no sooner than this after a loop
#: iteration, and an iteration that follows another sooner leaves its messages to the timer. Deadlines and messages that
#: are closer together than a wake-up takes then share one, here and at the peers: a wake-up and a frame for each would
#: cost more than the agents do. Where iterations are further apart, nothing is held back.
COALESCING_INTERVAL = 1 / 400

#: A process that has slept for some milliseconds takes longest to wake up, because the processor has slept as well. So
#: the wake-up timer expires early by this fraction of the time to sleep, but by this many seconds at most, and the
#: process busy-waits for the rest.
EARLY_FRACTION = 0.02
EARLY_SECONDS = 0.0004


class RealTimeRuntime(EventLoop):
    """The event loop on the wall clock.

    ``time_unit`` is the length of a time unit in seconds; ``addresses`` the number of agents in the whole cluster;
    ``lateness_seconds`` a histogram of the lateness of all timers.
    """

    def __init__(
        self,
        seed: int,
        replication: int,
        *,
        time_unit: float,
        addresses: int,
        wake_up_timer: WakeUpTimer,
        lateness_seconds: LogHistogram,
        delay: Delay | None = None,
        trace: TraceRecorder | None = None,
    ) -> None:
        super().__init__(seed, replication, delay, trace, self._put_into_outbox)
        #: Event-loop lag, summed over messages, in time units: from the beginning of the iteration in which a message
        #: was written until it was sent, and from that of the iteration in which one came until it was delivered.
        self.sent_after = 0.0
        self.delivered_after = 0.0
        self._unit = time_unit
        self._per_second = 1.0 / time_unit
        self._origin = inf  # the monotonic clock's reading at time 0
        self._wake_up_timer = wake_up_timer
        self._started = trio.Event()
        self._wake_up = inf  # the deadline of the wake-up timer, on the monotonic clock
        self._flushed = -inf
        self._unsent = 0  # messages that are written, and the sum of the times at which their iterations began
        self._unsent_since = 0.0
        self._coalescing = COALESCING_INTERVAL * time_unit
        self._outboxes: list[list[Message]] = [[] for _ in range(addresses)]
        self._connections: list[Connection] = []
        self._first_address: dict[Connection, int] = {}
        self._count_lateness = lateness_seconds.add

    def _put_into_outbox(self, message: Message) -> None:
        self._outboxes[message.to].append(message)

    # --- peers ---

    def link(self, connection: Connection, addresses: Sequence[int]) -> None:
        """Send messages for ``addresses`` over ``connection`` from now on."""
        # Servers first, which have the lowest addresses: they have work to begin, dispatchers only note results. The
        # last peer that is sent to gets a processor last.
        self._connections.append(connection)
        self._first_address[connection] = min(addresses, default=len(self._outboxes))
        self._connections.sort(key=self._first_address.__getitem__)
        for address in addresses:
            self._outboxes[address] = connection.outbox

    def unlink(self, connection: Connection) -> None:
        """Forget a connection that is closed; later messages to its agents are lost."""
        if connection in self._connections:
            self._connections.remove(connection)
            del self._first_address[connection]
        lost: list[Message] = []
        self._outboxes = [lost if outbox is connection.outbox else outbox for outbox in self._outboxes]

    def servers_down(self, first: int, last: int) -> None:
        """Notify the agents that the servers at ``first`` to ``last`` have died."""
        self._notify(lambda agent: agent.on_down(first, last))

    def servers_up(self, first: int, last: int) -> None:
        """Notify the agents that the servers at ``first`` to ``last``, which had died, are there again, and empty."""
        self._notify(lambda agent: agent.on_up(first, last))

    def _notify(self, event: Callable[[Agent], object]) -> None:
        self.advance()
        for agent in self.agents.values():
            event(agent)
        self._end_iteration(self.now)

    # --- the clock ---

    def start(self, at: float, since: float = 0.0) -> None:
        """Put time 0 where the monotonic clock reads ``at`` seconds; the agents start to act at time ``since``."""
        self._origin = at
        self.now = since
        for agent in self.agents.values():
            self.call_at(since, agent.start)
        self._end_iteration(self.clock())
        self._started.set()

    def clock(self) -> float:
        """Return the present time in time units; negative before time 0."""
        return (time.monotonic() - self._origin) * self._per_second

    def advance(self) -> tuple[float, float]:
        """Fire the timers that are due, and set ``now`` to the present; return when that began and when it ended."""
        heap = self._heap
        began = present = self.clock()
        if heap and heap[0][0] <= present:
            self.run_due(present, self._count_lateness, self._unit)
            # That took time, and what has become due since then precedes the messages. Once more, not "until nothing is
            # due": a process that cannot keep up must still get to its messages.
            present = self.clock()
            self.run_due(present, self._count_lateness, self._unit)
        # Another process may reach time 0 a little sooner: a message from there arrives at time 0, not before.
        if present > self.now:
            self.now = present
        self.lateness = 0.0
        return began, present

    # --- loop iterations ---

    def iterate(self, batches: Sequence[Sequence[Message]] = ()) -> None:
        """Fire the timers that are due, deliver ``batches``, send what was written, set the wake-up timer.

        Raises ProtocolError for a message that no agent here handles; the messages before it have been delivered.
        """
        began, present = self.advance()
        if batches:
            self.delivered_after += (present - began) * sum(map(len, batches))
        try:
            for batch in batches:
                self.deliver(batch)
        finally:
            self._end_iteration(began)

    async def run_timers(self) -> None:
        """Run an iteration whenever the wake-up timer expires."""
        while True:
            await self._wake_up_timer.wait()
            # Unless messages that came just before have set the timer to a much later time.
            if self._wake_up - time.monotonic() <= EARLY_SECONDS:
                while time.monotonic() < self._wake_up:
                    pass
            self._wake_up = inf
            self.iterate()

    async def receive(self, connection: Connection) -> None:
        """Run an iteration with each batch of messages that comes over ``connection``, until it ends.

        Messages that come before ``start`` wait in the kernel: time 0 is not known until then. Raises ProtocolError
        when the peer violates the protocol.
        """
        await self._started.wait()
        while True:
            batches = await connection.receive()
            if batches is None:
                return
            self.iterate(batches)

    def _end_iteration(self, began: float) -> None:
        """Send what was written, unless that was done just now, and set the wake-up timer."""
        unsent = sum(len(connection.outbox) for connection in self._connections)
        self._unsent_since += (unsent - self._unsent) * began
        self._unsent = unsent
        present = time.monotonic()
        flush_at = self._flushed + self._coalescing
        wake_up = inf
        if present >= flush_at:
            self._flush()
        elif unsent:
            wake_up = flush_at
        heap = self._heap
        if heap:
            wake_up = min(wake_up, max(self._origin + heap[0][0] * self._unit, present + self._coalescing))
        if wake_up != self._wake_up:
            self._wake_up = wake_up
            if wake_up < inf:
                self._wake_up_timer.arm(wake_up - min(EARLY_FRACTION * (wake_up - present), EARLY_SECONDS))

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        self.sent_after += self._unsent * self.clock() - self._unsent_since
        self._unsent = 0
        self._unsent_since = 0.0
        for connection in self._connections:
            if connection.outbox:
                connection.flush()
