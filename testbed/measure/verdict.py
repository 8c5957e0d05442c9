"""The verdict of a run on itself: valid, or suspect with reasons (testbed/docs/architecture.md, rule 10)."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements, ProcessReport
from testbed.measure.accounting import Accounting
from testbed.measure.arrivals import gap_test
from testbed.measure.empty_start import distance
from testbed.measure.pathwise import Pathwise
from testbed.measure.stationarity import below_bound, run_length, steady
from testbed.measure.statistics import time_average_queue_length
from testbed.measure.verdict_checks import Check, Columns, Nominal, Window, checked, deaths, not_tested, percent

LATENESS_LIMIT: Final = 0.02  # of the mean response time
OVERHEAD_LIMIT: Final = 0.05  # of the mean response time
EMULATION_LIMIT: Final = 0.05  # of the twin's mean response time
FEWEST_TIMERS: Final = 10  # of a process whose lateness is judged
CPU_LIMIT: Final = 0.9  # of one core
UNFINISHED_LIMIT: Final = 0.005  # of the jobs of the window
GAP_TOLERANCE: Final = 0.01  # of the mean response time
LOAD_TOLERANCE: Final = 0.005  # of the nominal load, in addition to four standard errors
SERVED_TOLERANCE: Final = 0.02  # of the served load


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
    began: float = 0.0,
) -> Verdict:
    """Check a run of the cluster, also against its twin if ``pathwise`` is given, or a run of the twin.

    ``window``: the measured jobs are those with an intended arrival in [start, stop), in time units; a window of no
    length is a run that ended before it; the queues began to fill at the time ``began``. The checks of the emulator
    (lag, timers, processes, frames) are left out for the twin, which has no processes.
    """
    columns: Columns = measurements.columns
    measured = (columns["arrival"] >= window[0]) & (columns["arrival"] < window[1])
    jobs = {name: column[measured] for name, column in columns.items()}
    done = jobs["outcome"] == JobOutcome.COMPLETED
    mean_response = float(np.mean(jobs["response"][done])) if np.any(done) else math.nan
    reached = min(window[1], measurements.stopped_at)
    checks = [_ended(measurements), _accounted(accounting), below_bound(nominal), run_length(nominal, reached)]
    if len(jobs["outcome"]) or not _broken(measurements):
        checks.append(_finished(jobs))
    if measurements.processes:
        # Lateness is measured in mean response times, so it needs a completed job.
        if np.any(done):
            checks.append(_dispatch_lag(jobs, mean_response))
            checks.append(_overhead(jobs, mean_response, nominal, pathwise))
            checks.append(_timers(measurements.processes, mean_response * time_unit_seconds))
        checks.extend(_processes(measurements.processes))
    if np.any(done):
        checks.append(_gaps(jobs, nominal, mean_response))
        checks.append(_arrived_load(jobs, nominal, window, _broken(measurements)))
        checks.append(_served_load(measurements, nominal, window))
        checks.append(distance(columns, nominal, window, began))
        checks.append(steady(columns, nominal, window))
    return with_emulation_error(Verdict(valid=all(check.passed for check in checks), checks=checks), pathwise)


def with_emulation_error(verdict: Verdict, pathwise: Pathwise | None) -> Verdict:
    """Return the verdict on a cluster's run with a check of its distance from its twin, in place of any such check."""
    if pathwise is None or pathwise.mean is None:
        return verdict
    return with_check(verdict, _emulation_error(pathwise, pathwise.mean))


def with_check(verdict: Verdict, check: Check) -> Verdict:
    """Return a verdict with one more check, in place of any of the same name."""
    checks = [*(other for other in verdict.checks if other.name != check.name), check]
    return Verdict(valid=all(check.passed for check in checks), checks=checks)


def _broken(measurements: Measurements) -> bool:
    """Whether a process died, or something else went wrong."""
    return bool(measurements.failure or measurements.incidents)


def _ended(measurements: Measurements) -> Check:
    failure = measurements.failure
    if not failure and measurements.incidents:
        return deaths(measurements.incidents)
    return checked(
        "run ended as planned",
        "no" if failure else "yes",
        "yes",
        not failure,
        f"the run did not end as planned ({failure})" if failure else "nothing stopped the run early",
        "the results cover only the time until then; run it again",
    )


def _accounted(accounting: Accounting) -> Check:
    return checked(
        "jobs accounted for",
        f"{accounting.arrived} arrived",
        "arrived = completed + dropped + lost + in system",
        accounting.balanced,
        "; ".join(accounting.problems) or "every job is accounted for, once",
        "this is a fault of the testbed or of the policy; please report it",
    )


def _finished(jobs: Columns) -> Check:
    name = "unfinished jobs"
    count = len(jobs["outcome"])
    limit = percent(UNFINISHED_LIMIT)
    if not np.any(jobs["outcome"] == JobOutcome.COMPLETED):
        finding = f"none of {count} jobs that arrived in the measured window was completed"
        return checked(name, "all", limit, False, finding, "use a longer duration, or a lower load")
    unfinished = int(
        np.count_nonzero((jobs["outcome"] != JobOutcome.COMPLETED) & (jobs["outcome"] != JobOutcome.DROPPED))
    )
    return checked(
        name,
        percent(unfinished / count),
        limit,
        unfinished / count <= UNFINISHED_LIMIT,
        f"{unfinished} of {count} measured jobs were lost or still in the system at the end",
        "the mean response time leaves out the longest; use a longer drain, or a lower load",
    )


