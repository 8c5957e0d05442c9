"""What every distribution of sizes, gaps and delays can do."""

from __future__ import annotations

import math
from typing import Annotated, Self, overload

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from testbed.workload.checked import Checked

Mean = Annotated[float, Meta(gt=0, description="mean, in time units")]

FloatArray = npt.NDArray[np.float64]
PhaseTypeMatrices = tuple[FloatArray, FloatArray]


class DistributionBase(Checked, frozen=True):
    """A distribution of a nonnegative random variable X, in time units.

    A subclass gives ``mean``, ``variance``, ``_cdf``, ``sample``, ``_laplace_transform`` and ``scaled``.
    """

    @property
    def mean(self) -> float:
        """E[X]; finite and positive."""
        raise NotImplementedError

    @property
    def variance(self) -> float:
        """Var[X]; ``inf`` where it is infinite."""
        raise NotImplementedError

    @property
    def second_moment(self) -> float:
        """E[X^2]; ``inf`` where it is infinite."""
        return self.variance + self.mean**2

    @property
    def scv(self) -> float:
        """The squared coefficient of variation Var[X] / E[X]^2; ``inf`` where it is infinite."""
        return self.variance / self.mean**2

    @property
    def continuous(self) -> bool:
        """Whether the distribution has no atoms."""
        return True

    @overload
    def cdf(self, x: float) -> float: ...
    @overload
    def cdf(self, x: FloatArray) -> FloatArray: ...
    def cdf(self, x: float | FloatArray) -> float | FloatArray:
        """Return P(X <= x), a float for a float, an array of the same shape for an array."""
        values = np.asarray(x, dtype=np.float64)
        result = self._cdf(values)
        return float(result) if values.ndim == 0 else result

    def _cdf(self, x: FloatArray) -> FloatArray:
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        raise NotImplementedError

    def laplace_transform(self, s: float) -> float:
        """Return E[exp(-s X)] for s >= 0. Raises ValueError for a negative s."""
        if not s >= 0:
            raise ValueError(f"the Laplace transform is taken at s >= 0, not at {s!r}")
        return self._laplace_transform(float(s)) if s else 1.0

    def _laplace_transform(self, s: float) -> float:
        raise NotImplementedError

    def phase_type(self) -> PhaseTypeMatrices | None:
        """Return ``(alpha, S)``: initial row vector (n,) and subgenerator (n, n); None if it is not phase-type."""
        return None

    def scaled(self, factor: float) -> Self:
        """Return the distribution of ``factor * X``; ``factor`` must be positive."""
        raise NotImplementedError


class InvertibleDistribution(DistributionBase, frozen=True):
    """A distribution whose quantiles have a closed form: it is sampled by inversion, one uniform number per value."""

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        """Return x with P(X > x) = q, for q in (0, 1]."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        return self._upper_quantile(1.0 - rng.random(n))

    def _laplace_transform(self, s: float) -> float:
        """Integrate over a standard normal variable Z, with X the value at the same quantile.

        That spreads both tails over a short interval on which the integrand is smooth. The complement is integrated,
        so that for small s the result is as exact as 1 - s E[X] asks for.
        """
        from scipy.integrate import quad
        from scipy.special import ndtr

        def complement(z: float) -> float:
            x = self._upper_quantile(np.asarray(ndtr(-z), dtype=np.float64))
            return -math.exp(-z * z / 2) * math.expm1(-s * float(x))

        # At |z| = 37 the normal density, and ndtr, are about to underflow.
        points = (-6.0, -3.0, 0.0, 3.0, 6.0, 12.0)
        integral = quad(complement, -37.0, 37.0, points=points, epsabs=1e-14, epsrel=1e-10, limit=400)[0]
        return float(1.0 - integral / math.sqrt(2 * math.pi))
