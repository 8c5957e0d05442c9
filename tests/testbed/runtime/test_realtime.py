"""The real-time runtime alone: deadlines that chain, a loop that is held up, messages that should not come."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import Any, ClassVar

import pytest
import trio
import trio.testing

from servers.server import Server
from testbed.core.agent import Agent, Environment
from testbed.core.messages import Assign, Done, Message, Probe, ProtocolError
from testbed.core.records import Occupancy

World = Any  # RealTimeWorld of tests/testbed/runtime/conftest.py
TASKS = 12


class Customer(Agent):
    """Sends tasks to server 0 and notes when they are done, and by the clock on the wall."""

    HANDLES: ClassVar[dict[type[Message], str]] = {Done: "on_done"}

    orders = 0  # at the start

    def __init__(self, env: Environment, address: int) -> None:
        super().__init__(env, address)
        self.done: list[Done] = []
        self.at: list[float] = []

    def start(self) -> None:
        for job in range(self.orders):
            self.order(job)

    def order(self, job: int, size: float = 1.0) -> None:
        self.env.send(Assign(0, self.address, job, 0, 0, size))

    def on_done(self, done: Done) -> None:
        self.done.append(done)
        self.at.append(self.env.now)


class DepartureMeter(Occupancy):
    """Notes when a server's queue shortens."""

    def __init__(self) -> None:
        super().__init__()
        self.departures: list[float] = []

    def change(self, old: int, new: int, now: float) -> None:
        if new < old:
            self.departures.append(now)
        super().change(old, new, now)


@pytest.fixture
def shop(real_time: World) -> tuple[Customer, DepartureMeter]:
    meter = DepartureMeter()
    real_time.add(Server(real_time.env, 0, speeds=[1.0], meter=meter))
    customer = Customer(real_time.env, 1)
    real_time.add(customer)
    return customer, meter


async def test_a_process_that_is_held_up_departs_late_once_and_serves_no_more_for_it(
    real_time: World, shop: tuple[Customer, DepartureMeter], busy_wait: Callable[[float], None], time_unit: float
) -> None:
    customer, meter = shop
    customer.orders = TASKS
    # Due in the middle of a service; three services end while the loop is held up.
    real_time.env.call_at(4.5, lambda: busy_wait(3.1 * time_unit))
    await real_time.run(TASKS + 2.0)
    assert [done.job for done in customer.done] == list(range(TASKS))
    # The services follow one another without a gap, whatever the process did meanwhile ...
    begin = meter.departures[0] - 1.0
    assert meter.departures == pytest.approx([begin + k for k in range(1, TASKS + 1)], abs=1e-9)
    assert [done.wait for done in customer.done] == pytest.approx(range(TASKS), abs=1e-9)
    # ... and each is announced late only as far as the wall clock makes it: never early,
    lateness = [at - due for at, due in zip(customer.at, meter.departures, strict=True)]
    assert min(lateness) >= 0.0
    # the first of the three by at least what was left of the hold-up.
    held_up = next(k for k, due in enumerate(meter.departures) if due > 4.5)
    assert lateness[held_up] >= 4.5 + 3.1 - meter.departures[held_up] - 1e-6


async def test_a_server_says_how_late_it_noticed_the_end_of_a_service(
    real_time: World, shop: tuple[Customer, DepartureMeter], busy_wait: Callable[[float], None], time_unit: float
) -> None:
    customer, meter = shop
    customer.orders = TASKS
    began: list[float] = []

    def hold_up() -> None:
        began.append(real_time.runtime.clock())
        busy_wait(3.1 * time_unit)

    real_time.env.call_at(4.5, hold_up)
    await real_time.run(TASKS + 2.0)
    # What ended after the process was held up is noticed after that; it was noticed sooner only if it came sooner.
    until = began[0] + 3.1
    held = [(end, done) for end, done in zip(meter.departures, customer.done, strict=True) if began[0] <= end <= until]
    assert held or began[0] > meter.departures[-1]  # unless the machine itself held it up until all was over
    for end, done in held:
        assert done.lateness >= until - end - 1e-9
    assert all(done.lateness >= 0 for done in customer.done)


async def test_event_loop_lag_is_the_time_from_an_iterations_beginning_to_sending_and_to_delivery(
    real_time: World, shop: tuple[Customer, DepartureMeter], busy_wait: Callable[[float], None], time_unit: float
) -> None:
    runtime, (customer, _) = real_time.env, shop
    runtime.start(time.monotonic())
    runtime.call_at(0.0, lambda: customer.order(0))
    runtime.call_at(0.0, lambda: busy_wait(2 * time_unit))
    runtime.iterate([[Done(customer.address, 0, 7, 0, 0.0, 1.0), Done(customer.address, 0, 8, 0, 0.0, 1.0)]])
    present = runtime.clock()
    assert [done.job for done in customer.done] == [7, 8]
    assert 2 * 2.0 <= runtime.delivered_after <= 2 * present  # two messages came, and waited for the timers
    assert 2.0 <= runtime.sent_after <= present  # one was sent


