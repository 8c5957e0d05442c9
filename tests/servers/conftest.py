"""One server, and a client in the place of the dispatchers."""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import pytest

from servers.server import Server
from testbed.core.agent import Agent
from testbed.core.messages import Assign, Done, Dropped, Idle, Message, Probe, ProbeReply
from testbed.core.records import Occupancy
from testbed.runtime.virtual import VirtualRuntime


class Client(Agent):
    """Keeps what comes, with the time."""

    HANDLES: ClassVar[dict[type[Message], str]] = dict.fromkeys((Done, Dropped, Idle, ProbeReply), "note")

    def __init__(self, runtime: VirtualRuntime, address: int) -> None:
        super().__init__(runtime, address)
        self.received: list[tuple[float, Any]] = []

    def note(self, message: Message) -> None:
        self.received.append((self.env.now, message))

    def of(self, kind: type[Message]) -> list[tuple[float, Any]]:
        return [(when, message) for when, message in self.received if type(message) is kind]


class Station:
    """A server at address 0 and clients at the addresses after it."""

    def __init__(self, *, seed: int = 1, clients: int = 1, reports: bool = False, **settings: Any):
        self.runtime = VirtualRuntime(seed)
        self.meter = Occupancy()
        addresses = range(1, clients + 1)
        settings.setdefault("speeds", [1.0])
        self.server = Server(self.runtime, 0, meter=self.meter, idle_report_to=addresses if reports else (), **settings)
        self.meter.servers.append(self.server)
        self.clients = [Client(self.runtime, address) for address in addresses]
        for agent in (self.server, *self.clients):
            self.runtime.add(agent)
        self.runtime.start()
        self.tasks = 0

    def assign_at(self, when: float, size: float, job_type: int = 0, sender: int = 1) -> None:
        """Have a task come to the server at a time not before now; tasks number the jobs from 0."""
        message = Assign(0, sender, self.tasks, 0, job_type, size)
        self.tasks += 1
        self.runtime.call_at(when, partial(self.runtime.send, message))

    def probe_at(self, when: float, job: int) -> None:
        self.runtime.call_at(when, partial(self.runtime.send, Probe(0, 1, job)))


@pytest.fixture(scope="session")  # hypothesis wants no fixture per function
def station() -> type[Station]:
    return Station
