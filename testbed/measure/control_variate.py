"""Means over replications, less noisy by control variates."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import stats

from testbed.measure.statistics import Interval

FEWEST_REPLICATIONS = 4  # plus one for each control; with fewer the regression loses more than it gains

Array = npt.NDArray[np.float64]


class Estimate(NamedTuple):
    """An estimated number, its standard error, and that error's degrees of freedom."""

    value: float
    standard_error: float
    freedom: float

    def half_width(self, level: float) -> float:
        """Return the half-width of the two-sided Student interval that fails with probability ``level``."""
        return float(stats.t.isf(level / 2, self.freedom)) * self.standard_error


def controlled_mean(means: Sequence[float], controls: npt.ArrayLike, known_means: npt.ArrayLike) -> Estimate:
    """Return the mean of independent replications' means, given controls whose true means are known.

    It is the prediction at ``known_means``, shape (k,), of a regression of ``means``, shape (n,), on ``controls``,
    shape (n, k), with n - 1 - k degrees of freedom. Controls that hardly vary, or vary as others do, are left out; with
    fewer than 4 + k replications all of them are. Raises ValueError for fewer than 2 replications.
    Exact for jointly normal values: Lavenberg and Welch, Management Science 27 (1981), 322-335.
    """
    y, x = np.asarray(means, dtype=np.float64), np.asarray(controls, dtype=np.float64)
    n = len(y)
    if n < 2:
        raise ValueError(f"{n} replications: the error of a mean needs at least 2")
    known = np.asarray(known_means, dtype=np.float64)
    # An orthonormal basis of the controls' deviations: one direction for each control that says something new.
    left, spreads, right = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)
    used = spreads > 1e-9 * max(1.0, float(np.abs(x).max(initial=0.0)))
    k = int(np.count_nonzero(used))
    if n < FEWEST_REPLICATIONS + k:
        k, used = 0, np.zeros_like(used)
    basis = left[:, used]
    slopes = basis.T @ y
    residuals = y - y.mean() - basis @ slopes
    freedom = n - 1 - k
    variance = float(residuals @ residuals) / freedom
    away: Array = right[used] @ (known - x.mean(axis=0)) / spreads[used]
    error = math.sqrt(variance * (1 / n + float(away @ away)))
    return Estimate(float(y.mean() + away @ slopes), error, freedom)


def controlled_interval(
    means: Sequence[float], controls: Sequence[float], known_mean: float, confidence: float = 0.95
) -> Interval:
    """Return the mean of independent replications' means and its interval, given a control whose mean is known.

    See ``controlled_mean``. At high load the delay of a run depends above all on the load that the run happened to
    have: utilisation, whose mean is the nominal load, explains most of the noise.
    """
    n = len(means)
    if n < 2:
        mean = float(means[0]) if n else None
        return Interval(mean=mean, half_width=None, confidence=confidence, effective_samples=n, reliable=False)
    found = controlled_mean(means, np.reshape(controls, (n, 1)), [known_mean])
    return Interval(
        mean=found.value,
        half_width=found.half_width(1 - confidence),
        confidence=confidence,
        effective_samples=n,
        reliable=True,
    )
