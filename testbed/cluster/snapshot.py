"""The state of a cluster at one moment: the one thing that live views are drawn from.

The controller makes a snapshot about four times a second (testbed.cluster.observing), of a run and of a long-running
cluster alike. A snapshot is plain data: it travels over sockets, and is drawn by processes that know nothing else of
the cluster. Times are in time units unless another unit is named; None is a number that is not known (yet).
"""

from __future__ import annotations

import math

import msgspec

from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.measure.verdict_checks import Check

#: Longer queues are shown with this length.
LONGEST_SHOWN = 255


class Responses(msgspec.Struct, frozen=True, kw_only=True):
    """Response times: ``counts`` per bucket of a LogHistogram(*RESPONSE_BUCKETS), and their ``sum``.

    ``half_width`` is that of the mean's 95 % interval, by batch means; None while there are too few batches.
    """

    counts: list[int] = []
    sum: float = 0.0
    half_width: float | None = None

    @property
    def count(self) -> int:
        """The number of completed jobs."""
        return sum(self.counts)

    @property
    def mean(self) -> float | None:
        """The mean response time, exact; None when there is none."""
        count = self.count
        return self.sum / count if count else None

    def quantile(self, probability: float) -> float | None:
        """Return a quantile, which is as exact as the buckets are narrow; None when there is none."""
        if not any(self.counts):
            return None
        histogram = LogHistogram(*RESPONSE_BUCKETS)
        histogram.counts = self.counts
        histogram.max = math.inf if not self.counts[-1] else max(histogram.bounds[-1], self.sum / self.counts[-1])
        return histogram.quantile(probability)


class Theory(msgspec.Struct, frozen=True, kw_only=True):
    """The theory: the load and its stability bound, with its reason; a prediction, or the reason why there is none.

    ``quantiles`` are response times by probability, ``mean`` their mean; ``name`` names the formula, ``kind`` its type
    (testbed.theory.prediction); ``response_tail`` are points (t, P(response time > t)).
    """

    load: float
    stability_bound: float
    stability_reason: str
    name: str | None = None
    kind: str | None = None
    mean: float | None = None
    quantiles: dict[float, float] = {}
    response_tail: list[tuple[float, float]] = []
    reason: str | None = None


class ProcessState(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a process of the cluster. Seconds are wall-clock seconds.

    ``cpu_share`` is the recent fraction of one core; ``lateness`` is that of its timers since it started; ``metrics``
    is host:port of its /metrics.
    """

    name: str
    pid: int
    alive: bool
    restarts: int = 0
    cpu_share: float = 0.0
    lateness_mean: float = 0.0  # seconds
    lateness_p50: float = 0.0
    lateness_p99: float = 0.0
    metrics: str | None = None


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a cluster.

    ``clock``: seconds since the epoch. ``horizon``: when arrivals will stop, None for a long-running cluster.
    ``queue_lengths``: of each server, tasks in service included, at most LONGEST_SHOWN. ``arrived``, ``ended``,
    ``outcomes`` and ``counters`` (with the names of the run's summary) count from the start. ``responses`` are those
    since ``since``: the end of the warm-up, or the last change of settings. ``recent`` ones, and all rates, are those
    of the last ``recent_seconds``. ``checks`` is the verdict so far.
    """

    clock: float
    scenario: str
    variant: str
    replication: int
    policy: str
    load: float
    servers: int
    time_unit_seconds: float
    time: float
    horizon: float | None
    arrived: int = 0
    ended: int = 0
    in_system: int = 0
    outcomes: dict[str, int] = {}
    counters: dict[str, int] = {}
    queue_lengths: list[int] = []
    since: float = 0.0
    responses: Responses = Responses()
    recent: Responses = Responses()
    recent_seconds: float = 0.0
    jobs_per_second: float = 0.0
    probes_per_job: float | None = None
    messages_per_job: float | None = None
    theory: Theory | None = None
    checks: list[Check] = []
    processes: list[ProcessState] = []
    incidents: list[str] = []

    @property
    def name(self) -> str:
        """The variant, with the number of the replication from the second on."""
        return f"{self.variant} #{self.replication + 1}" if self.replication else self.variant

    @property
    def fraction(self) -> float | None:
        """The fraction of the run that is over; None for a long-running cluster."""
        return None if self.horizon is None else min(1.0, self.time / self.horizon)

    @property
    def valid(self) -> bool:
        """The verdict so far."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        mean, p99 = self.responses.mean, self.responses.quantile(0.99)
        if mean is None or p99 is None:
            return f"{self.arrived} jobs have arrived"
        failed = ", ".join(f"{check.name} {check.figure}" for check in self.checks if not check.passed)
        return f"{self.jobs_per_second:,.0f} jobs/s  mean {mean:.3f}  p99 {p99:.2f}  in system {self.in_system}  " + (
            f"suspect: {failed}" if failed else "valid so far"
        )
