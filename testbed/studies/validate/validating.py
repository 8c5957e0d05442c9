"""Validation from cases to results: the twin's runs over all cores, the cluster's one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from pathlib import Path

from testbed.runs.experiment import run
from testbed.runs.result import VariantRun
from testbed.studies.twins import TwinRun, run_twins
from testbed.studies.validate.case import PLACES, Case, Place, only_on
from testbed.studies.validate.judging import judge
from testbed.studies.validate.reading import chosen
from testbed.studies.validate.result import Validation
from testbed.studies.validate.running import TwinReading, twin_reading

#: Called with how many runs are done, how many there are, and what comes next.
Progress = Callable[[int, int, str], None]


def validate(
    cases: Sequence[str | Path | Case] = (),
    *,
    quick: bool = False,
    on: Sequence[Place] = PLACES,
    output: str | Path | None = None,
    processes: int | None = None,
    progress: Progress = lambda done, total, doing: None,
) -> Validation:
    """Hold cases to what must be true of them: the twin to theory, the cluster to its twin and to its own verdict.

    Args:
        cases: names of built-in ones, scenario files with ``[expect]``, folders of such files, or Case objects;
            default: the built-in suite.
        quick: the built-in suite in a short form.
        on: some of "twin" and "cluster".
        output: the folder in which to make the validation's folder; None to keep everything in memory.
        processes: that simulate; default: one per core.
        progress: told how many runs are done, how many there are, and what comes next.

    Ctrl-C ends it early: cases without an answer are in ``unfinished``. Raises ScenarioError for a case that can't be,
    ValueError when none of them is looked at in ``on``, testbed.runs.run_folder.OutputError when the folder can't be
    used, and testbed.studies.twins.TwinError and testbed.cluster.processes.ClusterError when runs fail.
    """
    named = chosen(cases, quick)
    wanted = only_on(named, on)
    if not wanted:
        elsewhere = " and ".join(place for place in PLACES if only_on(named, [place]))
        raise ValueError(
            f"on: {','.join(on)} leaves nothing to look at: {', '.join(case.name for case in named)}: looked at on "
            f"{elsewhere} only; give --on {elsewhere}, or change expect.on"
        )
    # Here, so that what can't be expected is told before anything is made or run.
    expected = {case.name: [case.expected(scenario) for scenario in (case.scenario, *case.twins)] for case in wanted}
    folder = None
    if output is not None:
        from testbed.studies.validate.folder import ValidationFolder

        folder = ValidationFolder(Path(output))
    asked = None if any(isinstance(case, Case) for case in cases) else [str(case) for case in cases]
    result = Validation(quick=quick, asked=asked, on=list(on), cases=[])
    twins: dict[tuple[str, int], list[TwinReading]] = {}
    clusters: dict[str, VariantRun] = {}
    with suppress(KeyboardInterrupt):
        _run(wanted, processes, progress, twins, clusters)
    for case in wanted:
        readings = [twins.get((case.name, i), []) for i in range(len(case.twins))]
        complete = all(len(r) == s.run.replications for r, s in zip(readings, case.twins, strict=True))
        if complete and (case.cluster is None or case.name in clusters):
            result.cases.append(judge(case, expected[case.name], readings, clusters.get(case.name)))
        else:
            result.unfinished.append(case.name)
    if folder is not None:
        folder.save(result)
    return result


def _run(
    cases: Sequence[Case],
    processes: int | None,
    progress: Progress,
    twins: dict[tuple[str, int], list[TwinReading]],
    clusters: dict[str, VariantRun],
) -> None:
    on_cluster = [case for case in cases if case.cluster is not None]
    total = sum(scenario.run.replications for case in cases for scenario in case.twins) + len(on_cluster)
    done = 0

    def planned() -> Iterator[TwinRun]:
        for case in cases:
            for i, scenario in enumerate(case.twins):
                for replication in range(scenario.run.replications):
                    yield TwinRun(scenario, replication, key=(case.name, i))

    # The cluster's runs come first and alone: nothing else must take the processors from real processes.
    for case in on_cluster:
        assert case.cluster is not None
        progress(done, total, f"cluster: {case.name}")
        clusters[case.name] = run(case.cluster, where="cluster and twin").runs[0]
        done += 1
    if any(case.twins for case in cases):
        with closing(run_twins(planned(), twin_reading, processes)) as made:
            progress(done, total, "twin")
            for twin, reading in made:
                done += 1
                twins.setdefault(twin.key, []).append(reading)
                progress(done, total, f"twin: {twin.key[0]}")
