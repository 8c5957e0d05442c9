"""What the runs of a case measure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np

from testbed.measure.records import COMPLETED
from testbed.measure.summary import measured_window
from testbed.nominal import nominal

if TYPE_CHECKING:
    from testbed.measure.records import Measurements
    from testbed.scenario import Scenario


class TwinReading(msgspec.Struct, frozen=True):
    """What one run of the twin came to.

    ``mean``: mean response time of the completed jobs that arrived in the measured window. ``offered``: the work that
    arrived in it over the work that should have on average; where the work depends on the policy, that of jobs.
    """

    mean: float
    offered: float


def twin_reading(scenario: Scenario, measurements: Measurements) -> TwinReading:
    """Reduce a run of the twin to what a case needs of it. Called in the process that made the run."""
    start, stop = measured_window(measurements, scenario.run.warmup, scenario.horizon)
    columns = measurements.columns
    jobs = (columns["arrival"] >= start) & (columns["arrival"] < stop)
    done = jobs & (columns["outcome"] == COMPLETED)
    asked = nominal(scenario)
    if asked.load is None or measurements.copies or not np.any(done):
        offered = np.count_nonzero(jobs) / (asked.rate * (stop - start))
    else:
        # Dropped jobs leave no record of their work: they count with the mean of the others.
        work = float(columns["work"][done].sum() / columns["tasks"][done].sum()) * int(columns["tasks"][jobs].sum())
        offered = work / (asked.load * asked.servers * (stop - start))
    return TwinReading(float(columns["response"][done].mean()), offered)
