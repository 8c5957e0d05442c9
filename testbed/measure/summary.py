"""The summary of a run: one per variant and replication, as in ``summary.json``."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final, Literal

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements, ProcessReport
from testbed.measure.accounting import Accounting, check
from testbed.measure.copies import Cancellations, PoolUse, cancellations, pool_uses
from testbed.measure.empty_start import automatic_start, first_quarter, growth_over_replications
from testbed.measure.pathwise import Columns, Pathwise, compare
from testbed.measure.probes import Calibration, overall_probe_rate
from testbed.measure.statistics import (
    Interval,
    Quantile,
    QueueLengths,
    departures,
    number_in_system,
    number_over,
    quantiles,
    replication_interval,
    response_interval,
    time_average_queue_length,
)
from testbed.measure.verdict import Verdict, judge, with_check
from testbed.measure.verdict_checks import Nominal
from testbed.scenario.settings import AUTO_WARMUP_SHARE

SCHEMA: Final = 1


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """The statistics of one variant in one replication. Times are in time units; None is a number that is not known.

    ``window``: the measured jobs are those with an intended arrival in [start, stop). ``accounting``, ``counters`` and
    ``messages_per_job`` cover the whole run, all else the window. ``outcomes``: measured jobs by outcome.
    ``queueing_delay_mean`` is the mean of response time minus inherent delay, ``wait_mean`` the mean over jobs of the
    longest waiting time of its tasks, ``overhead_mean`` that of the part of the response time that the last task spent
    outside its server, ``timer_lateness_mean`` of that in which the server's process had not yet noticed the end of its
    service. ``number_in_system_mean`` is the time average of the number of jobs in the system, wherever they wait, from
    their records; one that was lost does not count; ``early_number_in_system_mean`` is that of the first quarter of the
    window. ``relative_queueing_delay`` is the mean queueing delay over the
    mean inherent delay.
    ``tasks_per_job`` is the mean number of tasks, ``position_mean`` the mean over jobs of the largest position that one
    of its tasks had in a server's queue. Probes of dropped jobs count too; ``nominal_probes_per_task`` is the
    policy's nominal number. Where jobs have records of copies, ``pools`` and ``cancellations`` summarise these
    (testbed.measure.copies). ``cancellations_per_task`` counts messages that cancel reservations,
    ``idle_reports_per_task`` those by which servers report that they are idle; both over the whole run.
    ``overall_probe_rate`` is the number of probes that servers sent to move tasks, per server and time unit,
    ``calibration`` how their probe rate was found. ``prediction`` is the theory's prediction as it was given.
    """

    schema: int = SCHEMA
    variant: str
    replication: int
    source: str
    servers: int
    time_unit_seconds: float
    window: tuple[float, float]
    accounting: Accounting
    outcomes: dict[str, int]
    response: Interval
    response_quantiles: list[Quantile]
    inherent_mean: float | None
    queueing_delay_mean: float | None
    relative_queueing_delay: float | None = None
    tasks_per_job: float | None = None
    position_mean: float | None = None
    nominal_probes_per_task: float | None = None
    pools: list[PoolUse] = []
    cancellations: Cancellations | None = None
    cancellations_per_task: float | None = None
    idle_reports_per_task: float | None = None
    wait_mean: float | None
    overhead_mean: float | None
    dispatch_lag_mean: float | None
    timer_lateness_mean: float | None = None
    number_in_system_mean: float | None = None
    early_number_in_system_mean: float | None = None
    queue_length: QueueLengths
    probes_per_job: float | None
    probes_per_task: float | None
    messages_per_job: float | None
    drop_share: float | None
    overall_probe_rate: float | None
    calibration: Calibration | None
    verdict: Verdict
    pathwise: Pathwise | None
    prediction: dict[str, Any] | None
    counters: dict[str, int]
    processes: list[ProcessReport]


def mean_response(runs: Sequence[Summary]) -> Interval:
    """Return the mean response time over replications, with its interval; of one replication, its own."""
    if len(runs) == 1:
        return runs[0].response
    return replication_interval([run.response.mean for run in runs if run.response.mean is not None])


def judged_together(runs: Sequence[Summary]) -> list[Summary]:
    """Return replications of a run with verdicts that also have the check of all of them together."""
    known = [
        (run.early_number_in_system_mean, run.number_in_system_mean)
        for run in runs
        if run.early_number_in_system_mean is not None and run.number_in_system_mean is not None
    ]
    if len(runs) < 2:
        return list(runs)
    check = growth_over_replications([early for early, _ in known], [whole for _, whole in known])
    return [msgspec.structs.replace(run, verdict=with_check(run.verdict, check)) for run in runs]


def measured_window(
    measurements: Measurements,
    warmup: float | Literal["auto"],
    horizon: float,
    relaxation: float | None = None,
) -> tuple[float, float]:
    """Return [start, stop): the jobs with an intended arrival in it are the measured ones, in time units.

    It ends at ``horizon``, or where arrivals stopped if that was earlier, and begins at ``warmup``. With "auto" it
    begins where testbed.measure.empty_start.automatic_start says; ``relaxation``: the queues' relaxation time, None
    where it is not known.
    """
    stop = min(horizon, measurements.stopped_at)
    if warmup != "auto":
        return warmup, max(warmup, stop)
    least = horizon * AUTO_WARMUP_SHARE / (1 + AUTO_WARMUP_SHARE)
    return automatic_start(measurements.columns, (0.0, stop), least, relaxation), stop


def summarise(
    measurements: Measurements,
    nominal: Nominal,
    *,
    variant: str,
    replication: int,
    time_unit_seconds: float,
    window: tuple[float, float],
    began: float = 0.0,
    twin: Measurements | None = None,
    prediction: dict[str, Any] | None = None,
    calibration: Calibration | None = None,
) -> Summary:
    """Return the summary of a run of the cluster, compared with its twin if that is given, or of the twin itself.

    ``nominal``: the scenario's nominal values, for the verdict; ``window``: see ``measured_window``; ``began``: when
    the queues began to fill, before it.
    ``measurements.counters`` must have "jobs arrived" and "messages".
    """
    columns: Columns = measurements.columns
    order = np.argsort(columns["arrival"], kind="stable")
    order = order[(columns["arrival"][order] >= window[0]) & (columns["arrival"][order] < window[1])]
    jobs = {name: column[order] for name, column in columns.items()}
    done = jobs["outcome"] == JobOutcome.COMPLETED
    outcomes = {code.label: int(np.count_nonzero(jobs["outcome"] == code)) for code in JobOutcome}
    response = jobs["response"][done]
    number = number_over(columns, window)
    interval = response_interval(response, number)
    accounting = check(columns, measurements.counters["jobs arrived"], measurements.unrecorded)
    # In a long-running cluster only the latest jobs have records; its counters cover all jobs.
    tasks_arrived = int(columns["tasks"].sum()) * accounting.arrived / max(len(columns["tasks"]), 1)
    cancelled = measurements.counters.get("reservations cancelled", 0)
    reports = measurements.counters.get("idle reports", 0)
    inherent = _mean(jobs["inherent"][done])
    queueing_delay = _mean(response - jobs["inherent"][done])
    lengths = time_average_queue_length(measurements.occupancy, measurements.occupancy_edges, *window)
    present = number_in_system(columns["arrival"], departures(columns), np.array(lengths.edges))
    pathwise = None if twin is None else compare(columns, twin.columns, window)
    return Summary(
        variant=variant,
        replication=replication,
        source=measurements.source,
        servers=nominal.servers,
        time_unit_seconds=time_unit_seconds,
        window=window,
        accounting=accounting,
        outcomes=outcomes,
        response=interval,
        response_quantiles=quantiles(response, interval.effective_samples),
        inherent_mean=inherent,
        queueing_delay_mean=queueing_delay,
        relative_queueing_delay=queueing_delay / inherent if inherent and queueing_delay is not None else None,
        tasks_per_job=_mean(jobs["tasks"]),
        position_mean=_mean(jobs["position"][done]),
        nominal_probes_per_task=nominal.probes_per_task,
        pools=pool_uses(columns, measurements.copies, nominal.pools, nominal.rate, window)
        if measurements.copies
        else [],
        cancellations=cancellations(columns, measurements.copies, window) if measurements.copies else None,
        cancellations_per_task=cancelled / tasks_arrived if tasks_arrived else None,
        idle_reports_per_task=reports / tasks_arrived if tasks_arrived else None,
        wait_mean=_mean(jobs["wait"][done]),
        overhead_mean=_mean(jobs["overhead"][done]),
        dispatch_lag_mean=_mean(jobs["lag"]),
        timer_lateness_mean=_mean(jobs["lateness"][done]),
        number_in_system_mean=float(number.mean()) if window[0] < window[1] else None,
        early_number_in_system_mean=first_quarter(columns, window) if window[0] < window[1] else None,
        queue_length=msgspec.structs.replace(lengths, number_in_system=present.tolist()),
        probes_per_job=_mean(jobs["probes"]),
        probes_per_task=float(jobs["probes"].sum() / jobs["tasks"].sum()) if len(order) else None,
        messages_per_job=measurements.counters["messages"] / accounting.arrived if accounting.arrived else None,
        overall_probe_rate=overall_probe_rate(measurements, nominal.servers, window),
        calibration=calibration,
        drop_share=outcomes["dropped"] / len(order) if len(order) else None,
        verdict=judge(measurements, accounting, nominal, window, time_unit_seconds, pathwise, began),
        pathwise=pathwise,
        prediction=prediction,
        counters=measurements.counters,
        processes=[_without_nan(process) for process in measurements.processes],
    )


def encode(summaries: list[Summary]) -> bytes:
    """Return the summaries as indented JSON. A NaN in a prediction becomes null."""
    return msgspec.json.format(msgspec.json.encode(summaries), indent=2)


def decode(text: bytes) -> list[Summary]:
    """Read what ``encode`` wrote. Raises ValueError if it is not that, or of another schema."""
    versions = msgspec.json.decode(text, type=list[_Versioned])
    for version in versions:
        if version.schema != SCHEMA:
            raise ValueError(
                f"the summary has schema {version.schema}, but this version of testbed reads schema {SCHEMA}"
            )
    return msgspec.json.decode(text, type=list[Summary])


class _Versioned(msgspec.Struct):
    schema: int


def _mean(values: npt.NDArray[Any]) -> float | None:
    return float(np.mean(values)) if len(values) else None


def _without_nan(process: ProcessReport) -> ProcessReport:
    """Replace NaN, which JSON lacks, by 0: a process whose timers never fired has no lateness, and ``timers`` = 0."""
    values = msgspec.structs.asdict(process)
    unknown = [name for name, value in values.items() if isinstance(value, float) and math.isnan(value)]
    return msgspec.structs.replace(process, **dict.fromkeys(unknown, 0.0))
