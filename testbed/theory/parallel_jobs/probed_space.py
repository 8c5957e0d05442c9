"""The free positions that a job finds on the servers it probes, on which batch-filling lives.

Servers probed at random in a large cluster have independent queue lengths q_j with P(q >= i) = S_i. Up to level i they
have V_i = sum_j (i - q_j)^+ free positions. A job of k tasks ends up at positions <= h exactly when V_h >= k, the event
FILL_h of Weng and Wang 2021 (Lemma 4.2). Only V_i < k matters, so that distributions are kept for 0..k-1; all terms
are sums of nonnegative products, which keeps small probabilities exact without transforms.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from scipy.stats import hypergeom

from testbed.theory.argument_checks import require_count
from testbed.theory.steady_state import Floats


def number_of_probes(tasks: int, probe_overhead: float, servers: float = math.inf) -> int:
    """Return m = min(N, ceil(k d - 1e-9)), the number of servers that a batch policy probes for a job.

    The tolerance is there because 100 times 1.1 is a little more than 110 in floats. Raises ValueError for
    a probe overhead that is not a finite number above 0, and for tasks below 1.
    """
    require_count("tasks", tasks)
    if not (math.isfinite(probe_overhead) and probe_overhead > 0):
        raise ValueError(f"probe_overhead is {probe_overhead}; it is the number of probes per task, above 0")
    return int(min(servers, max(1, math.ceil(tasks * probe_overhead - 1e-9))))


def space_of_one(S: Floats, level: int, most: int) -> Floats:
    """Return P((level - q)^+ = x) for x = 0..most, shape (most + 1,); what lies above is left out.

    ``S[i]`` is P(q >= i), zero beyond its end.
    """
    space = np.zeros(most + 1)
    space[0] = S[level] if level < S.size else 0.0
    top = min(level, most)
    upper = np.zeros(level + 1)
    upper[: min(level + 1, S.size)] = S[: level + 1]
    # x free positions: q = level - x, with probability S_(level-x) - S_(level-x+1).
    space[1 : top + 1] = -np.diff(upper)[::-1][:top]
    return space


def sum_of_independent(one: Floats, count: int) -> Floats:
    """Return the distribution of the sum of ``count`` independent values on 0..n, cut off above n; shape of ``one``."""
    total = np.zeros_like(one)
    total[0] = 1.0
    power = one
    while count:
        if count & 1:
            total = np.convolve(total, power)[: one.size]
        count >>= 1
        if count:
            power = np.convolve(power, power)[: one.size]
    return total


def probed_space(S: Floats, level: int, probes: int, most: int) -> Floats:
    """Return P(V_level = v) for v = 0..most over ``probes`` servers, shape (most + 1,)."""
    return sum_of_independent(space_of_one(S, level, most), probes)


def mean_space(queue_length_tail: npt.ArrayLike, probes: int, level: int) -> float:
    """Return M = m (h - sum_(i=1)^h s_i), the mean of V_h.

    ``queue_length_tail[i]`` is the fraction of servers with at least i tasks, starting with 1 for i = 0.
    """
    S = _checked(queue_length_tail)
    return probes * (level - float(S[1 : level + 1].sum()))


def fill_failure_bound(queue_length_tail: npt.ArrayLike, tasks: int, probes: int, level: int) -> float:
    """Return the bound exp(-(1 - k/M)^2 M / (2 h)) on P(FILL_h fails), and 1 where M <= k and it says nothing.

    Valid in every state s, with and without replacement (Chernoff; Hoeffding 1963, theorem 4).
    Arguments as in fill_failure_probability. Raises ValueError for bad values.
    """
    require_count("tasks", tasks)
    require_count("probes", probes)
    require_count("level", level)
    M = mean_space(queue_length_tail, probes, level)
    return math.exp(-((1 - tasks / M) ** 2) * M / (2 * level)) if tasks < M else 1.0


def fill_failure_probability(queue_length_tail: npt.ArrayLike, tasks: int, probes: int, level: int) -> float:
    """Return P(FILL_h fails), that some of the job's tasks end above ``level`` h, with independent queue lengths.

    ``queue_length_tail[i]`` is the fraction of servers with at least i tasks, starting with 1 for i = 0; ``tasks`` k,
    ``probes`` m. Exact in the limit of many servers. Raises ValueError for bad values.
    """
    require_count("tasks", tasks)
    require_count("probes", probes)
    require_count("level", level)
    return float(probed_space(_checked(queue_length_tail), level, probes, tasks - 1).sum())


def fill_failure_probability_finite(queue_lengths: Sequence[int], tasks: int, probes: int, level: int) -> float:
    """Return P(FILL_h fails) for ``probes`` servers drawn without replacement from those with ``queue_lengths``.

    ``queue_lengths`` has one entry for each of the N servers. Exact. Raises ValueError for bad values.
    """
    require_count("tasks", tasks)
    require_count("probes", probes)
    require_count("level", level)
    lengths = np.asarray(queue_lengths, dtype=int)
    if lengths.size < probes:
        raise ValueError(f"probes is {probes}, but there are {lengths.size} servers")
    space, servers = np.unique(np.maximum(level - lengths, 0), return_counts=True)
    # With at least one free position each, fewer than k servers can be drawn before the job fits.
    most = min(probes, tasks - 1)
    state = np.zeros((most + 1, tasks))  # [servers drawn so far, their free positions]
    state[0, 0] = 1.0
    left = lengths.size
    for x, count in zip(space[space > 0].tolist(), servers[space > 0].tolist(), strict=True):
        after = np.zeros_like(state)
        for drawn in np.flatnonzero(state.any(axis=1)).tolist():
            limit = min(count, most - drawn, (tasks - 1) // x)
            fractions = hypergeom.pmf(np.arange(limit + 1), left, count, probes - drawn)
            for n, fraction in enumerate(fractions.tolist()):
                after[drawn + n, n * x :] += fraction * state[drawn, : tasks - n * x]
        state = after
        left -= count
    # The rest is drawn from servers without free positions.
    return float(state.sum())


def _checked(queue_length_tail: npt.ArrayLike) -> Floats:
    S = np.asarray(queue_length_tail, dtype=np.float64)
    if S.ndim != 1 or S.size == 0 or S[0] != 1 or np.any(np.diff(S) > 0) or S[-1] < 0:
        raise ValueError("queue_length_tail must start with 1 and fall to no less than 0")
    return S
