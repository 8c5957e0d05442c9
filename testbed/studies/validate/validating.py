"""Making a validation: from cases to results, and the files that hold these.

validation.json    everything (testbed.studies.validate.result.Validation), for `testbed report`
tests.csv          a row per test: case, check, difference, interval, what is allowed, passed, reason; also .parquet
sizes.csv          a row per case and number of servers: theory, twin, interval, the fit's error; also .parquet
<case>.svg/.png    for each limit the error over the number of servers, with the fit
environment.json   versions, cores, when, how long

`testbed validate` adds report.html, the page that `testbed report` makes of the folder.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
import pyarrow as pa

from testbed.runs.result import VariantRun
from testbed.studies import plot_style
from testbed.studies.engine import make_runs
from testbed.studies.plan import Measure, Run
from testbed.studies.progress import Progress
from testbed.studies.store import StudyFolder
from testbed.studies.validate.case import PLACES, Case, Place, only_on
from testbed.studies.validate.choosing import chosen
from testbed.studies.validate.figures import figures
from testbed.studies.validate.judging import judge
from testbed.studies.validate.result import Validation
from testbed.studies.validate.twin_reading import TwinReading, twin_reading


def validate(
    cases: Sequence[str | Path | Case] = (),
    *,
    quick: bool = False,
    on: Sequence[Place] = PLACES,
    output: str | Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> Validation:
    """Compare the twin with theory, and the cluster with its twin, in each case; judge the differences.

    Args:
        cases: names of built-in ones, scenario files with ``[expect]``, folders of such files, or Case objects;
            default: the built-in suite.
        quick: the built-in suite in a short form.
        on: some of "twin" and "cluster".
        output: the folder in which to make the validation's folder; None to keep everything in memory.
        processes: that simulate; default: one per core.
        progress: shows how far the validation is (testbed.studies.progress); by default nothing is shown.

    Ctrl-C ends it early: cases without a result are in ``unfinished``. Raises ScenarioError for an invalid case,
    ValueError when no case runs in any of the places ``on``, testbed.runs.run_folder.OutputError when the folder can't
    be used, and testbed.studies.workers.TwinError and testbed.cluster.processes.ClusterError when runs fail.
    """
    named = chosen(cases, quick)
    wanted = only_on(named, on)
    if not wanted:
        elsewhere = " and ".join(place for place in PLACES if only_on(named, [place]))
        raise ValueError(
            f"on: {','.join(on)} leaves nothing to run: {', '.join(case.name for case in named)}: runs on {elsewhere} "
            f"only; give --on {elsewhere}, or change expect.on"
        )
    # Before the folder is made and anything runs, so that a case without an expectation is an error at once.
    expected = {case.name: [case.expected(scenario) for scenario in (case.scenario, *case.twins)] for case in wanted}
    folder = StudyFolder.create(Path(output), "validation") if output is not None else None
    asked = None if any(isinstance(case, Case) for case in cases) else [str(case) for case in cases]
    result = Validation(quick=quick, asked=asked, on=list(on), cases=[])
    runs = _Runs(wanted)
    make_runs(runs, progress or Progress(), processes)
    for case in wanted:
        readings = [runs.twins.get((case.name, i), []) for i in range(len(case.twins))]
        complete = all(len(r) == s.run.replications for r, s in zip(readings, case.twins, strict=True))
        if complete and (case.cluster is None or case.name in runs.clusters):
            result.cases.append(judge(case, expected[case.name], readings, runs.clusters.get(case.name)))
        else:
            result.unfinished.append(case.name)
    if folder is not None:
        save(result, folder)
    return result


class _Runs:
    """The runs of a validation, for the engine (testbed.studies.plan.StudyRuns)."""

    def __init__(self, cases: Sequence[Case]) -> None:
        self.twins: dict[tuple[str, int], list[TwinReading]] = {}
        self.clusters: dict[str, VariantRun] = {}
        self._cases = cases

    @property
    def measure(self) -> Measure[TwinReading]:
        return twin_reading

    def batches(self) -> Iterator[Sequence[Run]]:
        runs = []
        for case in self._cases:
            name = case.name
            if case.cluster is not None:
                runs.append(Run(name, case.cluster, 0, "cluster and twin", name, name, doing=f"cluster: {name}"))
            for i, scenario in enumerate(case.twins):
                for r in range(scenario.run.replications):
                    title = f"{name}, {scenario.servers} servers, replication {r + 1}"
                    runs.append(Run(title, scenario, r, key=(name, i), doing=f"twin: {name}"))
        yield runs

    def keep_twin(self, run: Run, value: TwinReading) -> None:
        self.twins.setdefault(run.key, []).append(value)

    def keep_cluster(self, run: Run, made: VariantRun) -> None:
        self.clusters[run.key] = made


def save(result: Validation, folder: StudyFolder) -> None:
    """Write all files. Raises OutputError."""
    result.folder = str(folder.path)
    folder.write("validation.json", msgspec.json.format(msgspec.json.encode(result), indent=2))
    folder.write_table("tests", pa.Table.from_pylist(_tests(result)))
    folder.write_table("sizes", pa.Table.from_pylist(_sizes(result)))
    plot_style.save(figures(result), folder)
    folder.close()


def _tests(result: Validation) -> list[dict[str, object]]:
    return [
        {
            "case": case.name,
            "policy": case.policy,
            "kind": case.kind,
            "check": finding.check,
            "passed": finding.passed,
            "difference": finding.difference,
            "low": finding.low,
            "high": finding.high,
            "allowed_low": finding.allowed[0] if finding.allowed else None,
            "allowed_high": finding.allowed[1] if finding.allowed else None,
            "reason": finding.reason,
        }
        for case in result.cases
        for finding in case.findings
    ]


def _sizes(result: Validation) -> list[dict[str, object]]:
    return [
        {
            "case": case.name,
            "servers": size.servers,
            "theory": size.theory,
            "twin": size.twin.value,
            "half_width": size.twin.half_width(0.05),
            "replications": size.replications,
            "error": size.error.value,
            "fitted_error": case.fit.error(size.servers) if case.fit else None,
        }
        for case in result.cases
        for size in case.sizes
    ]
