"""The traditional strategies: probes at an event, one after another, at most L of them, instead of a probe clock."""

from __future__ import annotations

import math
from typing import NamedTuple

from scipy.optimize import brentq

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.stealing_sharing.mean_field import removal_solution
from testbed.theory.stealing_sharing.qbd import mean_response_time
from testbed.theory.stealing_sharing.sizes import Size, job_size


class Traditional(NamedTuple):
    """``mean_response_time``: E[T], in mean sizes. ``overall_probe_rate``: R_o, probes per server and time unit."""

    mean_response_time: float
    overall_probe_rate: float


def traditional_sharing(load: float, size: Size, max_probes: int) -> Traditional:
    """Return the mean field of sharing where a job that finds its server busy sends up to L probes for an idle one.

    Derived: a probe fails with probability lam, so that R_o = lam^2 (1 - lam^L) / (1 - lam), and busy servers keep jobs
    at rate lam_b = lam^(L+1): ``E[T] = 1 + lam_b (1 + SCV) / (2 (1 - lam_b))``. For exponential sizes that is sharing
    with a probe clock at the same R_o; in the cases tried it is worse than that for SCV > 1, and better for SCV < 1.

    ``load`` in (0, 1), ``size`` phase-type with mean 1, ``max_probes`` = L >= 1; else ValueError.
    """
    require_load(load)
    require_count("max_probes", max_probes)
    kept = load ** (max_probes + 1)
    response = 1 + kept * (1 + job_size(size).scv) / (2 * (1 - kept))
    return Traditional(response, load**2 * -math.expm1(max_probes * math.log(load)) / (1 - load))


def traditional_stealing(load: float, size: Size, max_probes: int) -> Traditional:
    """Return the mean field of stealing where a server that becomes idle sends up to L probes for a waiting task.

    Derived: probes reach a server with waiting tasks at rate R_o as they do with probe clocks, so that the queues are
    those of stealing at the same R_o, for every size. Servers become idle (before they steal) at rate
    lam (1 - lam) + R_o u2, and each sends (1 - (1 - u2)^L) / u2 probes on average: with u2 = u2(delta = R_o),
    ``(lam (1 - lam) + R_o u2) (1 - (1 - u2)^L) = R_o u2``.

    ``load`` in (0, 1), ``size`` phase-type with mean 1, ``max_probes`` = L >= 1; else ValueError.
    """
    require_load(load)
    require_count("max_probes", max_probes)
    job = job_size(size)

    def excess(rate: float) -> float:
        u2 = float(removal_solution(job, load, rate)[1].sum())
        moved = -math.expm1(max_probes * math.log1p(-u2))
        return (load * (1 - load) + rate * u2) * moved / u2 - rate

    # Servers become idle at a rate below lam, and send L probes at most.
    rate = float(brentq(excess, 0.0, load * max_probes, xtol=1e-15, rtol=1e-14))
    G, pending = removal_solution(job, load, rate)
    return Traditional(mean_response_time(job, load, rate, G, pending), rate)
