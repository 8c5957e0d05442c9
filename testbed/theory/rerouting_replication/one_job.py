"""Moments of the processing time of one job of one type, before its threshold and after it.

With speeds ``r_i`` in the pool where the job starts and ``r_l`` in the other, execution times ``Y = X / r``:

    a   = E[min(Y_i, tau)]                    a2  its second moment      P = P(Y_i > tau)
    b   = E[Y_l; Y_i > tau]                   b2
    k   = E[min(Y_i - tau, Y_l); Y_i > tau]   k2

``a`` is the time before the threshold, ``b`` the time in the second pool under rerouting, ``k`` the joint phase under
replication. Where work is carried over, X_l - c counts in place of X_l, with ``c = r_i tau`` the work done.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.theory.rerouting_replication.model import Model, require_path
from testbed.theory.rerouting_replication.size_moments import ExponentialMixture, SizeMoments, size_moments

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class OneJob:
    """The quantities of the module's head; floats, or arrays over thresholds."""

    a: Floats
    a2: Floats
    P: Floats
    b: Floats
    b2: Floats
    k: Floats
    k2: Floats


class _Moments(NamedTuple):
    probability: Floats
    mean: Floats
    second: Floats


@dataclass(frozen=True)
class Visit:
    """A visit to a pool's queue: whether it comes to it, and the service there; arrays over thresholds."""

    pool: int
    probability: Floats
    mean: Floats
    second: Floats


def one_job(
    model: Model, start: int, other: int, job_type: int, threshold: npt.ArrayLike, *, carry_over: bool = False
) -> OneJob:
    """Return the moments for a job of type ``job_type`` that starts in pool ``start`` and may go on in pool ``other``.

    ``threshold`` is in time units of received processing, at least 0, maybe infinite; an array gives arrays.
    Raises ValueError for pools, a type or thresholds that are none.
    """
    require_path(model, (start, other), job_type)
    tau = np.asarray(threshold, dtype=np.float64)
    if not (tau >= 0).all():
        raise ValueError(f"threshold is {threshold!r}; give times of at least 0, or inf")
    times = np.stack([tau, np.full_like(tau, np.inf)], axis=-1)
    first, second = reroute_visits(model, job_type, (start, other), times, carry_over=carry_over)
    k, k2 = joint_phase(model, start, other, job_type, tau, carry_over=carry_over)
    return OneJob(first.mean, first.second, second.probability, second.mean, second.second, k, k2)


def original_wins(model: Model, start: int, other: int, job_type: int, threshold: float) -> float:
    """Return the probability that the original finishes first, given that the job was replicated; nan if none is.

    A tie counts for the original. Raises ValueError for sizes that may be independent and are not exponential (or
    hyperexponential): their formula is not known here.
    """
    moments, r_i, r_l = size_moments(model.size), model.r[start, job_type], model.r[other, job_type]
    c = _work(r_i, np.asarray(threshold, dtype=np.float64))
    crossed = float(moments.tail(c))
    if crossed == 0:
        return float("nan")
    wins = 0.0
    if model.theta > 0:
        beyond = float(moments.tail(np.asarray(c * r_l / (r_l - r_i)))) if r_l > r_i else 0.0
        wins += model.theta * (crossed - beyond)
    if model.theta < 1:
        if not isinstance(moments, ExponentialMixture):
            raise ValueError("who wins among independent copies is known for exponential and hyperexponential sizes")
        wins += (1 - model.theta) * float(moments.first_wins(c, r_i, r_l))
    return wins / crossed


def reroute_visits(
    model: Model, job_type: int, path: Sequence[int], times: Floats, *, carry_over: bool = False, squares: bool = True
) -> list[Visit]:
    """Return the visits of a rerouted job of type ``job_type`` to the pools of ``path``, in order.

    Visit v gets up to ``times[..., v]`` of service, from zero, and the job has the same size on each visit to a pool;
    with ``carry_over`` (two different pools) the work of the first visit counts in the second. Without ``squares`` the
    second moments are nan: a search that does not need them is twice as fast.
    """
    moments, r = size_moments(model.size), model.r[:, job_type]
    shape = times.shape[:-1]
    passed: dict[int, Floats] = {}  # the largest work that the job was seen to exceed, by pool
    visits = []
    for v, q in enumerate(path):
        t = times[..., v]
        if carry_over and v == 1:
            visits.append(Visit(q, *_carried(moments, model.theta, r[path[0]], r[q], times[..., 0], squares=squares)))
            break
        own = passed.get(q, np.zeros(shape))
        others = [c for pool, c in passed.items() if pool != q]
        parts = []
        if model.theta > 0:
            most = np.maximum.reduce([own, *others])
            # Where nothing was passed there is no condition: a job of size 0 counts too.
            reached = moments.tail(most) if passed else np.ones(shape)
            parts.append(_visit(moments, r[q], t, most, reached, squares=squares))
        if model.theta < 1:
            tails = np.prod([moments.tail(c) for c in others], axis=0) if others else np.ones(shape)
            reached = moments.tail(own) if q in passed else np.ones(shape)
            part = _visit(moments, r[q], t, own, reached, squares=squares)
            parts.append(_Moments(*(np.where(tails > 0, x * np.where(tails > 0, tails, 1.0), 0.0) for x in part)))
        visits.append(Visit(q, *_mixed(model.theta, parts)))
        passed[q] = np.maximum(own, _work(r[q], t))
    return visits


