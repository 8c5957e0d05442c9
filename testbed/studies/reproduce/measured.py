"""What studies measure in a run: means over the jobs of its measured window, and time averages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements
from testbed.measure.statistics import time_average_queue_length
from testbed.measure.summary import measured_window
from testbed.scenario import Scenario

Column = npt.NDArray[np.float64]
#: The meaning of what ``utilised`` returns, for the quantities of a study.
UTILISATION = {"utilisation": "fraction of the servers' time in which they were busy; its mean is the load"}


def completed_jobs(scenario: Scenario, measurements: Measurements, *names: str) -> tuple[Column, ...]:
    """Return columns (testbed.core.records.COLUMNS) of the jobs that arrived in the window and were completed."""
    start, stop = measured_window(measurements, scenario.run.warmup, scenario.horizon)
    columns: Mapping[str, npt.NDArray[Any]] = measurements.columns
    arrival = columns["arrival"]
    mine = (arrival >= start) & (arrival < stop) & (columns["outcome"] == JobOutcome.COMPLETED)
    return tuple(columns[name][mine].astype(np.float64) for name in names)


def relative_queueing_delay(scenario: Scenario, measurements: Measurements) -> float:
    """Return E[T - T*] / E[T*]: the mean queueing delay over the mean inherent delay."""
    response, inherent = completed_jobs(scenario, measurements, "response", "inherent")
    return float((response - inherent).mean() / inherent.mean())


def mean_response_time(scenario: Scenario, measurements: Measurements) -> float:
    """Return E[T], in time units."""
    (response,) = completed_jobs(scenario, measurements, "response")
    return float(response.mean())


def queue_length_tail(scenario: Scenario, measurements: Measurements, length: int) -> float:
    """Return the time-averaged fraction of servers with at least so many tasks, the one in service included."""
    window = measured_window(measurements, scenario.run.warmup, scenario.horizon)
    fractions = time_average_queue_length(measurements.occupancy, measurements.occupancy_edges, *window).probabilities
    return float(sum(fractions[length:]))


def utilised(scenario: Scenario, measurements: Measurements) -> dict[str, float]:
    """Return the fraction of the window in which servers were busy, by its name in UTILISATION."""
    return {"utilisation": queue_length_tail(scenario, measurements, 1)}
