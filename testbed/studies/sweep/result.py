"""The result of a sweep."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import pyarrow as pa

from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary, judged_together
from testbed.runs.tables import html, plain_text
from testbed.studies.sweep.plan import FinishedRun, Plan, Precision, RunKey
from testbed.studies.sweep.quantities import paired
from testbed.studies.sweep.sweep_folder import read_sweep
from testbed.studies.sweep.sweep_table import sweep_table
from testbed.studies.sweep.tidy_table import tidy_table
from testbed.theory.predict import NoPrediction, Prediction, predict


@dataclass
class SweepResult:
    """A sweep's plan, the finished runs, and the folder that holds them, if any."""

    plan: Plan
    folder: Path | None = None
    runs: dict[RunKey, FinishedRun] = field(default_factory=dict)
    interrupted: bool = False

    @classmethod
    def read(cls, folder: str | Path) -> SweepResult:
        """Return what the folder of a sweep holds. Raises OutputError or ScenarioError."""
        scenario, goal, runs = read_sweep(Path(folder))
        return cls(Plan(scenario, goal), Path(folder), runs)

    @property
    def complete(self) -> bool:
        """Whether all runs are finished."""
        return not self.plan.missing(self.runs)

    @property
    def precisions(self) -> list[Precision]:
        """The precision of each mean response time, and whether it reaches the target; none without a target."""
        return self.plan.precisions(self.runs)

    def summaries(self, point: int, variant: str, place: str) -> list[Summary]:
        """Return the summaries of a variant at a point, by replication, with verdicts of all of them together."""
        keys = (RunKey(point, variant, replication) for replication in range(self.plan.most_replications))
        found = (self.runs[key].summary(place) for key in keys if key in self.runs)
        return judged_together([summary for summary in found if summary is not None])

    @cached_property
    def predictions(self) -> dict[tuple[int, str], Prediction | NoPrediction]:
        """The theory's predictions for each variant at each point; none if the sweep leaves theory out."""
        if "theory" not in self.plan.goal.on:
            return {}
        return {
            (point, name): predict(scenario)
            for point, scenarios in enumerate(self.plan.variants)
            for name, scenario in scenarios.items()
        }

    def difference(
        self, point: int, variant: str, against: str, *, place: str | None = None, quantity: str = "response_time_mean"
    ) -> Interval:
        """Return by how much a quantity of ``variant`` is above that of ``against``, from replications in pairs.

        In each replication both have the same arrivals and sizes (common random numbers), so that most of the noise
        cancels in their differences; the interval is Student's over these. ``place``: "cluster" or "twin"; default: the
        first of the two on which the sweep ran.
        """
        for name in (variant, against):
            if name not in self.plan.variants[point]:
                raise KeyError(f"no variant {name!r}; there are: {', '.join(self.plan.variants[point])}")
        place = place or self.plan.goal.measured[0]
        pairs = paired(self.summaries(point, variant, place), self.summaries(point, against, place), quantity)
        return replication_interval([ours - theirs for ours, theirs in pairs])

    def table(self) -> pa.Table:
        """Return all results as one table, with the columns of ``sweep.csv``; ``.to_pandas()`` makes a data frame."""
        return tidy_table(self)

    def __str__(self) -> str:
        return plain_text(sweep_table(self))

    def _repr_html_(self) -> str:
        return html(sweep_table(self))
