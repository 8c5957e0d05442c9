"""The measurements of a finished run, from its folder, variant by variant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import msgspec

from testbed.measure.error_budget import ErrorBudget, error_budget, mean_budget
from testbed.measure.pathwise import Columns
from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary
from testbed.present.reports.provenance import read_environment
from testbed.runs.nominal import nominal
from testbed.runs.probe_rate import with_probe_rate
from testbed.runs.run_folder import OutputError, read_jobs, read_run
from testbed.scenario import Scenario, variants
from testbed.scenario.modes import Mode, mode_of
from testbed.theory.predict import NoPrediction, Prediction, predict

FILES = {"cluster": "jobs.parquet", "twin": "twin.parquet"}


@dataclass
class Measured:
    """One variant of a run: its scenario, and its summaries by source and replication."""

    name: str
    scenario: Scenario
    folder: Path
    summaries: dict[str, list[Summary]]

    @property
    def source(self) -> str:
        """The source of the main results: the cluster, or the twin if only that was run."""
        return next(iter(self.summaries))

    @property
    def own(self) -> list[Summary]:
        """The summaries of the main results."""
        return self.summaries[self.source]

    @property
    def valid(self) -> bool:
        """Whether all runs of the main results are valid."""
        return all(summary.verdict.valid for summary in self.own)

    @cached_property
    def prediction(self) -> Prediction | NoPrediction:
        """The theory's prediction."""
        return predict(self.scenario)

    @property
    def emulation_error(self) -> Interval | None:
        """Cluster minus twin, job by job, as a fraction of the twin's mean."""
        found = [summary.pathwise for summary in self.own if summary.pathwise is not None]
        if len(found) == 1:
            return msgspec.structs.replace(found[0].interval, mean=found[0].mean)
        return replication_interval([pathwise.mean for pathwise in found]) if found else None

    def jobs(self, source: str, replication: int) -> Columns:
        """Return the records of all jobs of one run. Raises OutputError."""
        types = [job_type.name for job_type in self.scenario.workload.types]
        return read_jobs(self.folder / FILES[source], self.name, replication, types)

    def budget(self, source: str) -> ErrorBudget | None:
        """Return the parts of the mean response time, over replications."""
        return budget_of(self.scenario, self.summaries.get(source, []))


def budget_of(scenario: Scenario, summaries: Sequence[Summary]) -> ErrorBudget | None:
    """Return the parts of the mean response time over the runs of a scenario; None when no job was completed."""
    policy = scenario.policy_class
    delay = nominal(scenario).message_delay
    central = {pool.name for pool in scenario.central_pools}
    budgets = []
    for summary in summaries:
        waits = bool(summary.probes_per_job) and not policy.remembers
        # From the pool agent to a server of a central queue and back; other pools have no such round trip.
        by_agent = sum(pool.completed_share or 0.0 for pool in summary.pools if pool.name in central)
        trips = 1 + waits + (mode_of(scenario) is Mode.SLOT_RESERVATION) + by_agent
        budgets.append(error_budget(summary, round_trips=trips, message_delay=delay))
    return mean_budget([budget for budget in budgets if budget is not None])


def read_measured(folder: Path) -> tuple[Scenario, list[Measured]]:
    """Return the scenario and the variants of a finished run. Raises OutputError."""
    scenario, found = read_run(folder)
    read_environment(folder)  # raises if the run has not finished
    by_name = dict(variants(scenario))
    measured: list[Measured] = []
    for name in dict.fromkeys(summary.variant for summary in found):
        if name not in by_name:
            raise OutputError(
                f"{folder / 'summary.json'}: has a run of {name!r}, but scenario.toml in the same folder has no such "
                "variant; one of the two files is from another run"
            )
        mine = [summary for summary in found if summary.variant == name]
        sources = [source for source in FILES if any(summary.source == source for summary in mine)]
        of = {source: [summary for summary in mine if summary.source == source] for source in sources}
        scenario_of = by_name[name]
        if mine[0].calibration is not None:
            scenario_of = with_probe_rate(scenario_of, mine[0].calibration.probe_rate)
        measured.append(Measured(name, scenario_of, folder, of))
    if not measured:
        raise OutputError(f"{folder}: nothing was measured before the run ended; run it again")
    return scenario, measured
