"""Running a scenario: each variant and replication on the cluster, on its twin, or on both, compared with the theory.

The twin is a discrete-event simulation of the same agents (testbed.runtime.twin).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

import msgspec
import trio

from testbed.cluster.controller import Controller
from testbed.cluster.observing import Observer, theory_of
from testbed.core.records import Measurements
from testbed.measure.probes import Calibration
from testbed.measure.summary import Summary, judged_together, measured_window, summarise
from testbed.runs.display import Display, Silent
from testbed.runs.execution import execute
from testbed.runs.nominal import nominal
from testbed.runs.probe_rate import calibrated, check_calibration
from testbed.runs.result import Result, VariantRun
from testbed.runs.run_folder import RunFolder
from testbed.runtime.build import expected_copies, expected_jobs, expected_tasks
from testbed.runtime.twin import simulate
from testbed.scenario import ScenarioError, load, variants
from testbed.theory.predict import predict

if TYPE_CHECKING:
    from testbed.scenario import Scenario

#: Where a scenario is run.
Where = Literal["cluster", "cluster and twin", "twin"]


class PlannedRun(NamedTuple):
    """A run to make."""

    variant: str
    replication: int
    scenario: Scenario


class Experiment:
    """Runs a scenario's variants one after the other, and saves the measurements of each as soon as it has ended."""

    def __init__(
        self,
        scenario: Scenario,
        where: Where,
        output: Path | None,
        display: Display,
        hold: float | None = None,
        *,
        planned: Callable[[], Iterable[PlannedRun]] | None = None,
        keep: Callable[[VariantRun], None] | None = None,
    ) -> None:
        """``planned`` gives the runs to make, by default all; ``keep`` takes each finished one, by default it is saved.

        Other arguments and errors as those of ``run``.
        """
        if scenario.sweep is not None:
            raise ScenarioError(
                "a run has one point, and this scenario has several: run it with `testbed sweep`", key="sweep"
            )
        self._scenario = scenario
        self._where = where
        self._display = display
        self._hold = hold
        self._variants = variants(scenario)
        for _, variant in self._variants:
            check_calibration(variant)
        self._planned = planned or self._all
        self._keep = keep or self._save
        self._controller: Controller | None = None
        self._stop = False
        jobs = (
            sum(
                expected_jobs(variant) + expected_tasks(variant) + expected_copies(variant)
                for _, variant in self._variants
            )
            * scenario.run.replications
        )
        self._folder = RunFolder(scenario, output, jobs * (2 if where == "cluster and twin" else 1)) if output else None
        self.result = Result(
            scenario, self._folder.path if self._folder else None, [name for name, _ in self._variants]
        )

    def stop(self) -> None:
        """End the run now: arrivals stop, and what was measured is saved. Call it from within trio."""
        self._stop = self.result.interrupted = True
        if self._controller is not None:
            self._controller.stop()

    async def run(self) -> Result:
        """Run everything. Raises ClusterError when a cluster does not come up."""
        if self._folder is None:
            await self._run_all()
            self._judge_together()
        else:
            with self._folder:
                await self._run_all()
                self._judge_together()
        return self.result

    def _all(self) -> Iterator[PlannedRun]:
        # Variants alternate within a replication, so that a drift of the machine affects all alike.
        for replication in range(self._scenario.run.replications):
            for name, scenario in self._variants:
                yield PlannedRun(name, replication, scenario)

    async def _run_all(self) -> None:
        for name, replication, planned in self._planned():
            if self._stop:
                return
            scenario, calibration = await self._calibrated(name, replication, planned)
            run = VariantRun(name, replication, scenario, predict(scenario), calibration=calibration)
            if self._where != "twin":
                run.cluster_measurements = await self._on_cluster(run)
            if self._where != "cluster" and run.failure is None and not self._stop:
                # In a thread, so that signals and the display are served in the meantime.
                twin = await trio.to_thread.run_sync(partial(simulate, scenario, replication, lambda: self._stop))
                # An interrupted run of the twin can't be compared with a whole run of the cluster.
                if not self._stop or self._where == "twin":
                    run.twin_measurements = twin
            if run.cluster_measurements is None and run.twin_measurements is None:
                return  # stopped before there was anything to measure
            self._summarise(run)
            self._keep(run)
            if run.failure is not None:
                return

    async def _calibrated(self, name: str, replication: int, scenario: Scenario) -> tuple[Scenario, Calibration | None]:
        """Find the servers' probe rate, where the scenario asks for an overall probe rate."""
        found, calibration = await trio.to_thread.run_sync(calibrated, scenario, replication)
        if calibration is not None:
            self._display.announce(f"{name}: {calibration}")
        return found, calibration

    async def _on_cluster(self, run: VariantRun) -> Measurements | None:
        name, replication, scenario = run.variant, run.replication, run.scenario
        theory = theory_of(scenario, run.prediction)
        observer = Observer(scenario, name, replication, theory=theory, horizon=scenario.horizon)
        run_name = self._scenario.name if self._folder is None else self._folder.path.name
        labels = {"run": run_name, "variant": name, "replication": str(replication)}
        targets_written = False

        def observe(controller: Controller) -> None:
            nonlocal targets_written
            if self._folder is not None and not targets_written:
                targets_written = True
                self._folder.write_targets(controller.metrics_targets())
            self._display.show(observer.snapshot(controller.members, controller.incidents))

        self._controller = controller = Controller(
            scenario,
            replication,
            labels=labels,
            theory=theory,
            hold=self._hold,
            announce=self._display.announce,
            observe=observe,
        )
        try:
            measurements = await controller.run()
        finally:
            self._controller = None
            if self._folder is not None:
                self._folder.write_targets([])
        return measurements if controller.started else None

    def _summarise(self, run: VariantRun) -> None:
        scenario = run.scenario
        prediction = msgspec.to_builtins(run.prediction)
        asked = nominal(scenario)

        def summary(measurements: Measurements, twin: Measurements | None) -> Summary:
            return summarise(
                measurements,
                asked,
                variant=run.variant,
                replication=run.replication,
                time_unit_seconds=scenario.run.time_unit_seconds,
                window=measured_window(measurements, scenario.run.warmup, scenario.horizon, asked.relaxation_time),
                twin=twin,
                prediction=prediction,
                calibration=run.calibration,
            )

        if run.cluster_measurements is not None:
            run.cluster = summary(run.cluster_measurements, run.twin_measurements)
        if run.twin_measurements is not None:
            run.twin = summary(run.twin_measurements, None)

    def _save(self, run: VariantRun) -> None:
        self.result.runs.append(run)
        if run.cluster is not None:
            self._display.conclude(run.cluster)
        if self._folder is None:
            return
        keep_records(self._folder, run)
        self._write_summaries(self._folder)

    def _write_summaries(self, folder: RunFolder) -> None:
        folder.write_summaries([s for r in self.result.runs for s in (r.cluster, r.twin) if s is not None])

    def _judge_together(self) -> None:
        """Add the check of all replications together to the verdict of each."""
        for runs in self.result.variants().values():
            on_cluster = judged_together([run.cluster for run in runs if run.cluster is not None])
            on_twin = judged_together([run.twin for run in runs if run.twin is not None])
            for run in runs:
                run.cluster = on_cluster.pop(0) if run.cluster is not None else None
                run.twin = on_twin.pop(0) if run.twin is not None else None
        if self._folder is not None and self.result.runs:
            self._write_summaries(self._folder)


