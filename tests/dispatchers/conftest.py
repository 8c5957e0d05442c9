"""A dispatcher among servers that do as a test says."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import chi2

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.placement import DirectPlacement, Placement
from dispatchers.policy import NoParameters, Policy
from dispatchers.recovery import Recovery
from testbed.core.agent import Agent
from testbed.core.messages import Assign, Done, Idle, Message, PeerDown, Probe, ProbeReply
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords, JobRecords
from testbed.core.streams import generator
from testbed.runtime.delay import Delay
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario.policies import policies


class ScriptedServer(Agent):
    """Replies to probes with ``queue_length`` after ``reply_after`` (None: never), and keeps every task."""

    HANDLES: ClassVar[dict[type[Message], str]] = {Probe: "on_probe", Assign: "on_assign"}

    def __init__(self, bench: Bench, address: int) -> None:
        super().__init__(bench.runtime, address)
        self.bench = bench
        self.queue_length = 0
        self.reply_after: float | None = 0.0

    def on_probe(self, probe: Probe) -> None:
        self.bench.probed.setdefault(probe.job, []).append(self.address)
        if self.reply_after is not None:
            reply = ProbeReply(probe.sender, self.address, probe.job, self.queue_length, probe.round)
            if self.reply_after:
                self.env.call_at(self.env.now + self.reply_after, partial(self.env.send, reply))
            else:
                self.env.send(reply)

    def on_assign(self, task: Assign) -> None:
        self.bench.placed[task.job] = self.address
        self.bench.placed_at[task.job] = self.env.now

    def finish(self, job: int) -> None:
        self.env.send(Done(self.bench.dispatcher.address, self.address, job, 0, 0.0, 1.0))

    def report_idle(self) -> None:
        self.env.send(Idle(self.bench.dispatcher.address, self.address))


class Bench:
    """One dispatcher with a policy, and ``servers`` scripted servers. Actions happen at once, at the present time."""

    def __init__(self, policy: str, servers: int, *, seed: int = 1, delay: float | None = None, **parameters: Any):
        law = None
        if delay is not None:
            law = Delay(lambda rng, count: np.full(count, delay), generator(seed, 0, "message delay"))
        self.runtime = VirtualRuntime(seed, delay=law)
        self.probed: dict[int, list[int]] = {}  # job -> servers, in the order of their probes
        self.placed: dict[int, int] = {}  # job -> server
        self.placed_at: dict[int, float] = {}
        self.records = JobRecords(1)
        kind = policies()[policy]
        jobs = Jobs(self.runtime, servers, Surroundings(0, servers), DispatcherRecords(self.records))
        self.dispatcher = Dispatcher(DirectPlacement(jobs), partial(kind, kind.Parameters(**parameters)))
        self.servers = [ScriptedServer(self, address) for address in range(servers)]
        for agent in (*self.servers, self.dispatcher):
            self.runtime.add(agent)
        self.jobs = 0

    def set_queue_lengths(self, *queue_lengths: int) -> None:
        for server, queue_length in zip(self.servers, queue_lengths, strict=True):
            server.queue_length = queue_length

    def act(self, *actions: Any) -> None:
        for action in actions:
            self.runtime.call_at(self.runtime.now, action)
        self.runtime.run(self.runtime.now)

    def arrive(self) -> int:
        """Let a job arrive and return its number."""
        job = self.jobs
        self.jobs += 1
        self.act(partial(self.dispatcher.arrive, job, 0, (1.0,)))
        return job

    def finish(self, job: int) -> None:
        self.act(partial(self.servers[self.placed[job]].finish, job))

    def run(self, until: float) -> None:
        self.runtime.run(until)


class Desk:
    """A dispatcher alone: a test tells it what its ``servers`` say, and looks at what it has sent."""

    def __init__(
        self,
        policy: type[Policy],
        parameters: Any = None,
        *,
        servers: int = 4,
        seed: int = 1,
        place: Callable[[Jobs, LiveServers | None], Placement] = DirectPlacement,
        recovers: bool = False,
        tasks_move: bool = False,
        copies: CopyRecords | None = None,
        pools: Sequence[PlacedPool] = (),
        switches: bool = False,
    ) -> None:
        self.runtime = VirtualRuntime(seed)
        self.sent: list[Message] = []
        self.runtime.send = self.sent.append
        self.records = JobRecords(1)
        surroundings = Surroundings(0, servers, pools)
        jobs = Jobs(self.runtime, servers, surroundings, DispatcherRecords(self.records, copies=copies))
        placement = place(jobs, LiveServers(jobs) if recovers else None)
        recovery = Recovery(placement, tasks_move=tasks_move) if recovers else None
        make_policy = partial(policy, NoParameters() if parameters is None else parameters)
        self.dispatcher = Dispatcher(placement, make_policy, recovery, switches=switches)

    def arrive(self, job: int = 0, *sizes: float) -> int | None:
        """Let a job arrive, and return where the latest task was placed."""
        self.dispatcher.arrive(job, 0, sizes or (1.0,))
        return self.placed[-1] if self.placed else None

    def tell(self, *messages: Message) -> None:
        for message in messages:
            self.dispatcher.handlers[type(message)](message)
            self.runtime.run(self.runtime.now)

    def lost(self, first: int, last: int | None = None) -> None:
        self.dispatcher.on_down(first, first if last is None else last)
        self.runtime.run(self.runtime.now)

    def noticed(self, dead: int, *senders: int) -> None:
        self.tell(*(PeerDown(self.dispatcher.address, sender, dead, dead) for sender in senders))

    def of(self, kind: type[Message]) -> list[Any]:
        """What was sent of a kind, in order."""
        return [message for message in self.sent if type(message) is kind]

    @property
    def placed(self) -> list[int]:
        """Where tasks were placed, in order."""
        return [task.to for task in self.of(Assign)]


@pytest.fixture(scope="session")
def open_desk() -> type[Desk]:
    return Desk


@pytest.fixture(scope="session")  # hypothesis wants no fixture per function
def bench() -> type[Bench]:
    return Bench


@pytest.fixture
def assert_uniform() -> Any:
    """Pearson's test that counts are uniform; with a fixed seed, and a false alarm of 1e-5 over seeds."""

    def check(counts: list[int] | np.ndarray[Any, Any]) -> None:
        observed = np.asarray(counts, dtype=float)
        expected = observed.sum() / observed.size
        assert expected > 20
        assert ((observed - expected) ** 2 / expected).sum() < chi2.isf(1e-5, observed.size - 1), observed

    return check
