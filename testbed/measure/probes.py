"""What moving tasks costs: the overall probe rate, measured and asked for."""

from __future__ import annotations

import msgspec

from testbed.core.records import Measurements


class Calibration(msgspec.Struct, frozen=True):
    """How a probe rate was found: ``overall_probe_rate`` is what it gives on the twin, None in the mean field."""

    probe_rate: float
    overall_probe_rate: float | None
    runs: int
    cached: bool = False

    def __str__(self) -> str:
        if self.overall_probe_rate is None:
            return f"the clocks run at {self.probe_rate:.4g}, from the mean field limit"
        return (
            f"the clocks run at {self.probe_rate:.4g}, which makes {self.overall_probe_rate:.4g} probes per server and "
            f"time unit on the twin ({'found in an earlier run' if self.cached else f'{self.runs} runs of the twin'})"
        )


def overall_probe_rate(measurements: Measurements, servers: int, window: tuple[float, float]) -> float | None:
    """Return the probes that servers sent, per server and time unit, in the slices of time within ``window``."""
    edges, counted = measurements.occupancy_edges, measurements.counted
    inside = [i for i, edge in enumerate(edges) if window[0] - 1e-9 <= edge <= window[1] + 1e-9]
    if len(inside) < 2 or len(counted) <= inside[-1]:
        return None
    first, last = inside[0], inside[-1]
    return float(counted[last, 0] - counted[first, 0]) / (servers * float(edges[last] - edges[first]))
