"""The named phase-type distributions: one phase, phases in series (hypo-), or in parallel (hyperexponential)."""

from __future__ import annotations

import math
from typing import Annotated

import msgspec
import numpy as np
from msgspec import Meta

from testbed.workload.distribution import FloatArray, Mean, PhaseTypeMatrices
from testbed.workload.phase_type import ROUNDING, PhaseTypeDistribution


class Exponential(PhaseTypeDistribution, frozen=True, tag="exponential"):
    """Exponential distribution."""

    mean: Mean = 1.0

    @property
    def variance(self) -> float:
        """Var[X] = mean^2."""
        return self.mean**2

    def _cdf(self, x: FloatArray) -> FloatArray:
        return -np.expm1(-np.maximum(x, 0.0) / self.mean)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        return rng.standard_exponential(n) * self.mean

    def _laplace_transform(self, s: float) -> float:
        return 1 / (1 + s * self.mean)

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)`` with one phase."""
        return np.ones(1), np.array([[-1 / self.mean]])

    def scaled(self, factor: float) -> Exponential:
        """Return the distribution of ``factor * X``."""
        return Exponential(mean=self.mean * factor)


class Erlang(PhaseTypeDistribution, frozen=True, tag="erlang"):
    """Erlang distribution: a sum of ``phases`` independent exponential phases of equal mean; its SCV is 1 / phases."""

    phases: Annotated[int, Meta(ge=1, le=1000, description="number of phases; the SCV is 1 / phases")]
    mean: Mean = 1.0

    @property
    def variance(self) -> float:
        """Var[X] = mean^2 / phases."""
        return self.mean**2 / self.phases

    def _cdf(self, x: FloatArray) -> FloatArray:
        from scipy.special import gammainc

        result: FloatArray = gammainc(self.phases, np.maximum(x, 0.0) * (self.phases / self.mean))
        return result

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        return rng.standard_gamma(self.phases, n) * (self.mean / self.phases)

    def _laplace_transform(self, s: float) -> float:
        return math.exp(-self.phases * math.log1p(s * self.mean / self.phases))

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)`` with ``phases`` phases in series."""
        return _series(np.full(self.phases, self.phases / self.mean))

    def scaled(self, factor: float) -> Erlang:
        """Return the distribution of ``factor * X``."""
        return Erlang(phases=self.phases, mean=self.mean * factor)


