"""Traces of jobs: each of their messages, when it is sent and when it is delivered.

A runtime with a recorder lets it wrap ``send`` and the handlers of its agents; a runtime without one does no extra
work. Agents know nothing of it. All times are in time units, on the runtime's clock: a message that an agent sends at a
deadline bears the time of the deadline, also when the process woke up late.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from testbed.core.agent import Agent, Environment
from testbed.core.messages import (
    MESSAGE_TYPES,
    NO_JOB,
    Accepted,
    CopyEnded,
    Message,
    Offer,
    Reached,
    Refused,
    Serve,
    Served,
    Steal,
    Stop,
    Stopped,
    Transfer,
    Withdrawn,
    message_name,
)
from testbed.core.trace_choice import is_traced


class TraceEvent(msgspec.Struct, frozen=True):
    """A message of a traced job was sent, or delivered (``heard``).

    ``kind`` is the name of its type; ``sender`` and ``to`` are addresses; ``details`` are its other fields, as JSON.
    """

    job: int
    time: float
    heard: bool
    kind: str
    sender: int
    to: int
    details: str


#: Messages of an exchange before its Transfer; they name no job.
_AHEAD = (Steal, Offer, Accepted)
_FAILURES = (Refused, Withdrawn)
#: Between the pool agent and servers; after Serve they name a copy by its number, and no job.
_OF_COPIES = (Serve, Reached, Served, Stop, Stopped)
_NOT_DETAILS = frozenset({"to", "sender", "job", "end"})
#: Fields that recorded traces call by another name: traces are an interface and stay when a field is renamed.
_KEPT_NAMES = {
    "job_type": "kind",
    "outcome": "fate",
    "round": "question",
    "slots": "places",
    "state": "met",
    "state_at_cancellation": "met",
}
#: The pool agent may send a server its next copies before it receives the report of the last one.
_COPIES_PER_SERVER = 4

#: Records a message at a time, as sent or as delivered.
Note = Callable[[float, Any, bool], object]


class TraceRecorder:
    """Records the messages of a ``fraction`` of jobs among the agents of one runtime.

    ``events`` are in the order in which they happened. For any other message the recorder looks up its type and job.
    """

    def __init__(self, fraction: float) -> None:
        self.events: list[TraceEvent] = []
        self._fraction = fraction
        self._ahead: dict[tuple[int, int], list[tuple[float, Message, bool]]] = {}  # by exchange and agent here
        #: By server: numbers and jobs of the traced copies that the pool agent last sent there.
        self._copies: dict[int, deque[tuple[int, int]]] = {}
        self._notes = {each: note for each in MESSAGE_TYPES if (note := self._note_of(each)) is not None}

    def sending(self, env: Environment, send: Callable[[Message], object]) -> Callable[[Message], object]:
        """Return ``send``, wrapped to record each message."""
        notes = self._notes

        def traced(message: Message) -> object:
            note = notes.get(type(message))
            if note is not None:
                note(env.now, message, False)
            return send(message)

        return traced

    def listen(self, env: Environment, agent: Agent) -> None:
        """Record each message that ``agent`` receives."""

        def recording(note: Note, handler: Callable[[Any], object]) -> Callable[[Any], object]:
            def traced(message: Message) -> object:
                note(env.now, message, True)
                return handler(message)

            return traced

        agent.handlers = {
            message_type: recording(self._notes[message_type], handler) if message_type in self._notes else handler
            for message_type, handler in agent.handlers.items()
        }

    def take(self) -> list[TraceEvent]:
        """Return the events since the last call."""
        taken, self.events = self.events, []
        return taken

    def _note_of(self, message_type: type[Message]) -> Note | None:
        """Return the method that records messages of a type; None for a type that belongs to no job."""
        if issubclass(message_type, (*_AHEAD, *_FAILURES, Transfer)):
            return self._note_exchange
        if issubclass(message_type, _OF_COPIES):
            return self._note_copy
        if issubclass(message_type, CopyEnded):
            return self._note_copy_ended
        return self._note_job if "job" in message_type.__struct_fields__ else None

    def _note_job(self, now: float, message: Any, heard: bool) -> None:
        if message.job != NO_JOB and is_traced(message.job, self._fraction):
            self._write(message.job, now, message, heard)

    def _note_exchange(self, now: float, message: Any, heard: bool) -> None:
        key = message.exchange, message.to if heard else message.sender
        if isinstance(message, _AHEAD):
            self._ahead.setdefault(key, []).append((now, message, heard))
            return
        ahead = self._ahead.pop(key, [])
        if isinstance(message, Transfer):
            for job in sorted({task.job for task in message.tasks if is_traced(task.job, self._fraction)}):
                for time, earlier, was_heard in ahead:
                    self._write(job, time, earlier, was_heard)
                self._write(job, now, message, heard)

    def _note_copy(self, now: float, message: Any, heard: bool) -> None:
        """Record a message about a copy; only a Serve names the job."""
        if isinstance(message, Serve):
            if is_traced(message.job, self._fraction):
                copies = self._copies.setdefault(message.to, deque(maxlen=_COPIES_PER_SERVER))
                if (message.copy, message.job) not in copies:
                    copies.append((message.copy, message.job))
                self._write(message.job, now, message, heard)
            return
        for server in (message.sender, message.to):
            for copy, job in self._copies.get(server, ()):
                if copy == message.copy:
                    self._write(job, now, message, heard)
                    return

    def _note_copy_ended(self, now: float, message: CopyEnded, heard: bool) -> None:
        if is_traced(message.record.job, self._fraction):
            self._write(message.record.job, now, message, heard)

    def _write(self, job: int, now: float, message: Message, heard: bool) -> None:
        fields = msgspec.structs.asdict(message)
        if isinstance(message, CopyEnded):
            fields = msgspec.structs.asdict(message.record)
            fields["order"] = fields.pop("copy")
        details = {_KEPT_NAMES.get(name, name): value for name, value in fields.items() if name not in _NOT_DETAILS}
        if isinstance(message, Transfer):
            details["tasks"] = [task.task for task in message.tasks if task.job == job]
        text = msgspec.json.encode(details).decode()
        self.events.append(TraceEvent(job, now, heard, message_name(type(message)), message.sender, message.to, text))
