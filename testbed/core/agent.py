"""Agents, and the environment that a runtime gives them.

An agent is a plain state machine. It receives a message or a timer, reads ``env.now``, draws from a stream of its own,
and acts through ``env.send`` and ``env.call_at``. It does no I/O, so that the same object runs in the real-time runtime
and in the virtual one (testbed/docs/architecture.md, rules 1 and 2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol

from testbed.core.messages import Message
from testbed.core.streams import Stream


class Timer:
    """A call that an agent has scheduled. ``cancel`` revokes it, and does nothing after the call."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], object]) -> None:
        self.callback: Callable[[], object] | None = callback

    def cancel(self) -> None:
        """Revoke the call."""
        self.callback = None


class Environment(Protocol):
    """Everything that an agent may know and do. All times are in time units.

    ``now`` is the time of the event being handled. For a timer that is the time it was *due*, also when the process
    woke up late: an agent that schedules its next timer from ``now`` chains its deadlines and never loses time to a
    late wake-up (testbed/docs/architecture.md, rule 5). For a message it is the time of receipt. It never decreases.
    ``lateness`` is how far the clock was ahead of ``now`` when the event was handled; 0 in the virtual runtime.
    """

    now: float
    lateness: float

    def send(self, message: Message, /) -> object:
        """Send a message to the agent at ``message.to``. Messages between the same two agents arrive in order."""

    def call_at(self, when: float, callback: Callable[[], object], /) -> Timer:
        """Call ``callback()`` at time ``when``; at once if that time is past."""

    def stream(self, name: str, /) -> Stream:
        """Return the random stream of that name."""


class Agent:
    """Base class of all agents: an address, an environment and a table of handlers.

    A subclass lists in ``HANDLES`` which method handles which message; ``handlers`` is that table bound to the object.
    A runtime delivers a message with ``agent.handlers[type(message)](message)``. Who sends a message that the table
    lacks violates the protocol.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {}

    def __init__(self, env: Environment, address: int) -> None:
        self.env = env
        self.address = address
        self.handlers: dict[type[Message], Callable[[Any], object]] = {
            message_type: getattr(self, method) for message_type, method in self.HANDLES.items()
        }

    def start(self) -> None:
        """Act at time 0, before any message; the default does nothing."""

    def on_down(self, first: int, last: int) -> None:
        """Note that the servers at addresses ``first`` to ``last`` have died; the default does nothing."""

    def on_up(self, first: int, last: int) -> None:
        """Note that servers that had died are there again, empty; the default does nothing."""
