"""The mean field of each dispatching policy for parallel jobs, by the name of the limit."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.parallel_jobs.batch_filling import batch_filling
from testbed.theory.parallel_jobs.batch_sampling import batch_sampling
from testbed.theory.parallel_jobs.independent_tasks import (
    jiq_tasks,
    jsq_tasks,
    power_of_d_tasks,
    random_tasks,
    round_robin_tasks,
)
from testbed.theory.parallel_jobs.late_binding import late_binding
from testbed.theory.parallel_jobs.probed_space import number_of_probes
from testbed.theory.parallel_jobs.steady_job import MeanField


class _Limit(NamedTuple):
    """The limit of a policy, from (load, tasks, probe overhead, buffer)."""

    compute: Callable[[float, int, float, int | None], MeanField]
    probes: bool = True
    with_buffer: bool = True  # whether it is derived with finite buffers too


_LIMITS = {
    "random": _Limit(lambda load, k, d, b: random_tasks(load, k, b), probes=False),
    "round-robin": _Limit(lambda load, k, d, b: round_robin_tasks(load, k), probes=False, with_buffer=False),
    "jsq": _Limit(lambda load, k, d, b: jsq_tasks(load, k), probes=False, with_buffer=False),
    "jiq": _Limit(lambda load, k, d, b: jiq_tasks(load, k), probes=False, with_buffer=False),
    "batch-filling": _Limit(lambda load, k, d, b: batch_filling(load, k, number_of_probes(k, d), b)),
    "batch-sampling": _Limit(lambda load, k, d, b: batch_sampling(load, k, number_of_probes(k, d), b)),
    "per-task-power-of-d": _Limit(lambda load, k, d, b: power_of_d_tasks("per-task-power-of-d", load, k, d, b)),
    "per-task-power-of-kd": _Limit(
        lambda load, k, d, b: power_of_d_tasks("per-task-power-of-kd", load, k, number_of_probes(k, d), b)
    ),
    "late-binding": _Limit(lambda load, k, d, b: late_binding(load, k, number_of_probes(k, d)), with_buffer=False),
}

#: The names that mean_field knows.
POLICIES = tuple(_LIMITS)


def mean_field(
    policy: str, load: float, tasks: int, probe_overhead: float | None = None, buffer: int | None = None
) -> MeanField:
    """Return the limit of many servers for jobs of ``tasks`` tasks with exponential sizes of mean 1.

    ``policy`` is one of POLICIES. ``load`` lies in (0, 1); with a ``buffer``, the most tasks that a server may hold
    (the one in service included), it may be 1 or more. ``probe_overhead`` d is the number of probes per task: batch
    policies probe m = ceil(k d) servers for a job, per-task-power-of-d d servers for each task (d >= 1),
    per-task-power-of-kd m for each task; the policies that don't probe ignore it. Kind: limit; for round robin with
    k dividing N, and one dispatcher for JIQ.

    Raises ValueError for an unknown policy, bad values, or a buffer where no limit is derived.
    """
    require_count("tasks", tasks)
    if buffer is None:
        require_load(load)
    else:
        require_count("buffer", buffer)
        if not (math.isfinite(load) and load > 0):
            raise ValueError(f"load is {load}; give a finite load above 0")
        if policy in _LIMITS and not _LIMITS[policy].with_buffer:
            raise ValueError(f"no limit is derived for {policy} with a finite buffer")
    if policy not in _LIMITS:
        raise ValueError(f"unknown policy {policy!r}; one of {', '.join(POLICIES)}")
    limit = _LIMITS[policy]
    if limit.probes and probe_overhead is None:
        raise ValueError(f"{policy} needs probe_overhead, the number of probes per task")
    return limit.compute(load, tasks, probe_overhead or 0.0, buffer)


def probe_overhead_needed(servers: int, tasks: int, load: float, target: float) -> float:
    """Return the least d with which batch-filling's relative queueing delay E[T - T*] / E[T*] is at most ``target``.

    The delay is that of the mean field, the limit of many servers: ``servers`` N only caps the m = k d probes of a job.
    A finite cluster needs more. d is a multiple of 1/k; the delay falls with m, so that m is found by bisection.
    Returns inf where even probing all N servers does not reach the target. Raises ValueError for bad values.
    """
    require_count("servers", servers)
    if not target > 0:
        raise ValueError(f"target is {target}; a relative queueing delay is above 0")

    def reached(probes: int) -> bool:
        return batch_filling(load, tasks, probes, None).relative_queueing_delay <= target

    require_load(load)
    require_count("tasks", tasks)
    low, high = 0, servers
    if not reached(high):
        return math.inf
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    return high / tasks
