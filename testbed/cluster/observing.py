"""What the processes of a cluster last said, put together into a snapshot.

Processes say what they have counted since they started; rates and recent response times are differences of such totals.
The observer keeps two series of them: a short one over the last RECENT_SECONDS, and one over everything since
``restart``, which it thins out, so that memory is bounded however long the cluster stands.
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
from testbed.measure.checks import Check, checked, deaths, percent
from testbed.measure.statistics import replication_interval
from testbed.measure.verdict import CPU_LIMIT, FEWEST_TIMERS, LATENESS_LIMIT
from testbed.theory.predict import NoPrediction, Prediction, stability_bound

if TYPE_CHECKING:
    from testbed.cluster.members import Member
    from testbed.scenario import Scenario

RECENT_SECONDS = 30.0
BATCHES = 20  # of equal time, for the interval of the mean
MOST_TOTALS = 16 * BATCHES


class Totals(NamedTuple):
    """What has been counted by a time: response times by bucket and their sum, and events."""

    time: float  # in time units
    clock: float  # monotonic seconds
    arrived: int
    counts: list[int]
    sum: float
    probes: int
    messages: int


class Observer:
    """Makes snapshots of one cluster. ``horizon`` is None for one that stands until it is told to go."""

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
        # Until the warm-up is over the numbers are of it: better than none.
        self._fresh = True
        self._warm = scenario.horizon - scenario.run.duration if horizon is not None else 0.0
        self._recent: deque[Totals] = deque()
        self._history: list[Totals] = []
        self._spacing = 0.0  # time units between two totals of the history

    def restart(self, scenario: Scenario, theory: Theory | None) -> None:
        """Begin anew with response times: the cluster has other settings from now on."""
        self.scenario = scenario
        self.theory = theory
        self._history = [self._recent[-1]] if self._recent else []
        self._spacing = 0.0

    def snapshot(self, members: Sequence[Member], incidents: Sequence[str] = ()) -> Snapshot:
        """Return how the cluster is doing, by the last word of each process."""
        words = [word for word in (member.totals for member in members) if word is not None]
        counters: dict[str, int] = {}
        for word in words:
            for name, value in word.counters.items():
                counters[name] = counters.get(name, 0) + value
        totals = self._totals(words, counters)
        self._note(totals)
        first, oldest = self._history[0], self._recent[0]
        jobs = totals.arrived - oldest.arrived
        seconds = totals.clock - oldest.clock
        responses = _between(first, totals, self._half_width([*self._history, totals]))
        checks = self._checks(members, words, responses.mean, totals.arrived)
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
            ended=sum(word.ended for word in words),
            in_system=sum(word.in_system for word in words),
            outcomes={
                outcome.label: sum(word.outcomes[outcome] for word in words if word.outcomes) for outcome in JobOutcome
            },
            counters=counters,
            queue_lengths=_queue_lengths(members, scenario.servers),
            since=first.time,
            responses=responses,
            recent=_between(oldest, totals, self._half_width(self._recent)),
            recent_seconds=seconds,
            jobs_per_second=jobs / seconds if seconds > 0 else 0.0,
            probes_per_job=(totals.probes - oldest.probes) / jobs if jobs else None,
            messages_per_job=(totals.messages - oldest.messages) / jobs if jobs else None,
            theory=self.theory,
            checks=checks,
            processes=[_state(member) for member in members],
            incidents=list(incidents),
        )

    def _totals(self, words: Sequence[Progress], counters: dict[str, int]) -> Totals:
        histograms = [word.responses for word in words if word.responses]
        return Totals(
            time=max(0.0, max((word.time for word in words), default=0.0)),
            clock=time.monotonic(),
            arrived=sum(word.arrived for word in words),
            counts=[sum(bucket) for bucket in zip(*histograms, strict=True)],
            sum=sum(word.response_sum for word in words),
            probes=counters.get("probes", 0),
            messages=counters.get("messages", 0),
        )

    def _note(self, totals: Totals) -> None:
        """Take totals into both series."""
        start = Totals(0.0, totals.clock - totals.time * self.scenario.run.time_unit_seconds, 0, [], 0.0, 0, 0)
        recent, history = self._recent, self._history
        if not recent:
            recent.append(start)
        if self._warm and totals.time >= self._warm:
            history.clear()
            self._warm = 0.0
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
        """Return that of the mean response time, from the means of BATCHES stretches of about equal time."""
        begin, width = series[0].time, (series[-1].time - series[0].time) / BATCHES
        edges = [series[0]]
        for totals in series:
            if totals.time >= begin + len(edges) * width > begin:
                edges.append(totals)
        if len(edges) <= BATCHES:
            return None
        return replication_interval([_between(a, b).mean for a, b in pairwise(edges)]).half_width

    def _checks(
        self, members: Sequence[Member], words: Sequence[Progress], mean: float | None, arrived: int
    ) -> list[Check]:
        """Return the part of the verdict (testbed.measure.verdict) that can be given while the cluster runs."""
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
            lag = sum(word.lag_sum for word in words) / arrived / mean if arrived else 0.0
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
            late = max((w.lateness_mean / seconds for w in words if w.timers >= FEWEST_TIMERS), default=0.0)
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
        cpu = max((word.cpu_share for word in words), default=0.0)
        found.append(
            checked(
                "CPU share",
                percent(cpu),
                percent(CPU_LIMIT),
                cpu <= CPU_LIMIT,
                f"the busiest process used {percent(cpu)} of a core",
                "use a longer time_unit, fewer servers, or more nodes and dispatchers on a machine with more cores",
            )
        )
        gone = [member.name for member in members if member.process.returncode is not None and not member.report]
        found.append(
            checked(
                "processes alive",
                f"{len(members) - len(gone)} of {len(members)}",
                "all",
                not gone,
                f"not running: {', '.join(gone)}" if gone else "all processes run",
                "what is shown is not of the cluster that the scenario describes",
            )
        )
        return found


def theory_of(scenario: Scenario, prediction: Prediction | NoPrediction) -> Theory:
    """Return what the theory says of a scenario, as a snapshot has it."""
    stability = stability_bound(scenario)
    if isinstance(prediction, NoPrediction):
        return Theory(stability_bound=stability.bound, stability_reason=stability.reason, reason=prediction.reason)
    return Theory(
        stability_bound=stability.bound,
        stability_reason=stability.reason,
        name=prediction.name,
        kind=prediction.kind,
        mean=prediction.mean_response_time,
        quantiles=prediction.quantiles,
        response_tail=prediction.response_tail,
    )


def _between(first: Totals, last: Totals, half_width: float | None = None) -> Responses:
    """Return the response times that came between two totals."""
    before = first.counts or [0] * len(last.counts)
    # A process that is restarted counts from zero again: what it had counted is missing, not negative.
    counts = [max(0, b - a) for a, b in zip(before, last.counts, strict=False)]
    return Responses(counts=counts, sum=max(0.0, last.sum - first.sum), half_width=half_width)


def _queue_lengths(members: Sequence[Member], servers: int) -> list[int]:
    lengths = [0] * servers
    for member in members:
        if member.servers is not None and member.progress is not None and member.progress.queue_lengths:
            first, end = member.servers
            lengths[first:end] = member.progress.queue_lengths
    return lengths


def _state(member: Member) -> ProcessState:
    word = member.progress or Progress(time=0.0)
    return ProcessState(
        name=member.name,
        pid=member.process.pid,
        alive=member.process.returncode is None,
        restarts=member.restarts,
        cpu_share=word.cpu_share,
        lateness_mean=word.lateness_mean,
        lateness_p50=word.lateness_p50,
        lateness_p99=word.lateness_p99,
        metrics=f"127.0.0.1:{member.ready.metrics_port}" if member.ready is not None else None,
    )
