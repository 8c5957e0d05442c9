"""The overall probe rate of servers that move tasks, measured and calibrated."""

from __future__ import annotations

import msgspec

from testbed.core.records import Measurements


class Calibration(msgspec.Struct, frozen=True):
    """A calibrated probe rate; ``overall_probe_rate`` is the result on the twin, None from the mean field."""

    probe_rate: float
    overall_probe_rate: float | None
    runs: int
    cached: bool = False

    def __str__(self) -> str:
        if self.overall_probe_rate is None:
            return f"probe rate {self.probe_rate:.4g}, calibrated by the mean field limit"
        return (
            f"probe rate {self.probe_rate:.4g}, calibrated for {self.overall_probe_rate:.4g} probes per server and "
            f"time unit on the twin ({'in an earlier run' if self.cached else f'{self.runs} runs of the twin'})"
        )


def overall_probe_rate(measurements: Measurements, servers: int, window: tuple[float, float]) -> float | None:
    """Return the probes between servers, per server and time unit, in the slices of time within ``window``."""
    edges, counted = measurements.occupancy_edges, measurements.counted
    inside = [i for i, edge in enumerate(edges) if window[0] - 1e-9 <= edge <= window[1] + 1e-9]
    if len(inside) < 2 or len(counted) <= inside[-1]:
        return None
    first, last = inside[0], inside[-1]
    return float(counted[last, 0] - counted[first, 0]) / (servers * float(edges[last] - edges[first]))
