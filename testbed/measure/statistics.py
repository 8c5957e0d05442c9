"""Statistics of autocorrelated output: means and quantiles with intervals, warm-up, time averages.

Response times of successive jobs are alike, since they met the same queues, so that the textbook interval for
independent samples is too narrow, at high load by a factor of ten and more. All functions take series as numpy arrays,
never warn, and answer ``None`` where the data can't tell: ``None`` survives JSON, NaN does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

from testbed.measure.records import COMPLETED, IN_SYSTEM

Array = npt.NDArray[np.float64]

#: Probabilities of the quantiles that are reported.
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)

MOST_BATCHES: Final = 640
FEWEST_BATCHES: Final = 10


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A mean and its two-sided confidence interval ``mean - half_width .. mean + half_width``.

    ``reliable`` is false where the batches were still correlated, or too few samples were there to see: the interval
    is then probably too narrow.
    """

    mean: float | None
    half_width: float | None
    confidence: float
    batches: int
    batch_size: int
    reliable: bool


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile and its confidence interval; a bound is None where the samples don't reach that far."""

    probability: float
    value: float | None
    low: float | None
    high: float | None


class QueueLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Time averages of the servers' queue lengths, tasks in service included.

    ``probabilities[i]`` is the share of server-time at length i (empty when nothing was observed), ``utilisation`` is
    the share of server-time at length 1 or more. ``number_in_system[s]`` is the number of tasks at all servers,
    averaged over the slice from ``edges[s]`` to ``edges[s + 1]``.
    """

    probabilities: list[float]
    mean: float | None
    utilisation: float | None
    edges: list[float]
    number_in_system: list[float]


def batch_means(samples: Array, batches: int) -> Array:
    """Return the means of ``batches`` equal batches of successive samples; the oldest that are left over are unused."""
    size = len(samples) // batches
    means: Array = samples[len(samples) - size * batches :].reshape(batches, size).mean(axis=1)
    return means


def correlation_p_value(series: Array) -> float:
    """Return the one-sided p-value of von Neumann's test against positive lag-1 autocorrelation.

    The statistic is C = 1 - sum (y_i - y_{i+1})^2 / (2 sum (y_i - mean)^2), under independence approximately normal
    with mean 0 and variance (k - 2) / (k^2 - 1) (von Neumann 1941; Fishman, Management Science 24, 1978, 510-521).
    A constant series, or one of fewer than 3 values, gives 1.
    """
    k = len(series)
    around = float(np.sum((series - series.mean()) ** 2)) if k > 2 else 0.0
    if around <= 1e-24 * max(1.0, float(np.max(np.abs(series), initial=0.0))) ** 2 * k:
        return 1.0
    c = 1 - float(np.sum(np.diff(series) ** 2)) / (2 * around)
    return float(stats.norm.sf(c / math.sqrt((k - 2) / (k * k - 1))))


def mean_interval(samples: npt.ArrayLike, confidence: float = 0.95) -> Interval:
    """Return the mean of a stationary, autocorrelated series with an interval by batch means.

    Batches start small (up to 640 of them) and double until von Neumann's test at level 0.2 finds no correlation
    between them, or only 10 to 19 are left. Passing it bounds the correlation only by what so many batches can show,
    so that as many as two more doublings follow that leave 20 batches: each halves what is left of it, about. The
    result is ``reliable`` if the test was passed and there was room for such a margin.

    ``samples`` are in the order of time, shape (n,); NaN is left out. Without samples the mean is None, with one the
    half-width is. Method: Fishman (1978); the margin after the test follows Tafazzoli and Wilson's Skart (2011).
    """
    series = np.asarray(samples, dtype=np.float64)
    series = series[np.isfinite(series)]
    n = len(series)
    if n < 2:
        mean = float(series[0]) if n else None
        return Interval(mean=mean, half_width=None, confidence=confidence, batches=n, batch_size=1, reliable=False)
    size = max(1, n // MOST_BATCHES)
    passed = False
    while True:
        means = batch_means(series, n // size)
        passed = correlation_p_value(means) > 0.2
        if passed or n // (2 * size) < FEWEST_BATCHES:
            break
        size *= 2
    margin = 0
    while margin < 2 and n // (2 * size) >= 2 * FEWEST_BATCHES:
        size *= 2
        margin += 1
    means = batch_means(series, n // size)
    k = len(means)
    half_width = float(stats.t.ppf((1 + confidence) / 2, k - 1) * means.std(ddof=1) / math.sqrt(k))
    return Interval(
        mean=float(series.mean()),
        half_width=half_width,
        confidence=confidence,
        batches=k,
        batch_size=size,
        reliable=passed and margin > 0,
    )


def replication_interval(means: Sequence[float | None], confidence: float = 0.95) -> Interval:
    """Return the mean of independent replications' means with Student's interval; None and NaN are left out."""
    values = np.array([mean for mean in means if mean is not None and math.isfinite(mean)])
    k = len(values)
    half_width = None
    if k > 1:
        half_width = float(stats.t.ppf((1 + confidence) / 2, k - 1) * values.std(ddof=1) / math.sqrt(k))
    mean = float(values.mean()) if k else None
    return Interval(mean=mean, half_width=half_width, confidence=confidence, batches=k, batch_size=1, reliable=k > 1)


def quantiles(
    samples: npt.ArrayLike, probabilities: Sequence[float] = QUANTILES, confidence: float = 0.95
) -> list[Quantile]:
    """Return quantiles of a stationary, autocorrelated series with order-statistic intervals.

    For independent samples the number below the true quantile is binomial, which gives the ranks of the interval. Here
    the binomial law has as many trials as the series is worth independent ones: n times the ratio of the binomial
    variance to the variance that batch means find for the indicator of "at most the quantile", at most n (Woodruff,
    JASA 47, 1952, with the variance of a dependent sample). ``samples`` as for ``mean_interval``.
    """
    series = np.asarray(samples, dtype=np.float64)
    series = series[np.isfinite(series)]
    n = len(series)
    if not n:
        return [Quantile(probability=p, value=None, low=None, high=None) for p in probabilities]
    ordered = np.sort(series)
    found = []
    for p in probabilities:
        value = float(np.quantile(ordered, p))
        indicator = mean_interval(series <= value, confidence)
        worth = n
        if indicator.half_width:
            standard_error = indicator.half_width / stats.t.ppf((1 + confidence) / 2, indicator.batches - 1)
            worth = max(1, min(n, round(p * (1 - p) / standard_error**2)))
        below = int(stats.binom.ppf((1 - confidence) / 2, worth, p))
        above = int(stats.binom.ppf((1 + confidence) / 2, worth, p)) + 1
        low = float(ordered[max(0, math.floor(below * n / worth) - 1)]) if below > 0 else None
        high = float(ordered[min(n, math.ceil(above * n / worth)) - 1]) if above <= worth else None
        found.append(Quantile(probability=p, value=value, low=low, high=high))
    return found


def mser5(series: npt.ArrayLike) -> int:
    """Return how many leading observations to cut as warm-up, by MSER-5.

    The series is averaged over batches of five; the cut d minimises the sum of the squared deviations of the kept
    batches from their mean, divided by the square of their number, over the first half of the series. A cut at half of
    it means that the series was too short to find the end of the warm-up. NaN is left out of its batch.
    ``series``: shape (n,), in the order of time; fewer than 10 observations are never cut.
    White, Simulation 69 (1997), 323-334; batches of five: White, Cobb and Spratt, Proc. Winter Simulation Conference
    (2000), 755-760.
    """
    values = np.asarray(series, dtype=np.float64)
    k = len(values) // 5
    table = values[: 5 * k].reshape(k, 5)
    known = np.isfinite(table)
    counts = known.sum(axis=1)
    where = np.flatnonzero(counts)  # batches that have an observation at all
    if len(where) < 2:
        return 0
    means = np.where(known, table, 0.0).sum(axis=1)[where] / counts[where]
    means = means - means.mean()  # the sums of squares below would otherwise cancel when the mean is large
    kept = np.arange(len(means), 0, -1)
    sums = np.cumsum(means[::-1])[::-1]
    squares = np.cumsum(means[::-1] ** 2)[::-1]
    statistic = (squares - sums**2 / kept) / kept**2.0
    half = statistic[: len(means) // 2 + 1]
    cut = int(np.argmax(half <= half.min() + 1e-12 * half[0]))  # the first of those that differ by rounding only
    return 5 * int(where[cut]) if cut else 0


def time_average_queue_length(
    occupancy: Array, edges: Array, start: float = -math.inf, stop: float = math.inf
) -> QueueLengths:
    """Return the time averages over the slices that lie wholly in [start, stop].

    ``occupancy``: server-time at each queue length, shape (slices, levels); ``edges``: the slices' boundaries in time
    units, shape (slices + 1,) (or empty); both as ``Occupancy.table`` returns them, summed over processes.
    """
    edges = np.asarray(edges, dtype=np.float64)
    inside = (edges[:-1] >= start - 1e-9) & (edges[1:] <= stop + 1e-9) & (edges[1:] > edges[:-1])
    # Rounding leaves the never visited levels at the size of an ulp of the clock, which may be negative.
    time = np.maximum(np.asarray(occupancy, dtype=np.float64)[: len(inside)][inside], 0.0)
    total = float(time.sum())
    if total <= 0:
        return QueueLengths(probabilities=[], mean=None, utilisation=None, edges=[], number_in_system=[])
    probabilities = time.sum(axis=0) / total
    levels = np.arange(time.shape[1])
    first = np.flatnonzero(inside)
    return QueueLengths(
        probabilities=probabilities.tolist(),
        mean=float(probabilities @ levels),
        utilisation=float(1 - probabilities[0]),
        edges=[*edges[first].tolist(), float(edges[first[-1] + 1])],
        number_in_system=(time @ levels / np.diff(edges)[first]).tolist(),
    )


def number_in_system(arrivals: Array, departures: Array, edges: Array) -> Array:
    """Return the time-averaged number of jobs in the system between successive ``edges``, shape (len(edges) - 1,).

    ``arrivals`` and ``departures``: shape (jobs,), in any order; infinity for a job that has not left. Each job is
    there between its two times, so that the integral of the number up to t is the sum of (t - a)^+ - (t - d)^+.
    """

    def time_since(events: Array) -> Array:
        ordered = np.sort(events[np.isfinite(events)])
        sums = np.concatenate(([0.0], np.cumsum(ordered)))
        before = np.searchsorted(ordered, edges)
        since: Array = before * edges - sums[before]
        return since

    averages: Array = np.diff(time_since(arrivals) - time_since(departures)) / np.diff(edges)
    return averages


def departures(columns: Mapping[str, npt.NDArray[Any]]) -> Array:
    """Return when each job left the system, infinity for one that has not; columns as in ``records.COLUMNS``.

    Dropped jobs leave as they come; so do lost ones here, since nobody knows when they were lost.
    """
    outcome = columns["outcome"]
    left = np.where(outcome == COMPLETED, columns["arrival"] + columns["response"], columns["arrival"])
    return np.where(outcome == IN_SYSTEM, np.inf, left)
