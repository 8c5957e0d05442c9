"""Results as tables, for a terminal, a file or a notebook."""

from __future__ import annotations

import io
import math
import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, RenderableType
from rich.measure import Measurement
from rich.table import Table

from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary, mean_response
from testbed.theory.predict import Prediction
from testbed.workload.arrivals import Trace

if TYPE_CHECKING:
    from testbed.runs.result import Result, VariantRun
    from testbed.scenario import Scenario

WIDTH = 120
KINDS = {"approximation": "approx."}


def plain_text(renderable: RenderableType, width: int = WIDTH) -> str:
    """Return the text that a terminal would show, without colours."""
    console = Console(file=io.StringIO(), width=width, color_system=None, force_terminal=False)
    console.print(renderable)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]  # the StringIO that it was given
    return text


def html(renderable: RenderableType, width: int = WIDTH) -> str:
    """Return the text that a terminal would show, as HTML."""
    console = Console(file=io.StringIO(), width=width, record=True, force_terminal=True)
    console.print(renderable)
    return console.export_html(inline_styles=True, code_format="<pre>{code}</pre>")


def standard_output() -> Console:
    """Return the console of standard output. In a pipe or a file, lines are as long as those of a notebook."""
    console = Console()
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = WIDTH
    return console


def print_table(console: Console, table: Table) -> None:
    """Print a table. In a terminal that is too narrow its lines are wrapped: no cell is cut."""
    unlimited = console.options.update(max_width=sys.maxsize)
    for column in table.columns:
        if column.no_wrap:
            cells = (column.header, *column.cells)
            column.min_width = max(Measurement.get(console, unlimited, cell).maximum for cell in cells)
    console.width = max(console.width, Measurement.get(console, unlimited, table).minimum)
    console.print(table)


def print_line(console: Console, text: str) -> None:
    """Print a text verbatim: without markup, highlighting or line breaks."""
    console.print(text, highlight=False, markup=False, soft_wrap=True)


def new_table(title: str, caption: str | None = None) -> Table:
    """Return an empty table in the common style; it fits into 80 columns of a terminal."""
    return Table(
        title=title,
        caption=caption,
        box=box.SIMPLE_HEAD,
        title_justify="left",
        caption_justify="left",
        pad_edge=False,
        collapse_padding=True,
    )


def number(value: float | None, digits: int = 3) -> str:
    """Write a number, or a dash for none."""
    return "-" if value is None or math.isnan(value) else f"{value:z.{digits}f}"


def with_interval(interval: Interval, *, sign: str = "") -> str:
    """Write a mean and the half-width of its interval; ~ marks an interval from too few data.

    A half-width below 0.01 gets as many digits as it takes to see it. ``sign`` is "+" for differences.
    """
    if interval.mean is None or interval.half_width is None:
        return "-" if interval.mean is None else f"{interval.mean:{sign}z.3f}"
    half_width = interval.half_width
    digits = 2 if half_width >= 0.01 or half_width == 0 else min(-math.floor(math.log10(half_width)), 9)
    mean = f"{interval.mean:{sign}z.{max(3, digits)}f}"
    return f"{mean} {'±' if interval.reliable else '~±'} {half_width:.{digits}f}"


def signed_percent(fraction: float | None) -> str:
    """Write a fraction with its sign, in percent."""
    return "-" if fraction is None else f"{fraction:+z.1%}"


def against(mean: Interval, theory: float) -> str:
    """Write by how much a measured mean differs from theory, and whether its interval contains the theory's value."""
    if mean.mean is None:
        return "-"
    inside = mean.half_width is not None and abs(mean.mean - theory) <= mean.half_width
    return f"{signed_percent(mean.mean / theory - 1.0)}{', in ±' if inside else ''}"


def quantile(runs: list[Summary], probability: float) -> float | None:
    """Return a quantile of the response time, averaged over replications."""
    values = [q.value for run in runs for q in run.response_quantiles if q.probability == probability]
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None


