"""Fitting a phase-type distribution to sizes by their moments.

The result is a distribution that a scenario can name, so that theory which needs phases (stealing, sharing, power of d)
can be compared with a recorded workload. Two or three moments say nothing of the far tail: a distribution with a heavy
tail and its fit have the same mean and variance, and may differ in everything that the largest sizes decide.
"""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np

from testbed.workload.distribution import FloatArray
from testbed.workload.distributions import Exponential, Hyperexponential, Hypoexponential

FittedDistribution = Exponential | Hyperexponential | Hypoexponential

_EXPONENTIAL = 1e-3  # an SCV this close to 1 is taken as 1
_SMALLEST_SCV = 0.001


class Fit(msgspec.Struct, frozen=True):
    """A fitted distribution; ``matched`` moments (1 to 3) agree with the data's, ``remark`` says why not more."""

    distribution: FittedDistribution
    matched: int
    remark: str

    def toml(self) -> str:
        """Return the distribution as the value of a scenario's ``size``."""
        fields: dict[str, Any] = msgspec.to_builtins(self.distribution)
        words = (
            f'{key} = "{value}"' if key == "kind" else f"{key} = {value:.10g}" for key, value in fields.items() if value
        )
        return "{ " + ", ".join(words) + " }"


def fit_moments(first: float, second: float, third: float | None = None) -> Fit:
    """Return a phase-type distribution with the given moments E[X], E[X^2] and, if given and possible, E[X^3].

    An SCV above 1 gives a two-phase hyperexponential distribution, with balanced work (f = 1/2) for two moments, and
    with three where E[X] E[X^3] > 1.5 E[X^2]^2 (Whitt, "Approximating a point process by a renewal process, I",
    Operations Research 30, 1982, section 3). An SCV below 1 gives a hypoexponential distribution for two moments; its
    third is what it is. An SCV of 1 gives the exponential distribution. Raises ValueError for moments that no
    nonnegative random variable has, and for an SCV below 0.001, which would take more than 1000 phases.
    """
    if not (0 < first < math.inf and first**2 * (1 - 1e-12) <= second < math.inf):
        raise ValueError(
            f"no distribution has mean {first:g} and second moment {second:g}: the second moment is at least the "
            "mean's square"
        )
    scv = second / first**2 - 1.0
    if abs(scv - 1.0) <= _EXPONENTIAL:
        return Fit(
            Exponential(mean=first), 2, "the SCV is 1: the exponential distribution has no third moment to choose"
        )
    if scv < _SMALLEST_SCV:
        raise ValueError(
            f"the SCV is {scv:.2g}: below {_SMALLEST_SCV} a phase-type distribution needs over 1000 phases; use "
            "deterministic"
        )
    if scv < 1:
        return Fit(Hypoexponential(wanted_scv=scv, wanted_mean=first), 2, "an SCV below 1 is fitted by two moments")
    balanced = Hyperexponential(scv=scv, f=0.5, mean=first)
    if third is None:
        return Fit(balanced, 2, "fitted by two moments, with half of the work in short jobs")
    x, y = first * third - 1.5 * second**2, second - 2 * first**2
    if x <= 0:
        remark = (
            "no two-phase distribution has so small a third moment: fitted by two, with half of the work in short jobs"
        )
        return Fit(balanced, 2, remark)
    root = math.sqrt((x + 1.5 * y**2 - 3 * first**2 * y) ** 2 + 18 * first**2 * y**3)
    long, short = ((x + 1.5 * y**2 + 3 * first**2 * y + sign * root) / (6 * first * y) for sign in (1, -1))
    share = (long - first) / (long - short) * short / first  # of the work in short jobs
    return Fit(Hyperexponential(scv=scv, f=share, mean=first), 3, "")


def fit_sizes(sizes: FloatArray, moments: int = 3) -> Fit:
    """Return a phase-type distribution with the first two or three sample moments of ``sizes``, shape (n,).

    Raises ValueError for fewer than two sizes, sizes that are not positive, or a number of moments other than 2 or 3.
    """
    if moments not in (2, 3):
        raise ValueError(f"two or three moments can be fitted, not {moments}")
    if len(sizes) < 2 or not (np.isfinite(sizes).all() and (sizes > 0).all()):
        raise ValueError("a fit needs at least two sizes, all of them finite and above 0")
    scale = float(sizes.mean())
    powers = [float(np.mean((sizes / scale) ** power)) * scale**power for power in (1, 2, 3)]
    return fit_moments(powers[0], powers[1], powers[2] if moments == 3 else None)
