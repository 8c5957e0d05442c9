"""The measurements that a case needs of a run of the twin."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.measure.control_variate import Estimate, controlled_mean
from testbed.measure.summary import measured_window
from testbed.measure.verdict_checks import Columns
from testbed.runs.nominal import nominal
from testbed.scenario import Scenario, ScenarioError


class TwinReading(msgspec.Struct, frozen=True):
    """Measurements of one run of the twin.

    ``mean``: mean response time of the completed jobs that arrived in the measured window. ``jobs``: the number that
    arrived in it, divided by its expectation. ``work``: mean work of a task, divided by its expectation; None where it
    depends on the policy (speeds differ, jobs are copied). Both have a true mean of 1, whatever the policy does.
    """

    mean: float
    jobs: float
    work: float | None

    @property
    def controls(self) -> tuple[float, ...]:
        """The numbers with known true means."""
        return (self.jobs,) if self.work is None else (self.jobs, self.work)


def twin_reading(scenario: Scenario, measurements: Measurements) -> TwinReading:
    """Return the measurements of a run of the twin. Raises ScenarioError if no job was completed: there is no mean."""
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
    # Where jobs are dropped, the others are not a sample of all sizes.
    if asked.load is not None and not measurements.copies and np.array_equal(done, arrived):
        per_job = asked.load * asked.servers / asked.rate
        work = float(columns["work"][done].sum() / np.count_nonzero(done)) / per_job
    return TwinReading(float(columns["response"][done].mean()), jobs, work)


def estimated(readings: Sequence[TwinReading]) -> Estimate:
    """Return the mean response time over replications, with the noise of arrivals and sizes removed."""
    controls = [reading.controls for reading in readings]
    fewest = min(map(len, controls))
    return controlled_mean([r.mean for r in readings], [c[:fewest] for c in controls], [1.0] * fewest)
