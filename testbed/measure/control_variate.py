"""Means over replications with the noise of a control variate taken out."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from testbed.measure.statistics import Interval, replication_interval

FEWEST_REPLICATIONS = 5


def controlled_interval(
    means: Sequence[float], controls: Sequence[float], known_mean: float, confidence: float = 0.95
) -> Interval:
    """Return the mean of independent replications' means, given those of a control whose mean is known.

    The mean that a regression of ``means`` on ``controls`` predicts at ``known_mean``, with that prediction's interval
    (Student's, with 2 degrees of freedom less than replications). At high load the delay of a run depends above all on
    the load that the run happened to have: utilisation, whose mean is the nominal load, explains most of its noise.
    Fewer than 5 replications, or controls that don't vary, give ``replication_interval``: the regression would cost
    more than it gains. Exact for jointly normal pairs: Lavenberg and Welch, Management Science 27 (1981), 322-335.
    """
    y, x = np.asarray(means, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    n = len(y)
    around = x - x.mean() if n else x
    spread = float(around @ around)
    if n < FEWEST_REPLICATIONS or not spread > 0:
        return replication_interval(means, confidence)
    slope = float(around @ y) / spread
    residuals = y - y.mean() - slope * around
    variance = float(residuals @ residuals) / (n - 2)
    away = known_mean - float(x.mean())
    half_width = float(stats.t.ppf((1 + confidence) / 2, n - 2)) * np.sqrt(variance * (1 / n + away**2 / spread))
    return Interval(
        mean=float(y.mean()) + slope * away,
        half_width=float(half_width),
        confidence=confidence,
        effective_samples=n,
        reliable=True,
    )
