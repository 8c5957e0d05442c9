"""What a sweep gave."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary
from testbed.studies.sweep.folder import read_sweep
from testbed.studies.sweep.plan import FinishedRun, Plan, Precision, RunKey
from testbed.studies.sweep.quantities import measured
from testbed.theory.predict import NoPrediction, Prediction, predict

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass
class SweepResult:
    """A sweep's plan, the runs that were made, and the folder that holds them, if any.

    ``failure`` says what went wrong in a run on the cluster, if anything did; the sweep ends with it.
    """

    plan: Plan
    folder: Path | None = None
    runs: dict[RunKey, FinishedRun] = field(default_factory=dict)
    interrupted: bool = False
    failure: str | None = None

    @classmethod
    def read(cls, folder: str | Path) -> SweepResult:
        """Return what the folder of a sweep holds. Raises OutputError or ScenarioError."""
        scenario, goal, runs = read_sweep(Path(folder))
        return cls(Plan(scenario, goal), Path(folder), runs)

    @property
    def complete(self) -> bool:
        """Whether all runs were made."""
        return not self.plan.missing(self.runs)

    @property
    def precisions(self) -> list[Precision]:
        """How well each mean response time is known, and whether that reaches the target; none without a target."""
        return self.plan.precisions(self.runs)

    def summaries(self, point: int, variant: str, place: str) -> list[Summary]:
        """Return the summaries of a variant at a point, by replication."""
        keys = (RunKey(point, variant, replication) for replication in range(self.plan.most_replications))
        found = (self.runs[key].summary(place) for key in keys if key in self.runs)
        return [summary for summary in found if summary is not None]

    @cached_property
    def predictions(self) -> dict[tuple[int, str], Prediction | NoPrediction]:
        """What the theory says of each variant at each point; nothing if it was not asked."""
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

        Both met the same arrivals and sizes in each replication (common random numbers), so that most of the noise
        cancels in their differences: the interval is Student's over these. ``place``: "cluster" or "twin"; default: the
        first of the two that the sweep ran on.
        """
        for name in (variant, against):
            if name not in self.plan.variants[point]:
                raise KeyError(f"no variant {name!r}; there are: {', '.join(self.plan.variants[point])}")
        place = place or self.plan.goal.measured[0]
        pairs = paired(self.summaries(point, variant, place), self.summaries(point, against, place), quantity)
        return replication_interval([ours - theirs for ours, theirs in pairs])

    def table(self) -> pa.Table:
        """Return all results as one table, with the columns of ``sweep.csv``; ``.to_pandas()`` makes a data frame."""
        from testbed.studies.sweep.table import tidy_table

        return tidy_table(self)

    def __str__(self) -> str:
        from testbed.runs.tables import plain_text
        from testbed.studies.sweep.shown import sweep_table

        return plain_text(sweep_table(self))

    def _repr_html_(self) -> str:
        from testbed.runs.tables import html
        from testbed.studies.sweep.shown import sweep_table

        return html(sweep_table(self))


def paired(ours: Sequence[Summary], theirs: Sequence[Summary], quantity: str) -> list[tuple[float, float]]:
    """Return the values of a quantity in the replications that both variants have."""
    values = [
        {
            summary.replication: estimate.value
            for summary in summaries
            for name, estimate in measured(summary)
            if name == quantity
        }
        for summaries in (ours, theirs)
    ]
    return [(values[0][r], values[1][r]) for r in sorted(values[0].keys() & values[1].keys())]
