"""Making the runs of a sweep: on the cluster one by one, the twin's on all cores at once."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

import msgspec

from testbed.core.records import Measurements
from testbed.measure.summary import Summary, measured_window, summarise
from testbed.runs.execution import STOPPING, execute
from testbed.runs.experiment import Experiment, PlannedRun, Where
from testbed.runs.nominal import nominal
from testbed.runs.result import VariantRun
from testbed.scenario import Scenario, load
from testbed.studies.sweep.folder import SweepFolder
from testbed.studies.sweep.plan import FinishedRun, Goal, Place, Plan, RunKey
from testbed.studies.sweep.progress import Progress
from testbed.studies.sweep.result import SweepResult
from testbed.studies.sweep.table import write_table
from testbed.studies.twins import TwinRun, run_twins


class SweepError(Exception):
    """A run of a sweep failed on the cluster, or lost count of its jobs."""


class Request(NamedTuple):
    """What a caller asks of a goal (testbed.studies.sweep.plan.Goal); None is left to the default, or to the folder."""

    on: tuple[Place, ...] | None = None
    target: float | None = None
    budget: int | None = None

    @classmethod
    def read(cls, on: str | None, target: str | None, budget: int | None) -> Request:
        """Read what a command line says: places with commas between, and a share such as "1%" or "0.01"."""
        places = None if on is None else tuple(place.strip() for place in on.split(","))
        return cls(places, None if target is None else _share(target), budget)  # type: ignore[arg-type]  # Goal checks

    def goal(self, default: Goal) -> Goal:
        """Return the goal that this makes of another. Raises ValueError."""
        goal = Goal(
            on=default.on if self.on is None else self.on,
            target=default.target if self.target is None else self.target,
            budget=default.budget if self.budget is None else self.budget,
        )
        if self.budget is not None and goal.target is None:
            raise ValueError("budget: bounds the replications towards a target; give the target too")
        if self.target is not None and not goal.measured:
            raise ValueError("target: theory makes no replications; add twin or cluster to --on, or leave it out")
        return goal


def _share(text: str) -> float:
    number = text.strip()
    try:
        return float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        raise ValueError(f"target: must be a share such as 1% or 0.01, not {text!r}") from None


class SweepRun:
    """A sweep at work: makes the runs that are missing, and keeps each as soon as it is there."""

    def __init__(
        self, plan: Plan, folder: SweepFolder | None, progress: Progress, processes: int | None = None
    ) -> None:
        """``folder``: where to keep the runs, and where some may be already; None to keep them in memory alone."""
        self._plan = plan
        self._folder = folder
        self._progress = progress
        self._processes = processes
        self.result = SweepResult(plan, folder.path if folder else None, dict(folder.runs) if folder else {})

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
        """Begin a sweep, or go on with an interrupted one; arguments and errors as those of ``sweep``."""
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
        return cls(plan, SweepFolder.create(scenario, goal, output) if output else None, progress, processes)

    def run(self) -> None:
        """Make all runs, or those until Ctrl-C. Raises ClusterError, TwinError and OutputError."""
        try:
            if self._plan.goal.measured == ("twin",):
                with _terminating_is_interrupting():
                    self._on_twin()
            elif self._plan.goal.measured:
                experiment = _ClusterRuns(self._plan, self, self._progress).experiment
                execute(experiment)
                self.result.interrupted = experiment.result.interrupted
        except KeyboardInterrupt:
            self.result.interrupted = True
        finally:
            if self._folder is not None:
                write_table(self.result, self._folder.path)
                self._folder.close()

    def missing(self) -> list[RunKey]:
        """Return the runs that are to be made next."""
        found = self._plan.missing(self.result.runs)
        self._progress.expect(self._plan, self.result.runs, found)
        return found

    def finished(self, run: FinishedRun) -> None:
        """Keep a finished run. Raises SweepError when it can't account for each of its jobs."""
        for summary in (run.cluster, run.twin):
            if summary is not None and not summary.accounting.balanced:
                raise SweepError(f"{run.key}, {summary.source}: {'; '.join(summary.accounting.problems)}")
        if self._folder is not None:
            self._folder.add(run)
        self.result.runs[run.key] = run
        self._progress.finished(run.key)

    def _on_twin(self) -> None:
        while keys := self.missing():
            runs = (TwinRun(self._plan.scenario_of(key), key.replication, key) for key in keys)
            with closing(run_twins(runs, twin_summary, self._processes)) as made:
                for run, summary in made:
                    key = run.key
                    twin = msgspec.structs.replace(summary, variant=key.variant, replication=key.replication)
                    self.finished(FinishedRun(**key._asdict(), twin=twin))


