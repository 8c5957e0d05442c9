"""What the runs of a case measure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.measure.checks import Columns
from testbed.measure.control_variate import Estimate, controlled_mean
from testbed.measure.summary import measured_window
from testbed.runs.nominal import nominal
from testbed.scenario import ScenarioError

if TYPE_CHECKING:
    from testbed.core.records import Measurements
    from testbed.scenario import Scenario


class TwinReading(msgspec.Struct, frozen=True):
    """What one run of the twin came to.

    ``mean``: mean response time of the completed jobs that arrived in the measured window. ``jobs``: how many arrived
    in it over the number that arrives on average. ``work``: work of a task over what it should be on average; None
    where it depends on the policy (speeds differ, jobs are copied). Both have a true mean of 1, whatever the policy
    does.
    """

    mean: float
    jobs: float
    work: float | None

    @property
    def controls(self) -> tuple[float, ...]:
        """The numbers whose true means are known."""
        return (self.jobs,) if self.work is None else (self.jobs, self.work)


def twin_reading(scenario: Scenario, measurements: Measurements) -> TwinReading:
    """Reduce a run of the twin to what a case needs of it. Called in the process that made the run.

    Raises ScenarioError where no job was completed, so that there is no mean.
    """
    start, stop = measured_window(measurements, scenario.run.warmup, scenario.horizon)
    columns: Columns = measurements.columns
    arrived = (columns["arrival"] >= start) & (columns["arrival"] < stop)
    done = arrived & (columns["outcome"] == JobOutcome.COMPLETED)
    if not done.any():
        raise ScenarioError(
            "no job that arrived in the measured window was completed; make it longer", key="run.duration"
        )
    asked = nominal(scenario)
    jobs = np.count_nonzero(arrived) / (asked.rate * (stop - start))
    work = None
    # Where jobs are dropped, those that were not are no sample of all sizes.
    if asked.load is not None and not measurements.copies and np.array_equal(done, arrived):
        per_job = asked.load * asked.servers / asked.rate
        work = float(columns["work"][done].sum() / np.count_nonzero(done)) / per_job
    return TwinReading(float(columns["response"][done].mean()), jobs, work)


def estimated(readings: Sequence[TwinReading]) -> Estimate:
    """Return the mean response time over replications, with what chance did to arrivals and sizes taken out."""
    controls = [reading.controls for reading in readings]
    fewest = min(map(len, controls))
    return controlled_mean([r.mean for r in readings], [c[:fewest] for c in controls], [1.0] * fewest)
