"""Batch-filling in the limit of many servers (Ying, Srikant and Kang 2015; Weng and Wang 2021).

A job probes m servers and puts its k tasks one by one on a currently shortest of them, like water: with V_i the free
positions up to level i, the water level is L = max{i: V_i <= k}; every probed server below L ends at L, and r = k - V_L
servers, uniform among those that are now at L, end at L + 1. Source: Ying, Srikant and Kang 2017; Weng and Wang 2021.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, xlogy

from testbed.theory.parallel_jobs.finite_buffer import settled
from testbed.theory.parallel_jobs.job_maximum import ArrayTail, erlang_cdf
from testbed.theory.parallel_jobs.probed_space import probed_space, space_of_one, sum_of_independent
from testbed.theory.parallel_jobs.steady_job import MeanField
from testbed.theory.steady_state import NEGLIGIBLE, Floats

Counts = npt.NDArray[np.int_]

#: Landings of smaller probability are left out; there are at most some millions.
_RARE = 1e-18


def batch_filling(load: float, tasks: int, probes: int, buffer: int | None) -> MeanField:
    """Return the mean field of jobs of ``tasks`` tasks that fill the queues of ``probes`` servers.

    ``probes`` may be smaller than ``tasks``. With a ``buffer`` b a job is dropped whole when V_b < k. Raises ValueError
    where that is always so, since then no job has a response time.
    """
    if buffer is not None and probes * buffer < tasks:
        raise ValueError(
            f"every job is dropped: {probes} servers with a buffer of {buffer} never have room for {tasks} tasks"
        )
    if buffer is None:
        S, dropped = _queue_lengths(load, tasks, probes), 0.0
    else:
        S = settled(lambda S: _flow_with_buffer(S, load, tasks, probes), buffer, load)
        dropped = float(probed_space(S, buffer, probes, tasks - 1).sum())
    return MeanField(
        policy="batch-filling",
        load=load,
        tasks=tasks,
        probe_overhead=probes / tasks,
        queue_length_tail=S,
        mean_task_response_time=float(S[1:].sum() / (load * (1 - dropped))),
        response_time_tail=_response_time_tail(S, tasks, probes, buffer),
        drop_probability=dropped,
    )


def _queue_lengths(load: float, k: int, m: int) -> Floats:
    """Return S from the forward recursion S_(i+1) = (load / k) E[(k - V_i)^+]: the flow into positions above i."""
    wanted = np.arange(k, 0, -1.0)
    S = np.array([1.0, load])
    while S[-1] > NEGLIGIBLE * load:
        S = np.append(S, load / k * (probed_space(S, S.size - 1, m, k - 1) @ wanted))
    return S


def _flow_with_buffer(S: Floats, load: float, k: int, m: int) -> Floats:
    """Return (load / k) E[(k - V_i)^+; V_b >= k] for i = 0..b-1, shape (b,).

    Where V_b < k, all V_i are below k as well and (k - V_i)^+ = k - V_i is a sum over servers: what is taken off,
    E[k - V_i; V_b < k], needs only the m - 1 other servers' space and no joint distribution.
    """
    b = S.size - 1
    wanted = np.arange(k, 0, -1.0)
    one = space_of_one(S, b, k - 1)
    others = sum_of_independent(one, m - 1)
    dropped = float(np.convolve(others, one)[:k].sum())
    others_below = np.cumsum(others)
    # Of one server with x = b - q free positions, q < b: its probability times P(the others have less than k - x).
    x = np.arange(1, min(b, k - 1) + 1)
    weight = one[x] * others_below[k - 1 - x]
    flow = np.empty(b)
    for i in range(b):
        space = m * float(weight @ np.maximum(i - (b - x), 0))
        flow[i] = probed_space(S, i, m, k - 1) @ wanted - (k * dropped - space)
    return load / k * flow


def landings(S: Floats, tasks: int, probes: int, buffer: int | None = None) -> dict[int, Floats]:
    """Return how a job lands: for each water level L the matrix of P(L, r servers end at L + 1, u others at L).

    Entry [r, u], shape (k + 1, k + 1), counts only servers that get a task of the job. The matrices sum to 1; with a
    ``buffer`` they hold the accepted jobs and sum to 1 - p_d. Each level takes a sum over a, the number of probed
    servers below L, the tasks v that bring them to L, and e, the number of servers at L: W_a(v) is the a-fold
    convolution of p_(L-x), x >= 1, and the r = k - v raised servers are a uniform subset of the a + e.
    """
    k, m = tasks, probes
    log_factorial = gammaln(np.arange(max(k, m) + k + 2) + 1.0)
    S = np.append(S, 0.0)
    result: dict[int, Floats] = {}
    level = 0
    while level <= (math.inf if buffer is None else buffer):
        S_L, S_next = (float(S[i]) if i < S.size else 0.0 for i in (level, level + 1))
        at_level = (S_L - S_next) / S_L if S_L > 0 else 1.0
        below = space_of_one(S, level, k)
        below[0] = 0.0
        matrix = np.zeros((k + 1, k + 1))
        # W_a(v) as sums[v] exp(log_scale): its values can be smaller than any float.
        sums, log_scale = np.zeros(k + 1), 0.0
        sums[0] = 1.0
        for a in range(min(k, m) + 1):
            if a > 0:
                sums = np.convolve(sums, below)[: k + 1]
                largest = float(sums.max())
                if largest == 0:
                    break
                sums, log_scale = sums / largest, log_scale + math.log(largest)
            log_choices = log_factorial[m] - log_factorial[a] - log_factorial[m - a]
            weights = sums * math.exp(min(0.0, log_choices + log_scale + float(xlogy(m - a, S_L))))
            tasks_below = np.flatnonzero(weights > _RARE)
            if buffer is not None and level == buffer:
                tasks_below = tasks_below[tasks_below == k]  # nothing may end above the buffer
            if tasks_below.size == 0:
                continue
            e = np.arange(m - a + 1)
            log_binomial = log_factorial[m - a] - log_factorial[e] - log_factorial[m - a - e]
            e_weights = np.exp(log_binomial + xlogy(e, at_level) + xlogy(m - a - e, 1 - at_level))
            e, e_weights = e[e_weights > _RARE], e_weights[e_weights > _RARE]
            _add_raised(matrix, a, k - tasks_below, weights[tasks_below], e, e_weights, log_factorial)
        result[level] = matrix
        level += 1
        if float(probed_space(S, level, m, k).sum()) < 1e-16:
            break
    return result


def _add_raised(
    matrix: Floats, a: int, raised: Counts, weights: Floats, e: Counts, e_weights: Floats, log_factorial: Floats
) -> None:
    """Add what ``a`` servers from below contribute: of the r raised, j are among them with hypergeometric probability.

    C(a, j) C(e, r - j) / C(a + e, r), summed over e with its weights; the a - j others end at the water level. There
    must be more servers at the level than tasks left, a + e > r, or the level would be higher.
    """
    j = np.arange(a + 1)[:, None]
    for r, weight in zip(raised.tolist(), weights.tolist(), strict=True):
        fits = (j <= r) & (r - j <= e) & (a + e > r)
        rest = np.where(fits, r - j, 0)
        log_share = (
            log_factorial[a]
            - log_factorial[j]
            - log_factorial[a - j]
            + log_factorial[e]
            - log_factorial[rest]
            - log_factorial[np.where(fits, e - rest, 0)]
            - log_factorial[a + e]
            + log_factorial[r]
            + log_factorial[np.maximum(a + e - r, 0)]
        )
        matrix[r, a - j[:, 0]] += weight * (np.where(fits, np.exp(np.minimum(log_share, 0.0)), 0.0) @ e_weights)


def _response_time_tail(S: Floats, tasks: int, probes: int, buffer: int | None) -> ArrayTail:
    """Return 1 - sum P(L, r, u) F_(L+1)^r F_L^u: servers with tasks of the job are done independently."""
    cases: list[tuple[int, Counts, Counts, Floats]] = []

    def tail(t: Floats) -> Floats:
        if not cases:
            for level, matrix in landings(S, tasks, probes, buffer).items():
                r, u = np.flatnonzero(matrix.any(axis=1)), np.flatnonzero(matrix.any(axis=0))
                cases.append((level, r, u, matrix[np.ix_(r, u)]))
        total = sum(float(weights.sum()) for *_, weights in cases)
        done = np.zeros_like(t)
        for level, r, u, weights in cases:
            above = erlang_cdf(level + 1, t)[:, None] ** r
            at = erlang_cdf(level, t)[:, None] ** u
            done += ((above @ weights) * at).sum(axis=1)
        return np.asarray(np.maximum(1 - done / total, 0.0))

    return tail
