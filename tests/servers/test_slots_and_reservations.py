"""Servers that reserve slots of their buffer, and servers that queue reservations."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from servers.late_binding_server import LateBindingServer
from servers.slot_reserving_server import SlotReservingServer
from testbed.core.agent import Agent
from testbed.core.messages import (
    Assign,
    Cancel,
    Commit,
    Done,
    Dropped,
    Fetch,
    Idle,
    Message,
    ReleaseSlots,
    Reserve,
    ReserveSlots,
    SlotsRefused,
    SlotsReserved,
)
from testbed.core.records import Occupancy
from testbed.runtime.virtual import VirtualRuntime


class Client(Agent):
    """Keeps what comes, with the time."""

    def __init__(self, runtime: VirtualRuntime, address: int) -> None:
        super().__init__(runtime, address)
        self.handlers = dict.fromkeys((Done, Dropped, SlotsReserved, SlotsRefused, Fetch, Idle), self.note)
        self.received: list[tuple[float, type[Message], int]] = []

    def note(self, message: Any) -> None:
        self.received.append((self.env.now, type(message), getattr(message, "job", -1)))


class World:
    def __init__(self, kind: type[Any], **settings: Any) -> None:
        self.runtime = VirtualRuntime(1)
        self.server = kind(self.runtime, 0, speeds=[1.0], meter=Occupancy(), **settings)
        self.clients = [Client(self.runtime, address) for address in (1, 2)]
        for agent in (self.server, *self.clients):
            self.runtime.add(agent)
        self.runtime.start()

    def at(self, when: float, *messages: Message) -> None:
        for message in messages:
            self.runtime.call_at(when, partial(self.runtime.send, message))
        self.runtime.run(when)


def test_a_reserved_slot_is_kept_from_everyone_else_until_it_is_used_or_released() -> None:
    world = World(SlotReservingServer, buffer=3)
    one, two = world.clients
    world.at(0.0, ReserveSlots(0, 1, 10, 2))
    world.at(0.1, ReserveSlots(0, 2, 20, 2))
    world.at(0.2, Assign(0, 2, 21, 0, 0, 1.0))
    world.at(0.3, Assign(0, 2, 22, 0, 0, 1.0))
    assert [what for _, *what in one.received] == [[SlotsReserved, 10]]
    assert [what for _, *what in two.received] == [[SlotsRefused, 20], [Dropped, 22]]
    world.at(0.4, Commit(0, 1, 10, 0, 0, 1.0), Commit(0, 1, 10, 1, 0, 1.0))
    assert (world.server.queue_length, world.server.reserved) == (3, 0)
    world.at(0.5, ReserveSlots(0, 2, 23, 1))
    world.at(5.0)
    assert [what for _, *what in two.received][2:] == [[SlotsRefused, 23], [Done, 21]]
    world.at(6.0, ReserveSlots(0, 2, 24, 3))
    world.at(6.1, ReserveSlots(0, 1, 11, 1))
    world.at(6.2, ReleaseSlots(0, 2, 24, 3))
    world.at(6.3, ReserveSlots(0, 1, 12, 3))
    assert [what for _, *what in one.received][-2:] == [[SlotsRefused, 11], [SlotsReserved, 12]]


@pytest.mark.parametrize("refused", [False, True])
def test_an_idle_server_that_could_not_be_used_reports_as_idle_again(refused: bool) -> None:
    world = World(SlotReservingServer, buffer=1, idle_report_to=[1])
    assert world.clients[0].received == [(0.0, Idle, -1)]
    if refused:
        world.at(1.0, ReserveSlots(0, 2, 5, 1))  # by a dispatcher that does not know it as idle
        world.at(2.0, ReserveSlots(0, 1, 6, 1))
        assert world.clients[0].received[1:] == [(2.0, SlotsRefused, 6), (2.0, Idle, -1)]
    else:
        world.at(1.0, ReserveSlots(0, 1, 6, 1))
        world.at(2.0, ReleaseSlots(0, 1, 6, 1))
        assert world.clients[0].received[1:] == [(1.0, SlotsReserved, 6), (2.0, Idle, -1)]


def test_a_server_asks_when_a_reservation_has_its_turn_and_serves_what_it_gets() -> None:
    world = World(LateBindingServer)
    client = world.clients[0]
    world.at(0.0, Reserve(0, 1, 10, 10), Reserve(0, 1, 11, 11))
    assert client.received == [(0.0, Fetch, 10)]
    world.at(0.5, Assign(0, 1, 10, 0, 0, 2.0))
    assert world.server.queue_length == 1
    world.at(2.5)
    assert client.received[1:] == [(2.5, Done, 10), (2.5, Fetch, 11)]
    assert world.server.queue_length == 0


def test_a_cancellation_answers_a_question_or_strikes_a_reservation() -> None:
    world = World(LateBindingServer)
    one, two = world.clients
    world.at(0.0, Reserve(0, 1, 10, 10), Reserve(0, 2, 10, 10), Reserve(0, 1, 11, 11), Reserve(0, 1, 12, 12))
    world.at(1.0, Cancel(0, 1, 11, 11))
    assert [what for _, *what in one.received] == [[Fetch, 10]]
    world.at(2.0, Cancel(0, 1, 10, 10))  # the answer: next is another dispatcher's of the same number
    assert [what for _, *what in two.received] == [[Fetch, 10]]
    world.at(3.0, Cancel(0, 2, 10, 10))
    assert one.received[1:] == [(3.0, Fetch, 12)]


def test_waiting_counts_from_the_reservation_and_the_position_is_its_own() -> None:
    done: list[Done] = []
    world = World(LateBindingServer)
    world.clients[0].handlers[Done] = done.append
    world.at(0.0, Reserve(0, 1, 10, 10), Assign(0, 1, 10, 0, 0, 1.0))
    world.at(0.25, Reserve(0, 1, 11, 11))
    world.at(1.5, Assign(0, 1, 11, 3, 0, 1.0))
    world.at(9.0)
    assert [(d.job, d.task, d.wait, d.position) for d in done] == [(10, 0, 0.0, 1), (11, 3, 1.25, 2)]