class Hypoexponential(PhaseTypeDistribution, frozen=True, tag="hypoexponential"):
    """Sum of independent exponential phases, given either by its ``scv`` (and mean), or by the phases' ``rates``.

    For an SCV, ``k = ceil(1 / SCV)`` phases are used: k - 1 of mean ``a = (1 + sqrt((k SCV - 1) / (k - 1))) / k`` and
    one of mean ``b = 1 - (k - 1) a``, times the mean. Where b = 0 that is Erlang-(k - 1).
    """

    wanted_scv: (
        Annotated[float, Meta(ge=0.001, lt=1, description="squared coefficient of variation; instead of `rates`")]
        | None
    ) = msgspec.field(default=None, name="scv")
    wanted_mean: Annotated[float, Meta(gt=0, description="mean, in time units; with `scv` only, default 1")] | None = (
        msgspec.field(default=None, name="mean")
    )
    rates: Annotated[
        tuple[float, ...] | None, Meta(description="rates of the phases, per time unit; instead of `scv` and `mean`")
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.wanted_scv is None) == (self.rates is None):
            raise ValueError("a hypoexponential distribution needs either `scv` (below 1) or `rates`, and not both")
        if self.rates is None:
            return
        if self.wanted_mean is not None:
            raise ValueError("`rates` already fix the mean of a hypoexponential distribution: leave out `mean`")
        if not self.rates:
            raise ValueError("`rates` is empty: give the rate of each phase")
        for i, rate in enumerate(self.rates):
            if not (math.isfinite(rate) and rate > 0):
                raise ValueError(f"`rates[{i}]` must be a finite number greater than 0, but is {rate!r}")

    def _phase_means(self) -> FloatArray:
        if self.rates is not None:
            return 1.0 / np.array(self.rates)
        scv = self.wanted_scv
        assert scv is not None
        mean = 1.0 if self.wanted_mean is None else self.wanted_mean
        k = math.ceil(1 / scv)
        # At SCV = 1/k rounding can turn the root's argument negative; at SCV = 1/(k-1) it can make `1 / scv` a hair
        # too large, and then the last phase is an empty one that would only make S stiff.
        a = (1 + math.sqrt(max(k * scv - 1, 0.0) / (k - 1))) / k
        b = 1 - (k - 1) * a
        if b < ROUNDING:
            return np.full(k - 1, mean / (k - 1))
        return np.array([a] * (k - 1) + [b]) * mean

    @property
    def mean(self) -> float:
        """E[X], the sum of the phases' means."""
        return float(self._phase_means().sum())

    @property
    def variance(self) -> float:
        """Var[X], the sum of the phases' squared means."""
        return float((self._phase_means() ** 2).sum())

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        means = self._phase_means()
        result: FloatArray = rng.standard_exponential((n, len(means))) @ means
        return result

    def _laplace_transform(self, s: float) -> float:
        return math.exp(-float(np.log1p(s * self._phase_means()).sum()))

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)`` with the phases in series."""
        return _series(1.0 / self._phase_means())

    def scaled(self, factor: float) -> Hypoexponential:
        """Return the distribution of ``factor * X``."""
        if self.rates is not None:
            return Hypoexponential(rates=tuple(rate / factor for rate in self.rates))
        return Hypoexponential(wanted_scv=self.wanted_scv, wanted_mean=(self.wanted_mean or 1.0) * factor)


class Hyperexponential(PhaseTypeDistribution, frozen=True, tag="hyperexponential"):
    """Two-phase hyperexponential distribution: type-1 jobs, the short ones, bring the fraction ``f`` of the *work*.

    Van Houdt, "Randomized work stealing versus sharing in large-scale systems with non-exponential job sizes"
    (2019), where ``f = alpha_1 / mu_1`` at mean 1.
    """

    scv: Annotated[float, Meta(ge=1, le=1e6, description="squared coefficient of variation, at least 1")]
    f: Annotated[
        float, Meta(gt=0, lt=1, description="fraction of the work (not of the jobs) in type-1 jobs, the short ones")
    ] = 0.5
    mean: Mean = 1.0

    @property
    def parameters(self) -> tuple[float, float, float, float]:
        """``(alpha_1, alpha_2, mu_1, mu_2)``: probabilities of the types, and their rates per time unit.

        From ``f mu_1 + (1 - f) mu_2 = 1`` and ``f / mu_1 + (1 - f) / mu_2 = (SCV + 1) / 2`` at mean 1. The second
        equation gives mu_2, since the root of the quadratic in mu_2 would cancel for a large SCV; and alpha_2 comes
        from mu_2, since ``1 - alpha_1`` would cancel where long jobs are rare.
        """
        scv, f, fb = self.scv, self.f, 1 - self.f
        d = math.sqrt((scv - 1) * (scv - 1 + 8 * f * fb))
        mu_1 = (scv + 4 * f - 1 + d) / (2 * f * (scv + 1))
        mu_2 = fb / ((scv + 1) / 2 - f / mu_1)
        return f * mu_1, fb * mu_2, mu_1 / self.mean, mu_2 / self.mean

    @property
    def variance(self) -> float:
        """Var[X] = SCV mean^2."""
        return self.scv * self.mean**2

    def _cdf(self, x: FloatArray) -> FloatArray:
        alpha_1, alpha_2, mu_1, mu_2 = self.parameters
        x = np.maximum(x, 0.0)
        return np.minimum(-alpha_1 * np.expm1(-mu_1 * x) - alpha_2 * np.expm1(-mu_2 * x), 1.0)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        _, alpha_2, mu_1, mu_2 = self.parameters
        uniform = rng.random((n, 2))
        return -np.log1p(-uniform[:, 0]) * np.where(uniform[:, 1] < alpha_2, 1 / mu_2, 1 / mu_1)

    def _laplace_transform(self, s: float) -> float:
        alpha_1, alpha_2, mu_1, mu_2 = self.parameters
        return alpha_1 * mu_1 / (mu_1 + s) + alpha_2 * mu_2 / (mu_2 + s)

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)`` with two parallel phases."""
        alpha_1, alpha_2, mu_1, mu_2 = self.parameters
        return np.array([alpha_1, alpha_2]), np.diag([-mu_1, -mu_2])

    def scaled(self, factor: float) -> Hyperexponential:
        """Return the distribution of ``factor * X``."""
        return Hyperexponential(scv=self.scv, f=self.f, mean=self.mean * factor)


def _series(rates: FloatArray) -> PhaseTypeMatrices:
    alpha = np.zeros(len(rates))
    alpha[0] = 1.0
    return alpha, np.diag(-rates) + np.diag(rates[:-1], k=1)
