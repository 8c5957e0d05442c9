"""Statistics of autocorrelated output: means and quantiles with intervals, warm-up, time averages.

Response times of successive jobs are alike, since they met the same queues, so that the textbook interval for
independent samples is too narrow, at high load by a factor of ten and more. How much too narrow can't be seen in the
response times themselves when there are many servers: successive jobs go to different servers, which hides the
correlation between neighbours, but not the slow fluctuation that all of them share. The number in system shows it: one
smooth series that has the fluctuations of all servers. All functions take numpy arrays, never warn, and return ``None``
for what the data can't tell: ``None`` survives JSON, NaN does not.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats
from scipy.linalg import solve_toeplitz

from testbed.core.outcomes import JobOutcome

Array = npt.NDArray[np.float64]

#: Probabilities of the quantiles that are reported.
QUANTILES: Final = (0.5, 0.9, 0.99, 0.999)

SLICES: Final = 256  # of the window, on which the number in system is averaged
HIGHEST_ORDER: Final = 5  # of the autoregressive models of it
FEWEST_BATCHES, MOST_BATCHES = 10, 64
TIMES_PER_BATCH: Final = 10  # autocorrelation times: neighbouring batch means are then correlated by 0.05 or so
RELIABLE: Final = 30  # effective samples


class Interval(msgspec.Struct, frozen=True, kw_only=True):
    """A mean and its two-sided confidence interval ``mean - half_width .. mean + half_width``.

    ``effective_samples``: the number of independent observations behind it, which are replications, or within
    a run the window's length in autocorrelation times of the number in system. ``reliable`` is false if these are so
    few that the interval is probably too narrow.
    """

    mean: float | None
    half_width: float | None
    confidence: float
    effective_samples: float
    reliable: bool


class Quantile(msgspec.Struct, frozen=True, kw_only=True):
    """A quantile and its confidence interval; a bound is None where the samples don't reach that far."""

    probability: float
    value: float | None
    low: float | None
    high: float | None


class QueueLengths(msgspec.Struct, frozen=True, kw_only=True):
    """Time averages of the servers' queue lengths, tasks in service included.

    A server of a central queue has only the task in service: jobs that wait in that queue are at no server.
    ``probabilities[i]`` is the fraction of server-time at length i (empty when nothing was observed), ``utilisation``
    is the fraction of server-time at length 1 or more. ``number_in_system[s]``, which summaries have, is the number of
    jobs in the system, wherever they wait, averaged over the slice from ``edges[s]`` to ``edges[s + 1]``.
    """

    probabilities: list[float]
    mean: float | None
    utilisation: float | None
    edges: list[float]
    number_in_system: list[float] = []


def batch_means(samples: Array, batches: int) -> Array:
    """Return the means of ``batches`` equal batches of successive samples; the oldest ones may be left over."""
    size = len(samples) // batches
    means: Array = samples[len(samples) - size * batches :].reshape(batches, size).mean(axis=1)
    return means


def autocorrelation_time(series: Array) -> float:
    """Return the integrated autocorrelation time of a stationary series, in steps of the series, at least 1.

    That is tau = 1 + 2 sum rho_k: the mean of n values has the variance tau Var / n. The series is modelled
    as autoregressive, of the order up to 5 that Akaike's criterion prefers, fitted by Yule and Walker's equations;
    then tau = s^2 / ((1 - sum phi_i)^2 Var), with s^2 the variance of its innovations. A constant series, or one of
    fewer than 3 values, gives 1. ``series``: shape (n,), in the order of time.
    Fishman, Principles of Discrete Event Simulation (1978), section 5.10; Heidelberger and Welch, Comm. ACM 24 (1981),
    233-245, for the variance of a mean as the spectrum at frequency 0.
    """
    n = len(series)
    if _constant(series):
        return 1.0
    around = series - series.mean()
    highest = min(HIGHEST_ORDER, n - 1)
    # Divided by n, not n - k: these autocovariances are positive definite, so that each fit is stationary.
    gamma = np.array([around[: n - k] @ around[k:] / n for k in range(highest + 1)]) / (around @ around / n)
    least, time = 0.0, 1.0  # white noise
    for order in range(1, highest + 1):
        phi = solve_toeplitz(gamma[:order], gamma[1 : order + 1])
        innovation = float(1 - phi @ gamma[1 : order + 1])
        criterion = n * math.log(innovation) + 2 * order
        if criterion < least:
            least, time = criterion, innovation / float(1 - phi.sum()) ** 2
    return max(1.0, time)


