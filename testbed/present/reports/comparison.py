"""Comparison of runs: the differences between their mean response times, with intervals.

Two runs with the same seed and workload have the same jobs. These runs are compared job by job, which removes the noise
that arrivals and sizes cause in both (testbed.measure.pathwise). Other runs are compared by replication.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from rich.table import Table

from testbed.measure.pathwise import compare
from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import mean_response
from testbed.present.reports.measured import Measured, read_measured
from testbed.runs.run_folder import OutputError
from testbed.runs.tables import new_table, signed_percent, with_interval

JOB_BY_JOB = "job by job"
BY_REPLICATION = "by replication"
NOT_PAIRED = "not paired"


@dataclass(frozen=True)
class Comparison:
    """One run and its difference from the first run: its mean response time minus the first's, in time units.

    ``pairs`` says how the two were paired; the first run has no difference.
    """

    run: Measured
    label: str
    difference: Interval | None = None
    relative: float | None = None
    pairs: str = "-"


def contenders(names: Sequence[str]) -> list[tuple[str, Measured]]:
    """Return the runs that ``FOLDER`` or ``FOLDER:VARIANT`` name, each with a label. Raises OutputError.

    There must be at least two. A folder alone means all its variants.
    """
    found: list[tuple[str, Measured]] = []
    for name in names:
        folder, variant = Path(name), ""
        if not folder.exists() and ":" in name:
            before, _, variant = name.rpartition(":")
            folder = Path(before)
        if (folder / "sweep.json").exists():
            raise OutputError(
                f"{folder}: is a sweep; `testbed compare` takes the folders of runs. The sweep's report compares its "
                f"variants (`testbed report {folder}`), and so does its sweep.csv"
            )
        _, measured = read_measured(folder)
        chosen = [one for one in measured if variant in ("", one.name)]
        if not chosen:
            raise OutputError(f"{folder}: has no variant {variant!r}; it has: {', '.join(o.name for o in measured)}")
        found += [(f"{folder.name}: {one.name}", one) for one in chosen]
    if len(found) < 2:
        raise OutputError(f"{', '.join(names)}: only one variant of one run; name another run to compare it with")
    folders = {one.folder.resolve() for _, one in found}
    return [(one.name, one) for _, one in found] if len(folders) == 1 else found


def compare_runs(runs: Sequence[tuple[str, Measured]]) -> list[Comparison]:
    """Compare each of the runs with the first. Raises OutputError when the records can't be read."""
    (label, first), *others = runs
    return [Comparison(first, label), *(_compared(label, other, first) for label, other in others)]


def _compared(label: str, ours: Measured, first: Measured) -> Comparison:
    shared = [(mine, theirs) for mine in ours.own for theirs in first.own if mine.replication == theirs.replication]
    base = mean_response(first.own).mean
    if shared and _same_workload(ours, first):
        found = [
            _job_by_job(ours, first, mine.replication, _common(mine.window, theirs.window)) for mine, theirs in shared
        ]
        known = [interval for interval in found if interval is not None]
        if known:
            difference, pairs = _averaged(known), JOB_BY_JOB
            return _finished(Comparison(ours, label, difference, pairs=pairs), base)
    means = [(a.response.mean, b.response.mean) for a, b in shared]
    steps = [a - b for a, b in means if a is not None and b is not None]
    if len(steps) > 1:
        return _finished(Comparison(ours, label, replication_interval(steps), pairs=BY_REPLICATION), base)
    return _finished(
        Comparison(ours, label, _apart(mean_response(ours.own), mean_response(first.own)), pairs=NOT_PAIRED), base
    )


def _finished(comparison: Comparison, base: float | None) -> Comparison:
    difference = comparison.difference
    if difference is None or difference.mean is None or not base:
        return comparison
    return replace(comparison, relative=difference.mean / base)


def _same_workload(ours: Measured, first: Measured) -> bool:
    """Return whether both had the same jobs, by their settings and by the arrival times of one replication."""
    if (ours.scenario.seed, ours.scenario.workload) != (first.scenario.seed, first.scenario.workload):
        return False
    replication = ours.own[0].replication
    if replication != first.own[0].replication:
        return False
    mine, theirs = (one.jobs(one.source, replication) for one in (ours, first))
    _, i, j = np.intersect1d(mine["job"], theirs["job"], return_indices=True)
    # With another number of servers the same seed gives other gaps between arrivals, to keep the load.
    return len(i) > 0 and bool(np.allclose(mine["arrival"][i], theirs["arrival"][j], rtol=0, atol=1e-9))


def _job_by_job(ours: Measured, first: Measured, replication: int, window: tuple[float, float]) -> Interval | None:
    """Return the mean difference over the jobs that both completed; None when there is none."""
    found = compare(ours.jobs(ours.source, replication), first.jobs(first.source, replication), window)
    if found.mean is None or found.twin_mean is None:
        return None
    width = found.interval.half_width
    return Interval(
        mean=found.mean * found.twin_mean,
        half_width=None if width is None else width * found.twin_mean,
        confidence=found.interval.confidence,
        effective_samples=found.interval.effective_samples,
        reliable=found.interval.reliable,
    )


def _averaged(found: Sequence[Interval]) -> Interval:
    """Return the mean of independent replications, each of which has its interval."""
    n = len(found)
    widths = [interval.half_width for interval in found]
    known = [width for width in widths if width is not None]
    return Interval(
        mean=sum(interval.mean or 0.0 for interval in found) / n,
        half_width=math.hypot(*known) / n if len(known) == n else None,
        confidence=found[0].confidence,
        effective_samples=sum(interval.effective_samples for interval in found),
        reliable=sum(interval.effective_samples for interval in found) >= 30 or all(i.reliable for i in found),
    )


def _apart(ours: Interval, theirs: Interval) -> Interval | None:
    """Return the difference of two independent means."""
    if ours.mean is None or theirs.mean is None:
        return None
    known = ours.half_width is not None and theirs.half_width is not None
    return Interval(
        mean=ours.mean - theirs.mean,
        half_width=math.hypot(ours.half_width or 0.0, theirs.half_width or 0.0) if known else None,
        confidence=ours.confidence,
        effective_samples=min(ours.effective_samples, theirs.effective_samples),
        reliable=ours.reliable and theirs.reliable,
    )


def _common(one: tuple[float, float], other: tuple[float, float]) -> tuple[float, float]:
    start = max(one[0], other[0])
    return start, max(start, min(one[1], other[1]))


def comparison_table(comparisons: Sequence[Comparison]) -> Table:
    """Return the comparisons as a table."""
    first = comparisons[0]
    table = new_table(
        f"compared with {first.label}",
        "response times in time units; ± is a 95 % confidence interval, ~± an unreliable one (the run is too short)",
    )
    table.add_column("run", min_width=12, overflow="fold")
    table.add_column("on", no_wrap=True)
    for heading in ("mean response\ntime", "difference"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("pairs", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for one in comparisons:
        difference = one.difference
        table.add_row(
            one.label,
            one.run.source,
            with_interval(mean_response(one.run.own)),
            "-" if difference is None else f"{with_interval(difference, sign='+')}\n{signed_percent(one.relative)}",
            one.pairs,
            "[green]valid[/]" if one.run.valid else "[bold yellow]suspect[/]",
        )
    return table
