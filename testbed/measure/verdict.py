"""A run judges itself: valid, or suspect with its reasons (DESIGN rule 10)."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.measure.accounting import Accounting
from testbed.measure.arrivals import gap_test
from testbed.measure.pathwise import Pathwise
from testbed.measure.records import COMPLETED, DROPPED, Measurements, ProcessReport
from testbed.measure.statistics import departures, number_in_system, time_average_queue_length
from testbed.measure.trend import BATCHES, trend

Array = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]
Window = tuple[float, float]

LATENESS_LIMIT: Final = 0.02  # of the mean response time
OVERHEAD_LIMIT: Final = 0.05  # of the mean response time
EMULATION_LIMIT: Final = 0.05  # of the twin's mean response time
CPU_LIMIT: Final = 0.9  # of one core
UNFINISHED_LIMIT: Final = 0.005  # of the jobs of the window
GAP_TOLERANCE: Final = 0.01  # of the mean response time
LOAD_TOLERANCE: Final = 0.005  # of the nominal load, beside four standard errors
SERVED_TOLERANCE: Final = 0.02  # of the served load


@dataclass(frozen=True, kw_only=True)
class Nominal:
    """What the scenario asked for.

    ``rate``: jobs per time unit of the whole cluster. ``load``: expected service time that arrives per server and time
    unit, None where it depends on the policy (speeds differ). ``work_scv``: squared coefficient of variation of the
    service time of all tasks of a job together, may be infinite. ``probes_per_task``: what the policy means to send.
    ``gap_cdf``: distribution function of the gaps between arrivals of the whole cluster, None unless they are
    independent with a continuous law. ``arrival_dispersion``: limit of the variance over the mean of the number of
    arrivals in a long time (the gaps' SCV if they are independent), None if unknown.
    ``message_delay``: mean delay that the scenario itself adds to each message.
    """

    servers: int
    rate: float
    load: float | None
    work_scv: float
    gap_cdf: Callable[[Array], Array] | None
    arrival_dispersion: float | None
    message_delay: float
    probes_per_task: float | None = None


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: its figure, the limit it was held to, and a sentence that says what was found, and if it failed, what
    would help.
    """

    name: str
    figure: str
    limit: str
    passed: bool
    explanation: str


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """Whether the numbers of a run can be trusted, and why or why not."""

    valid: bool
    checks: list[Check]

    @property
    def reasons(self) -> list[str]:
        """The explanations of the checks that failed."""
        return [check.explanation for check in self.checks if not check.passed]


def judge(
    measurements: Measurements,
    accounting: Accounting,
    nominal: Nominal,
    window: Window,
    time_unit_seconds: float,
    pathwise: Pathwise | None = None,
) -> Verdict:
    """Check a run of the cluster, with how it compares with its twin if that is known, or a run of the twin.

    ``window``: the measured jobs are those with an intended arrival in [start, stop), in time units; a window of no
    length is a run that ended before it. The checks of the emulator (lag, timers, processes, frames) are left out for
    the twin, which has no processes.
    """
    columns: Columns = measurements.columns
    measured = (columns["arrival"] >= window[0]) & (columns["arrival"] < window[1])
    jobs = {name: column[measured] for name, column in columns.items()}
    done = jobs["outcome"] == COMPLETED
    mean_response = float(np.mean(jobs["response"][done])) if np.any(done) else math.nan
    checks = [_ended(measurements), _accounted(accounting), _finished(jobs)]
    if measurements.processes:
        checks.append(_dispatch_lag(jobs, mean_response))
        checks.append(_overhead(jobs, mean_response, nominal, pathwise))
        checks.extend(_processes(measurements.processes, mean_response * time_unit_seconds))
    if np.any(done):
        checks.append(_gaps(jobs, nominal, mean_response))
        checks.append(_arrived_load(jobs, nominal, window))
        checks.append(_served_load(measurements, nominal, window))
        checks.append(_trend(columns, nominal, window))
    return with_emulation_error(Verdict(valid=all(check.passed for check in checks), checks=checks), pathwise)


def with_emulation_error(verdict: Verdict, pathwise: Pathwise | None) -> Verdict:
    """Return the verdict on a cluster's run with a check of how far it is from its twin, in place of any such check."""
    if pathwise is None or pathwise.mean is None:
        return verdict
    check = _emulation_error(pathwise, pathwise.mean)
    checks = [*(other for other in verdict.checks if other.name != check.name), check]
    return Verdict(valid=all(check.passed for check in checks), checks=checks)


def percent(share: float) -> str:
    """Write a share as a percentage of two digits or more, "0.43 %"; NaN is "unknown"."""
    if math.isnan(share):
        return "unknown"
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"


def _check(name: str, figure: str, limit: str, passed: bool, finding: str, remedy: str) -> Check:
    explanation = finding if passed else f"{finding}: {remedy}"
    return Check(name=name, figure=figure, limit=limit, passed=bool(passed), explanation=explanation)


def _not_tested(name: str, why: str) -> Check:
    return Check(name=name, figure="not tested", limit="", passed=True, explanation=f"not tested: {why}")


def _ended(measurements: Measurements) -> Check:
    failure = measurements.failure
    if not failure and measurements.incidents:
        return _check(
            "run ended as planned",
            f"{len(measurements.incidents)} processes died",
            "yes",
            False,
            "; ".join(measurements.incidents),
            "what is shown is not of the cluster that the scenario describes, but every job is accounted for",
        )
    return _check(
        "run ended as planned",
        "no" if failure else "yes",
        "yes",
        not failure,
        f"the run did not end as planned ({failure})" if failure else "nothing stopped the run early",
        "what is shown covers only what was measured until then; run it again",
    )


def _accounted(accounting: Accounting) -> Check:
    return _check(
        "jobs accounted for",
        f"{accounting.arrived} arrived",
        "arrived = completed + dropped + lost + in system",
        accounting.balanced,
        "; ".join(accounting.problems) or "every job is accounted for, once",
        "this is a fault of the testbed or of the policy, please report it",
    )


def _finished(jobs: Columns) -> Check:
    name = "unfinished jobs"
    count = len(jobs["outcome"])
    limit = percent(UNFINISHED_LIMIT)
    if not np.any(jobs["outcome"] == COMPLETED):
        finding = f"none of {count} jobs that arrived in the measured window was completed"
        return _check(name, "all", limit, False, finding, "use a longer duration, or a lower load")
    unfinished = int(np.count_nonzero((jobs["outcome"] != COMPLETED) & (jobs["outcome"] != DROPPED)))
    return _check(
        name,
        percent(unfinished / count),
        limit,
        unfinished / count <= UNFINISHED_LIMIT,
        f"{unfinished} of {count} measured jobs were lost or still in the system at the end",
        "the mean response time leaves out the longest; use a longer drain, or a lower load",
    )


def _dispatch_lag(jobs: Columns, mean_response: float) -> Check:
    share = float(np.mean(jobs["lag"])) / mean_response if len(jobs["lag"]) else math.nan
    return _check(
        "dispatch lag",
        percent(share),
        percent(LATENESS_LIMIT),
        share <= LATENESS_LIMIT,
        f"arrivals were handled {percent(share)} of the mean response time late",
        "use a longer time_unit, fewer servers or more dispatchers",
    )


def _overhead(jobs: Columns, mean_response: float, nominal: Nominal, pathwise: Pathwise | None) -> Check:
    """Time that jobs spend outside servers though the scenario does not say so: messages, event loops, late dispatch.

    What the scenario asks for (its message delay, a policy that waits) is what the twin has of it, and none where no
    message is delayed.
    """
    name = "overhead"
    if pathwise is not None and pathwise.twin_overhead is not None:
        meant = pathwise.twin_overhead
    elif nominal.message_delay == 0:
        meant = 0.0
    else:
        return _not_tested(name, "the scenario delays messages; how much of the overhead that is the twin would tell")
    done = jobs["outcome"] == COMPLETED
    share = (float(np.mean(jobs["overhead"][done])) - meant) / mean_response if np.any(done) else math.nan
    return _check(
        name,
        percent(share),
        percent(OVERHEAD_LIMIT),
        share <= OVERHEAD_LIMIT,
        f"messages and event loops took {percent(share)} of the mean response time",
        "use a longer time_unit, so that they weigh less",
    )


def _emulation_error(pathwise: Pathwise, mean: float) -> Check:
    half_width = pathwise.interval.half_width or 0.0
    limit = max(EMULATION_LIMIT, half_width)
    return _check(
        "emulation error",
        f"{percent(mean)} ± {percent(half_width)}",
        f"{percent(limit)} (5 %, or what chance explains)",
        abs(mean) <= limit,
        f"the mean response time is off its twin's by {percent(mean)} ± {percent(half_width)}",
        "use a longer time_unit: at this load and this policy, what messages and timers cost changes the queues",
    )


def _processes(processes: list[ProcessReport], mean_response_seconds: float) -> Iterator[Check]:
    def lateness(process: ProcessReport) -> float:
        return process.lateness_mean / mean_response_seconds if process.timers else 0.0

    latest = max(processes, key=lateness)
    yield _check(
        "timer lateness",
        f"{percent(lateness(latest))} ({latest.name})",
        percent(LATENESS_LIMIT),
        lateness(latest) <= LATENESS_LIMIT,
        f"timers of {latest.name} were {percent(lateness(latest))} of the mean response time late",
        "use a longer time_unit or fewer servers",
    )

    def cpu(process: ProcessReport) -> float:
        return process.cpu_seconds / process.seconds if process.seconds > 0 else 0.0

    busiest = max(processes, key=cpu)
    yield _check(
        "CPU share",
        f"{percent(cpu(busiest))} ({busiest.name})",
        percent(CPU_LIMIT),
        cpu(busiest) <= CPU_LIMIT,
        f"{busiest.name} used {percent(cpu(busiest))} of a core",
        "use a longer time_unit, fewer servers, or more nodes and dispatchers on a machine with more cores",
    )
    rejected = sum(process.rejected_frames for process in processes)
    yield _check(
        "rejected frames",
        str(rejected),
        "0",
        rejected == 0,
        f"{rejected} frames were malformed, oversized or from strangers",
        "look for another program that connects to the cluster's sockets",
    )
    inexact = [process.name for process in processes if not process.exact_timers]
    yield _check(
        "exact timers",
        "no" if inexact else "yes",
        "yes",
        not inexact,
        f"no timerfd in {', '.join(inexact)}, which slept to the millisecond" if inexact else "timers are exact",
        "run on Linux; elsewhere only a time_unit of a second or more makes this harmless",
    )


def _gaps(jobs: Columns, nominal: Nominal, mean_response: float) -> Check:
    name = "arrivals' goodness of fit"
    if nominal.gap_cdf is None:
        return _not_tested(name, "the gaps between arrivals are not independent with a continuous law")
    test = gap_test(jobs["arrival"], jobs["lag"], nominal.gap_cdf, GAP_TOLERANCE * mean_response)
    return _check(
        name,
        f"distance {test.intended:.3f} as intended, {test.actual:.3f} as handled",
        f"{test.critical:.3f} (Kolmogorov-Smirnov, {test.gaps} gaps, level 1e-5; as handled: but for shifts of "
        f"{percent(GAP_TOLERANCE)} of the mean response time)",
        max(test.intended, test.actual) <= test.critical,
        f"the gaps between arrivals are at distance {test.intended:.3f} from their law as intended and "
        f"{test.actual:.3f} as handled, of which chance explains {test.critical:.3f}",
        "the arrival process is not what the scenario asks for, please report it"
        if test.intended > test.critical
        else "the dispatchers bunch arrivals; use a longer time_unit or more dispatchers",
    )


def _arrived_load(jobs: Columns, nominal: Nominal, window: Window) -> Check:
    """Arrived work; tasks of jobs that did not complete count with the mean service time of the others."""
    name = "arrived load"
    if nominal.load is None:
        return _not_tested(name, "service times depend on where the policy sends a job")
    if nominal.arrival_dispersion is None:
        return _not_tested(name, "the sampling error of these arrivals is not known")
    if not math.isfinite(nominal.work_scv):
        return _not_tested(name, "sizes have infinite variance, so that the sampling error is not known")
    duration = window[1] - window[0]
    done = jobs["outcome"] == COMPLETED
    mean_service = float(jobs["work"][done].sum() / jobs["tasks"][done].sum())
    arrived = jobs["tasks"].sum() * mean_service / (nominal.servers * duration)
    standard_error = math.sqrt((nominal.work_scv + nominal.arrival_dispersion) / (nominal.rate * duration))
    limit = nominal.load * (4 * standard_error + LOAD_TOLERANCE)
    return _check(
        name,
        f"{arrived:.4f} (nominal {nominal.load:.4f})",
        f"within {limit:.4f} (4 standard errors + 0.5 %)",
        abs(arrived - nominal.load) <= limit,
        f"the work that arrived is a load of {arrived:.4f}, where the scenario asks for {nominal.load:.4f} and chance "
        f"explains a difference of {limit:.4f}",
        "look for arrivals that stopped early; if there are none, please report it",
    )


def _served_load(measurements: Measurements, nominal: Nominal, window: Window) -> Check:
    """Time that servers were busy, against the services in the records that fall into the same time.

    A service ends with the completion of the task (of the job, where that is one task), so that both edges of the
    window are accounted for, and dropped jobs appear on neither side. Tasks without a completion leave a service
    unknown: the allowance is one mean service each.
    """
    name = "served load"
    lengths = time_average_queue_length(measurements.occupancy, measurements.occupancy_edges, *window)
    if lengths.utilisation is None:
        return _not_tested(name, "the servers' busy time was not recorded")
    start, stop = lengths.edges[0], lengths.edges[-1]
    capacity = nominal.servers * (stop - start)
    columns: Columns = measurements.columns
    completed = columns["outcome"] == COMPLETED
    unfinished = int(np.count_nonzero(~completed & (columns["outcome"] != DROPPED)))
    if measurements.tasks:
        tasks: Columns = measurements.tasks
        ends, service = tasks["end"], tasks["service"]
        unfinished = int(columns["tasks"][columns["outcome"] != DROPPED].sum()) - len(ends)
    else:
        ends = columns["arrival"][completed] + columns["response"][completed]
        service = columns["inherent"][completed]
    overlap = np.clip(ends, start, stop) - np.clip(ends - service, start, stop)
    recorded = float(overlap.sum()) / capacity
    allowance = unfinished * float(service.mean()) / capacity
    limit = SERVED_TOLERANCE * recorded + allowance
    return _check(
        name,
        f"servers busy {lengths.utilisation:.4f}, services recorded {recorded:.4f}",
        f"within {limit:.4f} (2 % + {allowance:.4f} for {unfinished} unfinished tasks)",
        abs(lengths.utilisation - recorded) <= limit,
        f"servers were busy for {lengths.utilisation:.4f} of the time, and the services of the jobs' records fill "
        f"{recorded:.4f} of it",
        "servers lose or gain time between tasks; use a longer time_unit, or report it if timers were on time",
    )


def _trend(columns: Columns, nominal: Nominal, window: Window) -> Check:
    edges = np.linspace(*window, BATCHES + 1)
    arrival = columns["arrival"]
    duration = window[1] - window[0]
    dispersion, scv = nominal.arrival_dispersion, nominal.work_scv
    if dispersion is None:
        arrivals = np.histogram(arrival, edges)[0]
        dispersion = float(arrivals.var(ddof=1) / arrivals.mean())
    if not math.isfinite(scv):
        work = columns["work"][columns["outcome"] == COMPLETED]
        scv = float(work.var() / work.mean() ** 2)
    number = number_in_system(arrival, departures(columns), edges)
    found = trend(number, math.sqrt(nominal.rate * duration * (dispersion + scv)))
    return _check(
        "trend of the number in system",
        f"{found.growth:+.1f} over the window, mean {found.mean:.1f}",
        f"{found.significant:.1f}",
        not found.growing,
        f"the number of jobs in the system went by {found.growth:+.1f} over the measured window, its mean is "
        f"{found.mean:.1f}",
        "the cluster is unstable at this load, or the warm-up is too short",
    )
