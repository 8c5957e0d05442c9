"""Stealing or sharing: which is best when both send the same number of probes.

Van Houdt (2019). At equal r both policies have the same queues, and a larger r is better. So at an equal overall probe
rate R_o the one with the larger r wins: sharing exactly if ``u2(delta = R_o) < 1 - lam``, where u2 is the fraction of
servers with a waiting task when these are removed at rate delta.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from scipy.optimize import brentq

from testbed.theory.argument_checks import require_load
from testbed.theory.stealing_sharing.mean_field import Policy, removal_solution, require_policy
from testbed.theory.stealing_sharing.sizes import Size, job_size

_EXACT = 4 * 2.220446049250313e-16


def probe_rate_for(policy: Policy, load: float, size: Size, overall_probe_rate: float) -> float:
    """Return the rate r of a probe clock with which the policy sends ``overall_probe_rate`` probes, R_o.

    Stealing: R_o / (1 - lam). Sharing: the root of r u2(r) = R_o, and ``math.inf`` for R_o >= lam^2 / (1 - lam), which
    sharing never sends: then no task waits, and E[T] = 1.
    Kind: mean field. With N servers sharing sends about r c_u / N more (see ``MeanField.finite_size_correction``), and
    far more close to the limit. ``load`` in (0, 1), R_o >= 0, ``size`` phase-type with mean 1; else ValueError.
    """
    require_policy(policy)
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    job = job_size(size)
    idle = 1 - load
    if policy == "stealing" or overall_probe_rate == 0:
        return overall_probe_rate / idle
    transfers = overall_probe_rate * idle
    if transfers >= load**2:
        return math.inf

    # lam^2 = pi_{2+} mu + delta u2: of the two terms take the one that R_o makes the smaller, so that the root stays
    # exact for the smallest R_o as well as close to the limit, where r explodes.
    if transfers < load**2 / 2:

        def excess(log_rate: float) -> float:
            rate = math.exp(log_rate)
            return math.log(rate * float(removal_solution(job, load, rate)[1].sum()) / transfers)
    else:
        kept = load**2 - transfers

        def excess(log_rate: float) -> float:
            return math.log(kept / float(removal_solution(job, load, math.exp(log_rate))[1] @ job.mu))

    low = math.log(transfers / load)  # since u2 < lam
    high = low + 1
    while excess(high) < 0:
        low, high = high, high + 2 * (high - low)
    return math.exp(brentq(excess, low, high, xtol=1e-15, rtol=_EXACT)) / idle


def best_policy(load: float, size: Size, overall_probe_rate: float) -> Policy:
    """Return the policy with the smaller mean response time at equal R_o, "sharing" also where both are equal.

    One solution of the queue decides: sharing is best iff u2(delta = R_o) < 1 - lam. R_o = 0 stands for the limit of
    few probes. Raises ValueError as ``probe_rate_for`` does.
    """
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    pending = removal_solution(job_size(size), load, overall_probe_rate)[1]
    return "stealing" if float(pending.sum()) > 1 - load else "sharing"


def load_boundary(size: Size, overall_probe_rate: float) -> float:
    """Return lam* in [1/2, 1): at R_o stealing is best above this load and sharing below.

    The root in lam of u2(lam; delta = R_o) = 1 - lam. R_o = 0 gives the limit of few probes (see
    ``vanishing_rate_load_boundary`` for sizes that are not phase-type). Raises ValueError as ``probe_rate_for`` does.
    """
    require_overall_probe_rate(overall_probe_rate)
    job = job_size(size)
    return balanced_load(lambda load: float(removal_solution(job, load, overall_probe_rate)[1].sum()))


def probe_rate_boundary(load: float, size: Size) -> float:
    """Return r*: at this load sharing is best for an overall probe rate above it, and stealing below.

    The root in delta of u2(lam; delta) = 1 - lam, in [0, lam^2 / (1 - lam)]; 0 where sharing is best for every R_o.
    Raises ValueError as ``probe_rate_for`` does.
    """
    require_load(load)
    job = job_size(size)
    if load <= 0.5:
        return 0.0  # u2 < lam

    def excess(rate: float) -> float:
        return float(removal_solution(job, load, rate)[1].sum()) - (1 - load)

    if excess(0.0) <= 0:
        return 0.0
    most = load**2 / (1 - load)
    # u2 < lam^2 / delta leaves no doubt of the sign at the upper end, but rounding may.
    return float(brentq(excess, 0.0, most, xtol=1e-15, rtol=_EXACT)) if excess(most) < 0 else most


def balanced_load(pending_probability: Callable[[float], float]) -> float:
    """Return the root in lam of u2(lam) = 1 - lam, for an increasing u2(lam) < lam: in [1/2, 1)."""

    def excess(load: float) -> float:
        return pending_probability(load) - (1 - load)

    low, high = 0.5, 0.75
    if excess(low) >= 0:
        return low  # sizes for which u2 is lam to working precision
    while excess(high) < 0:
        low, high = high, (1 + high) / 2
    return float(brentq(excess, low, high, xtol=1e-15, rtol=_EXACT))


def require_overall_probe_rate(rate: float) -> None:
    """Raise ValueError unless the overall probe rate is a finite number of at least 0."""
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"the overall probe rate is {rate}; give probes per server and time unit, at least 0")
