"""Worlds: a runtime with agents in it; tests use all worlds in the same way."""

from __future__ import annotations

import socket
import time
from collections.abc import AsyncIterator, Callable

import numpy as np
import pytest
import trio

from testbed.core.agent import Agent, Environment
from testbed.core.streams import generator
from testbed.measure.histogram import LogHistogram
from testbed.runtime.connection import Connection
from testbed.runtime.delay import Delay
from testbed.runtime.realtime import RealTimeRuntime
from testbed.runtime.timerfd import SleepUntil, TimerFd, WakeUpTimer
from testbed.runtime.virtual import VirtualRuntime

UNIT = 0.005  # seconds
ADDRESSES = 8


def make_delay(low: float, high: float) -> Delay:
    return Delay(lambda rng, count: rng.uniform(low, high, count), generator(5, 0, "message delay"))


class World:
    """Agents on some runtime. ``env`` is what they get; ``delay`` the bounds of the message delay."""

    env: Environment
    delay = (0.0, 0.0)

    def add(self, agent: Agent) -> None:
        raise NotImplementedError

    async def run(self, until: float) -> None:
        """Let the agents start, and return once the time is ``until`` and, in real time, nothing is left to happen."""
        raise NotImplementedError


class VirtualWorld(World):
    def __init__(self, delay: tuple[float, float] | None) -> None:
        self.env = self.runtime = VirtualRuntime(7, delay=make_delay(*delay) if delay else None)
        self.delay = delay or (0.0, 0.0)

    def add(self, agent: Agent) -> None:
        self.runtime.add(agent)

    async def run(self, until: float) -> None:
        self.runtime.start()
        self.runtime.run(until)


class RealTimeWorld(World):
    """A process whose every message goes out over a socket and comes back over its other end."""

    def __init__(self, wake_up_timer: WakeUpTimer, delay: tuple[float, float] | None, nursery: trio.Nursery) -> None:
        self.lateness_seconds = LogHistogram(1e-6, 10.0)
        self.env = self.runtime = RealTimeRuntime(
            7,
            0,
            time_unit=UNIT,
            addresses=ADDRESSES,
            wake_up_timer=wake_up_timer,
            lateness_seconds=self.lateness_seconds,
            delay=make_delay(*delay) if delay else None,
        )
        self.delay = delay or (0.0, 0.0)
        self.wake_up_timer = wake_up_timer
        self._nursery = nursery
        self._ends = [Connection(end) for end in socket.socketpair()]
        self.runtime.link(self._ends[0], range(ADDRESSES))

    def add(self, agent: Agent) -> None:
        self.runtime.add(agent)

    async def run(self, until: float) -> None:
        over = trio.Event()
        self.runtime.call_at(until, over.set)
        self._nursery.start_soon(self.runtime.run_timers)
        self._nursery.start_soon(self.runtime.receive, self._ends[1])
        self._nursery.start_soon(self._ends[0].run_writer)
        self.runtime.start(time.monotonic() + 0.002)
        with trio.fail_after(until * UNIT + 20):
            await over.wait()
            # What was sent comes in, and what follows from it happens: on a machine that stalls that may be everything.
            quiet = 0
            while quiet < 3:
                before = self.runtime.messages_received
                await trio.sleep(UNIT)
                idle = not self.runtime._heap and self.runtime.messages_received == before
                quiet = quiet + 1 if idle else 0

    def close(self) -> None:
        for end in self._ends:
            end.close()
        self.wake_up_timer.close()


WAKE_UP_TIMERS: dict[str, Callable[[], WakeUpTimer]] = {"timerfd": TimerFd, "sleep until": SleepUntil}
#: Names of worlds: a runtime, and the message delay.
WORLDS = [
    ("virtual", None),
    ("virtual", (2.0, 2.0)),
    ("virtual", (0.0, 3.0)),
    ("timerfd", None),
    ("timerfd", (2.0, 2.0)),
    ("timerfd", (0.0, 3.0)),
    ("sleep until", None),
]


@pytest.fixture(params=WORLDS, ids=lambda world: world[0] + (f", delay {world[1]}" if world[1] else ""))
async def world(request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """Every world in turn."""
    kind, delay = request.param
    if kind == "virtual":
        yield VirtualWorld(delay)
        return
    async with trio.open_nursery() as nursery:
        made = RealTimeWorld(WAKE_UP_TIMERS[kind](), delay, nursery)
        yield made
        nursery.cancel_scope.cancel()
    made.close()


@pytest.fixture(params=list(WAKE_UP_TIMERS))
async def real_time(request: pytest.FixtureRequest) -> AsyncIterator[RealTimeWorld]:
    """The real-time runtime with either wake-up timer."""
    async with trio.open_nursery() as nursery:
        made = RealTimeWorld(WAKE_UP_TIMERS[request.param](), None, nursery)
        yield made
        nursery.cancel_scope.cancel()
    made.close()


@pytest.fixture(params=list(WAKE_UP_TIMERS))
def make_timer(request: pytest.FixtureRequest) -> Callable[[], WakeUpTimer]:
    """A way to make a wake-up timer; it needs trio to be running."""
    return WAKE_UP_TIMERS[request.param]


def busy_wait(seconds: float) -> None:
    """Keep the interpreter from doing anything else."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        np.sqrt(2.0)


@pytest.fixture(name="busy_wait")
def busy_wait_fixture() -> Callable[[float], None]:
    return busy_wait


@pytest.fixture
def time_unit() -> float:
    """Seconds, of the real-time worlds."""
    return UNIT
