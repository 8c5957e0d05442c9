"""The history of one job, from the events that the runtimes recorded of it and from its records."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.trace_recorder import TraceEvent

#: Messages that bring a task to a server, which it may leave before it is served.
_BRINGS = frozenset({"assign", "commit", "transfer"})
#: Messages that are sent ahead of a transfer.
_ASKS = frozenset({"steal", "offer", "accepted"})
#: Computed times may differ by rounding, in time units.
_DIGITS = 9
_EXACT = 1e-9


@dataclass(frozen=True)
class Names:
    """The names of agents: servers have the addresses below ``servers``, then come the dispatchers.

    ``pools`` are the names of the pools by their indices.
    """

    servers: int
    dispatchers: int
    pools: Sequence[str]

    def __call__(self, address: int) -> str:
        """Return the name of the agent at an address."""
        if address < self.servers:
            return f"server {address}"
        if address < self.servers + self.dispatchers:
            return f"dispatcher {address - self.servers}"
        return "pools"


@dataclass(frozen=True)
class Step:
    """One event of a job's history, at a time in time units.

    Either a message from ``place`` to ``to`` that was ``delivered`` at another time, None if it never was; or, with
    ``to`` None, an event at one place that lasted ``until`` another time.
    """

    time: float
    place: str
    what: str
    to: str | None = None
    delivered: float | None = None
    until: float | None = None


@dataclass(frozen=True, kw_only=True)
class _Message(Step):
    kind: str
    details: dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A job's own record: intended arrival, response time (None unless completed), and outcome."""

    number: int
    dispatcher: int
    arrival: float
    lag: float
    response: float | None
    outcome: str


def history(job: Job, events: Iterable[TraceEvent], names: Names) -> list[Step]:
    """Return what happened to ``job`` in the order of time: its messages, its services, its arrival and its end."""
    place = names(names.servers + job.dispatcher)
    late = f", handled {job.lag:.3g} late" if job.lag > 0 else ""
    messages = _messages(events, names)
    stays = [step for message in messages for step in _stays(message, messages)]
    over = job.arrival + job.response if job.response is not None else max((m.time for m in messages), default=0.0)
    what = f"job done: response time {job.response:.4g}" if job.response is not None else f"job {job.outcome}"
    # At the same time, as for a whole job on a twin without message delay: requests come before moves.
    return [
        Step(job.arrival, place, f"job {job.number} arrives{late}"),
        *sorted([*messages, *stays], key=lambda step: (round(step.time, _DIGITS), _rank(step))),
        Step(over, place, what),
    ]


def _rank(step: Step) -> int:
    return 2 if not isinstance(step, _Message) else 0 if step.kind in _ASKS else 1


def _messages(events: Iterable[TraceEvent], names: Names) -> list[_Message]:
    """Pair sent and delivered messages; messages between the same two agents keep their order."""
    sent: list[TraceEvent] = []
    deliveries: dict[tuple[str, int, int, str], deque[float]] = defaultdict(deque)
    for event in events:
        if event.heard:
            deliveries[_key(event)].append(event.time)
        else:
            sent.append(event)
    found = []
    for event in sent:
        times = deliveries[_key(event)]
        details = msgspec.json.decode(event.details)
        found.append(
            _Message(
                event.time,
                names(event.sender),
                describe(event.kind, details, event.to, names),
                names(event.to),
                times.popleft() if times else None,
                kind=event.kind,
                details=details,
            )
        )
    return found


def _key(event: TraceEvent) -> tuple[str, int, int, str]:
    return event.kind, event.sender, event.to, event.details


def _stays(message: _Message, messages: Sequence[_Message]) -> list[Step]:
    """Return the service, and the waiting before it, whose end a message reports."""
    details, end, place = message.details, message.time, message.place

    def here(kinds: frozenset[str], until: float) -> list[float]:
        """Return when messages of those types arrived here, up to a time that may be off by rounding."""
        times = [other.delivered for other in messages if other.to == place and other.kind in kinds]
        return sorted(time for time in times if time is not None and time <= until + _EXACT)

    if message.kind == "transfer":
        return _stay(place, here(_BRINGS, end)[-1:], 0.0, end, end)
    if message.kind in ("done", "cancelled"):
        start = end - details["service" if message.kind == "done" else "received"]
        # A task that has moved waited elsewhere before.
        return _stay(place, here(frozenset({"transfer"}), start)[-1:], details["wait"], start, end)
    if message.kind in ("served", "stopped", "reached"):
        begun = [other for other in messages if _begins(other, message)]
        if begun and not (message.kind == "reached" and begun[-1].details["goes_on"]):
            # Not when the Serve arrived: a service that waited for the server began when the one before it ended.
            return _stay(place, [], 0.0, end - (details["received"] - begun[-1].details["received"]), end)
    return []


def _stay(place: str, came: list[float], wait: float, start: float, end: float) -> list[Step]:
    """Return the waiting until ``start``, from its arrival if that is known, and the service from then on."""
    since = min(came[0], start) if came else start - wait
    found = []
    if start - since > _EXACT:
        found.append(Step(since, place, f"waits for {start - since:.4g}", until=start))
    if end - start > _EXACT:
        found.append(Step(start, place, f"in service for {end - start:.4g}", until=end))
    return found


def _begins(serve: _Message, ended: _Message) -> bool:
    """Return whether a Serve began the service whose end another message reports."""
    if serve.delivered is None or serve.delivered > ended.time:
        return False
    return serve.kind == "serve" and serve.to == ended.place and serve.details["copy"] == ended.details["copy"]


def describe(kind: str, details: dict[str, Any], to: int, names: Names) -> str:
    """Return a short description of a message."""
    words = kind.replace("_", " ")
    if kind == "transfer":
        # A server numbers its exchanges from its address on, in steps of the number of servers.
        began = details["exchange"] % names.servers
        how = "stolen" if began == to else "shared"
        return f"{how}: task {', '.join(map(str, details['tasks']))} moves"
    if kind == "copy_ended":
        met = f", its cancellation found it {StateAtCancellation(details['met']).label}" if details["met"] else ""
        received = details["received"]
        got = "" if received is None else f" after {received:.4g}"
        return f"copy {details['order']} {CopyOutcome(details['fate']).label}{got}{met}"
    if kind == "cancelled":
        return f"copy {details['copy']} cancelled: {StateAtCancellation(details['met']).label}"
    if kind == "enter":
        return f"enter pool {names.pools[details['pool']]}"
    if kind == "probe_reply":
        return f"reply: {details['queue_length']} there"
    said = {
        "assign": ("task", "size"),
        "commit": ("task", "size"),
        "assign_copy": ("copy", "size"),
        "done": ("task", "wait", "service"),
        "cancel_copy": ("copy",),
        "started": ("copy",),
        "dropped": ("task",),
        "moved": ("task", "server"),
        "hold": ("places",),
        "serve": ("size", "received"),
        "served": ("received",),
        "stopped": ("received",),
        "reached": ("received",),
        "left": ("server", "copies"),
    }.get(kind, ())
    return f"{words}: {', '.join(f'{name} {_short(details[name])}' for name in said)}" if said else words


def _short(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