def mean_interval(
    samples: npt.ArrayLike, number: Array, weight: float, confidence: float = 0.95, least_time: float = 1.0
) -> Interval:
    """Return the mean of samples taken job by job, with an interval that allows for the system's slow fluctuations.

    The half-width is the larger of two:
    * ``weight`` times that of the mean of ``number``, from its autocorrelation time, with Student's quantile at as many
      degrees of freedom as the window holds such times, less 1 (at least 3);
    * that of batch means of the samples, in batches of ten autocorrelation times each, but 10 to 64 of them, which
      also sees what the number in system doesn't show.

    ``samples``: in the order of time, shape (n,); NaN is left out. ``number``: shape (slices,), averages over
    successive equal slices of the samples' window of a series that fluctuates as they do; ``weight``: what the
    samples' mean gains when that of ``number`` does by one; ``least_time``: an autocorrelation time in slices that is
    known to be no longer than that of ``number``, for windows too short to show it. Without samples the mean is None,
    with one the half-width.

    It is ``reliable`` with 30 effective samples. Simulated random, round-robin and power-of-2 routing to 20 and 40
    servers had 95 % intervals that held the exact mean in 91 to 98 % of the runs with so many at the median, in 84 %
    of those with 9 and in 75 % of those with 4: a short window shows neither its memory nor its variance in full.
    Batch means: Law and Kelton, Simulation Modeling and Analysis, section 9.5.
    """
    series = np.asarray(samples, dtype=np.float64)
    series = series[np.isfinite(series)]
    n = len(series)
    mean = float(series.mean()) if n else None
    if n < 2:
        return Interval(mean=mean, half_width=None, confidence=confidence, effective_samples=n, reliable=False)
    time = max(autocorrelation_time(number), least_time)
    effective = min(float(n), len(number) / time)
    freedom = max(effective - 1, 3)
    slow = _student(confidence, freedom) * weight * math.sqrt(float(number.var()) * time / len(number))
    means = batch_means(series, _batches(n, effective))
    batched = _student(confidence, len(means) - 1) * _standard_error(means)
    return Interval(
        mean=mean,
        half_width=max(slow, batched),
        confidence=confidence,
        effective_samples=effective,
        reliable=effective >= RELIABLE,
    )


def response_interval(response: npt.ArrayLike, number: Array, confidence: float = 0.95) -> Interval:
    """Return the mean response time with its interval.

    ``response``: response times of the jobs that arrived in a window, in the order of arrival, shape (n,), NaN is left
    out; ``number``: the number of jobs in the system over the window, see ``number_over``.

    By Little's law the mean response time is the mean number over the arrival rate, hence has its relative error. That
    takes the actual arrivals for the nominal ones: at low load, where response times are little more than sizes, the
    interval is up to sqrt(2) times too wide. Method: see ``mean_interval``.
    """
    series = np.asarray(response, dtype=np.float64)
    series = series[np.isfinite(series)]
    present = float(number.mean())
    weight = float(series.mean()) / present if len(series) and present > 0 else 0.0
    return mean_interval(series, number, weight, confidence)


def replication_interval(means: Sequence[float | None], confidence: float = 0.95) -> Interval:
    """Return the mean of independent replications' means with Student's interval; None and NaN are left out."""
    values = np.array([mean for mean in means if mean is not None and math.isfinite(mean)])
    k = len(values)
    half_width = _student(confidence, k - 1) * _standard_error(values) if k > 1 else None
    mean = float(values.mean()) if k else None
    return Interval(mean=mean, half_width=half_width, confidence=confidence, effective_samples=k, reliable=k > 1)


