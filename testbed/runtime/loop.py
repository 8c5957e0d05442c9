"""The event loop of both runtimes: timers, random streams, routing of messages, delay and tracing.

The two runtimes differ in their clock only. On the virtual clock (testbed.runtime.virtual) time jumps to the next
event, and messages are delivered in memory. On the wall clock (testbed.runtime.realtime) the loop waits for that time,
and messages cross sockets.

No timer in the heap is due before ``now``: a time that is past counts as ``now``, and ``now`` passes a deadline only
when its timer fires. So ``now`` never decreases, and a timer that was set for a past time fires next, after those that
were set for ``now`` before it.

Arrivals come last of what happens at one time: a job finds the room that a service leaves which ends as it arrives.
Times are sums of floating-point numbers, which differ by rounding where they should be equal. So an arrival waits for
all timers that are due up to SIMULTANEOUS later, and ``now`` is then the time of the last of these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

from testbed.core.agent import Agent, Timer
from testbed.core.messages import Message, ProtocolError
from testbed.core.streams import Stream, generator
from testbed.core.trace_recorder import TraceRecorder
from testbed.runtime.delay import Delay

Send = Callable[[Message], object]

#: Times that differ by no more than this, in time units, are taken for one time when a job arrives.
SIMULTANEOUS = 1e-9


class ArrivalTimer(Timer):
    """A timer that fires after those of the same time."""

    __slots__ = ("when",)

    def __init__(self, callback: Callable[[], object], when: float) -> None:
        super().__init__(callback)
        self.when = when


class EventLoop:
    """An environment for agents (testbed.core.agent.Environment); a subclass has the clock.

    ``send`` transmits a message; by default the loop delivers it itself, after the present event. ``delay`` draws the
    one-way delay of each message, in time units; None for no delay. ``trace`` records the messages of traced jobs; None
    for none.
    """

    def __init__(
        self,
        seed: int,
        replication: int = 0,
        delay: Delay | None = None,
        trace: TraceRecorder | None = None,
        send: Send | None = None,
    ) -> None:
        self.now = 0.0
        self.lateness = 0.0
        self.agents: dict[int, Agent] = {}
        self.messages_received = 0
        self._seed = seed
        self._replication = replication
        self._heap: list[tuple[float, int, Timer]] = []
        self._scheduled = 0
        self._mail: list[Message] = []  # to be delivered after the present event
        self._handlers: list[dict[type[Message], Callable[[Message], object]]] = []  # by address
        self._trace = trace
        #: Part of the environment: without delay and trace, a message goes straight to ``send``.
        self.send: Send = self._mail.append if send is None else send
        if delay is not None:
            self.send = self._delayed(delay, self.send)
        if trace is not None:
            self.send = trace.sending(self, self.send)

    def stream(self, name: str) -> Stream:
        """Return the random stream of that name."""
        return Stream(generator(self._seed, self._replication, name))

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Call ``callback()`` at time ``when``; at once if that time is past."""
        timer = Timer(callback)
        self._scheduled = order = self._scheduled + 1
        heappush(self._heap, (when if when > self.now else self.now, order, timer))
        return timer

    def call_last(self, when: float, callback: Callable[[], object]) -> Timer:
        """Do what ``call_at`` does, after all timers that are due up to SIMULTANEOUS later."""
        due = when if when > self.now else self.now
        timer = ArrivalTimer(callback, due)
        self._scheduled = order = self._scheduled + 1
        heappush(self._heap, (due + SIMULTANEOUS, order, timer))
        return timer

    def _delayed(self, delay: Delay, send: Send) -> Send:
        def send_later(message: Message) -> None:
            self.call_at(delay.arrival(self.now, message.sender, message.to), partial(send, message))

        return send_later

    def add(self, agent: Agent) -> None:
        """Host an agent, in place of any other at its address."""
        self.agents[agent.address] = agent
        if self._trace is not None:
            self._trace.listen(self, agent)
        handlers = self._handlers
        handlers.extend({} for _ in range(len(handlers), agent.address + 1))
        handlers[agent.address] = agent.handlers

    def run_due(
        self, present: float, count_lateness: Callable[[float], object] | None = None, unit: float = 1.0
    ) -> None:
        """Fire the timers that are due at ``present``, in order, each with ``now`` at its own deadline.

        On a clock that can be late, ``count_lateness`` receives the lateness of each timer, times ``unit``.
        """
        heap = self._heap
        mail = self._mail
        while heap and heap[0][0] <= present:
            when, _, timer = heappop(heap)
            callback = timer.callback
            if callback is not None:
                if type(timer) is ArrivalTimer:
                    when = timer.when if timer.when > self.now else self.now
                self.now = when
                if count_lateness is not None:
                    self.lateness = late = present - when
                    count_lateness(late * unit)
                callback()
                if mail:
                    self.deliver(mail)
                    mail.clear()

    def deliver(self, messages: Sequence[Message]) -> None:
        """Deliver messages in order, also those that are appended while this goes on.

        Raises ProtocolError for a message that no agent here handles; the messages before it have been delivered.
        """
        handlers = self._handlers
        try:
            for message in messages:
                try:
                    handler = handlers[message.to][type(message)]
                except (KeyError, IndexError):
                    name, to = type(message).__name__, message.to
                    raise ProtocolError(f"a {name} for address {to}, which is not here") from None
                handler(message)
        finally:
            self.messages_received += len(messages)
