"""Uniform, deterministic and empirical distributions."""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from testbed.workload.distribution import DistributionBase, FloatArray
from testbed.workload.tables import number_column, read_table


class Uniform(DistributionBase, frozen=True, tag="uniform"):
    """Uniform distribution on [low, high]."""

    low: Annotated[float, Meta(ge=0, description="smallest value, in time units")]
    high: Annotated[float, Meta(gt=0, description="largest value, in time units")]

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.high > self.low:
            raise ValueError(f"`high` must be above `low` ({self.low!r}), but is {self.high!r}")

    @property
    def mean(self) -> float:
        """E[X] = (low + high) / 2."""
        return (self.low + self.high) / 2

    @property
    def variance(self) -> float:
        """Var[X] = (high - low)^2 / 12."""
        return (self.high - self.low) ** 2 / 12

    def _cdf(self, x: FloatArray) -> FloatArray:
        return np.clip((x - self.low) / (self.high - self.low), 0.0, 1.0)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        return self.low + (self.high - self.low) * rng.random(n)

    def _laplace_transform(self, s: float) -> float:
        width = s * (self.high - self.low)
        return -math.exp(-s * self.low) * math.expm1(-width) / width

    def scaled(self, factor: float) -> Uniform:
        """Return the distribution of ``factor * X``."""
        return Uniform(low=self.low * factor, high=self.high * factor)


class Deterministic(DistributionBase, frozen=True, tag="deterministic"):
    """Always the same value."""

    value: Annotated[float, Meta(gt=0, description="the value, in time units")] = 1.0

    @property
    def mean(self) -> float:
        """E[X] = value."""
        return self.value

    @property
    def variance(self) -> float:
        """Var[X] = 0."""
        return 0.0

    @property
    def continuous(self) -> bool:
        """False: all mass is on one value."""
        return False

    def _cdf(self, x: FloatArray) -> FloatArray:
        return np.where(x >= self.value, 1.0, 0.0)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return the value ``n`` times, shape (n,); draws nothing."""
        return np.full(n, self.value, dtype=np.float64)

    def _laplace_transform(self, s: float) -> float:
        return math.exp(-s * self.value)

    def scaled(self, factor: float) -> Deterministic:
        """Return the distribution of ``factor * X``."""
        return Deterministic(value=self.value * factor)


class Empirical(DistributionBase, frozen=True, tag="empirical", dict=True):
    """Each of the given values with equal probability: the ``values``, or a column of a CSV or Parquet file.

    The file is read when the first number is asked for, and once. Whatever is wrong with it is then a ValueError.
    """

    values: Annotated[tuple[float, ...] | None, Meta(description="the values, in time units; instead of `file`")] = None
    file: Annotated[str | None, Meta(description="CSV or Parquet file with the values; instead of `values`")] = None
    column: Annotated[str, Meta(description="the file's column that holds the values")] = "size"

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.values is None) == (self.file is None):
            raise ValueError("an empirical distribution needs either `values` or `file`, and not both")
        if self.values is not None:
            _check_values(np.array(self.values, dtype=np.float64), "`values`")

    @property
    def sorted_values(self) -> FloatArray:
        """All values in increasing order, shape (n,). Raises ValueError when the file is unfit."""
        cache = self.__dict__
        if "sorted_values" not in cache:
            if self.file is None:
                values = np.array(self.values, dtype=np.float64)
            else:
                values = number_column(read_table(self.file), self.file, self.column)
                _check_values(values, f"column '{self.column}' of {self.file}")
            cache["sorted_values"] = np.sort(values)
        result: FloatArray = cache["sorted_values"]
        return result

    @property
    def mean(self) -> float:
        """E[X], the mean of the values."""
        return float(self.sorted_values.mean())

    @property
    def variance(self) -> float:
        """Var[X], the mean squared deviation of the values."""
        return float(self.sorted_values.var())

    @property
    def continuous(self) -> bool:
        """False: each value has mass."""
        return False

    def _cdf(self, x: FloatArray) -> FloatArray:
        values = self.sorted_values
        return np.searchsorted(values, x, side="right") / len(values)

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,)."""
        values = self.sorted_values
        return values[(rng.random(n) * len(values)).astype(np.int64)]

    def _laplace_transform(self, s: float) -> float:
        return float(np.exp(-s * self.sorted_values).mean())

    def scaled(self, factor: float) -> Empirical:
        """Return the distribution of ``factor * X``, its values written out."""
        return Empirical(values=tuple((self.sorted_values * factor).tolist()))


def _check_values(values: FloatArray, where: str) -> None:
    if not len(values):
        raise ValueError(f"{where} is empty: give at least one value")
    unfit = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
    if len(unfit):
        raise ValueError(
            f"{where}: value {unfit[0] + 1} must be a finite number of at least 0, but is {values[unfit[0]]}"
        )
    if not values.sum() > 0:
        raise ValueError(f"{where} has only zeros: give at least one value above 0")
