"""The real-time runtime: the agents of one OS process, driven by the wall clock and by messages from sockets.

Everything happens in *turns*. A turn begins when the alarm goes off or when bytes have come in. It fires the timers
that are due, each with ``now`` at its own deadline; then it delivers the messages, with ``now`` at the present; then it
sends what the agents wrote, one frame per peer, and sets the alarm for the earliest deadline. Three properties follow:

* deadlines chain: an agent that schedules from ``now`` loses nothing to a late wake-up (DESIGN rule 5);
* ``now`` never decreases, and a message never finds a server whose service was over in a state from before its end;
* batches grow with the load by themselves: the more messages wait for a process, the fewer wake-ups, frames and system
  calls each one costs.

This module knows the length of a time unit; agents and messages do not.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from math import inf

import trio

from testbed.core.agent import Agent, Timer
from testbed.core.messages import Message, ProtocolError
from testbed.core.streams import Stream, generator
from testbed.core.trace_recorder import TraceRecorder
from testbed.measure.histogram import LogHistogram
from testbed.runtime.connection import Connection
from testbed.runtime.delay import Delay
from testbed.runtime.timerfd import WakeUp

#: A busy process takes a breath of this share of a time unit: the alarm goes off no sooner after a turn, and a turn
#: that follows another sooner leaves its messages to the alarm. Deadlines and messages that lie closer together than a
#: wake-up takes then share one, here and at the peers. A wake-up and a frame for each would cost more than the agents
#: do. Where turns are further apart nothing is held back.
BREATH = 1 / 400

#: A process that has slept for some milliseconds takes longest to wake up: the processor has slept as well. So the
#: alarm goes off early by this share of the time to sleep, but by this many seconds at most, and the rest is waited
#: out awake.
EARLY_SHARE = 0.02
EARLY_SECONDS = 0.0004


class RealTimeRuntime:
    """An environment for agents (testbed.core.agent.Environment) on the wall clock.

    ``time_unit`` is the length of a time unit in seconds; ``addresses`` the number of agents in the whole cluster;
    ``lateness_seconds`` a histogram that every timer's lateness is added to; ``trace`` what
    records the messages of traced jobs, None for nothing.
    """

    def __init__(
        self,
        seed: int,
        replication: int,
        *,
        time_unit: float,
        addresses: int,
        alarm: WakeUp,
        lateness_seconds: LogHistogram,
        delay: Delay | None = None,
        trace: TraceRecorder | None = None,
    ) -> None:
        self.now = 0.0
        self.lateness = 0.0
        self.messages_received = 0
        #: Event-loop lag, summed over messages, in time units: from the beginning of the turn in which a message was
        #: written until it was sent, and from that of the turn in which one came until it was delivered.
        self.sent_after = 0.0
        self.delivered_after = 0.0
        self.agents: list[Agent] = []
        self._seed = seed
        self._replication = replication
        self._unit = time_unit
        self._per_second = 1.0 / time_unit
        self._origin = inf  # the monotonic clock's reading at time 0
        self._alarm = alarm
        self._started = trio.Event()
        self._armed = inf
        self._flushed = -inf
        self._unsent = 0  # messages that are written, and the sum of the times at which their turns began
        self._unsent_since = 0.0
        self._breath = BREATH * time_unit
        self._heap: list[tuple[float, int, Timer]] = []
        self._scheduled = 0
        self._routes: list[dict[type[Message], Callable[[Message], object]]] = [{} for _ in range(addresses)]
        self._outboxes: list[list[Message]] = [[] for _ in range(addresses)]
        self._connections: list[Connection] = []
        self._first_address: dict[Connection, int] = {}
        self._lateness_add = lateness_seconds.add
        self._delay = delay
        #: Part of the environment.
        self.send: Callable[[Message], object] = self._send_now if delay is None else self._send_later
        self._trace = trace
        if trace is not None:
            self.send = trace.sending(self, self.send)

    # --- the environment ---

    def stream(self, name: str) -> Stream:
        """Return the random stream of that name."""
        return Stream(generator(self._seed, self._replication, name))

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback()`` at time ``when``; at once if that is past."""
        timer = Timer(callback)
        self._scheduled = order = self._scheduled + 1
        heappush(self._heap, (when, order, timer))
        return timer

    def _send_now(self, message: Message) -> None:
        self._outboxes[message.to].append(message)

    def _send_later(self, message: Message) -> None:
        assert self._delay is not None
        self.call_at(self._delay.arrival(self.now, message.sender, message.to), lambda: self._send_now(message))

    # --- set up ---

    def add(self, agent: Agent) -> None:
        """Host an agent."""
        self.agents.append(agent)
        if self._trace is not None:
            self._trace.listen(self, agent)
        self._routes[agent.address] = agent.handlers

    def link(self, connection: Connection, addresses: Sequence[int]) -> None:
        """Send messages for ``addresses`` over ``connection`` from now on."""
        # Servers first, whose addresses are the lowest: they have work to begin, while dispatchers take notes. Whoever
        # is sent to last gets a processor last.
        self._connections.append(connection)
        self._first_address[connection] = min(addresses, default=len(self._outboxes))
        self._connections.sort(key=self._first_address.__getitem__)
        for address in addresses:
            self._outboxes[address] = connection.outbox

    def unlink(self, connection: Connection) -> None:
        """Forget a connection that is closed; what is sent to its agents from now on is lost."""
        if connection in self._connections:
            self._connections.remove(connection)
            del self._first_address[connection]
        lost: list[Message] = []
        self._outboxes = [lost if outbox is connection.outbox else outbox for outbox in self._outboxes]

    def lose(self, first: int, last: int) -> None:
        """Tell the agents that the servers at ``first`` to ``last`` have died."""
        self.now = max(self.now, self.clock())
        self.lateness = 0.0
        for agent in self.agents:
            agent.on_down(first, last)
        self._end_turn(self.now)

    def find(self, first: int, last: int) -> None:
        """Tell the agents that the servers at ``first`` to ``last``, which had died, are there again, and empty."""
        self.now = max(self.now, self.clock())
        self.lateness = 0.0
        for agent in self.agents:
            agent.on_up(first, last)
        self._end_turn(self.now)

    def start(self, at: float, since: float = 0.0) -> None:
        """Put time 0 where the monotonic clock reads ``at`` seconds; the agents start to act at time ``since``."""
        self._origin = at
        self.now = since
        for agent in self.agents:
            self.call_at(since, agent.start)
        self._end_turn(self.clock())
        self._started.set()

    def clock(self) -> float:
        """Return the present time in time units; negative before time 0."""
        return (time.monotonic() - self._origin) * self._per_second

    # --- turns ---

    async def run_timers(self) -> None:
        """Take a turn whenever the alarm goes off."""
        while True:
            await self._alarm.wait()
            # Unless messages that came just before have set the alarm for much later.
            if self._armed - time.monotonic() <= EARLY_SECONDS:
                while time.monotonic() < self._armed:
                    pass
            self._armed = inf
            self.turn()

    def turn(self, batches: Sequence[Sequence[Message]] = ()) -> None:
        """Fire the timers that are due, deliver ``batches``, send what was written, set the alarm.

        Raises ProtocolError for a message that no agent here handles; the messages before it have been delivered.
        """
        heap = self._heap
        began = present = self.clock()
        if heap and heap[0][0] <= present:
            self._fire(present)
            # Firing took time, and what has become due since then comes before the messages. Once more, not "until
            # nothing is due": a process that cannot keep up must still get to its messages.
            present = self.clock()
            self._fire(present)
        if batches:
            # Other processes' time 0 may come a little sooner than ours: nothing happens at a negative time.
            self.now = present if present > 0.0 else 0.0
            self.lateness = 0.0
            self.delivered_after += (present - began) * sum(map(len, batches))
            try:
                for batch in batches:
                    self._deliver(batch)
            finally:
                self._end_turn(began)
        else:
            self._end_turn(began)

    def _fire(self, present: float) -> None:
        heap = self._heap
        add = self._lateness_add
        unit = self._unit
        while heap and heap[0][0] <= present:
            when, _, timer = heappop(heap)
            callback = timer.callback
            if callback is not None:
                if when > self.now:
                    self.now = when
                self.lateness = late = present - when
                add(late * unit)
                callback()

    def _deliver(self, batch: Sequence[Message]) -> None:
        routes = self._routes
        self.messages_received += len(batch)
        for message in batch:
            try:
                handler = routes[message.to][type(message)]
            except (KeyError, IndexError):
                raise ProtocolError(f"a {type(message).__name__} for address {message.to}, which is not here") from None
            handler(message)

    def _flush(self) -> None:
        self._flushed = time.monotonic()
        self.sent_after += self._unsent * self.clock() - self._unsent_since
        self._unsent = 0
        self._unsent_since = 0.0
        for connection in self._connections:
            if connection.outbox:
                connection.flush()

    def _end_turn(self, began: float) -> None:
        """Send what was written, unless that was done just now, and set the alarm; the turn ``began`` at that time."""
        unsent = sum(len(connection.outbox) for connection in self._connections)
        self._unsent_since += (unsent - self._unsent) * began
        self._unsent = unsent
        present = time.monotonic()
        flush_at = self._flushed + self._breath
        moment = inf
        if present >= flush_at:
            self._flush()
        elif unsent:
            moment = flush_at
        heap = self._heap
        if heap:
            moment = min(moment, max(self._origin + heap[0][0] * self._unit, present + self._breath))
        if moment != self._armed:
            self._armed = moment
            if moment < inf:
                self._alarm.arm(moment - min(EARLY_SHARE * (moment - present), EARLY_SECONDS))

    async def receive(self, connection: Connection) -> None:
        """Take a turn with each batch of messages that comes over ``connection``, until it ends.

        Messages that come before ``start`` wait in the kernel: until then nobody knows what time it is. Raises
        ProtocolError when the peer sends what the protocol does not allow.
        """
        await self._started.wait()
        while True:
            batches = await connection.receive()
            if batches is None:
                return
            self.turn(batches)
