"""A network that keeps messages in order between two agents and promises nothing else, for tests of protocols.

Any channel may be as slow as it likes, and a timer may come before or after any message. When the servers of a group
die, a prefix of what each had sent to each survivor still arrives, the survivor is notified of the death after it, and
what is sent to the dead vanishes. That is all that sockets promise.
"""

from __future__ import annotations

import random
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush

from testbed.core.agent import Agent, Timer
from testbed.core.messages import Message
from testbed.core.streams import Stream, generator

WILD_STEPS = 1500  # messages and timers in any order; from then on messages come before timers, so that a run ends
MOST_STEPS = 60_000


class NetworkEnvironment:
    """What an agent at an address may use of a network (testbed.core.agent.Environment)."""

    lateness = 0.0

    def __init__(self, network: Network, address: int) -> None:
        self._network = network
        self._address = address

    @property
    def now(self) -> float:
        """The present time, the same for all agents."""
        return self._network.now

    def send(self, message: Message) -> None:
        """Send a message, as oneself."""
        assert message.sender == self._address
        self._network.send(message)

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Have ``callback`` called at a time, or later."""
        return self._network.call_at(self._address, when, callback)

    def stream(self, name: str) -> Stream:
        """Return the random stream of a name."""
        return Stream(generator(self._network.seed, 0, name))


class Network:
    """Agents and what is on its way between them; everything random follows from ``seed``.

    ``delay`` is how much slower messages are than timers, as long as the run is wild: with 0 messages overtake all
    timers, towards 1 timers overtake all messages.
    """

    def __init__(self, seed: int, delay: float) -> None:
        self.seed = seed
        self.rng = random.Random(seed)
        self.now = 0.0
        self.agents: dict[int, Agent] = {}
        self.dead: set[int] = set()
        self.sent: Counter[type[Message]] = Counter()
        self._delay = delay
        self._heap: list[tuple[float, int, int, Timer]] = []
        self._order = 0
        self.channels: dict[tuple[int, int], deque[Message]] = {}
        self._weights: dict[tuple[int, int], float] = {}
        self._notices: dict[tuple[int, int], set[int]] = {}  # by group: survivors that have not been notified yet

    def environment(self, address: int) -> NetworkEnvironment:
        """Return what the agent at ``address`` may use."""
        return NetworkEnvironment(self, address)

    def add(self, agent: Agent) -> None:
        """Host an agent."""
        self.agents[agent.address] = agent

    # --- what agents do ---

    def call_at(self, address: int, when: float, callback: Callable[[], object]) -> Timer:
        """Have ``callback`` called at a time, or later, unless the agent at ``address`` is dead then."""
        timer = Timer(callback)
        self._order += 1
        heappush(self._heap, (max(when, self.now), self._order, address, timer))
        return timer

    def send(self, message: Message) -> None:
        """Put a message on its way."""
        assert message.sender not in self.dead
        self.sent[type(message)] += 1
        if message.to not in self.dead:
            pair = message.sender, message.to
            if pair not in self.channels:
                self.channels[pair] = deque()
                self._weights[pair] = self.rng.choice([0.003, 0.1, 1.0])
            self.channels[pair].append(message)

    # --- what happens ---

    def deliver(self, message: Message) -> None:
        """Hand a message over to its addressee."""
        self.agents[message.to].handlers[type(message)](message)

    def groups(self, servers: int, crashes: int) -> list[tuple[int, int]]:
        """Choose which servers of 0..servers-1 die together: up to ``crashes`` ranges, and at least one is left."""
        cuts = sorted(self.rng.sample(range(1, servers), min(crashes, servers - 1)))
        nodes = [(first, last - 1) for first, last in zip([0, *cuts], [*cuts, servers], strict=True)]
        self.rng.shuffle(nodes)
        return nodes[1:]

    def run(self, crashes: Sequence[tuple[int, int]], finished: Callable[[], bool], check: Callable[[], None]) -> None:
        """Let things happen until ``finished()`` and no message is on its way; ``check()`` after each thing.

        Each group of ``crashes`` dies some time. Raises AssertionError if nothing can happen any more or it takes too
        long.
        """
        rng = self.rng
        for agent in self.agents.values():
            agent.start()
        groups = list(crashes)
        crash_at = sorted(rng.randrange(WILD_STEPS // 2) for _ in groups)
        for step in range(MOST_STEPS):
            events = self._events()
            if crash_at and (step >= crash_at[0] or not (events or self._heap)):
                crash_at.pop(0)
                self._crash(*groups.pop())
                continue
            over = finished()
            assert events or self._heap or over, "stuck: nothing can happen any more"
            if over and not crash_at:
                while self._heap and self._heap[0][0] <= self.now:
                    self._fire()
                events = self._events()
                if not events:
                    return
            wild = step < WILD_STEPS and not over
            if events and (not self._heap or rng.random() >= (self._delay if wild else 0.05)):
                rng.choices([deed for _, deed in events], [weight for weight, _ in events])[0]()
            elif self._heap:
                self._fire()
            check()
        raise AssertionError(f"not finished after {MOST_STEPS} messages and timers")

    def _events(self) -> list[tuple[float, Callable[[], None]]]:
        """Return what can happen now, except timers: (weight, deed)."""
        found: list[tuple[float, Callable[[], None]]] = [
            (self._weights[pair], partial(self._deliver_next, channel))
            for pair, channel in self.channels.items()
            if channel
        ]
        for (first, last), waiting in self._notices.items():
            for address in sorted(waiting):
                if not any(self.channels.get((dead, address)) for dead in range(first, last + 1)):
                    found.append((0.3, partial(self._tell, first, last, address)))
        return found

    def _deliver_next(self, channel: deque[Message]) -> None:
        self.deliver(channel.popleft())

    def _fire(self) -> None:
        when, _, address, timer = heappop(self._heap)
        if address not in self.dead and timer.callback is not None:
            self.now = max(self.now, when)
            timer.callback()

    def _crash(self, first: int, last: int) -> None:
        group = set(range(first, last + 1))
        assert not group & self.dead
        self.dead |= group
        for pair, channel in self.channels.items():
            if pair[1] in self.dead:
                channel.clear()
            elif pair[0] in group:
                for _ in range(self.rng.randint(0, len(channel))):
                    channel.pop()
        self._notices[first, last] = set(self.agents) - self.dead
        for waiting in self._notices.values():
            waiting -= group

    def _tell(self, first: int, last: int, address: int) -> None:
        self._notices[first, last].discard(address)
        self.agents[address].on_down(first, last)
