"""Making a sweep: from a caller's request to the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.core.records import Measurements
from testbed.measure.summary import Summary, measured_window, summarise
from testbed.runs.nominal import nominal
from testbed.runs.result import VariantRun
from testbed.scenario import Scenario, load
from testbed.studies.engine import make_runs
from testbed.studies.plan import Measure, Run
from testbed.studies.progress import Progress
from testbed.studies.sweep.plan import FinishedRun, Goal, Place, Plan
from testbed.studies.sweep.result import SweepResult
from testbed.studies.sweep.sweep_folder import SweepFolder


class SweepError(Exception):
    """A run of a sweep failed on the cluster, or can't account for all of its jobs."""


class Request(NamedTuple):
    """The parts of a goal that a caller asks for; None is left to the default, or to the folder."""

    on: tuple[Place, ...] | None = None
    target: float | None = None
    budget: int | None = None

    @classmethod
    def read(cls, on: str | None, target: str | None, budget: int | None) -> Request:
        """Read a command line: places with commas between, and a fraction such as "1%" or "0.01"."""
        places = None if on is None else tuple(place.strip() for place in on.split(","))
        return cls(places, None if target is None else _fraction(target), budget)  # type: ignore[arg-type]  # Goal checks

    def goal(self, default: Goal) -> Goal:
        """Return another goal with the parts that are requested. Raises ValueError."""
        requested = {name: value for name, value in self._asdict().items() if value is not None}
        goal = Goal(**{**msgspec.structs.asdict(default), **requested})
        if self.budget is not None and goal.target is None:
            raise ValueError("budget: bounds the replications towards a target; give the target too")
        if self.target is not None and not goal.measured:
            raise ValueError("target: theory makes no replications; add twin or cluster to --on, or leave it out")
        return goal


def _fraction(text: str) -> float:
    number = text.strip()
    try:
        return float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"target: must be a fraction such as 1% or 0.01, not {text!r}") from None


class SweepRun:
    """A sweep in progress, for the engine (testbed.studies.plan.StudyRuns)."""

    def __init__(
        self, plan: Plan, folder: SweepFolder | None, progress: Progress, processes: int | None = None
    ) -> None:
        """``folder``: where runs are saved, and where some may be already; None to keep them in memory."""
        self._plan = plan
        self._folder = folder
        self._progress = progress
        self._processes = processes
        self.result = SweepResult(plan, folder.path if folder else None, dict(folder.runs) if folder else {})
        progress.resume(len(self.result.runs), sum(map(plan.work, self.result.runs)))

    @classmethod
    def begin(
        cls,
        scenario: Scenario | None,
        request: Request,
        output: Path | None,
        resume: Path | None,
        progress: Progress,
        processes: int | None = None,
    ) -> SweepRun:
        """Begin a sweep, or resume an interrupted one; arguments and errors as those of ``sweep``."""
        if resume is not None:
            if output is not None:
                raise ValueError(f"output: the sweep goes on in its own folder, {resume}; leave it out")
            folder = SweepFolder.resume(resume, scenario)
            goal = request.goal(folder.goal)
            if goal != folder.goal:
                folder.change_goal(goal)
            return cls(Plan(folder.scenario, goal), folder, progress, processes)
        if scenario is None:
            raise ValueError("scenario: missing; give what to run, or the folder of an interrupted sweep to resume")
        goal = request.goal(Goal())
        plan = Plan(scenario, goal)
        return cls(plan, SweepFolder.begin(scenario, goal, output) if output else None, progress, processes)

    def run(self) -> None:
        """Make all runs, or those until Ctrl-C. Raises ClusterError, TwinError, SweepError and OutputError."""
        try:
            self.result.interrupted = not make_runs(self, self._progress, self._processes)
        finally:
            if self._folder is not None:
                self._folder.write_table("sweep", self.result.table())
                self._folder.close()

    @property
    def measure(self) -> Measure[Summary]:
        """Reduces a run of the twin to its summary."""
        return twin_summary

    def batches(self) -> Iterator[list[Run]]:
        """Yield the missing runs. With a target, the results of a batch say whether more are needed."""
        plan = self._plan
        while keys := plan.missing(self.result.runs):
            yield [
                Run(str(key), plan.scenario_of(key), key.replication, plan.goal.where, key, key.variant, plan.work(key))
                for key in keys
            ]

    def keep_twin(self, run: Run, value: Summary) -> None:
        """Save a run of the twin."""
        twin = msgspec.structs.replace(value, variant=run.variant, replication=run.replication)
        self._keep(FinishedRun(**run.key._asdict(), twin=twin))

    def keep_cluster(self, run: Run, made: VariantRun) -> None:
        """Save a run on the cluster, with its twin if that was run. Raises SweepError when a process died."""
        if made.failure is not None:
            raise SweepError(f"{run}: {made.failure}")
        cluster, twin = (None if found is None else _without_slices(found) for found in (made.cluster, made.twin))
        self._keep(FinishedRun(**run.key._asdict(), cluster=cluster, twin=twin))

    def _keep(self, run: FinishedRun) -> None:
        """Save a finished run. Raises SweepError when it can't account for all of its jobs."""
        for summary in (run.cluster, run.twin):
            if summary is not None and not summary.accounting.balanced:
                raise SweepError(f"{run.key}, {summary.source}: {'; '.join(summary.accounting.problems)}")
        if self._folder is not None:
            self._folder.add(run)
        self.result.runs[run.key] = run


