"""Goodness of fit of the arrivals: whether they have the scenario's distribution, as intended and as handled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

Array = npt.NDArray[np.float64]

MOST_GAPS: Final = 5000
LEVEL: Final = 1e-5


class GapTest(msgspec.Struct, frozen=True, kw_only=True):
    """Distances between distribution functions; each passes below ``critical``."""

    gaps: int
    intended: float
    actual: float
    critical: float


def gap_test(arrival: Array, lag: Array, cdf: Callable[[Array], Array], tolerance: float) -> GapTest:
    """Compare the gaps between arrivals with their distribution, before and after the emulator's lag.

    ``arrival``: intended arrival times of all dispatchers, shape (jobs,), and ``lag``: how late each was handled;
    ``cdf``: distribution function of the gaps of the merged process. At most 5000 gaps, evenly spread, are used.

    ``intended`` is the Kolmogorov-Smirnov distance of the intended gaps. ``actual`` is that of the gaps between the
    times of handling, with ``tolerance`` (a time): the largest of F_n(x) - F(x + tolerance) and F(x - tolerance) -
    F_n(x). A process that wakes up for several arrivals at once handles them at the same instant, and with thousands of
    arrivals in a time unit any exact test sees that; shifts that are far shorter than a response time don't matter.
    ``critical`` is the quantile of the exact test at level 1e-5. With fewer than 2 arrivals the distances are 0.
    """
    order = np.argsort(arrival, kind="stable")
    intended = spread(np.diff(arrival[order]))
    actual = spread(np.diff(np.sort(arrival + lag)))
    n = len(intended)
    if not n:
        return GapTest(gaps=0, intended=0.0, actual=0.0, critical=1.0)
    return GapTest(
        gaps=n,
        intended=distance(intended, cdf, 0.0),
        actual=distance(actual, cdf, tolerance),
        critical=float(stats.kstwo.isf(LEVEL, n)),
    )


def spread(gaps: Array) -> Array:
    """Return at most MOST_GAPS of the gaps, at equal steps."""
    step = max(1, -(-len(gaps) // MOST_GAPS))
    return gaps[::step]


def distance(gaps: Array, cdf: Callable[[Array], Array], tolerance: float) -> float:
    """Return the Kolmogorov-Smirnov distance of ``gaps`` from ``cdf``, up to shifts by ``tolerance``; 0 if within."""
    ordered = np.sort(gaps)
    steps = np.arange(len(ordered) + 1) / len(ordered)
    above = steps[1:] - cdf(ordered + tolerance)
    below = cdf(np.maximum(ordered - tolerance, 0.0)) - steps[:-1]
    return max(0.0, float(above.max()), float(below.max()))
