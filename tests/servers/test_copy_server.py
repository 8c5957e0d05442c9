"""What a server of copies does with each cancellation, wherever it finds its copy."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pytest

from servers.copy_server import CopyServer
from testbed.core.agent import Agent
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Done, Idle, Message, Peer, Started
from testbed.core.outcomes import StateAtCancellation
from testbed.core.records import Occupancy
from testbed.runtime.virtual import VirtualRuntime

PEERS, DISPATCHER, OTHER = 1, 2, 3  # addresses; the server is 0


class Client(Agent):
    """Keeps what comes, with the time."""

    HANDLES: ClassVar[dict[type[Message], str]] = dict.fromkeys((Done, Started, CancelCopy, Cancelled, Idle), "note")

    def __init__(self, runtime: VirtualRuntime, address: int) -> None:
        super().__init__(runtime, address)
        self.received: list[tuple[float, Any]] = []

    def note(self, message: Message) -> None:
        self.received.append((self.env.now, message))


class Bench:
    """A server, and clients in the place of another server and two dispatchers."""

    def __init__(self, **settings: Any) -> None:
        self.runtime = VirtualRuntime(1)
        self.meter = Occupancy()
        self.server = CopyServer(self.runtime, 0, speeds=[1.0, 0.5], meter=self.meter, **settings)
        self.peers, self.dispatcher, self.other = (Client(self.runtime, i) for i in (PEERS, DISPATCHER, OTHER))
        for agent in (self.server, self.peers, self.dispatcher, self.other):
            self.runtime.add(agent)
        self.runtime.start()

    def at(self, when: float, *messages: Message) -> Bench:
        for message in messages:
            self.runtime.call_at(when, partial(self.runtime.send, message))
        return self

    def run(self, until: float = 100.0) -> list[tuple[float, Any]]:
        """Return what the first dispatcher was told."""
        self.runtime.run(until)
        if until == 100.0:
            assert self.server.queue_length == 0
            assert not self.server.cancelled_ahead
        return self.dispatcher.received


def copy(number: int, size: float, *, order: int = 0, sender: int = DISPATCHER, **rest: Any) -> AssignCopy:
    return AssignCopy(0, sender, 10 * sender + number, order, number, 0, size, **rest)


def cancel(number: int, *, by: int = -1, order: int = 0, dispatcher: int = DISPATCHER) -> CancelCopy:
    sender = dispatcher if by < 0 else PEERS
    return CancelCopy(0, sender, dispatcher, 10 * dispatcher + number, order, number, by)


def done(number: int, wait: float, service: float, position: int, order: int = 0) -> Done:
    return Done(DISPATCHER, 0, 20 + number, order, wait, service, position)


def cancelled(number: int, state: StateAtCancellation, wait: float, received: float, order: int = 0) -> Cancelled:
    return Cancelled(DISPATCHER, 0, 20 + number, order, state, wait, received)


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_copies_are_served_in_the_order_of_their_arrival(bench: Bench) -> None:
    slow = AssignCopy(0, DISPATCHER, 22, 1, 2, 1, 1.0)
    assert bench.at(0.0, copy(1, 2.0)).at(0.5, slow).at(4.5, copy(3, 1.0)).run() == [
        (2.0, done(1, 0.0, 2.0, 1)),
        (4.0, done(2, 1.5, 2.0, 2, order=1)),
        (5.5, done(3, 0.0, 1.0, 1)),
    ]


def test_a_copy_in_service_is_stopped_and_the_next_one_starts(bench: Bench) -> None:
    assert bench.at(0.0, copy(1, 5.0)).at(0.5, copy(2, 1.0)).at(1.5, cancel(1)).run() == [
        (1.5, cancelled(1, StateAtCancellation.IN_SERVICE, 0.0, 1.5)),
        (2.5, done(2, 1.0, 1.0, 2)),
    ]


def test_a_copy_in_the_queue_leaves_it(bench: Bench) -> None:
    bench.at(0.0, copy(1, 2.0), copy(2, 2.0), copy(3, 1.0)).at(0.5, cancel(2))
    bench.run(0.5)
    assert bench.server.queue_length == 2
    assert bench.run() == [
        (0.5, cancelled(2, StateAtCancellation.QUEUED, 0.5, 0.0)),
        (2.0, done(1, 0.0, 2.0, 1)),
        (3.0, done(3, 2.0, 1.0, 3)),
    ]


def test_a_copy_that_is_done_or_cancelled_has_nothing_more_to_say(bench: Bench) -> None:
    bench.at(0.0, copy(1, 1.0), copy(2, 1.0)).at(0.5, cancel(2), cancel(2, by=1)).at(1.5, cancel(1), cancel(1, by=3))
    assert [message for _, message in bench.run()] == [
        cancelled(2, StateAtCancellation.QUEUED, 0.5, 0.0),
        done(1, 0.0, 1.0, 1),
    ]


def test_a_cancellation_that_overtakes_its_copy_is_kept_for_it(bench: Bench) -> None:
    """The copies of another dispatcher have numbers of their own."""
    bench.at(0.0, copy(1, 1.0), cancel(3, by=1)).at(0.5, copy(1, 1.0, sender=OTHER), copy(2, 1.0, sender=OTHER))
    bench.at(0.7, copy(3, 1.0, sender=OTHER)).at(2.0, copy(2, 0.5)).at(3.2, copy(3, 1.0))
    assert bench.run() == [
        (1.0, done(1, 0.0, 1.0, 1)),
        (3.2, cancelled(3, StateAtCancellation.NOT_YET_ARRIVED, 0.0, 0.0)),
        (4.5, done(2, 2.0, 0.5, 4)),
    ]
    assert len(bench.other.received) == 3


def test_the_start_is_reported_to_those_who_asked(bench: Bench) -> None:
    peers = [Peer(PEERS, 0, 7), Peer(PEERS, 2, 9)]
    bench.at(0.0, copy(1, 1.0), copy(2, 1.0, reports_start=True), copy(3, 1.0, order=1, peers=peers))
    assert [m for m in bench.run() if type(m[1]) is Started] == [(1.0, Started(DISPATCHER, 0, 22, 0))]
    assert bench.peers.received == [
        (2.0, CancelCopy(PEERS, 0, DISPATCHER, 23, 0, 7, 1)),
        (2.0, CancelCopy(PEERS, 0, DISPATCHER, 23, 2, 9, 1)),
    ]


def test_of_two_peers_that_have_started_the_lower_goes_on(bench: Bench) -> None:
    bench.at(0.0, copy(1, 2.0, order=1)).at(0.5, cancel(1, by=2, order=1)).at(1.0, cancel(1, by=0, order=1))
    assert bench.run() == [(1.0, cancelled(1, StateAtCancellation.IN_SERVICE, 0.0, 1.0, order=1))]


def test_a_dispatcher_is_always_obeyed(bench: Bench) -> None:
    assert bench.at(0.0, copy(1, 2.0)).at(0.5, cancel(1)).run() == [
        (0.5, cancelled(1, StateAtCancellation.IN_SERVICE, 0.0, 0.5))
    ]


def test_a_queued_copy_obeys_every_peer(bench: Bench) -> None:
    bench.at(0.0, copy(1, 2.0), copy(2, 2.0)).at(0.5, cancel(2, by=1))
    assert bench.run()[0] == (0.5, cancelled(2, StateAtCancellation.QUEUED, 0.5, 0.0))


def test_the_time_at_each_queue_length_is_metered() -> None:
    bench = Bench()
    bench.meter.servers.append(bench.server)
    bench.meter.close_slice(0.0)
    bench.at(0.0, copy(1, 2.0), copy(2, 2.0)).at(0.5, cancel(2)).at(1.5, cancel(1)).run(4.0)
    bench.meter.close_slice(4.0)
    _, table = bench.meter.table()
    assert table.tolist() == [[2.5, 1.0, 0.5]]


def test_a_server_that_turns_idle_by_a_cancellation_reports_it() -> None:
    bench = Bench(idle_report_to=[DISPATCHER])
    bench.at(1.0, copy(1, 2.0)).at(2.0, cancel(1), cancel(2, by=1)).at(3.0, copy(2, 1.0))
    assert [(when, message) for when, message in bench.run() if type(message) is Idle] == [
        (0.0, Idle(DISPATCHER, 0)),
        (2.0, Idle(DISPATCHER, 0)),
        (3.0, Idle(DISPATCHER, 0)),
    ]