def twin_summary(scenario: Scenario, measurements: Measurements) -> Summary:
    """Return the summary of a run of the twin; the caller sets its variant and replication."""
    asked = nominal(scenario)
    summary = summarise(
        measurements,
        asked,
        variant="",
        replication=0,
        time_unit_seconds=scenario.run.time_unit_seconds,
        window=measured_window(measurements, scenario.run.warmup, scenario.horizon, asked.relaxation_time),
    )
    return _without_slices(summary)


def _without_slices(summary: Summary) -> Summary:
    """Leave out the number in system by time slice: nine tenths of a summary, and only the verdict needs it."""
    lengths = msgspec.structs.replace(summary.queue_length, edges=[], number_in_system=[])
    return msgspec.structs.replace(summary, queue_length=lengths)


def sweep(
    scenario: Scenario | str | Path | None = None,
    *,
    on: Sequence[Place] | None = None,
    target: float | None = None,
    budget: int | None = None,
    output: str | Path | None = None,
    resume: str | Path | None = None,
    processes: int | None = None,
    progress: Progress | None = None,
) -> SweepResult:
    """Run a scenario with all its variants at all points of its ``sweep``, and return the results.

    Args:
        scenario: what to run; or its file, or the name of a shipped one. It may be left out with ``resume``.
        on: some of "cluster" (real processes), "twin" (a simulation of the same agents, on all cores) and "theory";
            default: twin and theory. On cluster and twin, each run's workload is replayed on the twin and compared job
            by job.
        target: add replications until the half-width of the mean response time's 95 % interval is at most this
            fraction of the mean, at each point and variant; default: run.replications replications.
        budget: most replications of a point to reach the target; default: 100.
        output: the folder in which to make the sweep's folder; None to keep everything in memory.
        resume: the folder of an interrupted sweep to resume. ``target`` and ``budget``, if given, replace its own;
            ``scenario`` and ``on`` must be the same, and ``output`` must be left out.
        processes: workers for the twin; default: one per core.
        progress: shows how far the sweep is (testbed.studies.progress); by default nothing is shown.

    Ctrl-C saves what is finished and raises KeyboardInterrupt. Raises ScenarioError for a scenario without a sweep,
    ValueError for other arguments that are invalid, OutputError when a folder can't be used, SweepError and TwinError
    when a run fails, and testbed.cluster.processes.ClusterError when a cluster does not come up; a sweep with a folder
    can then be resumed.
    """
    if scenario is not None:
        scenario = load(scenario) if isinstance(scenario, (str, Path)) else scenario.checked()
    run = SweepRun.begin(
        scenario,
        Request(on=None if on is None else tuple(on), target=target, budget=budget),
        Path(output) if output is not None else None,
        Path(resume) if resume is not None else None,
        progress or Progress(),
        processes,
    )
    run.run()
    if run.result.interrupted:
        raise KeyboardInterrupt
    return run.result
