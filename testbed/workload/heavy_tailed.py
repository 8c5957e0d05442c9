"""Distributions with tails heavier than exponential, or as heavy as their shape says: Pareto, lognormal, Weibull."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from testbed.workload.distribution import FloatArray, InvertibleDistribution, Mean

Minimum = Annotated[float, Meta(gt=0, description="smallest value, in time units")]


class Pareto(InvertibleDistribution, frozen=True, tag="pareto"):
    """Pareto distribution: P(X > x) = (minimum / x)^index for x >= minimum."""

    index: Annotated[float, Meta(description="tail index, above 1; the variance is infinite up to 2")]
    minimum: Minimum

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.index > 1:
            raise ValueError(
                f"`index` is {self.index!r}; a Pareto distribution with an index of 1 or less has an infinite mean: "
                "give an index above 1, or use kind 'bounded-pareto'"
            )

    @property
    def mean(self) -> float:
        """E[X] = index minimum / (index - 1)."""
        return self.index * self.minimum / (self.index - 1)

    @property
    def variance(self) -> float:
        """Var[X]; ``inf`` for an index of at most 2."""
        if self.index <= 2:
            return math.inf
        return self.index * self.minimum**2 / ((self.index - 1) ** 2 * (self.index - 2))

    def _cdf(self, x: FloatArray) -> FloatArray:
        return -np.expm1(-self.index * np.log(np.maximum(x, self.minimum) / self.minimum))

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        return self.minimum * q ** (-1 / self.index)

    def scaled(self, factor: float) -> Pareto:
        """Return the distribution of ``factor * X``."""
        return Pareto(index=self.index, minimum=self.minimum * factor)


class BoundedPareto(InvertibleDistribution, frozen=True, tag="bounded-pareto"):
    """Pareto distribution conditioned on X <= maximum (Harchol-Balter, Performance Modeling, 2013, chapter 20)."""

    index: Annotated[float, Meta(gt=0, description="tail index")]
    minimum: Minimum
    maximum: Annotated[float, Meta(gt=0, description="largest value, in time units")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.maximum > self.minimum:
            raise ValueError(f"`maximum` must be above `minimum` ({self.minimum!r}), but is {self.maximum!r}")

    def _moment(self, k: int) -> float:
        """E[X^k] = index minimum^k / (1 - r^-index) (r^(k-index) - 1) / (k - index), with r = maximum / minimum.

        The last quotient tends to log(r) as the index approaches k.
        """
        log_ratio = math.log(self.maximum / self.minimum)
        excess = k - self.index
        quotient = log_ratio if excess == 0 else math.expm1(excess * log_ratio) / excess
        return self.index * self.minimum**k * quotient / -math.expm1(-self.index * log_ratio)

    @property
    def mean(self) -> float:
        """E[X]."""
        return self._moment(1)

    @property
    def variance(self) -> float:
        """Var[X]."""
        return max(self._moment(2) - self._moment(1) ** 2, 0.0)

    def _cdf(self, x: FloatArray) -> FloatArray:
        inside = np.clip(x, self.minimum, self.maximum)
        mass = math.expm1(-self.index * math.log(self.maximum / self.minimum))
        result: FloatArray = np.expm1(-self.index * np.log(inside / self.minimum)) / mass
        return result

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        beyond = (self.minimum / self.maximum) ** self.index
        # Rounding may end a hair beyond the maximum.
        result: FloatArray = np.minimum(self.minimum * (q + beyond * (1 - q)) ** (-1 / self.index), self.maximum)
        return result

    def scaled(self, factor: float) -> BoundedPareto:
        """Return the distribution of ``factor * X``."""
        return BoundedPareto(index=self.index, minimum=self.minimum * factor, maximum=self.maximum * factor)


class Lognormal(InvertibleDistribution, frozen=True, tag="lognormal"):
    """Lognormal distribution: log X is normal with variance log(1 + SCV) and mean log(mean) - log(1 + SCV) / 2."""

    scv: Annotated[float, Meta(gt=0, le=1e6, description="squared coefficient of variation")]
    mean: Mean = 1.0

    @property
    def variance(self) -> float:
        """Var[X] = SCV mean^2."""
        return self.scv * self.mean**2

    def _log_parameters(self) -> tuple[float, float]:
        log_variance = math.log1p(self.scv)
        return math.log(self.mean) - log_variance / 2, math.sqrt(log_variance)

    def _cdf(self, x: FloatArray) -> FloatArray:
        from scipy.special import ndtr

        mu, sigma = self._log_parameters()
        result: FloatArray = ndtr((np.log(np.maximum(x, np.finfo(float).tiny)) - mu) / sigma)
        return np.where(x > 0, result, 0.0)

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        from scipy.special import ndtri

        mu, sigma = self._log_parameters()
        result: FloatArray = np.exp(mu - sigma * ndtri(q))
        return result

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,); from normal numbers, which need no scipy."""
        mu, sigma = self._log_parameters()
        return np.exp(mu + sigma * rng.standard_normal(n))

    def scaled(self, factor: float) -> Lognormal:
        """Return the distribution of ``factor * X``."""
        return Lognormal(scv=self.scv, mean=self.mean * factor)


class Weibull(InvertibleDistribution, frozen=True, tag="weibull"):
    """Weibull distribution: P(X > x) = exp(-(x / scale)^shape), with the scale that gives the mean."""

    shape: Annotated[float, Meta(ge=0.05, le=100, description="shape; below 1 the tail is heavier than exponential")]
    mean: Mean = 1.0

    @property
    def variance(self) -> float:
        """Var[X] = mean^2 (Gamma(1 + 2/shape) / Gamma(1 + 1/shape)^2 - 1)."""
        log_ratio = math.lgamma(1 + 2 / self.shape) - 2 * math.lgamma(1 + 1 / self.shape)
        return self.mean**2 * math.expm1(log_ratio)

    @property
    def scale(self) -> float:
        """mean / Gamma(1 + 1/shape)."""
        return self.mean / math.gamma(1 + 1 / self.shape)

    def _cdf(self, x: FloatArray) -> FloatArray:
        return -np.expm1(-((np.maximum(x, 0.0) / self.scale) ** self.shape))

    def _upper_quantile(self, q: FloatArray) -> FloatArray:
        return self.scale * (-np.log(q)) ** (1 / self.shape)

    def scaled(self, factor: float) -> Weibull:
        """Return the distribution of ``factor * X``."""
        return Weibull(shape=self.shape, mean=self.mean * factor)
