"""Running a scenario: each variant and replication on the cluster, on its twin, or both, beside the theory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

import msgspec
import trio

from testbed.cluster.controller import Controller
from testbed.cluster.observing import Observer, theory_of
from testbed.core.records import Measurements
from testbed.measure.probes import Calibration
from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary, measured_window, summarise
from testbed.runs.display import Display, Silent
from testbed.runs.execution import execute
from testbed.runs.nominal import nominal
from testbed.runs.probe_rate import calibrated
from testbed.runs.run_folder import RunFolder
from testbed.runtime.build import expected_copies, expected_jobs, expected_tasks
from testbed.runtime.twin import simulate
from testbed.scenario import ScenarioError, load, variants
from testbed.theory.predict import NoPrediction, Prediction, predict

if TYPE_CHECKING:
    from testbed.scenario import Scenario

#: Where a scenario is run.
Where = Literal["cluster", "cluster and twin", "twin"]


@dataclass
class VariantRun:
    """One variant in one replication.

    ``cluster`` and ``twin`` are the summaries of the runs that were made, ``jobs`` and ``twin_jobs`` their records
    (testbed.core.records.COLUMNS), ``failure`` says what went wrong on the cluster, if anything did.
    """

    variant: str
    replication: int
    scenario: Scenario
    prediction: Prediction | NoPrediction
    cluster: Summary | None = None
    twin: Summary | None = None
    cluster_measurements: Measurements | None = None
    twin_measurements: Measurements | None = None
    calibration: Calibration | None = None

    @property
    def name(self) -> str:
        """The variant, with the number of the replication where there are several."""
        return f"{self.variant} #{self.replication + 1}" if self.scenario.run.replications > 1 else self.variant

    @property
    def summary(self) -> Summary:
        """The cluster's summary, or the twin's where only that was run."""
        found = self.cluster or self.twin
        assert found is not None
        return found

    @property
    def failure(self) -> str | None:
        """What went wrong on the cluster."""
        return self.cluster_measurements.failure if self.cluster_measurements is not None else None


@dataclass
class Result:
    """What running a scenario gave: the runs that were made, in order, and the folder that holds them, if any."""

    scenario: Scenario
    folder: Path | None
    runs: list[VariantRun] = field(default_factory=list)
    interrupted: bool = False

    @property
    def failures(self) -> list[str]:
        """What went wrong, by run."""
        return [f"{run.name}: {run.failure}" for run in self.runs if run.failure is not None]

    @property
    def not_run(self) -> list[str]:
        """The variants of which no run was made, because an earlier one failed or was interrupted."""
        return [name for name, _ in variants(self.scenario) if name not in self.variants()]

    def variants(self) -> dict[str, list[VariantRun]]:
        """Return the replications of each variant."""
        found: dict[str, list[VariantRun]] = {}
        for run in self.runs:
            found.setdefault(run.variant, []).append(run)
        return found

    def __getitem__(self, variant: str) -> VariantRun:
        """Return the first replication of a variant. Raises KeyError for one that was not run."""
        found = self.variants()
        if variant not in found:
            raise KeyError(f"no run of {variant!r}; there are: {', '.join(found) or 'none'}")
        return found[variant][0]

    def __str__(self) -> str:
        from testbed.runs.tables import plain_text, results_table

        return plain_text(results_table(self))

    def _repr_html_(self) -> str:
        from testbed.runs.tables import html, results_table

        return html(results_table(self))


def mean_response(runs: list[Summary]) -> Interval:
    """Return the mean response time over replications, with its interval; of one replication, its own."""
    if len(runs) == 1:
        return runs[0].response
    return replication_interval([run.response.mean for run in runs if run.response.mean is not None])


class Experiment:
    """Runs a scenario's variants one after the other, and keeps what each measured as soon as it is there."""

    def __init__(
        self, scenario: Scenario, where: Where, output: Path | None, display: Display, hold: float | None = None
    ) -> None:
        if scenario.sweep is not None:
            raise ScenarioError(
                "a run is of one point, and this is a scenario of several: run it with `testbed sweep`", key="sweep"
            )
        self._scenario = scenario
        self._where = where
        self._display = display
        self._hold = hold
        self._variants = variants(scenario)
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
        self.result = Result(scenario, self._folder.path if self._folder else None)

    def stop(self) -> None:
        """End the run now: arrivals stop, what was measured is saved. Call it from within trio."""
        self._stop = self.result.interrupted = True
        if self._controller is not None:
            self._controller.stop()

    async def run(self) -> Result:
        """Run everything. Raises ClusterError when a cluster does not come up."""
        if self._folder is None:
            await self._run_all()
        else:
            with self._folder:
                await self._run_all()
        return self.result

    def planned(self) -> Iterator[tuple[int, str, Scenario]]:
        """Yield what is run, one after the other: replication, name and scenario."""
        # Variants alternate within a replication, so that a drift of the machine hits all alike.
        for replication in range(self._scenario.run.replications):
            for name, scenario in self._variants:
                yield replication, name, scenario

    async def _run_all(self) -> None:
        for replication, name, scenario in self.planned():
            if self._stop:
                return
            scenario, calibration = await self._calibrated(name, replication, scenario)
            run = VariantRun(name, replication, scenario, predict(scenario), calibration=calibration)
            if self._where != "twin":
                run.cluster_measurements = await self._on_cluster(run)
            if self._where != "cluster" and run.failure is None and not self._stop:
                # In a thread, so that signals and the display are attended to meanwhile.
                twin = await trio.to_thread.run_sync(partial(simulate, scenario, replication, lambda: self._stop))
                # Half a twin is no match for a whole run of the cluster.
                if not self._stop or self._where == "twin":
                    run.twin_measurements = twin
            if run.cluster_measurements is None and run.twin_measurements is None:
                return  # stopped before there was anything to measure
            self._summarise(run)
            self.keep(run)
            if run.failure is not None:
                return

    async def _calibrated(self, name: str, replication: int, scenario: Scenario) -> tuple[Scenario, Calibration | None]:
        """Find the rate of the servers' clocks, where the scenario asks for an overall probe rate."""
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

        def summary(measurements: Measurements, twin: Measurements | None) -> Summary:
            return summarise(
                measurements,
                nominal(scenario),
                variant=run.variant,
                replication=run.replication,
                time_unit_seconds=scenario.run.time_unit_seconds,
                window=measured_window(measurements, scenario.run.warmup, scenario.horizon),
                twin=twin,
                prediction=prediction,
                calibration=run.calibration,
            )

        if run.cluster_measurements is not None:
            run.cluster = summary(run.cluster_measurements, run.twin_measurements)
        if run.twin_measurements is not None:
            run.twin = summary(run.twin_measurements, None)

    def keep(self, run: VariantRun) -> None:
        """Take in a run that was made, as soon as it is there."""
        self.result.runs.append(run)
        if run.cluster is not None:
            self._display.conclude(run.cluster)
        if self._folder is None:
            return
        keep_records(self._folder, run)
        self._folder.write_summaries([s for r in self.result.runs for s in (r.cluster, r.twin) if s is not None])


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
    """Run a scenario and return what it measured.

    Args:
        scenario: what to run, with all its variants and replications; or the file, or the name of a shipped one.
        where: "cluster" (real processes), "twin" (the virtual runtime), or "cluster and twin", which replays each
            run's workload on the twin and compares job by job.
        output: the folder in which to make the run folder; None to keep everything in memory.
        watcher: a display of how the run is doing (testbed.runs.display); by default nothing is shown.
        hold: seconds that each cluster's last metrics wait to be read; by default a minute if Prometheus has read them
            before, and else not at all.

    Works in scripts and in notebooks. Ctrl-C stops arrivals, saves what was measured and raises KeyboardInterrupt.
    Raises testbed.cluster.controller.ClusterError when the cluster does not come up, and
    testbed.runs.run_folder.OutputError when the output folder can't be used. Raises ScenarioError for a scenario with a
    ``sweep``, which testbed.sweep runs. A process that dies in the middle ends the run;
    ``Result.failures`` says so.
    """
    if where not in get_args(Where):
        raise ValueError(f"where must be one of {', '.join(map(repr, get_args(Where)))}, not {where!r}")
    if isinstance(scenario, (str, Path)):
        scenario = load(scenario)
    experiment = Experiment(scenario, where, Path(output) if output is not None else None, watcher or Silent(), hold)
    execute(experiment)
    if experiment.result.interrupted:
        raise KeyboardInterrupt
    return experiment.result
