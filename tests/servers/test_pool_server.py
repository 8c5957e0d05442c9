"""When a server of a pool with a central queue begins the next service, and when that ends."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Any, ClassVar

import pytest

from servers.pool_server import PoolServer
from testbed.core.agent import Agent
from testbed.core.messages import Message, Reached, Serve, Served, Stop, Stopped
from testbed.core.records import Occupancy
from testbed.runtime.virtual import VirtualRuntime


class PoolAgent(Agent):
    """Keeps what comes, with the time."""

    HANDLES: ClassVar[dict[type[Message], str]] = dict.fromkeys((Reached, Served, Stopped), "note")

    def __init__(self, runtime: VirtualRuntime) -> None:
        super().__init__(runtime, 1)
        self.heard: list[tuple[float, Any]] = []

    def note(self, message: Message) -> None:
        self.heard.append((self.env.now, message))


def heard(*sent: tuple[float, Message], **settings: Any) -> list[tuple[float, Any]]:
    """Return when a server says what to the pool agent, to which these words are sent at these times."""
    runtime = VirtualRuntime(1)
    agent = PoolAgent(runtime)
    runtime.add(PoolServer(runtime, 0, speeds=[1.0], meter=Occupancy(), **settings))
    runtime.add(agent)
    runtime.start()
    for when, message in sent:
        runtime.call_at(when, partial(runtime.send, message))
    runtime.run(100.0)
    return agent.heard


def serve(copy: int, size: float, *, waited: bool = True, threshold: float = inf) -> Serve:
    return Serve(0, 1, copy, 0, size, 0.0, threshold, False, copy, waited)


def served(copy: int, size: float) -> Served:
    return Served(1, 0, copy, size)


FIRST = (0.0, serve(1, 1.0, waited=False))


def test_a_service_that_waited_for_the_server_begins_when_the_last_one_ended() -> None:
    assert heard(FIRST, (1.25, serve(2, 1.0))) == [(1.0, served(1, 1.0)), (2.0, served(2, 1.0))]


@pytest.mark.parametrize(("chains", "waited"), [(True, False), (False, True)], ids=["idle meanwhile", "modelled delay"])
def test_any_other_begins_when_it_comes(chains: bool, waited: bool) -> None:
    words = heard(FIRST, (1.25, serve(2, 1.0, waited=waited)), chains=chains)
    assert words[-1] == (2.25, served(2, 1.0))


def test_one_that_is_overdue_when_it_comes_ends_at_once_and_delays_nothing() -> None:
    words = heard(FIRST, (1.25, serve(2, 0.125)), (1.5, serve(3, 1.0)))
    assert words[1:] == [(1.25, served(2, 0.125)), (2.125, served(3, 1.0))]


def test_after_a_threshold_the_next_begins_at_the_threshold() -> None:
    words = heard((0.0, serve(1, 2.0, waited=False, threshold=1.0)), (1.5, serve(2, 1.0)))
    assert words == [(1.0, Reached(1, 0, 1, 1.0)), (2.0, served(2, 1.0))]


def test_after_a_stop_the_next_begins_at_the_stop() -> None:
    words = heard((0.0, serve(1, 2.0, waited=False)), (0.5, Stop(0, 1, 1)), (0.75, serve(2, 1.0)))
    assert words == [(0.5, Stopped(1, 0, 1, 0.5)), (1.5, served(2, 1.0))]
