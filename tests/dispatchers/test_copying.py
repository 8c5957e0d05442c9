"""Copies of jobs: whatever the delays and deaths, each job is done once and each copy's end is recorded once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dispatchers.copying import Copying
from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.policy import NoParameters, Policy
from dispatchers.recovery import Recovery
from dispatchers.view import DispatcherView
from servers.copy_server import CopyServer
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Done, Started
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords, JobRecords, Occupancy
from testbed.core.streams import generator
from testbed.runtime.delay import Delay
from testbed.runtime.virtual import VirtualRuntime

SERVERS = 4
POOLS = (PlacedPool("a", 0, 0, 1, central=False), PlacedPool("b", 1, 1, 3, central=False))


class Copies(Policy):
    """Two copies at once, of job j on servers j and j + 1; with a delay the second one later."""

    name = "copies"
    source = "a test"
    tied = False
    delay = 0.0

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self.finished: set[int] = set()

    @classmethod
    def copies(cls, parameters: Any) -> int:
        return 2

    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        first, second = job % SERVERS, (job + 1) % SERVERS
        if self.tied:
            dispatcher.assign_tied(job, [first, second])
            return
        dispatcher.assign(job, first)
        if not self.delay:
            dispatcher.assign(job, second)
            return

        def hedge() -> None:
            if job not in self.finished:
                dispatcher.assign(job, second)

        dispatcher.env.call_at(dispatcher.env.now + self.delay, hedge)

    def on_done(self, done: Done) -> None:
        self.finished.add(done.job)


class OnStart(Copies):
    """The first to start cancels the other."""

    @classmethod
    def cancels_on_start(cls, parameters: Any) -> bool:
        return True


class Tied(Copies):
    """The two know of each other."""

    tied = True


class Hedged(Copies):
    """The second copy comes later."""

    delay = 0.5


class World:
    """A dispatcher and servers of copies on the virtual runtime; a dead server neither sends nor receives."""

    def __init__(self, policy: type[Policy] = Copies, *, delay: float = 0.0, recovers: bool = True, seed: int = 1):
        law = None
        if delay:
            law = Delay(lambda rng, count: rng.uniform(0, delay, count), generator(seed, 0, "message delay"))
        self.runtime = runtime = VirtualRuntime(seed, delay=law)
        self.dead: set[int] = set()
        send = runtime.send
        runtime.send = lambda message: None if {message.to, message.sender} & self.dead else send(message)
        self.jobs = JobRecords(1)
        self.copies = CopyRecords(1)
        records = DispatcherRecords(self.jobs, copies=self.copies)
        jobs = Jobs(runtime, SERVERS, Surroundings(0, SERVERS, POOLS), records)
        live = LiveServers(jobs) if recovers else None
        placement = Copying(jobs, live, cancels_on_start=policy.cancels_on_start(NoParameters()))
        recovery = Recovery(placement) if recovers else None
        self.dispatcher = Dispatcher(placement, partial(policy, NoParameters()), recovery)
        meter = Occupancy()
        self.servers = [CopyServer(runtime, i, speeds=[1.0], meter=meter) for i in range(SERVERS)]
        for agent in (*self.servers, self.dispatcher):
            runtime.add(agent)
        runtime.start()

    def arrive_at(self, when: float, job: int, *sizes: float) -> None:
        self.runtime.call_at(when, lambda: self.dispatcher.arrive(job, 0, sizes))

    def kill_at(self, when: float, server: int) -> None:
        def noticed() -> None:
            self.dispatcher.on_down(server, server)

        def kill() -> None:
            # Its timers go with it; the dispatcher hears of it when what it had sent has come.
            self.dead.add(server)
            for handlers in (self.servers[server].handlers,):
                for kind in handlers:
                    handlers[kind] = lambda message: None
            self.runtime.call_at(self.runtime.now + 3.0, noticed)

        self.runtime.call_at(when, kill)

    def end(self, at: float = 1000.0) -> tuple[dict[str, Any], dict[str, Any]]:
        self.runtime.run(at)
        self.dispatcher.close(lambda server: server in self.dead)
        return self.jobs.columns(), self.copies.columns()


def check(jobs: dict[str, Any], copies: dict[str, Any], arrived: int) -> None:
    """Each job is recorded once, and is done by the one copy that won; copies count on from 0."""
    assert sorted(jobs["job"].tolist()) == list(range(arrived))
    assert (jobs["outcome"] == JobOutcome.COMPLETED).all()
    won = Counter(copies["job"][copies["fate"] == CopyOutcome.WON].tolist())
    assert won == Counter(range(arrived))
    for job in range(arrived):
        assert sorted(copies["copy"][copies["job"] == job].tolist()) == list(range((copies["job"] == job).sum()))
    received = np.where(np.isnan(copies["received"]), 0.0, copies["received"])
    assert jobs["work"] == pytest.approx([received[copies["job"] == job].sum() for job in jobs["job"]])


def test_the_first_to_finish_is_the_job_and_the_other_is_stopped_in_service() -> None:
    world = World()
    world.arrive_at(1.0, 0, 5.0, 2.0)
    jobs, copies = world.end()
    check(jobs, copies, 1)
    assert (jobs["response"], jobs["inherent"], jobs["wait"], jobs["work"]) == (2.0, 2.0, 0.0, 4.0)
    assert jobs["server"] == 1
    by_copy = np.argsort(copies["copy"])
    assert copies["fate"][by_copy].tolist() == [CopyOutcome.SUPERSEDED, CopyOutcome.WON]
    assert copies["met"][by_copy].tolist() == [StateAtCancellation.IN_SERVICE, 0]
    assert copies["pool"][by_copy].tolist() == [0, 1]
    assert copies["received"][by_copy].tolist() == [2.0, 2.0]
    assert copies["delay"][by_copy][0] == 0.0


def test_a_hedge_that_wins_has_waited_since_its_job_came() -> None:
    world = World(Hedged)
    world.arrive_at(0.0, 0, 5.0, 2.0)
    jobs, _ = world.end()
    assert (jobs["response"], jobs["inherent"], jobs["wait"], jobs["overhead"]) == (2.5, 2.0, 0.5, 0.0)


def test_where_a_start_cancels_no_time_is_wasted() -> None:
    world = World(OnStart)
    world.arrive_at(0.0, 0, 5.0, 2.0)
    world.arrive_at(1.0, 1, 3.0, 2.0)  # server 1 is free again, as server 0 has started
    jobs, copies = world.end()
    check(jobs, copies, 2)
    assert sorted(jobs["response"].tolist()) == [3.0, 5.0]
    assert copies["received"][copies["fate"] == CopyOutcome.SUPERSEDED].tolist() == [0.0, 0.0]


def test_a_tied_copy_is_cancelled_in_the_queue_by_its_peer() -> None:
    world = World(Tied)
    world.arrive_at(0.0, 3, 5.0, 5.0)  # on server 3
    world.arrive_at(1.0, 2, 1.0, 1.0)  # on server 2; queued on server 3
    _, copies = world.end()
    of_2 = copies["job"] == 2
    assert copies["met"][of_2 & (copies["fate"] == CopyOutcome.SUPERSEDED)].tolist() == [StateAtCancellation.QUEUED]
    assert copies["received"][of_2 & (copies["fate"] == CopyOutcome.SUPERSEDED)].tolist() == [0.0]


@pytest.fixture
def desk_for(open_desk: Any) -> Callable[..., Any]:
    """Open the desk of a dispatcher to which a job of sizes 1 and 2 has come; ``copies`` are its records of copies."""

    def make(policy: type[Policy] = Copies) -> Any:
        copies = CopyRecords(1)
        place = partial(Copying, cancels_on_start=policy.cancels_on_start(NoParameters()))
        desk = open_desk(policy, servers=SERVERS, place=place, copies=copies, pools=POOLS, recovers=True)
        desk.copies = copies
        desk.arrive(0, 1.0, 2.0)
        return desk

    return make


def done(copy: int, server: int) -> Done:
    return Done(SERVERS, server, 0, copy, 0.0, 1.0)


def test_copies_that_are_both_done_before_a_cancellation_make_one_job(desk_for: Callable[..., Any]) -> None:
    desk = desk_for()
    desk.tell(done(1, 1))
    assert [cancel.copy for cancel in desk.of(CancelCopy)] == [0]
    assert desk.dispatcher.placement.awaiting_cancellation == 1
    assert desk.records.count == 0
    desk.tell(done(0, 0))
    assert desk.dispatcher.placement.awaiting_cancellation == 0
    assert desk.records.columns()["work"].tolist() == [2.0]
    assert desk.copies.columns()["met"].tolist() == [0, StateAtCancellation.ALREADY_DONE]
    desk.tell(done(0, 0))
    assert desk.dispatcher.jobs.done_twice == 1


def test_a_copy_that_was_cancelled_on_a_start_and_is_done_first_is_the_job(desk_for: Callable[..., Any]) -> None:
    desk = desk_for(OnStart)
    desk.tell(Started(SERVERS, 0, 0, 0), Started(SERVERS, 1, 0, 1))
    assert [cancel.copy for cancel in desk.of(CancelCopy)] == [1]
    desk.tell(done(1, 1), Cancelled(SERVERS, 0, 0, 0, StateAtCancellation.IN_SERVICE, 0.0, 1.0))
    assert desk.records.columns()["server"].tolist() == [1]


def test_a_job_is_placed_again_when_the_copy_that_had_cancelled_the_other_dies(desk_for: Callable[..., Any]) -> None:
    desk = desk_for(Tied)
    desk.tell(Cancelled(SERVERS, 1, 0, 1, StateAtCancellation.NOT_YET_ARRIVED, 0.0, 0.0))
    desk.dispatcher.on_down(0, 0)
    again = desk.of(AssignCopy)[2:]
    assert [(copy.copy, copy.size) for copy in again] == [(2, 1.0), (3, 2.0)]
    assert all(copy.to != 0 for copy in again)
    assert desk.dispatcher.jobs.dispatched_again == 1
    assert desk.copies.columns()["fate"].tolist() == [CopyOutcome.SUPERSEDED, CopyOutcome.DIED]


def test_a_job_is_not_placed_again_while_a_copy_of_it_is_alive(desk_for: Callable[..., Any]) -> None:
    desk = desk_for()
    desk.dispatcher.on_down(0, 0)
    assert len(desk.of(AssignCopy)) == 2
    desk.tell(done(1, 1))
    assert desk.records.columns()["outcome"].tolist() == [JobOutcome.COMPLETED]


def test_numbers_count_the_copies_of_a_server(desk_for: Callable[..., Any]) -> None:
    desk = desk_for()
    for job in range(1, 9):
        desk.arrive(job, 1.0, 1.0)
    for server in range(SERVERS):
        numbers = [copy.number for copy in desk.of(AssignCopy) if copy.to == server]
        assert numbers == list(range(1, len(numbers) + 1))


def test_at_the_end_jobs_are_done_or_lost_or_in_the_system() -> None:
    world = World(recovers=False)
    world.arrive_at(0.0, 0, 1.0, 1.0)
    world.arrive_at(0.0, 2, 9.0, 9.0)  # on servers 2 and 3
    world.arrive_at(0.0, 1, 9.0, 9.0)  # on servers 1 and 2
    world.runtime.call_at(2.0, lambda: world.dead.update((2, 3)))
    jobs, _ = world.end(3.0)
    assert dict(zip(jobs["job"].tolist(), jobs["outcome"].tolist(), strict=True)) == {
        0: JobOutcome.COMPLETED,
        1: JobOutcome.IN_SYSTEM,
        2: JobOutcome.LOST,
    }


@settings(max_examples=60)
@given(
    policy=st.sampled_from([Copies, OnStart, Tied, Hedged]),
    jobs=st.lists(st.tuples(st.floats(0, 2), st.floats(0.01, 4), st.floats(0.01, 4)), min_size=1, max_size=25),
    delay=st.sampled_from([0.0, 0.2, 2.0]),
    deaths=st.lists(st.tuples(st.floats(0, 20), st.integers(0, SERVERS - 2)), max_size=2),
    seed=st.integers(0, 2**32 - 1),
)
def test_each_job_is_done_once_whatever_the_delays_and_deaths(
    policy: type[Policy],
    jobs: Sequence[tuple[float, float, float]],
    delay: float,
    deaths: Sequence[tuple[float, int]],
    seed: int,
) -> None:
    world = World(policy, delay=delay, seed=seed)
    now = 0.0
    for job, (gap, *sizes) in enumerate(jobs):
        now += gap
        world.arrive_at(now, job, *sizes)
    for when, server in deaths:
        world.kill_at(when, server)
    check(*world.end(), len(jobs))
    assert world.dispatcher.placement.awaiting_cancellation == 0
    assert world.dispatcher.jobs.done_twice == 0
    assert not any(server.cancelled_ahead for server in world.servers if server.address not in world.dead)