def _dispatch_lag(jobs: Columns, mean_response: float) -> Check:
    fraction = float(np.mean(jobs["lag"])) / mean_response
    return checked(
        "dispatch lag",
        percent(fraction),
        percent(LATENESS_LIMIT),
        fraction <= LATENESS_LIMIT,
        f"arrivals were handled {percent(fraction)} of the mean response time late",
        "use a longer time_unit, fewer servers or more dispatchers",
    )


def _overhead(jobs: Columns, mean_response: float, nominal: Nominal, pathwise: Pathwise | None) -> Check:
    """Check the time that jobs spend outside servers beyond what the scenario asks for: messages, event loops, lag.

    What the scenario asks for (its message delay, a policy that waits) is the twin's overhead, and 0 where messages
    have no delay.
    """
    name = "overhead"
    if pathwise is not None and pathwise.twin_overhead is not None:
        meant = pathwise.twin_overhead
    elif nominal.message_delay == 0:
        meant = 0.0
    else:
        return not_tested(
            name, "the scenario delays messages; only a run of the twin can tell that part of the overhead"
        )
    done = jobs["outcome"] == JobOutcome.COMPLETED
    fraction = (float(np.mean(jobs["overhead"][done])) - meant) / mean_response
    return checked(
        name,
        percent(fraction),
        percent(OVERHEAD_LIMIT),
        fraction <= OVERHEAD_LIMIT,
        f"messages and event loops took {percent(fraction)} of the mean response time",
        "use a longer time_unit, of which they take a smaller part",
    )


def _emulation_error(pathwise: Pathwise, mean: float) -> Check:
    half_width = pathwise.interval.half_width or 0.0
    limit = max(EMULATION_LIMIT, half_width)
    return checked(
        "emulation error",
        f"{percent(mean)} ± {percent(half_width)}",
        f"{percent(limit)} (5 %, or what chance explains)",
        abs(mean) <= limit,
        f"the mean response time differs from its twin's by {percent(mean)} ± {percent(half_width)}",
        "use a longer time_unit: at this load and with this policy, the time of messages and timers changes the queues",
    )


def _timers(processes: list[ProcessReport], mean_response_seconds: float) -> Check:
    def lateness(process: ProcessReport) -> float:
        # The pool agent sets no timers: its process has only the few of the run's start and end.
        return process.lateness_mean / mean_response_seconds if process.timers >= FEWEST_TIMERS else 0.0

    latest = max(processes, key=lateness)
    return checked(
        "timer lateness",
        f"{percent(lateness(latest))} ({latest.name})",
        percent(LATENESS_LIMIT),
        lateness(latest) <= LATENESS_LIMIT,
        f"timers of {latest.name} were {percent(lateness(latest))} of the mean response time late",
        "use a longer time_unit or fewer servers",
    )


def _processes(processes: list[ProcessReport]) -> Iterator[Check]:
    def cpu(process: ProcessReport) -> float:
        return process.cpu_seconds / process.seconds if process.seconds > 0 else 0.0

    busiest = max(processes, key=cpu)
    yield checked(
        "CPU usage",
        f"{percent(cpu(busiest))} ({busiest.name})",
        percent(CPU_LIMIT),
        cpu(busiest) <= CPU_LIMIT,
        f"{busiest.name} used {percent(cpu(busiest))} of a core",
        "use a longer time_unit, fewer servers, or more nodes and dispatchers on a machine with more cores",
    )
    rejected = sum(process.rejected_frames for process in processes)
    yield checked(
        "rejected frames",
        str(rejected),
        "0",
        rejected == 0,
        f"{rejected} frames were malformed, oversized or from unauthenticated peers",
        "look for other programs that connect to the cluster's sockets",
    )
    inexact = [process.name for process in processes if not process.exact_timers]
    yield checked(
        "exact timers",
        "no" if inexact else "yes",
        "yes",
        not inexact,
        f"no timerfd in {', '.join(inexact)}: timers are up to 2 ms late" if inexact else "timers are exact",
        "run on Linux; elsewhere use a time_unit of a second or more",
    )


def _gaps(jobs: Columns, nominal: Nominal, mean_response: float) -> Check:
    name = "arrivals' goodness of fit"
    if nominal.gap_cdf is None:
        return not_tested(name, "the gaps between arrivals are not independent with a continuous distribution")
    test = gap_test(jobs["arrival"], jobs["lag"], nominal.gap_cdf, GAP_TOLERANCE * mean_response)
    return checked(
        name,
        f"distance {test.intended:.3f} as intended, {test.actual:.3f} as handled",
        f"{test.critical:.3f} (Kolmogorov-Smirnov, {test.gaps} gaps, level 1e-5; as handled, shifts of up to "
        f"{percent(GAP_TOLERANCE)} of the mean response time are ignored)",
        max(test.intended, test.actual) <= test.critical,
        f"the gaps between arrivals are at distance {test.intended:.3f} from their distribution as intended, and "
        f"{test.actual:.3f} as handled; chance explains {test.critical:.3f}",
        "the arrival process is not the scenario's; please report it"
        if test.intended > test.critical
        else "the dispatchers bunch arrivals; use a longer time_unit or more dispatchers",
    )