def quantiles(
    samples: npt.ArrayLike,
    effective_samples: float,
    probabilities: Sequence[float] = QUANTILES,
    confidence: float = 0.95,
) -> list[Quantile]:
    """Return quantiles of a stationary, autocorrelated series with order-statistic intervals.

    For independent samples the number below the true quantile is binomial, which gives the ranks of the interval. Here
    the binomial distribution has as many trials as the series is worth independent samples: n times the ratio of the
    binomial variance to the variance that batch means find for the indicator of "at most the quantile", at most n
    (Woodruff, JASA 47, 1952, with the variance of a dependent sample). ``samples`` as for ``mean_interval``, whose
    interval's ``effective_samples`` say how long the batches must be.
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
        means = batch_means((series <= value).astype(np.float64), _batches(n, effective_samples))
        # The binomial distribution takes the error as known; Student's quantile over the normal one corrects that.
        error = _standard_error(means) * _student(confidence, max(1, len(means) - 1)) / _student(confidence, math.inf)
        worth = max(1, min(n, round(p * (1 - p) / error**2))) if error > 0 else n
        below = int(stats.binom.ppf((1 - confidence) / 2, worth, p))
        above = int(stats.binom.ppf((1 + confidence) / 2, worth, p)) + 1
        low = float(ordered[max(0, math.floor(below * n / worth) - 1)]) if below > 0 else None
        high = float(ordered[min(n, math.ceil(above * n / worth)) - 1]) if above <= worth else None
        found.append(Quantile(probability=p, value=value, low=low, high=high))
    return found


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
        return QueueLengths(probabilities=[], mean=None, utilisation=None, edges=[])
    probabilities = time.sum(axis=0) / total
    levels = np.arange(time.shape[1])
    first = np.flatnonzero(inside)
    return QueueLengths(
        probabilities=probabilities.tolist(),
        mean=float(probabilities @ levels),
        utilisation=float(1 - probabilities[0]),
        edges=[*edges[first].tolist(), float(edges[first[-1] + 1])],
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

    Dropped jobs leave when they arrive; so do lost ones here, since the time of their loss is unknown.
    """
    outcome = columns["outcome"]
    left = np.where(outcome == JobOutcome.COMPLETED, columns["arrival"] + columns["response"], columns["arrival"])
    return np.where(outcome == JobOutcome.IN_SYSTEM, np.inf, left)


def number_over(columns: Mapping[str, npt.NDArray[Any]], window: tuple[float, float]) -> Array:
    """Return the number of jobs in the system, averaged over 256 equal slices of a window; 0 if the window is empty.

    ``columns`` as in ``records.COLUMNS``, of all jobs: those that came before the window may be there still.
    """
    start, stop = window
    if not start < stop:
        return np.zeros(SLICES)
    return number_in_system(columns["arrival"], departures(columns), np.linspace(start, stop, SLICES + 1))


def _constant(series: Array) -> bool:
    """Whether there are fewer than 3 values, or they differ by no more than rounding."""
    return len(series) < 3 or float(np.ptp(series)) <= 1e-12 * max(1.0, float(np.max(np.abs(series))))


def _batches(samples: int, effective_samples: float) -> int:
    return min(samples, max(FEWEST_BATCHES, min(MOST_BATCHES, int(effective_samples / TIMES_PER_BATCH))))


def _student(confidence: float, freedom: float) -> float:
    return float(stats.t.ppf((1 + confidence) / 2, freedom))


def _standard_error(independent: Array) -> float:
    """Of their mean; 0 for a single one, which doesn't show any."""
    k = len(independent)
    return float(independent.std(ddof=1)) / math.sqrt(k) if k > 1 else 0.0
