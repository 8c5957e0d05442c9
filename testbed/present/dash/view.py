"""What the page shows of a run. Times are in time units unless another unit is named; None is not known (yet)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from testbed.cluster.snapshot import Responses, Snapshot, Theory
from testbed.core.records import RESPONSE_BUCKETS, ProcessReport
from testbed.measure.histogram import LogHistogram
from testbed.measure.summary import Summary
from testbed.measure.verdict_checks import Check

#: The most rows of the heat strip; with more servers, each row is the mean of several.
MOST_ROWS = 128

#: The events that the heat strip marks, with the counters that count them.
EVENTS = {
    "stolen": ("tasks stolen",),
    "shared": ("tasks shared",),
    "rerouted": ("reroutes",),
    "replicated": ("replicas started",),
    "cancelled": ("copies cancelled", "reservations cancelled"),
}

BOUNDS = LogHistogram(*RESPONSE_BUCKETS).bounds

Row = tuple[float, ...]
Curve = list[tuple[float, float]]


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """A run at one time. ``queues``: the heat strip's rows, by server; ``events``: since the last point."""

    time: float
    in_system: float
    mean: float | None = None
    half_width: float | None = None
    recent: float | None = None
    queues: Row = ()
    events: dict[str, int] = {}


class ProcessView(msgspec.Struct, frozen=True, kw_only=True):
    """A process of the cluster. ``alive`` and ``pid`` are None when the run has ended; lateness is in seconds."""

    name: str
    pid: int | None = None
    alive: bool | None = None
    restarts: int = 0
    cpu_share: float
    lateness_p50: float
    lateness_p99: float


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run of one variant as the page shows it.

    ``response_tail``: points of P(response time > t). ``so_far``: the verdict may still change. ``servers_per_row``: of
    the heat strip. ``interval_reliable`` is as in testbed.measure.statistics.Interval.
    """

    id: str
    name: str
    policy: str
    source: str
    state: Literal["running", "finished"]
    servers: int
    servers_per_row: int
    time_unit_seconds: float
    time: float
    horizon: float | None
    load: float | None = None
    since: float = 0.0
    completed: int = 0
    mean: float | None = None
    half_width: float | None = None
    interval_reliable: bool = True
    quantiles: dict[str, float | None] = {}
    recent_mean: float | None = None
    recent_half_width: float | None = None
    recent_seconds: float | None = None
    in_system: float | None = None
    jobs_per_second: float | None = None
    probes_per_job: float | None = None
    messages_per_job: float | None = None
    outcomes: dict[str, int] = {}
    counters: dict[str, int] = {}
    theory: Theory | None = None
    response_tail: Curve = []
    valid: bool = True
    so_far: bool = False
    checks: list[Check] = []
    processes: list[ProcessView] = []
    incidents: list[str] = []


def process_view(report: ProcessReport) -> ProcessView:
    """Return the state of a process at the end of its run."""
    return ProcessView(
        name=report.name,
        cpu_share=report.cpu_seconds / report.seconds if report.seconds > 0 else 0.0,
        lateness_p50=report.lateness_p50,
        lateness_p99=report.lateness_p99,
    )


def run_id(variant: str, replication: int, source: str = "cluster") -> str:
    """Return an identifier that is unique among the runs of a command."""
    return f"{source}/{variant}/{replication}"


def view_of(snapshot: Snapshot) -> RunView:
    """Return the present state of a run."""
    responses, recent = snapshot.responses, snapshot.recent
    return RunView(
        id=run_id(snapshot.variant, snapshot.replication),
        name=snapshot.name,
        policy=snapshot.policy,
        source="cluster",
        state="running",
        servers=snapshot.servers,
        servers_per_row=servers_per_row(snapshot.servers),
        time_unit_seconds=snapshot.time_unit_seconds,
        time=snapshot.time,
        horizon=snapshot.horizon,
        load=snapshot.load,
        since=snapshot.since,
        completed=responses.count,
        mean=responses.mean,
        half_width=responses.half_width,
        quantiles={str(p): responses.quantile(p) for p in (0.5, 0.9, 0.99, 0.999)},
        recent_mean=recent.mean,
        recent_half_width=recent.half_width,
        recent_seconds=snapshot.recent_seconds,
        in_system=snapshot.in_system,
        jobs_per_second=snapshot.jobs_per_second,
        probes_per_job=snapshot.probes_per_job,
        messages_per_job=snapshot.messages_per_job,
        outcomes=snapshot.outcomes,
        counters=snapshot.counters,
        theory=snapshot.theory,
        response_tail=tail_of(responses),
        valid=snapshot.valid,
        so_far=True,
        checks=snapshot.checks,
        processes=[
            ProcessView(
                name=process.name,
                pid=process.pid,
                alive=process.alive,
                restarts=process.restarts,
                cpu_share=process.cpu_share,
                lateness_p50=process.lateness_p50,
                lateness_p99=process.lateness_p99,
            )
            for process in snapshot.processes
        ],
        incidents=snapshot.incidents,
    )


def point_of(snapshot: Snapshot, before: Snapshot | None) -> Point:
    """Return the point of a snapshot; ``before`` is the previous snapshot, None for the first, which has no events."""
    events = {}
    previous = snapshot.counters if before is None else before.counters
    for event, names in EVENTS.items():
        more = sum(snapshot.counters.get(name, 0) - previous.get(name, 0) for name in names)
        if more > 0:
            events[event] = more
    return Point(
        time=snapshot.time,
        in_system=snapshot.in_system,
        mean=snapshot.responses.mean,
        half_width=snapshot.responses.half_width,
        recent=snapshot.recent.mean,
        queues=rows(snapshot.queue_lengths),
        events=events,
    )


def concluded(view: RunView, summary: Summary) -> RunView:
    """Return a run with the figures of its summary in place of the estimates made during the run."""
    accounting = summary.accounting
    seconds = summary.window[1] * summary.time_unit_seconds
    return msgspec.structs.replace(
        view,
        state="finished",
        since=summary.window[0],
        completed=summary.outcomes.get("completed", 0),
        mean=summary.response.mean,
        half_width=summary.response.half_width,
        interval_reliable=summary.response.reliable,
        quantiles={str(q.probability): q.value for q in summary.response_quantiles},
        recent_mean=None,
        recent_half_width=None,
        recent_seconds=None,
        in_system=summary.number_in_system_mean,
        jobs_per_second=accounting.arrived / seconds if seconds > 0 else None,
        probes_per_job=summary.probes_per_job,
        messages_per_job=summary.messages_per_job,
        outcomes=summary.outcomes,
        counters=summary.counters,
        valid=summary.verdict.valid,
        so_far=False,
        checks=summary.verdict.checks,
        processes=[process_view(process) for process in summary.processes],
    )


def tail_of(responses: Responses) -> Curve:
    """Return P(response time > t) at the bounds of the buckets that contain a response time."""
    count = responses.count
    curve: Curve = []
    above = count
    for bound, inside in zip(BOUNDS, responses.counts, strict=False):
        above -= inside
        if inside and above:
            curve.append((bound, above / count))
    return curve


def servers_per_row(servers: int) -> int:
    """Return how many servers share a row of the heat strip."""
    return -(-servers // MOST_ROWS)


def rows(queue_lengths: Sequence[float]) -> Row:
    """Return the rows of the heat strip: the mean queue length of the servers of each row."""
    width = servers_per_row(len(queue_lengths)) if queue_lengths else 1
    if width == 1:
        return tuple(queue_lengths)
    groups = (queue_lengths[i : i + width] for i in range(0, len(queue_lengths), width))
    return tuple(round(sum(group) / len(group), 1) for group in groups)
