"""Snapshots of a cluster, from the latest reports of its processes.

Processes report what they have counted since they started; rates and recent response times are differences of such
totals. The observer keeps two series of totals: a short one over the last RECENT_SECONDS, and one over everything since
``restart``. It thins out the second one, so that memory is bounded however long the cluster runs.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from testbed.cluster.control import Progress
from testbed.cluster.snapshot import ProcessState, Responses, Snapshot, Theory
from testbed.core.outcomes import JobOutcome
from testbed.measure.statistics import replication_interval
from testbed.measure.verdict import CPU_LIMIT, FEWEST_TIMERS, LATENESS_LIMIT
from testbed.measure.verdict_checks import Check, checked, deaths, percent
from testbed.theory.predict import NoPrediction, Prediction, stability_bound

if TYPE_CHECKING:
    from testbed.cluster.members import Member
    from testbed.scenario import Scenario

RECENT_SECONDS = 30.0
BATCHES = 20  # of equal time, for the interval of the mean
MOST_TOTALS = 16 * BATCHES


class Totals(NamedTuple):
    """Counts up to a time: response times by bucket and their sum, arrivals, probes and messages."""

    time: float  # in time units
    clock: float  # monotonic seconds
    arrived: int
    counts: list[int]
    sum: float
    probes: int
    messages: int


class Observer:
    """Makes snapshots of one cluster. ``horizon`` is None for a long-running one."""

    def __init__(
        self,
        scenario: Scenario,
        variant: str,
        replication: int,
        *,
        theory: Theory | None = None,
        horizon: float | None = None,
    ) -> None:
        self.scenario = scenario
        self.theory = theory
        self._variant = variant
        self._replication = replication
        self._horizon = horizon
        # Until the warm-up is over the numbers are those of the warm-up: better than none.
        self._fresh = True
        self._warm = scenario.horizon - scenario.run.duration if horizon is not None else 0.0
        self._recent: deque[Totals] = deque()
        self._history: list[Totals] = []
        self._spacing = 0.0  # time units between two totals of the history
        self._next: tuple[float, Scenario, Theory | None] | None = None  # settings to come, and their model time

    def restart(self, scenario: Scenario, theory: Theory | None, at: float) -> None:
        """Start response times and rates anew at model time ``at``, when the cluster gets other settings."""
        self._next = at, scenario, theory

    def snapshot(self, members: Sequence[Member], incidents: Sequence[str] = ()) -> Snapshot:
        """Return the present state of the cluster, by the latest report of each process."""
        reports = [report for report in (member.totals for member in members) if report is not None]
        counters: dict[str, int] = {}
        for report in reports:
            for name, value in report.counters.items():
                counters[name] = counters.get(name, 0) + value
        totals = self._totals(reports, counters)
        self._note(totals)
        first, oldest = self._history[0], self._recent[0]
        jobs = totals.arrived - oldest.arrived
        seconds = totals.clock - oldest.clock
        responses = _between(first, totals, self._half_width([*self._history, totals]))
        checks = self._checks(members, reports, responses.mean, totals.arrived)
        if incidents:
            checks.append(deaths(incidents))
        scenario = self.scenario
        return Snapshot(
            clock=time.time(),
            scenario=scenario.name,
            variant=self._variant,
            replication=self._replication,
            policy=scenario.dispatch.policy,
            load=scenario.load,
            servers=scenario.servers,
            time_unit_seconds=scenario.run.time_unit_seconds,
            time=totals.time,
            horizon=self._horizon,
            arrived=totals.arrived,
            ended=sum(report.ended for report in reports),
            in_system=sum(report.in_system for report in reports),
            outcomes={
                outcome.label: sum(report.outcomes[outcome] for report in reports if report.outcomes)
                for outcome in JobOutcome
            },
            counters=counters,
            queue_lengths=_queue_lengths(members, scenario.servers),
            since=first.time,
            responses=responses,
            recent=_between(oldest, totals, self._half_width(self._recent)),
            recent_seconds=seconds,
            jobs_per_second=jobs / seconds if seconds > 0 and _jobs_arrive(members) else 0.0,
            probes_per_job=(totals.probes - oldest.probes) / jobs if jobs else None,
            messages_per_job=(totals.messages - oldest.messages) / jobs if jobs else None,
            theory=self.theory,
            checks=checks,
            processes=[_state(member) for member in members],
            incidents=list(incidents),
        )

    def _totals(self, reports: Sequence[Progress], counters: dict[str, int]) -> Totals:
        histograms = [report.responses for report in reports if report.responses]
        return Totals(
            time=max(0.0, max((report.time for report in reports), default=0.0)),
            clock=time.monotonic(),
            arrived=sum(report.arrived for report in reports),
            counts=[sum(bucket) for bucket in zip(*histograms, strict=True)],
            sum=sum(report.response_sum for report in reports),
            probes=counters.get("probes", 0),
            messages=counters.get("messages", 0),
        )

    def _note(self, totals: Totals) -> None:
        """Add totals to both series."""
        start = Totals(0.0, totals.clock - totals.time * self.scenario.run.time_unit_seconds, 0, [], 0.0, 0, 0)
        recent, history = self._recent, self._history
        if not recent:
            recent.append(start)
        if self._warm and totals.time >= self._warm:
            history.clear()
            self._warm = 0.0
        if self._next is not None and totals.time >= self._next[0]:
            _, self.scenario, self.theory = self._next
            self._next = None
            history.clear()
            recent.clear()
            self._spacing = 0.0
        if not history:
            history.append(start if self._fresh else totals)
            self._fresh = False
        while len(recent) > 1 and recent[1].clock <= totals.clock - RECENT_SECONDS:
            recent.popleft()
        recent.append(totals)
        if totals.time >= history[-1].time + self._spacing:
            history.append(totals)
        if len(history) > MOST_TOTALS:
            del history[1::2]
            self._spacing = (totals.time - history[0].time) / len(history)

    def _half_width(self, series: Sequence[Totals]) -> float | None:
        """Return that of the mean response time, from the means of BATCHES intervals of about equal length."""
        begin, width = series[0].time, (series[-1].time - series[0].time) / BATCHES
        edges = [series[0]]
        for totals in series:
            if totals.time >= begin + len(edges) * width > begin:
                edges.append(totals)
        if len(edges) <= BATCHES:
            return None
        return replication_interval([_between(a, b).mean for a, b in pairwise(edges)]).half_width

    def _checks(
        self, members: Sequence[Member], reports: Sequence[Progress], mean: float | None, arrived: int
    ) -> list[Check]:
        """Return the checks of the verdict (testbed.measure.verdict) that can be made while the cluster runs."""
        found = []
        theory, load = self.theory, self.scenario.load
        if theory is not None:
            found.append(
                checked(
                    "load below the stability bound",
                    f"{load:.4g}",
                    f"{theory.stability_bound:.4g}",
                    load < theory.stability_bound,
                    f"the load is {load:.4g} and the stability bound {theory.stability_bound:.4g}",
                    "the queues grow for as long as it runs; use a lower load",
                )
            )
        if mean:
            lag = sum(report.lag_sum for report in reports) / arrived / mean if arrived else 0.0
            found.append(
                checked(
                    "dispatch lag",
                    percent(lag),
                    percent(LATENESS_LIMIT),
                    lag <= LATENESS_LIMIT,
                    f"arrivals were handled {percent(lag)} of the mean response time late",
                    "use a longer time_unit, fewer servers or more dispatchers",
                )
            )
            seconds = mean * self.scenario.run.time_unit_seconds
            late = max((w.lateness_mean / seconds for w in reports if w.timers >= FEWEST_TIMERS), default=0.0)
            found.append(
                checked(
                    "timer lateness",
                    percent(late),
                    percent(LATENESS_LIMIT),
                    late <= LATENESS_LIMIT,
                    f"timers were {percent(late)} of the mean response time late",
                    "use a longer time_unit or fewer servers",
                )
            )
        cpu = max((report.cpu_share for report in reports), default=0.0)
        found.append(
            checked(
                "CPU usage",
                percent(cpu),
                percent(CPU_LIMIT),
                cpu <= CPU_LIMIT,
                f"the busiest process used {percent(cpu)} of a core",
                "use a longer time_unit, fewer servers, or more nodes and dispatchers on a machine with more cores",
            )
        )
        gone = [member.name for member in members if not member.alive and not member.report]
        found.append(
            checked(
                "processes alive",
                f"{len(members) - len(gone)} of {len(members)}",
                "all",
                not gone,
                f"not running: {', '.join(gone)}" if gone else "all processes run",
                "the results are not those of the cluster that the scenario describes",
            )
        )
        return found


def theory_of(scenario: Scenario, prediction: Prediction | NoPrediction) -> Theory:
    """Return the theory of a scenario, for its snapshots."""
    stability = stability_bound(scenario)
    if isinstance(prediction, NoPrediction):
        return Theory(
            load=scenario.load,
            stability_bound=stability.bound,
            stability_reason=stability.reason,
            reason=prediction.reason,
        )
    return Theory(
        load=scenario.load,
        stability_bound=stability.bound,
        stability_reason=stability.reason,
        name=prediction.name,
        kind=prediction.kind,
        mean=prediction.mean_response_time,
        quantiles=prediction.quantiles,
        response_tail=prediction.response_tail,
    )


def _between(first: Totals, last: Totals, half_width: float | None = None) -> Responses:
    """Return the response times between two totals."""
    before = first.counts or [0] * len(last.counts)
    # A restarted process counts from zero again: its earlier counts are missing, not negative.
    counts = [max(0, b - a) for a, b in zip(before, last.counts, strict=False)]
    return Responses(counts=counts, sum=max(0.0, last.sum - first.sum), half_width=half_width)


def _jobs_arrive(members: Sequence[Member]) -> bool:
    """Return whether a dispatcher still expects arrivals: a trace may have ended, or the cluster drains."""
    latest = [member.progress for member in members if member.dispatcher is not None]
    return not all(report is not None and report.arrivals_over for report in latest)


def _queue_lengths(members: Sequence[Member], servers: int) -> list[int]:
    lengths = [0] * servers
    for member in members:
        if member.servers is not None and member.progress is not None and member.progress.queue_lengths:
            first, end = member.servers
            lengths[first:end] = member.progress.queue_lengths
    return lengths


def _state(member: Member) -> ProcessState:
    report = member.progress or Progress(time=0.0)
    return ProcessState(
        name=member.name,
        pid=member.process.pid,
        alive=member.alive,
        restarts=member.restarts,
        cpu_share=report.cpu_share,
        lateness_mean=report.lateness_mean,
        lateness_p50=report.lateness_p50,
        lateness_p99=report.lateness_p99,
        metrics=f"127.0.0.1:{member.ready.metrics_port}" if member.ready is not None else None,
    )
