"""Jobs of very many tasks: the limit of many servers first, and then of many tasks per job (Weng and Wang 2021).

By the law of large numbers every job then sees the same space, and queue lengths have closed forms.
"""

from __future__ import annotations

import math

import numpy as np

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.steady_state import NEGLIGIBLE, Floats


def many_tasks_limit(policy: str, load: float, probe_overhead: float) -> Floats:
    """Return the queue-length tail S_0 = 1, S_1 = load, ..., ending in 0 or where negligible, as k -> infinity.

    ``policy`` is "batch-filling", S_i = 1 - (1 - load)(1 + load d)^(i-1) up to Q_max, with any d > 0; or
    "batch-sampling", S_(i+1) = load (1 - d (1 - S_i))^+, with d >= 1. Raises ValueError for anything else.
    """
    require_load(load)
    d = _positive(probe_overhead)
    if policy == "batch-filling":
        i = np.arange(1, largest_queue_length(load, d) + 1)
        S = np.maximum(1 - (1 - load) * (1 + load * d) ** (i - 1), 0.0)
        return np.concatenate([[1.0], S, [0.0]])
    if policy == "batch-sampling":
        if d < 1:
            raise ValueError(f"batch-sampling needs at least one probe per task, not {d}")
        tail = [1.0, load]
        while tail[-1] > NEGLIGIBLE * load:
            tail.append(max(0.0, load * (1 - d * (1 - tail[-1]))))
        return np.array(tail)
    raise ValueError(f"no limit of many tasks for {policy!r}; there is one for batch-filling and batch-sampling")


def largest_queue_length(load: float, probe_overhead: float) -> int:
    """Return Q_max = ceil(ln(1/(1 - load)) / ln(1 + load d)), above which batch-filling has no queue as k -> infinity.

    Raises ValueError for bad values.
    """
    require_load(load)
    levels = -math.log1p(-load) / math.log1p(load * _positive(probe_overhead))
    # At (1 - load)(1 + load d)^h = 1 exactly, level h + 1 is empty; rounding must not add it.
    return math.ceil(levels * (1 - 1e-13))


def probe_overhead_for_positions(load: float, level: int) -> float:
    """Return d = ((1 - load)^(-1/h) - 1) / load, the least with which batch-filling keeps all tasks at positions <= h.

    In the limit k -> infinity; Q_max <= ``level`` h exactly from there on. Raises ValueError for bad values.
    """
    require_load(load)
    require_count("level", level)
    return math.expm1(-math.log1p(-load) / level) / load


def _positive(probe_overhead: float) -> float:
    if not (math.isfinite(probe_overhead) and probe_overhead > 0):
        raise ValueError(f"probe_overhead is {probe_overhead}; it is the number of probes per task, above 0")
    return probe_overhead
