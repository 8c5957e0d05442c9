"""A test for growth of the number in system."""

from __future__ import annotations

import math
from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.measure.statistics import autocorrelation_time

Array = npt.NDArray[np.float64]

LEAST_GROWTH: Final = 0.25  # growth over the window that matters, as a fraction of the mean number
FREE_DEVIATIONS: Final = 3.3  # of a free random walk
OWN_DEVIATIONS: Final = 3.5  # of the series itself
SHORT_SERIES: Final = 80.0  # effective samples at which its deviations count twice


class Trend(msgspec.Struct, frozen=True, kw_only=True):
    """``growth`` is that of the least-squares line over the window, in jobs; ``significant`` is the bound on chance."""

    mean: float
    growth: float
    significant: float
    growing: bool


def trend(number: Array, noise: float) -> Trend:
    """Test whether the number in system grows over a window more than a stable system's does by chance.

    ``number``: averages over successive equal slices of the window, shape (slices,), some hundreds; ``noise``: standard
    deviation of arrivals minus services over the window, in jobs, were the servers always busy: the square root of
    rate * duration * (dispersion of the arrivals + SCV of the jobs' work).

    Growth matters above a quarter of the mean number, and must be more than either of two bounds on chance:
    * A stable queue wanders less than the free random walk with the same arrivals and services, for which the slope of
      the line times the window has the standard deviation 1.1 (= sqrt(6/5)) times ``noise``: 3.3 of these.
    * What is left after subtracting the line has a variance V and an autocorrelation time, of which the window holds e.
      A line through e independent values has a growth of variance 12 V / e: 3.5 (1 + 80 / e) of its standard
      deviations. The factor is for V and the autocorrelation time, which a window of few such times shows too small.
    The second is much tighter for systems that forget within a small part of the window, as with policies that look at
    queues. The first is for systems that wander for longer than the window, where no test can be tighter.
    Simulated in their steady state, Ornstein-Uhlenbeck processes and the numbers in M/M/1 queues (1 or 10 of them) and
    M/M/4 queues at loads 0.7 to 0.95, over 0.2 to 64 relaxation times, were found to grow in at most one of a
    thousand windows. The price: overload by a fraction epsilon of the rate shows only once epsilon * rate * duration
    is above the first bound.
    """
    n = len(number)
    time = (np.arange(n) + 0.5) / n
    mean = float(number.mean())
    around = time - 0.5
    growth = float(around @ number / (around @ around))
    left = number - mean - growth * around
    effective = n / autocorrelation_time(left)
    own = OWN_DEVIATIONS * (1 + SHORT_SERIES / effective) * math.sqrt(12 * float(left.var()) / effective)
    significant = max(LEAST_GROWTH * mean, min(FREE_DEVIATIONS * math.sqrt(1.2) * noise, own))
    return Trend(mean=mean, growth=growth, significant=significant, growing=growth > significant)