def twin_summary(scenario: Scenario, measurements: Measurements) -> Summary:
    """Return the summary of a run of the twin, whose variant and replication the caller knows."""
    summary = summarise(
        measurements,
        nominal(scenario),
        variant="",
        replication=0,
        time_unit_seconds=scenario.run.time_unit_seconds,
        window=measured_window(measurements, scenario.run.warmup, scenario.horizon),
    )
    return _without_slices(summary)


def _without_slices(summary: Summary) -> Summary:
    """Leave out the number in system by time slice: nine tenths of a summary, and the verdict has looked at it."""
    lengths = msgspec.structs.replace(summary.queue_length, edges=[], number_in_system=[])
    return msgspec.structs.replace(summary, queue_length=lengths)


class _ClusterRuns:
    """The runs of a sweep on the cluster, one after the other, each compared with its twin if that is asked for."""

    def __init__(self, plan: Plan, sweep: SweepRun, progress: Progress) -> None:
        where: Where = "cluster and twin" if "twin" in plan.goal.on else "cluster"
        scenario = msgspec.structs.replace(plan.scenario, sweep=None)
        self.experiment = Experiment(scenario, where, None, progress, planned=self._planned, keep=self._keep)
        self._plan = plan
        self._sweep = sweep
        self._progress = progress
        self._at: RunKey | None = None

    def _planned(self) -> Iterator[PlannedRun]:
        while keys := self._sweep.missing():
            for key in keys:
                self._at = key
                self._progress.started(key)
                yield PlannedRun(key.variant, key.replication, self._plan.scenario_of(key))

    def _keep(self, run: VariantRun) -> None:
        key = self._at
        assert key is not None
        if run.failure is not None:
            raise SweepError(f"{key}: {run.failure}")
        if self.experiment.result.interrupted:
            return  # it is incomplete, and will be made again
        cluster, twin = (None if summary is None else _without_slices(summary) for summary in (run.cluster, run.twin))
        self._sweep.finished(FinishedRun(**key._asdict(), cluster=cluster, twin=twin))


@contextlib.contextmanager
def _terminating_is_interrupting() -> Iterator[None]:
    """Have a request to terminate, and a terminal that is closed, end the sweep as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, signal.default_int_handler) for number in STOPPING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
    """Run a scenario with all its variants at all points of its ``sweep``, and return what came out.

    Args:
        scenario: what to run; or the file, or the name of a shipped one. It may be left out with ``resume``.
        on: some of "cluster" (real processes), "twin" (the virtual runtime, on all cores) and "theory"; default: twin
            and theory. On cluster and twin, each run's workload is replayed on the twin and compared job by job.
        target: go on with replications until the half-width of the mean response time's 95 % interval is at most this
            share of the mean, at each point and variant; default: run.replications replications.
        budget: most replications of a point to reach the target; default: 100.
        output: the folder in which to make the sweep's folder; None to keep everything in memory.
        resume: the folder of an interrupted sweep to go on with; of what is given besides, ``target`` and ``budget``
            replace its own, ``scenario`` and ``on`` must be the same, and ``output`` must be left out.
        processes: workers for the twin; default: one per core.
        progress: shown how the sweep is doing (testbed.studies.sweep.progress).

    Ctrl-C saves what is finished and raises KeyboardInterrupt. Raises ScenarioError for a scenario without a sweep,
    ValueError for other arguments that can't be, OutputError when a folder can't be used, SweepError and TwinError when
    a run fails, and testbed.cluster.processes.ClusterError when a cluster does not come up; a sweep with a folder can
    then be resumed.
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
