"""The maximum over a job's tasks: its inherent delay, its response time given positions, and bounds on that.

With exponential sizes of mean 1 the n-th task in a queue is done after a time that is Erlang(n, 1), so that a job's
response time, given the last position that it holds on each of its servers, is the maximum of independent Erlang
times. Source: order statistics; the bound is Lemma 4.1 of Weng and Wang 2021.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import digamma, gammainc, logsumexp

from testbed.theory.argument_checks import require_count
from testbed.theory.steady_state import Floats
from testbed.workload.distributions import Deterministic, Distribution, Empirical, Exponential, Pareto

#: A tail over an array of times, (n,) -> (n,).
ArrayTail = Callable[[Floats], Floats]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)
#: Where a tail counts as zero; what is cut off adds about as much to a mean of order 1.
_CUT_OFF = 1e-13
_MOST_PANELS = 1 << 12


def inherent_delay(tasks: int, size: Distribution | None = None) -> float:
    """Return E[T*], the mean of the largest of ``tasks`` independent sizes.

    ``size`` is their distribution, exponential with mean 1 unless given; the result is in its time unit. Exponential
    sizes give the harmonic number H_k times the mean; others the integral of 1 - F(t)^k. Exact for every policy,
    also with drops, since they don't look at sizes. Raises ValueError for a number of tasks below 1.
    """
    require_count("tasks", tasks)
    if size is None or isinstance(size, Exponential):
        return float(digamma(tasks + 1) - digamma(1)) * (1.0 if size is None else size.mean)
    if isinstance(size, Deterministic):
        return size.mean
    if isinstance(size, Empirical):
        values = size.sorted_values
        steps = (np.arange(values.size + 1) / values.size) ** tasks
        return float(values @ np.diff(steps))
    if isinstance(size, Pareto):
        # Its tail is too long for a distribution function in floats: minimum k B(k, 1 - 1/index) in closed form.
        thinner = 1 - 1 / size.index
        log_ratio = math.lgamma(tasks + 1) + math.lgamma(thinner) - math.lgamma(tasks + thinner)
        return size.minimum * math.exp(log_ratio)
    return _mean_of_largest(tasks, size)


def _mean_of_largest(tasks: int, size: Distribution) -> float:
    """Integrate 1 - F(t)^k over the logarithm of t, in which distributions of very different spread look alike."""

    def exceeds(t: float) -> float:
        F = size.cdf(t)
        return 1.0 if F <= 0 else -math.expm1(tasks * math.log(F))

    low = high = size.mean
    while exceeds(low) < 1 - 1e-15 and low > 1e-15 * size.mean:
        low /= 2
    # A distribution function in floats need not come closer to 1 than its rounding errors.
    while size.cdf(high) < 1 - _CUT_OFF / 10:
        high *= 2
    # Some distributions have corners (uniform, bounded Pareto): octaves keep the adaptive rule from missing one.
    edges = np.linspace(math.log(low), math.log(high), 1 + math.ceil(math.log2(high / low)))
    parts = (
        quad(lambda y: exceeds(math.exp(y)) * math.exp(y), a, b, epsabs=1e-13 * size.mean, epsrel=1e-11, limit=200)[0]
        for a, b in itertools.pairwise(edges.tolist())
    )
    return low + float(sum(parts))


def erlang_cdf(stages: int, t: Floats) -> Floats:
    """Return F_n(t) = P(Erlang(n, 1) <= t), shape of ``t``; 1 for n = 0."""
    return np.asarray(gammainc(stages, t)) if stages > 0 else np.ones_like(t)


def _counted(positions: Sequence[int]) -> tuple[npt.NDArray[np.int_], npt.NDArray[np.int_]]:
    """Return the distinct positions, and the number of servers with each."""
    if not positions:
        raise ValueError("positions is empty; give one position for each server of the job")
    for position in positions:
        require_count("positions", position)
    return np.unique(np.asarray(positions), return_counts=True)


def response_time_at(positions: Sequence[int]) -> float:
    """Return E[T] of a job whose last task on each of its servers has the given position, the one in service being 1.

    ``positions`` has one entry for each server, not for each task: a server with several tasks of the job counts with
    the last. Exact for exponential sizes of mean 1 and every policy that fixes positions on arrival.
    Raises ValueError for no position or one below 1.
    """
    levels, servers = _counted(positions)

    def tail(t: Floats) -> Floats:
        log_done = sum(
            n * np.log(np.maximum(erlang_cdf(int(x), t), 1e-300)) for x, n in zip(levels, servers, strict=True)
        )
        return np.asarray(-np.expm1(log_done))

    return mean_of_tail(tail)


def response_time_bound(positions: Sequence[int]) -> float:
    """Return the upper bound min over theta in (0, 1) of ln(sum_j (1 - theta)^-n_j) / theta on response_time_at.

    Lemma 4.1 of Weng and Wang 2021 in the form E max Y <= ln(sum E e^(theta Y)) / theta.
    Raises ValueError for no position or one below 1.
    """
    levels, servers = _counted(positions)

    def bound(theta: float) -> float:
        return float(logsumexp(-levels * math.log1p(-theta), b=servers)) / theta

    found = minimize_scalar(bound, bounds=(1e-9, 1 - 1e-9), method="bounded", options={"xatol": 1e-10})
    return float(found.fun)


def response_time_closed_bound(position: int, servers: int) -> float:
    """Return n + sqrt(2 n ln M) + ln M, which bounds response_time_bound for M ``servers`` at ``position`` n or less.

    With n = o(log k) it is (1 + o(1)) ln k. Raises ValueError for values below 1.
    """
    require_count("position", position)
    require_count("servers", servers)
    return position + math.sqrt(2 * position * math.log(servers)) + math.log(servers)


def mean_of_tail(tail: ArrayTail) -> float:
    """Return the integral of a smooth, decreasing ``tail`` over [0, inf) to about 1e-11 of its value.

    Gauss-Legendre panels, halved until they agree. Raises ArithmeticError where they don't or the tail doesn't end.
    """
    horizon = 1.0
    while float(tail(np.array([horizon]))[0]) > _CUT_OFF:
        horizon *= 2
        if horizon > 1e12:
            raise ArithmeticError("the distribution's tail does not end")
    panels, before = 8, math.nan
    while panels <= _MOST_PANELS:
        edges = np.linspace(0.0, horizon, panels + 1)
        half = horizon / panels / 2
        times = (edges[:-1, None] + half * (1 + _NODES)).ravel()
        mean = half * float(tail(times).reshape(panels, -1).sum(axis=0) @ _WEIGHTS)
        if abs(mean - before) <= 1e-11 * mean:
            return mean
        panels, before = 2 * panels, mean
    raise ArithmeticError(f"the mean was not found to 1e-11 with {_MOST_PANELS} panels")
