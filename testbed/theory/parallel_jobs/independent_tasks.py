"""Mean fields of the policies that place a job's tasks without looking at each other: a job is k independent tasks.

Random routing, round robin, join the shortest queue, join the idle queue, and power of d for each task. In the limit of
many servers a job's tasks meet different servers, so that P(T <= t) = (1 - R(t))^k, R the tail of one task's response
time. Source: Ying, Srikant and Kang 2017; for random routing Wang et al. 2019, where H_k / (1 - load) is an upper bound
for every number of servers.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from testbed.theory.baselines import jiq_limit, jsq_limit, mm1, round_robin
from testbed.theory.parallel_jobs.job_maximum import ArrayTail
from testbed.theory.parallel_jobs.steady_job import MeanField
from testbed.theory.power_of_d import power_of_d
from testbed.theory.steady_state import Floats, SteadyState, Tail, stage_count_tail


def random_tasks(load: float, tasks: int, buffer: int | None) -> MeanField:
    """Return the tasks on k different servers chosen at random: E[T] = H_k / (1 - load) without a buffer."""
    if buffer is None:
        return _independent("random", load, tasks, 0.0, mm1(load))
    return _with_buffer("random", load, tasks, 0.0, buffer, lambda s: s)


def round_robin_tasks(load: float, tasks: int) -> MeanField:
    """Return tasks dealt cyclically: D/M/1 queues with the same arrival epochs, E[T] = H_k / (1 - sigma)."""
    return _independent("round-robin", load, tasks, 0.0, round_robin(math.inf, load))


def jsq_tasks(load: float, tasks: int) -> MeanField:
    """Return join the shortest queue: no task waits, E[T] = H_k."""
    return _independent("jsq", load, tasks, math.inf, jsq_limit(load))


def jiq_tasks(load: float, tasks: int) -> MeanField:
    """Return join the idle queue with one dispatcher: no task waits; each server reports idle once per task."""
    return _independent("jiq", load, tasks, 1.0, jiq_limit(load))


def power_of_d_tasks(policy: str, load: float, tasks: int, d: float, buffer: int | None) -> MeanField:
    """Return each task on the shortest of its own d probed servers; d may be any number from 1 (see power_of_d)."""
    if buffer is None:
        return _independent(policy, load, tasks, d, power_of_d(load, d))
    if d < 1:
        raise ValueError(f"d is {d}; it is the mean number of probes for a task, at least 1")
    whole = math.floor(d)
    fraction = d - whole

    def all_at_least(s: Floats) -> Floats:
        return np.asarray((1 - fraction) * s**whole + fraction * s ** (whole + 1))

    return _with_buffer(policy, load, tasks, d, buffer, all_at_least)


def _independent(
    policy: str, load: float, tasks: int, probes: float, task: SteadyState, drop_probability: float = 0.0
) -> MeanField:
    assert task.response_time_tail is not None
    return MeanField(
        policy=policy,
        load=load,
        tasks=tasks,
        probe_overhead=probes,
        queue_length_tail=task.queue_length_tail,
        mean_task_response_time=task.mean_response_time,
        response_time_tail=_largest_of(tasks, task.response_time_tail),
        drop_probability=drop_probability,
    )


def _largest_of(tasks: int, task: Tail) -> ArrayTail:
    """Return 1 - (1 - R)^k, which does not cancel where R is small."""

    def tail(t: Floats) -> Floats:
        R = np.minimum([task(float(x)) for x in t], 1.0)
        with np.errstate(divide="ignore"):  # at time 0, R = 1: the tail is 1
            return np.asarray(-np.expm1(tasks * np.log1p(-R)))

    return tail


def _with_buffer(
    policy: str, load: float, tasks: int, probes: float, buffer: int, all_at_least: Callable[[Floats], Floats]
) -> MeanField:
    """Return the limit with a finite buffer b: a job is dropped if any of its tasks finds only full queues.

    ``all_at_least`` maps S_i to P(all queues that a task probes hold at least i), S_i^d. Then
    S_(i+1) = load (S_i^d - S_b^d) (1 - S_b^d)^(k-1), p_d = 1 - (1 - S_b^d)^k.
    """

    def queue_lengths(full: float) -> Floats:
        """Return S_0..S_b if a task finds only full queues with probability ``full``."""
        S = np.ones(buffer + 1)
        for i in range(buffer):
            flow = load * max(float(all_at_least(S[i])) - full, 0.0) * (1 - full) ** (tasks - 1)
            S[i + 1] = min(flow, 1.0)  # more than all servers: only where ``full`` is too small
        return S

    # Fuller queues let fewer tasks in, so that the excess falls with ``full``: from at least 0 at 0, to -1 at 1.
    full = float(brentq(lambda full: float(all_at_least(queue_lengths(full)[-1])) - full, 0.0, 1.0, xtol=1e-16))
    S = queue_lengths(full)
    found = np.maximum(all_at_least(S), full)
    # An accepted task finds n tasks or more before it with probability (S_n^d - S_b^d) / (1 - S_b^d), n < b.
    more_than = (found[:-1] - full) / (1 - full)
    task = SteadyState(float(more_than.sum()), S, stage_count_tail(more_than))
    return _independent(policy, load, tasks, probes, task, float(-np.expm1(tasks * np.log1p(-full))))
