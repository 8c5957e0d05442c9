"""Is the number in system still growing?"""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

from testbed.measure.statistics import correlation_p_value

Array = npt.NDArray[np.float64]

BATCHES: Final = 40  # batches of time of the window that the test looks at
LEAST_GROWTH: Final = 0.25  # growth over the window, as a share of the mean number, that matters


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """``growth`` is that of the least-squares line over the window, in jobs; ``significant`` is what chance allows."""

    mean: float
    growth: float
    significant: float
    p_value: float
    growing: bool


def trend(number: Array, noise: float) -> Trend:
    """Test whether the number in system grows over a window more than a stable system's does by chance.

    ``number``: averages over successive equal stretches of the window, shape (BATCHES,); ``noise``: standard deviation
    of arrivals minus services over the window, in jobs, were the servers always busy: the square root of
    rate * duration * (dispersion of the arrivals + SCV of the sizes).

    Growth must be above a quarter of the mean number, and significant. What is significant depends on the memory of
    the system, which a window can show only if it is short:
    * if what is left after subtracting the line looks like white noise (von Neumann's test), the batches are
      independent and Mann and Kendall's test holds; it must reject at 1e-4, one-sided;
    * else the number may wander for longer than the window, as in a stable queue near saturation, for which tests of
      trend cry wolf. A stable queue wanders less than the free random walk with the same arrivals and services, for
      which the slope of the line times the window has 1.1 (= sqrt(6/5)) standard deviations ``noise``. Growth must
      exceed three of these, and the test reject at 1e-3 on batches four times as long.
    Simulated M/M/1 queues in their steady state, 1 to 40 of them at loads 0.5 to 0.95, passed for growing in fewer than
    one of a thousand windows. The price: overload by a share of epsilon of the rate shows only once epsilon * rate *
    duration is above the bound, and the end of a warm-up only if it is as large.
    """
    k = len(number)
    time = (np.arange(k) + 0.5) / k
    mean = float(number.mean())
    slope, intercept = np.polynomial.polynomial.polyfit(time, number, 1)[::-1]
    growth = float(slope)
    if correlation_p_value(number - intercept - slope * time) > 0.05:
        significant = 0.0
        p_value, level = mann_kendall(number), 1e-4
    else:
        significant = 3 * math.sqrt(1.2) * noise
        p_value, level = mann_kendall(number.reshape(-1, 4).mean(axis=1)), 1e-3
    significant = max(significant, LEAST_GROWTH * mean)
    return Trend(
        mean=mean,
        growth=growth,
        significant=significant,
        p_value=p_value,
        growing=growth > significant and p_value < level,
    )


def mann_kendall(series: Array) -> float:
    """Return the one-sided p-value of Mann and Kendall's test of independence against an upward trend."""
    if np.ptp(series) == 0:
        return 1.0
    return float(stats.kendalltau(np.arange(len(series)), series, alternative="greater").pvalue)
