"""The contract of testbed.core.agent.Environment, which both runtimes keep, with and without message delay.

One suite for all: a runtime that an agent could tell from another one, other than by ``lateness``, fails here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from testbed.core.agent import Agent, Environment, Timer
from testbed.core.messages import Done, Message, Probe, ProbeReply, ProtocolError
from testbed.core.streams import Stream, generator

World = Any  # tests/testbed/runtime/conftest.py


class Recorder(Agent):
    """Notes what happens to it, and when."""

    HANDLES: ClassVar[dict[type[Message], str]] = {Probe: "on_probe", ProbeReply: "on_reply"}

    def __init__(self, env: Environment, address: int) -> None:
        super().__init__(env, address)
        self.events: list[tuple[str, Any, float]] = []
        self.begin: Callable[[], object] = lambda: None

    def note(self, what: str, value: Any = None) -> None:
        self.events.append((what, value, self.env.now))

    def values(self, what: str) -> list[Any]:
        return [value for name, value, _ in self.events if name == what]

    def times(self, what: str) -> list[float]:
        return [now for name, _, now in self.events if name == what]

    def start(self) -> None:
        self.note("start")
        self.begin()

    def on_probe(self, probe: Probe) -> None:
        self.note("probe", probe.job)

    def on_reply(self, reply: ProbeReply) -> None:
        self.note("reply", (reply.sender, reply.job))

    def timer(self, when: float, name: str, then: Callable[[], object] = lambda: None) -> Timer:
        def fire() -> None:
            self.note("timer", name)
            then()

        return self.env.call_at(when, fire)


@pytest.fixture
def agent(world: World) -> Recorder:
    recorder = Recorder(world.env, 0)
    world.add(recorder)
    return recorder


@pytest.fixture
def peer(world: World) -> Recorder:
    recorder = Recorder(world.env, 1)
    world.add(recorder)
    return recorder


async def test_agents_start_at_time_0_before_anything_else(world: World, agent: Recorder, peer: Recorder) -> None:
    agent.begin = lambda: (agent.timer(0.0, "at 0"), world.env.send(Probe(1, 0, 5)))
    peer.begin = lambda: world.env.send(Probe(0, 1, 6))
    await world.run(8.0)
    for recorder in (agent, peer):
        assert recorder.events[0] == ("start", None, 0.0)
    assert (agent.values("timer"), agent.values("probe"), peer.values("probe")) == (["at 0"], [6], [5])


async def test_a_timer_fires_at_the_very_time_that_it_was_due(world: World, agent: Recorder) -> None:
    due = [0.1 * i**1.5 for i in range(1, 20)]
    agent.begin = lambda: [agent.timer(when, str(when)) for when in reversed(due)]
    await world.run(10.0)
    assert agent.times("timer") == due
    assert agent.values("timer") == [str(when) for when in due]


async def test_simultaneous_timers_fire_in_the_order_in_which_they_were_asked_for(
    world: World, agent: Recorder
) -> None:
    agent.begin = lambda: [agent.timer(1.0, name) for name in "cabed"]
    await world.run(2.0)
    assert agent.values("timer") == list("cabed")


async def test_deadlines_chain(world: World, agent: Recorder) -> None:
    def again() -> None:
        if len(agent.values("timer")) < 40:
            agent.timer(world.env.now + 0.125, "chained", again)

    agent.begin = again
    await world.run(6.0)
    assert agent.times("timer") == [0.125 * i for i in range(1, 41)]


async def test_a_cancelled_timer_does_not_fire(world: World, agent: Recorder) -> None:
    def begin() -> None:
        first = agent.timer(1.0, "first", lambda: rival.cancel())
        rival = agent.timer(1.0, "rival")
        late = agent.timer(3.0, "late")
        agent.timer(2.0, "second", late.cancel)
        agent.timer(4.0, "third", first.cancel)  # fired long ago: nothing happens
        twice = agent.timer(1.5, "twice")
        twice.cancel()
        twice.cancel()

    agent.begin = begin
    await world.run(5.0)
    assert agent.values("timer") == ["first", "second", "third"]


async def test_a_timer_in_the_past_fires_at_once_and_time_does_not_go_back(world: World, agent: Recorder) -> None:
    agent.begin = lambda: agent.timer(
        2.0, "asks", lambda: (agent.timer(0.5, "past"), agent.timer(2.0, "now"), agent.timer(2.5, "later"))
    )
    await world.run(4.0)
    assert agent.values("timer") == ["asks", "past", "now", "later"]
    assert agent.times("timer") == [2.0, 2.0, 2.0, 2.5]


async def test_a_time_that_is_past_counts_as_now(world: World, agent: Recorder) -> None:
    late: dict[str, float] = {}

    def timer(when: float, name: str) -> None:
        agent.timer(when, name, lambda: late.update({name: world.env.lateness}))

    def ask() -> None:
        for when, name in ((1.0, "past"), (2.0, "now"), (-3.0, "long past")):
            timer(when, name)

    agent.begin = lambda: (agent.timer(2.0, "asks", ask), timer(2.0, "set before"), timer(2.25, "later"))
    await world.run(4.0)
    # Behind the timers that were set for now before it, and no later than they are.
    assert agent.values("timer") == ["asks", "set before", "past", "now", "long past", "later"]
    assert agent.times("timer") == [2.0] * 5 + [2.25]
    # As late as the clock is ahead of now, and not of the time that was asked for: deadlines chain from here as well.
    names = ["set before", "past", "now", "long past"]
    assert all(earlier <= later for earlier, later in itertools.pairwise(late[name] for name in names))
    if late["set before"] == late["now"]:  # else the loop has read the clock in between
        assert late["set before"] == late["past"]


async def test_a_timer_for_a_past_time_that_a_message_sets_fires_at_the_time_of_the_message(
    world: World, agent: Recorder
) -> None:
    agent.handlers[Probe] = lambda probe: (agent.note("probe"), agent.timer(0.0, "past"))
    agent.begin = lambda: agent.timer(1.0, "asks", lambda: world.env.send(Probe(0, 0, 1)))
    await world.run(6.0)
    assert agent.times("timer")[1:] == agent.times("probe")


async def test_an_agent_that_is_added_replaces_the_one_at_its_address(
    world: World, agent: Recorder, peer: Recorder
) -> None:
    heir = Recorder(world.env, 1)
    agent.begin = lambda: (world.add(heir), world.env.send(Probe(1, 0, 5)))
    await world.run(5.0)
    assert (heir.values("probe"), peer.values("probe")) == ([5], [])


async def test_a_message_that_an_agent_does_not_handle_violates_the_protocol(world: World, agent: Recorder) -> None:
    with pytest.raises(ProtocolError, match="a Done for address 0, which is not here"):
        world.env.deliver([Probe(0, 1, 5), Done(0, 1, 5, 0, 0.0, 1.0), Probe(0, 1, 6)])
    assert agent.values("probe") == [5]


async def test_messages_of_a_pair_arrive_once_in_order_and_not_before_their_delay(
    world: World, agent: Recorder, peer: Recorder
) -> None:
    sent: list[float] = []

    def send(job: int) -> None:
        sent.append(world.env.now)
        world.env.send(Probe(1, 0, job))

    agent.begin = lambda: [agent.timer(0.01 * (job // 4), "send", lambda job=job: send(job)) for job in range(400)]
    await world.run(12.0)
    assert peer.values("probe") == list(range(400))
    low, high = world.delay
    for before, after in zip(sent, peer.times("probe"), strict=True):
        assert after >= before + low - 1e-9
    if world.env.__class__.__name__ == "VirtualRuntime":
        assert all(after <= before + high + 1e-9 for before, after in zip(sent, peer.times("probe"), strict=True))


async def test_now_never_decreases_over_timers_and_messages_of_all_agents(
    world: World, agent: Recorder, peer: Recorder
) -> None:
    seen: list[float] = []

    def ask(job: int) -> None:
        seen.append(world.env.now)
        world.env.send(Probe(1, 0, job))
        world.env.send(Probe(0, 0, job))

    agent.begin = lambda: [agent.timer(0.05 * job, "ask", lambda job=job: ask(job)) for job in range(60)]
    for recorder in (agent, peer):
        recorder.handlers[Probe] = lambda probe: (
            seen.append(world.env.now),
            world.env.send(ProbeReply(1 - probe.to, probe.to, probe.job, 0)),
        )
        recorder.handlers[ProbeReply] = lambda reply: seen.append(world.env.now)
    await world.run(14.0)
    assert len(seen) == 5 * 60
    assert all(earlier <= later for earlier, later in itertools.pairwise(seen))
    assert min(seen) >= 0.0


async def test_lateness_is_never_negative_and_none_for_a_message(world: World, agent: Recorder, peer: Recorder) -> None:
    late: list[float] = []
    agent.begin = lambda: [
        agent.timer(0.1 * i, "t", lambda: (late.append(world.env.lateness), world.env.send(Probe(1, 0, 1))))
        for i in range(20)
    ]
    on_messages: list[float] = []
    peer.handlers[Probe] = lambda probe: on_messages.append(world.env.lateness)
    await world.run(8.0)
    assert len(late) == 20
    assert min(late) >= 0.0
    assert on_messages == [0.0] * 20


async def test_an_agent_may_write_to_itself(world: World, agent: Recorder) -> None:
    agent.begin = lambda: world.env.send(Probe(0, 0, 3))
    await world.run(4.0)
    assert agent.values("probe") == [3]


async def test_streams_are_those_of_the_seed_by_name(world: World) -> None:
    expected = Stream(generator(7, 0, "dispatcher/3/choices"))
    first, second = world.env.stream("dispatcher/3/choices"), world.env.stream("another")
    numbers = [first.uniform() for _ in range(2000)]
    assert numbers == [expected.uniform() for _ in range(2000)]
    assert numbers != [second.uniform() for _ in range(2000)]