def _arrived_load(jobs: Columns, nominal: Nominal, window: Window, broken: bool) -> Check:
    """Check the work that arrived; tasks of jobs that did not complete count with the mean service time of others."""
    name = "arrived load"
    if nominal.load is None:
        return not_tested(name, "service times depend on where the policy sends a job")
    if nominal.arrival_dispersion is None:
        return not_tested(name, "the sampling error of these arrivals is not known")
    if not math.isfinite(nominal.work_scv):
        return not_tested(name, "sizes have infinite variance, so that the sampling error is not known")
    duration = window[1] - window[0]
    done = jobs["outcome"] == JobOutcome.COMPLETED
    mean_service = float(jobs["work"][done].sum() / jobs["tasks"][done].sum())
    arrived = jobs["tasks"].sum() * mean_service / (nominal.servers * duration)
    standard_error = math.sqrt((nominal.work_scv + nominal.arrival_dispersion) / (nominal.rate * duration))
    # A window that is no whole number of gaps has one arrival more or less, however regular they are.
    one_job = 1 / (nominal.rate * duration)
    limit = nominal.load * (4 * standard_error + LOAD_TOLERANCE + one_job)
    return checked(
        name,
        f"{arrived:.4f} (nominal {nominal.load:.4f})",
        f"within {limit:.4f} (4 standard errors + 0.5 % + one job)",
        abs(arrived - nominal.load) <= limit,
        f"the work that arrived is a load of {arrived:.4f}; the scenario asks for {nominal.load:.4f}, and chance "
        f"explains a difference of {limit:.4f}",
        "jobs that would have arrived at a dispatcher while it was dead are missing; run it again"
        if broken
        else "look for arrivals that stopped early; if there are none, please report it",
    )


def _served_load(measurements: Measurements, nominal: Nominal, window: Window) -> Check:
    """Check the time that servers were busy against the recorded services in the same time.

    A service ends with the completion of the task (of the job, where that is one task), so that both edges of the
    window are accounted for, and dropped jobs appear on neither side. A task that did not complete may have been
    in service since its job arrived, or never: servers may be busier than the records by that time, but not by more
    than the window. All copies of a job count, each as if its service had not been interrupted.
    """
    name = "served load"
    if _broken(measurements):
        return not_tested(name, "the busy time of servers whose process died is not known")
    lengths = time_average_queue_length(measurements.occupancy, measurements.occupancy_edges, *window)
    if lengths.utilisation is None:
        return not_tested(name, "the servers' busy time was not recorded")
    start, stop = lengths.edges[0], lengths.edges[-1]
    capacity = nominal.servers * (stop - start)
    columns: Columns = measurements.columns
    arrival, outcome = columns["arrival"], columns["outcome"]
    completed = outcome == JobOutcome.COMPLETED
    if measurements.copies:
        copies: Columns = measurements.copies
        known = np.isfinite(copies["received"])
        ends, service = copies["end"][known], copies["received"][known]
        missing = np.where(completed, 0, int(copies["copy"].max(initial=0)) + 1)
    elif measurements.tasks:
        tasks: Columns = measurements.tasks
        ends, service = tasks["end"], tasks["service"]
        finished = np.sort(tasks["job"])
        done = np.searchsorted(finished, columns["job"], "right") - np.searchsorted(finished, columns["job"], "left")
        missing = columns["tasks"] - done
    else:
        ends = arrival[completed] + columns["response"][completed]
        service = columns["inherent"][completed]
        missing = np.where(completed, 0, columns["tasks"])
    overlap = np.clip(ends, start, stop) - np.clip(ends - service, start, stop)
    recorded = float(overlap.sum()) / capacity
    missing = np.where((outcome != JobOutcome.DROPPED) & (arrival < stop), missing, 0)
    unrecorded = min(1.0, float(np.sum(missing * (stop - np.maximum(arrival, start)))) / capacity)
    tolerance = SERVED_TOLERANCE * recorded
    more = lengths.utilisation - recorded
    return checked(
        name,
        f"servers busy {lengths.utilisation:.4f}, services recorded {recorded:.4f}",
        f"{-tolerance:.4f} to {tolerance + unrecorded:+.4f} (2 %, and {unrecorded:.4f} for {int(missing.sum())} "
        "unfinished tasks)",
        -tolerance <= more <= tolerance + unrecorded,
        f"servers were busy for {lengths.utilisation:.4f} of the time, and the recorded services fill "
        f"{recorded:.4f} of it",
        "servers lose or gain time between tasks; use a longer time_unit, or report it if timers were on time",
    )