def keep_records(folder: RunFolder, run: VariantRun) -> None:
    """Write the records of a run into its folder."""
    types = [job_type.name for job_type in run.scenario.workload.types]
    pools = [pool.name for pool in run.scenario.pools]
    for measurements in (run.cluster_measurements, run.twin_measurements):
        if measurements is not None:
            folder.add_jobs(measurements, run.variant, run.replication, types)
            folder.add_tasks(measurements, run.variant, run.replication)
            folder.add_copies(measurements, run.variant, run.replication, pools)
            folder.add_events(measurements, run.variant, run.replication)


def run(
    scenario: Scenario | str | Path,
    *,
    where: Where = "cluster",
    output: str | Path | None = None,
    watcher: Display | None = None,
    hold: float | None = None,
) -> Result:
    """Run a scenario and return its result.

    Args:
        scenario: what to run, with all its variants and replications; or its file, or the name of a shipped one.
        where: "cluster" (real processes), "twin" (a simulation of the same agents), or "cluster and twin", which
            replays each run's workload on the twin and compares the two job by job.
        output: the folder in which to make the run folder; None to keep everything in memory.
        watcher: a display of how the run is doing (testbed.runs.display); by default nothing is shown.
        hold: seconds for which each cluster's last metrics wait to be read; by default a minute if Prometheus has read
            them before, otherwise not at all.

    Works in scripts and in notebooks. Ctrl-C stops arrivals, saves what was measured and raises KeyboardInterrupt.
    Raises testbed.cluster.processes.ClusterError when the cluster does not come up, and
    testbed.runs.run_folder.OutputError when the output folder can't be used. Raises ScenarioError for a scenario with a
    ``sweep``, which testbed.sweep runs. A process that dies ends the run; ``Result.failures`` says so.
    """
    if where not in get_args(Where):
        raise ValueError(f"where must be one of {', '.join(map(repr, get_args(Where)))}, not {where!r}")
    scenario = load(scenario) if isinstance(scenario, (str, Path)) else scenario.checked()
    experiment = Experiment(scenario, where, Path(output) if output is not None else None, watcher or Silent(), hold)
    execute(experiment)
    if experiment.result.interrupted:
        raise KeyboardInterrupt
    return experiment.result
