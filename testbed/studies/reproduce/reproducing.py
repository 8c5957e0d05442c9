"""Reproducing a study of a paper: theory, runs of the twin and of the cluster, and reference numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec

from testbed.cluster.processes import ClusterError
from testbed.core.records import Measurements
from testbed.measure.control_variate import controlled_interval
from testbed.measure.statistics import replication_interval
from testbed.runs.result import VariantRun
from testbed.runs.tables import html, plain_text
from testbed.scenario import Scenario, resolved
from testbed.studies.engine import make_runs
from testbed.studies.plan import Measure, Run
from testbed.studies.progress import Progress
from testbed.studies.reproduce.reference import reference
from testbed.studies.reproduce.registry import study
from testbed.studies.reproduce.study import Point, Row, Settings, Study
from testbed.studies.reproduce.study_files import save
from testbed.studies.reproduce.study_table import study_table
from testbed.studies.store import StudyFolder

Values = Mapping[str, float]


@dataclass
class Reproduction:
    """The result of a study: its rows, in the order of the points, what is missing, and the folder that holds them."""

    study: Study
    quick: bool
    rows: list[Row] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    interrupted: bool = False
    folder: Path | None = None

    def __str__(self) -> str:
        return plain_text(study_table(self))

    def _repr_html_(self) -> str:
        return html(study_table(self))


def reproduce(
    name: str,
    *,
    quick: bool = False,
    cluster: bool = False,
    output: str | Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Compute a study and write its numbers and plots.

    Args:
        name: of the study (``testbed.studies.reproduce.studies()``).
        quick: fewer points and short runs: below 20 seconds, for a first look.
        cluster: also on real processes, where the study has points that fit on one machine.
        output: the folder in which to make the study's folder; None to keep everything in memory.
        processes: how many processes simulate; default: one per core.
        progress: shows how far the study is (testbed.studies.progress); by default nothing is shown.

    Ctrl-C ends it early with what was finished: then ``interrupted`` is true, and ``missing`` says what was not.
    Raises UnknownStudyError; OutputError when the folder can't be used; TwinError and ClusterError when runs fail.
    """
    wanted = study(name)
    folder = StudyFolder.create(Path(output), wanted.name) if output is not None else None
    result = compute(wanted, quick=quick, cluster=cluster, processes=processes, progress=progress)
    if folder is not None:
        result.folder = folder.path
        save(result, folder)
    return result


def compute(
    study: Study,
    *,
    quick: bool = False,
    cluster: bool = False,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Reproduction:
    """Compute a study without writing it; arguments and errors as those of ``reproduce``."""
    points = study.points(quick)
    runs = _Runs(study, points, cluster)
    progress = progress or Progress()
    theory: list[Values] = []
    try:
        for point in points:
            progress.refresh(0.0, "theory")
            theory.append(study.theory(point.settings))
        interrupted = not make_runs(runs, progress, processes)
    except KeyboardInterrupt:
        interrupted = True
    missing = [f"theory at {point}" for point in points[len(theory) :]]
    result = Reproduction(study, quick, missing=[*missing, *runs.incomplete()], interrupted=interrupted)
    for i, point in enumerate(points):
        values = theory[i] if i < len(theory) else {}
        result.rows += [Row(point.settings, name, "theory", value, line=point.line) for name, value in values.items()]
        result.rows += runs.rows(i)
        result.rows += [replace(row, line=point.line) for row in reference(study.name, point.settings)]
    return result


@dataclass
class _Batch:
    """Points that share a scenario, and what its replications have measured for each of them."""

    source: Literal["twin", "cluster"]
    scenario: Scenario
    points: list[int]
    found: list[Sequence[Values]] = field(default_factory=list)
    verdicts: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class _Measure:
    """Measures a run for all points that share it. Worker processes get a copy."""

    study: Study
    settings: Mapping[str, Sequence[Settings]]  # by the scenario's name

    def __call__(self, scenario: Scenario, measurements: Measurements) -> list[Values]:
        return [self.study.measure(settings, scenario, measurements) for settings in self.settings[scenario.name]]


class _Runs:
    """The runs of a study, for the engine (testbed.studies.plan.StudyRuns)."""

    def __init__(self, study: Study, points: list[Point], cluster: bool) -> None:
        self._study = study
        self._points = points
        self._batches = [*self._shared("twin"), *(self._shared("cluster") if cluster else [])]

    def _shared(self, source: Literal["twin", "cluster"]) -> list[_Batch]:
        found: dict[str, _Batch] = {}
        for i, point in enumerate(self._points):
            scenario = point.twin if source == "twin" else point.cluster
            if scenario is not None:
                content = resolved(msgspec.structs.replace(scenario, name="x"))
                name = f"{self._study.name} {source} {len(found) + 1}"
                batch = found.setdefault(content, _Batch(source, msgspec.structs.replace(scenario, name=name), []))
                batch.points.append(i)
        return list(found.values())

    @property
    def measure(self) -> Measure[Sequence[Values]]:
        settings = {batch.scenario.name: [self._points[i].settings for i in batch.points] for batch in self._batches}
        return _Measure(self._study, settings)

    def batches(self) -> Iterator[Sequence[Run]]:
        runs = []
        # By replication first: after an interruption all points have about the same number.
        for r in range(max((batch.scenario.run.replications for batch in self._batches), default=0)):
            for batch in self._batches:
                if r < batch.scenario.run.replications:
                    at = self._points[batch.points[0]]
                    doing = "twin" if batch.source == "twin" else f"cluster: {at}"
                    title, name = f"{self._study.name} at {at}, replication {r + 1}", batch.scenario.name
                    runs.append(Run(title, batch.scenario, r, batch.source, batch, name, doing=doing))
        yield runs

    def keep_twin(self, run: Run, value: Sequence[Values]) -> None:
        run.key.found.append(value)

    def keep_cluster(self, run: Run, made: VariantRun) -> None:
        if made.failure is not None:
            raise ClusterError(f"{run}: {made.failure}")
        if made.cluster is not None and made.cluster_measurements is not None:
            run.key.found.append(self.measure(made.scenario, made.cluster_measurements))
            run.key.verdicts += made.cluster.verdict.reasons

    def incomplete(self) -> list[str]:
        """Say which batches lack replications."""
        return [
            f"{batch.source} at {self._points[batch.points[0]]}: {lacking} of {planned} replications"
            for batch in self._batches
            if (lacking := (planned := batch.scenario.run.replications) - len(batch.found)) > 0
        ]

    def rows(self, point: int) -> list[Row]:
        """Return the rows of a point from the twin and the cluster."""
        found = []
        for batch in self._batches:
            if point in batch.points:
                position = batch.points.index(point)
                values = [measured[position] for measured in batch.found]
                found += [self._row(point, name, values, batch) for name in (values[0] if values else ())]
        return found

    def _row(self, point: int, quantity: str, values: list[Values], batch: _Batch) -> Row:
        at = self._points[point]
        means = [value[quantity] for value in values]
        if quantity in self._study.controls:
            control, mean = self._study.controls[quantity]
            interval = controlled_interval(means, [value[control] for value in values], float(at.settings[mean]))
        else:
            interval = replication_interval(means)
        verdict = "" if batch.source == "twin" else "; ".join(dict.fromkeys(batch.verdicts)) or "valid"
        value = float("nan") if interval.mean is None else interval.mean
        return Row(at.settings, quantity, batch.source, value, interval.half_width, len(values), verdict, at.line)
