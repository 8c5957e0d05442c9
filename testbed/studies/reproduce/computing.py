"""Computing a study: theory, runs of the twin on all cores, runs of the cluster, and the reference beside them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from testbed.measure.control_variate import controlled_interval
from testbed.measure.statistics import replication_interval
from testbed.studies.reproduce.reference import reference
from testbed.studies.reproduce.study import Point, Row, Settings, Source, Study

if TYPE_CHECKING:
    from testbed.core.records import Measurements
    from testbed.scenario import Scenario

#: Called with how many runs are done, how many there are, and what comes next.
Progress = Callable[[int, int, str], None]
Values = Mapping[str, float]


@dataclass
class Reproduction:
    """What a study gave: its rows, in the order of the points, what is missing, and the folder that holds them."""

    study: Study
    quick: bool
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    interrupted: bool = False
    folder: Path | None = None

    def __str__(self) -> str:
        from testbed.runs.tables import plain_text
        from testbed.studies.reproduce.table import study_table

        return plain_text(study_table(self))

    def _repr_html_(self) -> str:
        from testbed.runs.tables import html
        from testbed.studies.reproduce.table import study_table

        return html(study_table(self))


@dataclass
class _Batch:
    """Points that share a scenario, and what its replications have measured for each of them."""

    scenario: Scenario
    points: list[int]
    found: list[Sequence[Values]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Measure:
    """Measures a run for all points that share it; made to be sent to a process that simulates."""

    study: Study
    settings: Mapping[str, Sequence[Settings]]  # by the scenario's name

    def __call__(self, scenario: Scenario, measurements: Measurements) -> list[Values]:
        return [self.study.measure(settings, scenario, measurements) for settings in self.settings[scenario.name]]


def compute(
    study: Study,
    *,
    quick: bool = False,
    cluster: bool = False,
    processes: int | None = None,
    progress: Progress = lambda done, total, doing: None,
) -> Reproduction:
    """Compute a study on theory and twin, with ``cluster`` also on real processes.

    ``processes``: for the twin's runs; default: one per core. Ctrl-C ends it early: the result has what was finished,
    and says in ``missing`` what was not. Raises TwinError and ClusterError when runs fail.
    """
    result = Reproduction(study, quick)
    points = study.points(quick)
    twins = _batches(study, points, "twin")
    clusters = _batches(study, points, "cluster") if cluster else []
    theory: list[Values] = []
    runs = _Counted(progress, sum(batch.scenario.run.replications for batch in (*twins, *clusters)))
    try:
        for point in points:
            runs.next("theory")
            theory.append(study.theory(point.settings))
        _run_twins(study, points, twins, processes, runs)
        _run_cluster(study, points, clusters, runs)
    except KeyboardInterrupt:
        result.interrupted = True
    result.missing = _missing(points, len(theory), twins, clusters)
    measured = [_rows_by_point(study, points, twins, "twin"), _rows_by_point(study, points, clusters, "cluster")]
    for i, point in enumerate(points):
        values = theory[i] if i < len(theory) else {}
        result.rows += [Row(point.settings, name, "theory", value, line=point.line) for name, value in values.items()]
        result.rows += [row for rows in measured for row in rows.get(i, [])]
        result.rows += [replace(row, line=point.line) for row in reference(study.name, point.settings)]
    return result


class _Counted:
    def __init__(self, progress: Progress, total: int) -> None:
        self._progress = progress
        self._total = total
        self._done = 0

    def next(self, doing: str, done: int = 0) -> None:
        self._done += done
        self._progress(self._done, self._total, doing)


def _batches(study: Study, points: list[Point], source: Source) -> list[_Batch]:
    from testbed.scenario import resolved

    found: dict[str, _Batch] = {}
    for i, point in enumerate(points):
        scenario = point.twin if source == "twin" else point.cluster
        if scenario is not None:
            alone = msgspec.structs.replace(scenario, name="x")
            batch = found.setdefault(resolved(alone), _Batch(scenario, []))
            batch.points.append(i)
    batches = list(found.values())
    for number, batch in enumerate(batches, 1):
        batch.scenario = msgspec.structs.replace(batch.scenario, name=f"{study.name} {source} {number}")
    return batches


def _measure(study: Study, points: list[Point], batches: list[_Batch]) -> _Measure:
    return _Measure(study, {b.scenario.name: [points[i].settings for i in b.points] for b in batches})


def _run_twins(study: Study, points: list[Point], batches: list[_Batch], processes: int | None, runs: _Counted) -> None:
    from testbed.studies.twins import TwinRun, run_twins

    if not batches:
        return
    by_name = {batch.scenario.name: batch for batch in batches}

    def planned() -> Iterator[TwinRun]:
        # Replications outside: whenever it is interrupted, all points are about equally far.
        for replication in range(max(batch.scenario.run.replications for batch in batches)):
            for batch in batches:
                if replication < batch.scenario.run.replications:
                    yield TwinRun(batch.scenario, replication, key=f"{study.name} at {points[batch.points[0]]}")

    runs.next("twin")
    for run, values in run_twins(planned(), _measure(study, points, batches), processes):
        by_name[run.scenario.name].found.append(values)
        runs.next("twin", done=1)


def _run_cluster(study: Study, points: list[Point], batches: list[_Batch], runs: _Counted) -> None:
    if not batches:
        return
    from testbed.cluster.processes import ClusterError
    from testbed.runs.experiment import run

    measure = _measure(study, points, batches)
    for batch in batches:
        runs.next(f"cluster: {points[batch.points[0]]}")
        for made in run(batch.scenario).runs:
            if made.cluster_measurements is None or made.cluster is None:
                continue
            if made.failure is not None:
                raise ClusterError(f"{study.name} at {points[batch.points[0]]}: {made.failure}")
            batch.found.append(measure(made.scenario, made.cluster_measurements))
            batch.verdicts += made.cluster.verdict.reasons
            runs.next("cluster", done=1)


def _rows_by_point(study: Study, points: list[Point], batches: list[_Batch], source: Source) -> dict[int, list[Row]]:
    found: dict[int, list[Row]] = {}
    for batch in batches:
        for position, i in enumerate(batch.points):
            values = [measured[position] for measured in batch.found]
            found[i] = [_row(study, points[i], name, source, values, batch) for name in (values[0] if values else ())]
    return found


def _row(study: Study, point: Point, quantity: str, source: Source, values: list[Values], batch: _Batch) -> Row:
    means = [value[quantity] for value in values]
    if quantity in study.controls:
        control, mean_setting = study.controls[quantity]
        interval = controlled_interval(means, [value[control] for value in values], float(point.settings[mean_setting]))
    else:
        interval = replication_interval(means)
    verdict = "" if source == "twin" else "; ".join(dict.fromkeys(batch.verdicts)) or "valid"
    mean = float("nan") if interval.mean is None else interval.mean
    return Row(point.settings, quantity, source, mean, interval.half_width, len(values), verdict, line=point.line)


def _missing(points: list[Point], theory: int, twins: list[_Batch], clusters: list[_Batch]) -> list[str]:
    missing = [f"theory at {point}" for point in points[theory:]]
    for source, batches in (("twin", twins), ("cluster", clusters)):
        for batch in batches:
            planned = batch.scenario.run.replications
            if (lacking := planned - len(batch.found)) > 0:
                missing.append(f"{source} at {points[batch.points[0]]}: {lacking} of {planned} replications")
    return missing
