"""What a runtime records of traced jobs: each of their messages, when it is sent and when it is delivered.

A runtime that is given a recorder has it wrap ``send`` and the handlers of its agents; one that is given none does what
it would do without this module. Agents know nothing of it. All times are in time units, on the runtime's clock: a
message that an agent sends at a deadline bears the time of the deadline, also when the process woke up late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from testbed.agent import Agent, Environment
from testbed.protocol import (
    Accepted,
    Message,
    Offer,
    Probe,
    ProbeReply,
    Refused,
    Serve,
    Steal,
    Transfer,
    Withdrawn,
    kind_name,
)
from testbed.tracing.choice import is_traced


class TraceEvent(msgspec.Struct, frozen=True):
    """A message of a traced job was sent, or delivered (``heard``).

    ``kind`` is the kind of message; ``sender`` and ``to`` are addresses; ``details`` are its other fields, as JSON.
    """

    job: int
    time: float
    heard: bool
    kind: str
    sender: int
    to: int
    details: str


#: What is said ahead of a Transfer, by its exchange: no job is named in it yet.
_AHEAD = (Steal, Offer, Accepted)
_IN_VAIN = (Refused, Withdrawn)
_NOT_DETAILS = frozenset({"to", "sender", "job"})
#: A server may be told of its next copies before the pool agent hears of the last one.
_COPIES_PER_SERVER = 4


class TraceRecorder:
    """Records the messages of a ``share`` of jobs among the agents of one runtime.

    Servers have the addresses below ``servers``. ``events`` are in the order in which things happened.
    """

    def __init__(self, share: float, servers: int) -> None:
        self.events: list[TraceEvent] = []
        self._share = share
        self._servers = servers
        self._ahead: dict[tuple[int, int], list[tuple[float, Message, bool]]] = {}  # by exchange and agent here
        #: By server: numbers of the traced copies that it was last told to serve, and their jobs.
        self._copies: dict[int, deque[tuple[int, int]]] = {}

    def sending(self, env: Environment, send: Callable[[Message], object]) -> Callable[[Message], object]:
        """Return ``send`` with a note of what is sent."""

        def traced(message: Message) -> object:
            self._note(env.now, message, False)
            return send(message)

        return traced

    def listen(self, env: Environment, agent: Agent) -> None:
        """Note what ``agent`` is told."""

        def hearing(handler: Callable[[Any], object]) -> Callable[[Any], object]:
            def traced(message: Message) -> object:
                self._note(env.now, message, True)
                return handler(message)

            return traced

        agent.handlers = {kind: hearing(handler) for kind, handler in agent.handlers.items()}

    def take(self) -> list[TraceEvent]:
        """Return the events since the last call."""
        taken, self.events = self.events, []
        return taken

    def _note(self, now: float, message: Message, heard: bool) -> None:
        if isinstance(message, (*_AHEAD, *_IN_VAIN, Transfer)):
            self._note_exchange(now, message, heard)
            return
        job = self._job_of(message)
        if job is not None and is_traced(job, self._share):
            self._write(job, now, message, heard)

    def _note_exchange(self, now: float, message: Any, heard: bool) -> None:
        key = message.exchange, message.to if heard else message.sender
        if isinstance(message, _AHEAD):
            self._ahead.setdefault(key, []).append((now, message, heard))
            return
        ahead = self._ahead.pop(key, [])
        if isinstance(message, Transfer):
            for job in self._traced(task.job for task in message.tasks):
                for time, earlier, was_heard in ahead:
                    self._write(job, time, earlier, was_heard)
                self._write(job, now, message, heard)

    def _traced(self, jobs: Iterable[int]) -> Iterable[int]:
        return sorted({job for job in jobs if is_traced(job, self._share)})

    def _job_of(self, message: Any) -> int | None:
        """Return the job that a message is about; None where it is about none, or about a copy that is not traced."""
        if isinstance(message, Serve) and is_traced(message.job, self._share):
            copies = self._copies.setdefault(message.to, deque(maxlen=_COPIES_PER_SERVER))
            if (message.copy, message.job) not in copies:
                copies.append((message.copy, message.job))
        if isinstance(message, (Probe, ProbeReply)) and max(message.sender, message.to) < self._servers:
            return None  # between servers: its "job" numbers an exchange
        if hasattr(message, "job"):
            return int(message.job)
        if hasattr(message, "copy"):
            for server in (message.sender, message.to):
                for copy, job in self._copies.get(server, ()):
                    if copy == message.copy:
                        return job
        return None

    def _write(self, job: int, now: float, message: Message, heard: bool) -> None:
        details = {name: value for name, value in msgspec.structs.asdict(message).items() if name not in _NOT_DETAILS}
        if isinstance(message, Transfer):
            details["tasks"] = [task.task for task in message.tasks if task.job == job]
        text = msgspec.json.encode(details).decode()
        self.events.append(TraceEvent(job, now, heard, kind_name(type(message)), message.sender, message.to, text))
