"""Exponential sizes: everything in closed form.

Minnebo and Van Houdt, "A fair comparison of pull and push strategies in large distributed networks" (2014), with the
same symbols as the other modules: lam the load, R_o the overall probe rate, r the rate of a probe clock.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from testbed.theory.argument_checks import require_load
from testbed.theory.stealing_sharing.comparison import require_overall_probe_rate
from testbed.theory.stealing_sharing.mean_field import Policy, require_policy


class ExponentialMeanField(NamedTuple):
    """Mean response time in mean sizes, P(queue length >= 2), and the queue length's decay rate R."""

    mean_response_time: float
    pending_probability: float
    decay_rate: float


def exponential_mean_field(load: float, probe_rate: float) -> ExponentialMeanField:
    """Return ``R = lam / (1 + delta)``, ``u2 = lam R``, ``E[T] = (1 + delta) / (1 + delta - lam)``.

    There ``delta = (1 - lam) r``, with r the probe rate.

    Raises ValueError for a load outside (0, 1) or a negative or infinite probe rate.
    """
    require_load(load)
    require_overall_probe_rate(probe_rate)
    delta = (1 - load) * probe_rate
    decay = load / (1 + delta)
    return ExponentialMeanField((1 + delta) / (1 + delta - load), load * decay, decay)


def exponential_probe_rate_for(policy: Policy, load: float, overall_probe_rate: float) -> float:
    """Return r: R_o / (1 - lam) for stealing, R_o / (lam^2 - (1 - lam) R_o) for sharing (inf where negative).

    Raises ValueError for a load outside (0, 1) or a negative or infinite R_o.
    """
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    if require_policy(policy) == "stealing":
        return overall_probe_rate / (1 - load)
    left = load**2 - (1 - load) * overall_probe_rate
    return overall_probe_rate / left if left > 0 else math.inf


def exponential_mean_response_time(policy: Policy, load: float, overall_probe_rate: float) -> float:
    """Return E[T] at an overall probe rate, in mean sizes.

    Stealing: (1 + R_o) / (1 + R_o - lam). Sharing: lam / ((1 - lam) (lam + R_o)), and 1 where
    R_o >= lam^2 / (1 - lam).
    Raises ValueError for a load outside (0, 1) or a negative or infinite R_o.
    """
    require_load(load)
    require_overall_probe_rate(overall_probe_rate)
    if require_policy(policy) == "stealing":
        return (1 + overall_probe_rate) / (1 + overall_probe_rate - load)
    return max(1.0, load / ((1 - load) * (load + overall_probe_rate)))


def exponential_load_boundary(overall_probe_rate: float) -> float:
    """Return lam* = (sqrt((R_o + 1)^2 + 4 (R_o + 1)) - (R_o + 1)) / 2, above which stealing is best.

    The golden ratio minus 1 at R_o = 0. Raises ValueError for a negative or infinite R_o.
    """
    require_overall_probe_rate(overall_probe_rate)
    return 2 / (1 + math.sqrt(1 + 4 / (overall_probe_rate + 1)))


def exponential_probe_rate_boundary(load: float) -> float:
    """Return r* = max(0, lam^2 / (1 - lam) - 1), above which sharing is best.

    Raises ValueError for a load outside (0, 1).
    """
    require_load(load)
    return max(0.0, load**2 / (1 - load) - 1)
