"""Expected processing time per job in each pool, and the effective load (the paper's Propositions 1 and 2)."""

from __future__ import annotations

import math
from typing import cast

import numpy as np
import numpy.typing as npt

from testbed.theory.rerouting_replication.known_sizes import KnownSizeThresholds, known_size_usage
from testbed.theory.rerouting_replication.model import (
    KnownSizes,
    Model,
    Policy,
    checked_assignment,
    require_policy,
    require_time,
)
from testbed.theory.rerouting_replication.usage import usages

Floats = npt.NDArray[np.float64]
Thresholds = npt.ArrayLike | KnownSizeThresholds


def service_requirement(
    model: Model,
    policy: Policy,
    assignment: npt.ArrayLike,
    thresholds: Thresholds | None = None,
    *,
    handover: float = 0.0,
    lag: float = 0.0,
) -> Floats:
    """Return E[B_i], the mean processing time that an arriving job uses in each pool, shape (pools,), in time units.

    Args:
        model: the pools, types and sizes.
        policy: what happens at a threshold.
        assignment: alpha_ij, the fraction of type-j jobs sent to pool i first, shape (pools, types); or (pools,), the
            same for all types.
        thresholds: tau_i in time units of received processing, at least 0, maybe infinite, shape (pools,); of the pool
            that is visited. For more reroutings also (pools, hops), by starting pool and visit. Whole numbers for
            KnownSizes. Not needed for ZeroRedundancy and FullRedundancy.
        lag: time until a server acts on what happens on another: a replica starts so much after the threshold, and a
            loser goes on for so much after the winner is done. Not for KnownSizes.
        handover: such a lag where it counts as processing time, too, that servers wait for so much at the end of each
            visit, until they hear what comes next. Give one of the two. Both are beyond the paper.

    Infinite where jobs are sent to a pool that can't serve them. Raises ValueError for arguments that don't fit.
    """
    require_policy(policy)
    for name, value in (("handover", handover), ("lag", lag)):
        require_time(name, value)
    if handover and lag:
        raise ValueError("handover and lag are one time, counted in two ways: give one of them")
    alpha = checked_assignment(model, assignment)
    if isinstance(policy, KnownSizes):
        if handover or lag:
            raise ValueError("a handover or a lag is not counted for the policy with known sizes")
        D = known_size_usage(model, policy, cast("KnownSizeThresholds | None", thresholds))
    else:
        found = usages(model, policy, thresholds, handover or lag)
        D = np.stack([usage.held[0] if handover else usage.time[0] for usage in found])
    return expected(alpha * model.p, D)


def effective_load(
    model: Model, policy: Policy, assignment: npt.ArrayLike, thresholds: Thresholds | None = None, *, rate: float
) -> Floats:
    """Return rho_i = rate E[B_i] / n_i per pool, shape (pools,); ``rate`` is in jobs per time unit, of all jobs.

    Arguments as in service_requirement. All below 1 is necessary for stability.
    """
    if not (math.isfinite(rate) and rate >= 0):
        raise ValueError(f"rate is {rate}; give a finite number of jobs per time unit, at least 0")
    requirement = service_requirement(model, policy, assignment, thresholds)
    return rate * requirement / model.n if rate else np.zeros(len(model.n))


def expected(weights: Floats, values: Floats) -> Floats:
    """Return the sum over starts s and types j of weights[s, j] values[s, j, ...]; no weight, no infinity."""
    weights = weights.reshape(weights.shape + (1,) * (values.ndim - 2))
    return np.asarray(np.where(weights > 0, weights * np.where(weights > 0, values, 0.0), 0.0).sum(axis=(0, 1)))
