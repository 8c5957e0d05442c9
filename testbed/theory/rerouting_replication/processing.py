"""The processing time that a single job uses: a function of its own sizes, whatever the queues do."""

from __future__ import annotations

import math
from collections.abc import Sequence

from testbed.theory.rerouting_replication.model import (
    FullRedundancy,
    Model,
    Policy,
    Replicate,
    Reroute,
    ZeroRedundancy,
    require_path,
    require_policy,
)


def processing_time(
    model: Model,
    policy: Policy,
    path: Sequence[int],
    job_type: int,
    sizes: Sequence[float],
    thresholds: Sequence[float],
) -> list[float]:
    """Return the processing time that the job uses in each pool, in time units.

    Args:
        model: its pools, types and speeds are used.
        policy: what happens at a threshold.
        path: the pools that the job visits, in order, if it passes all thresholds: starting pool, then the others.
        job_type: index of the job's type.
        sizes: x_i, the job's size in each pool.
        thresholds: the threshold of each visit but the last, in time units of received processing.

    A job that needs exactly the threshold completes. Raises ValueError for a policy whose thresholds depend on the
    size, and for a path, a type, sizes or thresholds that don't fit.
    """
    require_policy(policy)
    require_path(model, path, job_type)
    if len(sizes) != len(model.pools) or not all(0 <= x < math.inf for x in sizes):
        raise ValueError(f"sizes are {sizes}; give one for each of {len(model.pools)} pools, finite and at least 0")
    if not all(tau >= 0 for tau in thresholds):
        raise ValueError(f"thresholds are {thresholds}; give times of at least 0, or inf")
    if isinstance(policy, ZeroRedundancy):
        path, thresholds = path[:1], []
    elif isinstance(policy, FullRedundancy):
        thresholds = [0.0]
    elif not isinstance(policy, (Reroute, Replicate)):
        raise ValueError("known sizes set a threshold for each job: give that threshold, and Reroute or Replicate")
    if len(thresholds) != len(path) - 1:
        raise ValueError(f"a path of {len(path)} pools has {len(path) - 1} thresholds, but {len(thresholds)} are given")
    used = [0.0] * len(model.pools)
    y = [_time(x, model.speeds[i][job_type]) for i, x in enumerate(sizes)]
    if isinstance(policy, (Replicate, FullRedundancy)):
        return _replicated(model, policy, path, job_type, sizes, thresholds[0])
    for q, tau in zip(path, thresholds, strict=False):
        if y[q] <= tau:
            used[q] += y[q]
            return used
        used[q] += tau
    last = path[-1]
    if isinstance(policy, Reroute) and policy.carry_over and len(path) > 1:
        work = model.speeds[path[0]][job_type] * thresholds[0]
        used[last] += _time(max(sizes[last] - work, 0.0), model.speeds[last][job_type])
    else:
        used[last] += y[last]
    return used


def _replicated(
    model: Model, policy: Policy, path: Sequence[int], job_type: int, sizes: Sequence[float], tau: float
) -> list[float]:
    used = [0.0] * len(model.pools)
    start, other = path
    y = _time(sizes[start], model.speeds[start][job_type])
    if y <= tau:
        used[start] = y
        return used
    left = sizes[other]
    if isinstance(policy, Replicate) and policy.carry_over:
        left = max(left - model.speeds[start][job_type] * tau, 0.0)
    k = min(y - tau, _time(left, model.speeds[other][job_type]))
    used[start], used[other] = tau + k, k
    return used


def _time(work: float, speed: float) -> float:
    if work == 0:
        return 0.0
    return work / speed if speed > 0 else float("inf")
