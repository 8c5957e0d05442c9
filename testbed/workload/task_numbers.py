"""Distributions of the number of tasks of a job."""

from __future__ import annotations

import math
from functools import cached_property
from typing import Annotated

import numpy as np
import numpy.typing as npt
from msgspec import Meta

from testbed.workload.checked import Checked
from testbed.workload.distribution import FloatArray

IntArray = npt.NDArray[np.int64]

#: More tasks would be a job that no cluster of a machine's size can hold.
MOST = 1_000_000


class TaskNumberLaw(Checked, frozen=True, dict=True):
    """A distribution of a number of tasks, K >= 1. A subclass gives ``probabilities``."""

    def probabilities(self) -> tuple[IntArray, FloatArray]:
        """Return the values that K takes, in increasing order, and their probabilities, each of shape (values,)."""
        raise NotImplementedError

    @cached_property
    def _table(self) -> tuple[IntArray, FloatArray, FloatArray]:
        values, probabilities = self.probabilities()
        return values, probabilities, np.cumsum(probabilities)[:-1]

    @property
    def mean(self) -> float:
        """E[K]."""
        values, probabilities, _ = self._table
        return float(values @ probabilities)

    @property
    def scv(self) -> float:
        """Var[K] / E[K]^2."""
        values, probabilities, _ = self._table
        return float((values.astype(float) - self.mean) ** 2 @ probabilities) / self.mean**2

    @property
    def most(self) -> int:
        """The largest value."""
        return int(self._table[0][-1])

    def sample(self, rng: np.random.Generator, n: int) -> IntArray:
        """Return ``n`` independent values, shape (n,); one uniform number each."""
        values, _, cumulated = self._table
        return values[np.searchsorted(cumulated, rng.random(n), side="right")]


class FixedNumber(TaskNumberLaw, frozen=True, tag="fixed"):
    """Always the same number of tasks."""

    value: Annotated[int, Meta(ge=1, le=MOST, description="number of tasks")]

    def probabilities(self) -> tuple[IntArray, FloatArray]:
        """Return the one value."""
        return np.array([self.value]), np.ones(1)

    def sample(self, rng: np.random.Generator, n: int) -> IntArray:
        """Return the value ``n`` times, shape (n,); draws nothing."""
        return np.full(n, self.value, dtype=np.int64)


class TableOfNumbers(TaskNumberLaw, frozen=True, tag="table"):
    """One of the given numbers of tasks, each with its probability."""

    values: Annotated[
        tuple[Annotated[int, Meta(ge=1, le=MOST)], ...], Meta(min_length=1, description="numbers of tasks")
    ]
    shares: Annotated[
        tuple[Annotated[float, Meta(ge=0)], ...], Meta(description="probability of each value; they add up to 1")
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.values) != len(self.shares):
            raise ValueError(f"`shares` must hold {len(self.values)}, one for each value, not {len(self.shares)}")
        if len(set(self.values)) < len(self.values):
            raise ValueError("`values` holds a number twice")
        if abs(math.fsum(self.shares) - 1) > 1e-9:
            raise ValueError(f"`shares` must add up to 1, not {math.fsum(self.shares):.12g}")

    def probabilities(self) -> tuple[IntArray, FloatArray]:
        """Return the values that have a share, in increasing order."""
        pairs = sorted((value, share) for value, share in zip(self.values, self.shares, strict=True) if share > 0)
        return np.array([value for value, _ in pairs]), np.array([share for _, share in pairs])


class Zipf(TaskNumberLaw, frozen=True, tag="zipf"):
    """A power law cut off: P(K = n) proportional to n^-exponent for n = 1..most; heavy-tailed up to there."""

    exponent: Annotated[float, Meta(gt=0, le=100, description="of the power law; at most 2: the mean grows with most")]
    most: Annotated[int, Meta(ge=1, le=100_000, description="largest number of tasks")]

    def probabilities(self) -> tuple[IntArray, FloatArray]:
        """Return 1..most."""
        values = np.arange(1, self.most + 1)
        weights = values**-self.exponent
        return values, weights / weights.sum()


RandomNumbers = TableOfNumbers | Zipf
TaskNumbers = FixedNumber | RandomNumbers