def results_table(result: Result) -> Table:
    """Return the table of a run: measured mean and p99 response time, the twin's, the theory's, and the verdict."""
    unit = result.scenario.run.time_unit
    caption = f"response times in time units of {unit}; ± is a 95 % confidence interval, ~± one from too short a run"
    table = new_table(result.scenario.name, caption)
    on_cluster = any(run.cluster is not None for run in result.runs)
    with_twin = on_cluster and any(run.twin is not None for run in result.runs)
    table.add_column("variant", no_wrap=True)
    table.add_column(f"mean response\ntime{'' if on_cluster else ' (twin)'}", justify="right", no_wrap=True)
    table.add_column("p99", justify="right", no_wrap=True)
    if with_twin:
        table.add_column("twin", justify="right", no_wrap=True)
        table.add_column("emulation\nerror", justify="right", no_wrap=True)
    table.add_column("theory,\nagainst it", justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for name, runs in result.variants().items():
        measured = [run.summary for run in runs]
        mean = mean_response(measured)
        cells = [name, with_interval(mean), number(quantile(measured, 0.99), 2)]
        if with_twin:
            twins = [run.twin for run in runs if run.twin is not None]
            cells += [number(mean_response(twins).mean if twins else None), signed_percent(emulation_error(runs))]
        prediction = runs[0].prediction
        if isinstance(prediction, Prediction):
            theory = prediction.mean_response_time
            cells.append(f"{number(theory)} {KINDS.get(prediction.kind, prediction.kind)}\n{against(mean, theory)}")
        else:
            cells.append("none")
        valid = all(summary.verdict.valid for summary in measured)
        cells.append("[green]valid[/]" if valid else "[bold yellow]suspect[/]")
        table.add_row(*cells)
    return table


def emulation_error(runs: list[VariantRun]) -> float | None:
    """Return emulated minus twin mean response time, divided by the twin's, job by job, over replications."""
    errors = [run.cluster.pathwise.mean for run in runs if run.cluster is not None and run.cluster.pathwise is not None]
    known = [error for error in errors if error is not None]
    return replication_interval(known).mean if known else None


def _copies(run: VariantRun) -> Iterable[str]:
    """Yield the effective load of each pool under copies, and the states at cancellation."""
    summary = run.summary
    for pool in summary.pools:
        load, theory = pool.effective_load, pool.theory_effective_load
        predicted = "" if theory is None else f" (theory {number(theory)}: {against(load, theory)})"
        wasted = [
            f"{wasted / pool.service_requirement.mean:.1%} of it wasted by {why}"
            for wasted, why in ((pool.wasted_by_rerouting, "rerouting"), (pool.wasted_by_losing, "losing copies"))
            if wasted and pool.service_requirement.mean
        ]
        measured = ", ".join([f"effective load {with_interval(load)}{predicted}", *wasted])
        yield f"{run.name}: pool {pool.name}: {measured}"
    found = summary.cancellations
    if found is None:
        return
    states = ", ".join(f"{count} {state}" for state, count in found.by_state.items() if count)
    if states:
        unit = 1000 * summary.time_unit_seconds
        delays = [number(None if delay is None else delay * unit) for delay in (found.delay_p50, found.delay_p99)]
        in_time = f"; after {delays[0]} ms at the median, {delays[1]} ms at p99" if summary.source == "cluster" else ""
        yield f"{run.name}: cancellations found copies {states}{in_time}"
    if found.preemptions_per_job:
        yield f"{run.name}: {number(found.preemptions_per_job)} preemptions a job"


def _unused_parts(scenario: Scenario) -> Iterable[str]:
    """Yield what a recorded trace has that the scenario doesn't use."""
    arrivals, types = scenario.workload.arrivals, scenario.workload.types
    if not isinstance(arrivals, Trace):
        return
    recording = arrivals.recording
    if recording.unused:
        drawn = ["sizes"] if recording.size is None else []
        drawn += ["types"] if recording.type is None and len(types) > 1 else []
        at_random = f"; {' and '.join(drawn)} of jobs are drawn at random" if drawn else ""
        yield f"{recording.file}: columns that are not used: {', '.join(recording.unused)}{at_random}"
    recorded = sorted({str(name) for name in recording.type or ()})
    if len(types) == 1 and len(recorded) > 1:
        shown = ", ".join(recorded[:5]) + (", ..." if len(recorded) > 5 else "")
        yield f"{recording.file}: its types of jobs ({shown}) are not used: the scenario declares no workload.types"


def remarks(result: Result) -> Iterable[str]:
    """Yield remarks on the table: why a run is suspect, and how good each prediction is."""
    yield from _unused_parts(result.scenario)
    for run in result.runs:
        for reason in run.summary.verdict.reasons:
            yield f"{run.name}: suspect: {reason}"
        for words, count in run.summary.counters.items():
            if "died" in words and count:
                yield f"{run.name}: {words}: {count}"
        pathwise = run.summary.pathwise
        if pathwise is not None and pathwise.outcome_differs:
            yield (
                f"{run.name}: {pathwise.outcome_differs} jobs ended otherwise on the twin (dropped, lost, unfinished); "
                f"the emulation error is about the {pathwise.matched} that both completed"
            )
    for run in result.runs:
        balance, rate = run.scenario.balance, run.summary.overall_probe_rate
        if balance is not None and rate is not None:
            wanted = balance.overall_probe_rate
            asked = "" if wanted is None else f", {wanted:.4g} asked for ({signed_percent(rate / wanted - 1)})"
            moved, late = (run.summary.counters.get(key, 0) for key in ("tasks moved", "moved too late"))
            yield (
                f"{run.name}: servers sent {rate:.4g} probes per server and time unit{asked}; {moved} tasks moved, "
                f"{late / max(moved, 1):.1%} of them too late"
            )
        if run.calibration is not None:
            yield f"    {run.calibration}"
    for run in result.runs:
        summary = run.summary
        if (summary.tasks_per_job or 1.0) > 1.0 and summary.relative_queueing_delay is not None:
            others = [
                f", {number(count)} {what}"
                for count, what in (
                    (summary.cancellations_per_task, "cancellations"),
                    (summary.idle_reports_per_task, "idle reports"),
                )
                if count
            ]
            yield (
                f"{run.name}: relative queueing delay E[T - T*] / E[T*] {summary.relative_queueing_delay:.4g}; "
                f"{number(summary.probes_per_task)} probes a task ({number(summary.nominal_probes_per_task)} "
                f"nominally){''.join(others)}"
            )
        if summary.drop_share:
            yield f"{run.name}: {summary.drop_share:.3%} of the jobs dropped at full buffers"
        yield from _copies(run)
    for name, runs in result.variants().items():
        mean = mean_response([run.summary for run in runs])
        if not mean.reliable:
            yield (
                f"{name}: ~±: the run is worth only {mean.effective_samples:.0f} independent samples of the system, so "
                "that the interval is too narrow; for a better one set a longer run.duration, or run.replications"
            )
        prediction = runs[0].prediction
        if isinstance(prediction, Prediction):
            yield f"{name}: theory: {prediction.name} ({prediction.kind}; {prediction.source})"
            for note in prediction.notes:
                yield f"    {note}"
        else:
            yield f"{name}: no theory: {prediction.reason}"
