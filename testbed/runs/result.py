"""The result of running a scenario, in memory or read from its run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.core.records import Measurements
from testbed.measure.probes import Calibration
from testbed.measure.summary import Summary
from testbed.runs.run_folder import read_run
from testbed.runs.tables import html, plain_text, results_table
from testbed.theory.predict import NoPrediction, Prediction, predict

if TYPE_CHECKING:
    from testbed.scenario import Scenario


@dataclass
class VariantRun:
    """One variant in one replication.

    ``cluster`` and ``twin`` are the summaries of the runs that were made, ``cluster_measurements`` and
    ``twin_measurements`` what they are computed from.
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
        """What went wrong on the cluster, if anything did."""
        return self.cluster_measurements.failure if self.cluster_measurements is not None else None


@dataclass
class Result:
    """The result of running a scenario: the runs that were made, in order, and the folder that holds them, if any.

    ``planned`` are the names of the variants that were to be run.
    """

    scenario: Scenario
    folder: Path | None
    planned: list[str] = field(default_factory=list)
    runs: list[VariantRun] = field(default_factory=list)
    interrupted: bool = False

    @property
    def failures(self) -> list[str]:
        """What went wrong, by run."""
        return [f"{run.name}: {run.failure}" for run in self.runs if run.failure is not None]

    @property
    def not_run(self) -> list[str]:
        """The planned variants of which no run was made, because an earlier one failed or was interrupted."""
        return [name for name in self.planned if name not in self.variants()]

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
        return plain_text(results_table(self))

    def _repr_html_(self) -> str:
        return html(results_table(self))


def read_result(folder: Path) -> Result:
    """Return the result that a run folder holds. Raises OutputError when there is no such run."""
    scenario, summaries = read_run(folder)
    result = Result(scenario, folder)
    for summary in summaries:
        result.runs.append(VariantRun(summary.variant, 0, scenario, predict(scenario), cluster=summary))
    return result
