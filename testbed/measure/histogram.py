"""A histogram with logarithmic buckets, cheap enough for the hot path."""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt


class LogHistogram:
    """Counts of non-negative values in buckets whose bounds grow by a constant ratio, or by smaller ones in ranges.

    The first bucket holds all values up to ``lowest``, the last, which has no bound, those above ``highest``. Memory
    does not grow with the number of values, and a quantile is off by at most the width of its bucket.
    ``bounds`` are the upper bounds (inclusive, like Prometheus' ``le``) of all buckets but the last; ``counts``, one
    longer, are the numbers of values per bucket, not cumulated.
    """

    __slots__ = ("bounds", "counts", "max", "sum")

    def __init__(
        self, lowest: float, highest: float, ratio: float = 1.15, finer: Sequence[tuple[float, float, float]] = ()
    ) -> None:
        """Lay out buckets from ``lowest`` to at least ``highest``, in the values' unit.

        ``finer`` are ranges (from, to, ratio) with another ratio; where they overlap, the smallest applies. Raises
        ValueError if there are no such buckets.
        """
        if not (0 < lowest < highest < math.inf and all(r > 1 for r in (ratio, *(r for _, _, r in finer)))):
            raise ValueError(f"need 0 < lowest < highest and ratios > 1, not {lowest}, {highest}, {ratio} and {finer}")
        self.bounds = [lowest]
        while self.bounds[-1] < highest * (1 - 1e-9):
            last = self.bounds[-1]
            inside = [r for begin, end, r in finer if begin <= last * (1 + 1e-9) and last < end]
            self.bounds.append(last * min(inside, default=ratio))
        self.counts = [0] * (len(self.bounds) + 1)
        self.sum = 0.0
        self.max = 0.0

    def add(self, value: float) -> None:
        """Count one value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value
        if value > self.max:
            self.max = value

    def buckets_of(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
        """Return the indices of the buckets that ``values`` fall into, shape (values,)."""
        return np.searchsorted(self.bounds, values)

    def add_all(self, values: npt.NDArray[np.float64]) -> None:
        """Count many values, shape (values,), at once.

        Another thread that reads ``counts`` and then ``sum`` finds them consistent: the interpreter does not switch
        threads between plain assignments.
        """
        if not len(values):
            return
        inside = np.bincount(self.buckets_of(values), minlength=len(self.counts))
        counts = (inside + self.counts).tolist()
        total = self.sum + float(values.sum())
        largest = max(self.max, float(values.max()))
        self.counts = counts
        self.sum = total
        self.max = largest

    @property
    def count(self) -> int:
        """The number of values. It is summed on demand, which spares ``add`` a step."""
        return sum(self.counts)

    @property
    def mean(self) -> float:
        """Mean of the values, exact; NaN when there are none."""
        count = self.count
        return self.sum / count if count else math.nan

    def quantile(self, probability: float) -> float:
        """Return the quantile at ``probability`` in [0, 1], interpolated linearly in its bucket; NaN without values.

        The largest value is known exactly and bounds the result.
        """
        count = self.count
        if not count:
            return math.nan
        rank = probability * count
        below = 0
        for i, inside in enumerate(self.counts):
            if inside and below + inside >= rank:
                low = self.bounds[i - 1] if i else 0.0
                high = min(self.bounds[i], self.max) if i < len(self.bounds) else self.max
                return low + (high - low) * max(0.0, rank - below) / inside
            below += inside
        return self.max

    def merge(self, other: LogHistogram) -> None:
        """Add the values of another histogram; ValueError unless its buckets are the same."""
        if other.bounds != self.bounds:
            raise ValueError("histograms with different buckets cannot be merged")
        self.counts = [a + b for a, b in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum
        self.max = max(self.max, other.max)