async def test_timers_that_fell_due_while_the_loop_was_held_up_are_fired_in_order_at_their_own_times(
    real_time: World, busy_wait: Callable[[float], None], time_unit: float
) -> None:
    fired: list[float] = []
    env = real_time.env
    env.call_at(1.0, lambda: busy_wait(4.0 * time_unit))
    for when in (3.0, 2.0, 4.0, 2.5):
        env.call_at(when, lambda: fired.append(env.now))
    await real_time.run(6.0)
    assert fired == [2.0, 2.5, 3.0, 4.0]
    # Whenever the loop is held up, at 1.0 or later than that, one of the five is at least this late.
    assert real_time.lateness_seconds.max >= 3.0 * time_unit


async def test_a_wake_up_timer_that_expired_before_it_was_set_to_later_holds_nothing_up(real_time: World) -> None:
    runtime = real_time.runtime
    runtime.call_at(12_000.0, lambda: None)  # a minute from now
    runtime.start(time.monotonic())
    expired: list[float] = []

    async def wait() -> None:
        if expired:
            await trio.sleep_forever()
        expired.append(runtime.clock())

    real_time.wake_up_timer.wait = wait
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime.run_timers)
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()
    assert expired
    assert runtime.clock() < 12_000.0


async def test_timers_that_are_due_come_before_messages_that_have_arrived(
    real_time: World, busy_wait: Callable[[float], None], time_unit: float
) -> None:
    order: list[str] = []
    agent = Agent(real_time.env, 2)
    agent.handlers[Probe] = lambda probe: order.append(f"message at {real_time.env.now >= 3.0}")
    real_time.add(agent)

    def hold_up() -> None:
        real_time.env.send(Probe(2, 2, 1))
        real_time.runtime.iterate()  # flushes: the message is in the socket before the loop is held up
        busy_wait(3.0 * time_unit)

    real_time.env.call_at(1.0, hold_up)
    real_time.env.call_at(3.0, lambda: order.append("timer"))
    await real_time.run(5.0)
    assert order == ["timer", "message at True"]


async def test_messages_wait_for_the_start_and_never_find_a_negative_time(real_time: World) -> None:
    runtime = real_time.runtime
    seen: list[float] = []
    agent = Agent(runtime, 2)
    agent.handlers[Probe] = lambda probe: seen.append(runtime.now)
    runtime.add(agent)
    runtime.call_at(1.0, lambda: seen.append(runtime.now))
    runtime.send(Probe(2, 2, 1))
    for connection in runtime._connections:
        connection.flush()  # another process began sooner
    async with trio.open_nursery() as nursery:
        nursery.start_soon(runtime.receive, real_time._ends[1])
        await trio.testing.wait_all_tasks_blocked()
        assert seen == []
        runtime.start(time.monotonic() + 60.0)  # time 0 is yet to come when the message is read
        with trio.fail_after(10):
            while not seen:
                await trio.lowlevel.checkpoint()
        assert seen == [0.0]
        assert runtime.clock() < 0.0
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize("message", [Probe(0, 1, 2), Probe(3, 1, 2), Probe(10_000, 1, 2)])
async def test_a_message_for_nobody_here_ends_the_connection_after_those_before_it(
    real_time: World, message: Message
) -> None:
    customer = Customer(real_time.env, 1)
    real_time.add(customer)
    good = Done(1, 0, 7, 0, 0.0, 1.0)
    with pytest.raises(ProtocolError, match=f"a Probe for address {message.to}, which is not here"):
        real_time.runtime.iterate([[good, message, good]])
    assert customer.done == [good]


@pytest.mark.parametrize("event", ["servers_down", "servers_up"])
async def test_agents_learn_of_servers_after_the_timers_that_are_due_each_at_its_own_time(
    real_time: World, event: str
) -> None:
    runtime, seen = real_time.runtime, []

    class Watcher(Agent):
        def on_down(self, first: int, last: int) -> None:
            seen.append(("servers_down", first, last, runtime.now))

        def on_up(self, first: int, last: int) -> None:
            seen.append(("servers_up", first, last, runtime.now))

    runtime.add(Watcher(runtime, 2))
    for when in (1.0, 2.0):
        runtime.call_at(when, lambda: seen.append(runtime.now))
    runtime.start(time.monotonic() - 3.0 * runtime._unit)
    getattr(runtime, event)(4, 6)
    *fired, (name, first, last, now) = seen
    assert fired == [1.0, 2.0]
    assert (name, first, last) == (event, 4, 6)
    assert 3.0 <= now <= runtime.clock()


async def test_what_is_sent_to_a_process_that_is_gone_is_lost_and_nothing_else(real_time: World) -> None:
    runtime = real_time.runtime
    for connection in list(runtime._connections):
        runtime.unlink(connection)
        runtime.unlink(connection)
    runtime.send(Probe(0, 1, 2))
    runtime.iterate()
    assert all(not connection.outbox and not connection.messages_sent for connection in real_time._ends)


async def test_the_clock_runs_in_time_units_from_the_start(real_time: World, time_unit: float) -> None:
    assert real_time.runtime.clock() == -math.inf
    before = time.monotonic()
    await real_time.run(10.0)
    passed = (time.monotonic() - before) / time_unit
    assert 10.0 <= real_time.runtime.clock() <= passed