def joint_phase(
    model: Model, start: int, other: int, job_type: int, tau: Floats, *, carry_over: bool = False, squares: bool = True
) -> tuple[Floats, Floats]:
    """Return the first and second moment (k, k2) of the joint phase, 0 for a job that never gets to it.

    Without ``squares`` k2 is nan.
    """
    moments, r_i, r_l = size_moments(model.size), model.r[start, job_type], model.r[other, job_type]
    c = _work(r_i, tau)
    crossed = moments.tail(c)
    parts = []
    if model.theta > 0:
        parts.append(_Moments(crossed, *_identical_joint(moments, r_i, r_l, c, carry_over=carry_over, squares=squares)))
    if model.theta < 1:
        parts.append(
            _Moments(crossed, *_independent_joint(moments, r_i, r_l, c, carry_over=carry_over, squares=squares))
        )
    _, k, k2 = _mixed(model.theta, parts)
    return np.where(crossed > 0, k, 0.0), np.where(crossed > 0, k2, 0.0)


def _visit(moments: SizeMoments, r: float, t: Floats, C: Floats, reached: Floats, *, squares: bool) -> _Moments:
    """Return P(X > C), E[min(X/r, t); X > C] and E[min(X/r, t)^2; X > C], given ``reached`` = P(X > C).

    E[min(X, d); X > C] = E[(X - C)^+] - E[(X - d)^+] + C P(X > C) for d = r t >= C, and d P(X > C) below.
    """
    d = _work(r, t)
    C0 = np.where(np.isinf(C), 0.0, C)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = (moments.excess(C) - moments.excess(d) + C0 * reached) / r
        mean = np.where(d <= C, t * reached, mean)
        second = np.full_like(mean, np.nan)
        if squares:
            second = (moments.truncated_square(d) - moments.truncated_square(C0) + C0**2 * reached) / r**2
            second = np.where(d <= C, t**2 * reached, second)
    never = reached == 0
    return _Moments(reached, np.where(never, 0.0, mean), np.where(never, 0.0, second))


def _carried(moments: SizeMoments, theta: float, r_i: float, r_l: float, tau: Floats, *, squares: bool) -> _Moments:
    """Return the second visit where the work ``c = r_i tau`` counts: its time is (X_l - c)^+ / r_l, if X_i > c."""
    c = _work(r_i, tau)
    crossed = moments.tail(c)
    # E[(X_l - c)^+; X_i > c]: the condition is part of it for identical sizes.
    factor = theta + (1 - theta) * crossed
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = factor * moments.excess(c) / r_l
        second = factor * moments.squared_excess(c) / r_l**2 if squares else np.full_like(mean, np.nan)
    return _Moments(crossed, *(np.where(crossed > 0, moment, 0.0) for moment in (mean, second)))


def _identical_joint(
    moments: SizeMoments, r_i: float, r_l: float, c: Floats, *, carry_over: bool, squares: bool
) -> tuple[Floats, Floats]:
    """Return (k, k2) for copies of one size.

    The copies finish together at size x* = c r_l / (r_l - r_i), below it the original first. With t* = x* / r_l, the
    integral of t^(h-1) P(X > max(c + r_i t, r_l t)) over t has S(c + r_i t) before t* and S(r_l t) after it.
    """
    fastest = max(r_i, r_l)
    if fastest == 0:
        return np.full_like(c, np.inf), np.full_like(c, np.inf)
    if carry_over or r_l <= r_i or r_i == 0:
        k = moments.excess(c) / fastest
        return k, moments.squared_excess(c) / fastest**2 if squares else np.full_like(k, np.nan)
    x = c * r_l / (r_l - r_i)
    first, after = moments.excess(c), moments.excess(x)
    k = (first - after) / r_i + after / r_l
    if not squares:
        return k, np.full_like(k, np.nan)
    if np.isinf(moments.second_moment):
        return k, np.full_like(k, np.inf)
    t = np.where(np.isinf(x), 0.0, x / r_l)
    beyond = moments.squared_excess(x)
    k2 = (moments.squared_excess(c) - beyond) / r_i**2 + beyond / r_l**2 + 2 * t * after * (1 / r_l - 1 / r_i)
    return k, k2


def _independent_joint(
    moments: SizeMoments, r_i: float, r_l: float, c: Floats, *, carry_over: bool, squares: bool
) -> tuple[Floats, Floats]:
    """Return (k, k2) for copies of independent sizes: integrals of the product of their tails."""
    fastest = max(r_i, r_l)
    if fastest == 0:
        return np.full_like(c, np.inf), np.full_like(c, np.inf)
    if min(r_i, r_l) == 0:
        # Only one copy can finish. But where the work carried over is all that the other has to do, it is done at once.
        factor = moments.tail(c) if carry_over else np.ones_like(c)
        k = factor * moments.excess(c) / fastest
        return k, factor * moments.squared_excess(c) / fastest**2 if squares else np.full_like(k, np.nan)
    d = c if carry_over else np.zeros_like(c)
    r, s = np.asarray(r_i), np.asarray(r_l)
    k = moments.joint(c, r, d, s, 1)
    return k, moments.joint(c, r, d, s, 2) if squares else np.full_like(k, np.nan)


def _work(r: float, t: Floats) -> Floats:
    """Return r t, and ``inf`` for an infinite t even at speed 0: such a threshold is never passed."""
    return np.where(np.isinf(t), np.inf, r * np.where(np.isinf(t), 0.0, t))


def _mixed(theta: float, parts: Sequence[_Moments]) -> _Moments:
    """Return the mixture of the moments for identical and for independent sizes, or the only part that has weight."""
    if len(parts) == 1:
        return parts[0]
    return _Moments(*(theta * x + (1 - theta) * y for x, y in zip(*parts, strict=True)))
