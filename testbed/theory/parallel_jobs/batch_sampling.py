"""Batch-sampling in the limit of many servers (Ousterhout et al. 2013; Ying, Srikant and Kang 2015).

A job probes m >= k servers and puts one task on each of the k shortest. Source: Ying, Srikant and Kang 2017.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from testbed.theory.parallel_jobs.finite_buffer import settled
from testbed.theory.parallel_jobs.job_maximum import ArrayTail, erlang_cdf
from testbed.theory.parallel_jobs.steady_job import MeanField
from testbed.theory.steady_state import NEGLIGIBLE, Floats

#: Cases of smaller probability are left out.
_RARE = 1e-18


def batch_sampling(load: float, tasks: int, probes: int, buffer: int | None) -> MeanField:
    """Return the mean field of jobs that put one task on each of the shortest queues of ``probes`` servers.

    With a ``buffer`` b a job is dropped whole when fewer than k probed servers have room. Raises ValueError for fewer
    probes than tasks, where the policy is undefined.
    """
    if probes < tasks:
        raise ValueError(f"batch-sampling needs at least one probe per task, but it has {probes} for {tasks} tasks")
    if buffer is None:
        S, dropped = np.array([1.0, load]), 0.0
        while S[-1] > NEGLIGIBLE * load:
            S = np.append(S, load / tasks * _left_over(S[-1:], tasks, probes))
    else:
        S = settled(lambda S: _flow_with_buffer(S, load, tasks, probes), buffer, load)
        dropped = _too_few(S[-1], tasks, probes)
    return MeanField(
        policy="batch-sampling",
        load=load,
        tasks=tasks,
        probe_overhead=probes / tasks,
        queue_length_tail=S,
        mean_task_response_time=float(S[1:].sum() / (load * (1 - dropped))),
        response_time_tail=_response_time_tail(S, tasks, probes, buffer),
        drop_probability=dropped,
    )


def _left_over(s: Floats, k: int, m: int) -> Floats:
    """Return E[(k - B)^+], B ~ Bin(m, 1 - s), for each s, shape of ``s``: tasks that exceed the shorter queues.

    Written with the m - B longer queues, which keeps it exact where s is tiny.
    """
    excess = np.arange(1, k + 1)
    return np.asarray(binom.pmf(m - k + excess, m, s[:, None]) @ excess)


def _too_few(s: float, k: int, m: int) -> float:
    """Return P(Bin(m, 1 - s) < k): fewer than k probed queues are shorter than the level that ``s`` belongs to."""
    return float(binom.sf(m - k, m, s))


def _flow_with_buffer(S: Floats, load: float, k: int, m: int) -> Floats:
    """Return (load / k) E[(k - B_i)^+; B_b >= k] for i = 0..b-1, shape (b,).

    Where B_b < k, (k - B_i)^+ = k - B_i is a sum over servers, each of which counts with the m - 1 others.
    """
    dropped = _too_few(S[-1], k, m)
    others_too_few = float(binom.sf(m - k, m - 1, S[-1])) if k > 1 else 0.0
    shorter = m * (1 - S[:-1]) * others_too_few
    return load / k * (_left_over(S[:-1], k, m) - (k * dropped - shorter))


def _response_time_tail(S: Floats, k: int, m: int, buffer: int | None) -> ArrayTail:
    """Return the tail of the response time: a condition on v, the length of the k-th shortest probed queue.

    With probability C(m, a) (1 - S_v)^a S_v^(m-a) P(Bin(m - a, p_v / S_v) >= k - a) a < k queues are shorter than v,
    and k - a tasks go to queues of length v.
    """
    levels: list[tuple[int, npt.NDArray[np.int_], Floats]] = []
    shorter = np.arange(k)
    v = 0
    while v < (S.size if buffer is None else buffer):
        S_v, S_next = float(S[v]), float(S[v + 1]) if v + 1 < S.size else 0.0
        if S_v == 0:
            break
        enough = binom.sf(k - shorter - 1, m - shorter, (S_v - S_next) / S_v)
        weights = binom.pmf(m - shorter, m, S_v) * enough
        kept = np.flatnonzero(weights > _RARE)
        levels.append((v, kept, weights[kept]))
        v += 1
    total = sum(float(weights.sum()) for *_, weights in levels)

    def tail(t: Floats) -> Floats:
        done = np.zeros_like(t)
        shorter_done = np.zeros_like(t)  # A_v(t) = sum_(n<v) p_n F_(n+1)(t)
        for level, kept, weights in levels:
            F = erlang_cdf(level + 1, t)
            conditional = shorter_done / (1 - S[level]) if level > 0 else np.ones_like(t)
            done += (conditional[:, None] ** kept * F[:, None] ** (k - kept)) @ weights
            above = S[level + 1] if level + 1 < S.size else 0.0
            shorter_done = shorter_done + (S[level] - above) * F
        return np.asarray(np.maximum(1 - done / total, 0.0))

    return tail
