"""Unit (deterministic) sizes: the mean field without phases, and the extreme case of the bounds."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.sparse import csc_array, diags_array, eye_array
from scipy.sparse.linalg import spsolve

from testbed.theory.argument_checks import require_load
from testbed.theory.stealing_sharing.comparison import balanced_load, require_overall_probe_rate
from testbed.theory.stealing_sharing.sizes import Floats

_LOG_NEGLIGIBLE = 38.0  # the walk is cut where its tail is exp(-38)
_MOST_LEVELS = 20_000


class UnitSizeMeanField(NamedTuple):
    """``mean_response_time``: E[T], in sizes. ``pending_probability``: u2 = P(queue length >= 2)."""

    mean_response_time: float
    pending_probability: float


def unit_size_mean_field(load: float, removal_rate: float) -> UnitSizeMeanField:
    """Return the mean field for sizes that are all 1, with waiting jobs removed at rate delta = (1 - lam) r.

    Derived: during a service the number of waiting jobs is a birth-death walk (up lam, down delta, generator W), so
    that the number at the start of services is a Markov chain with steps ``exp(W)`` and one departure; kappa is its
    stationary distribution, and ``u2 = lam kappa int_0^1 exp(W t) dt 1[x >= 1]``, ``E[T] = 1 + kappa int_0^1 exp(W t)
    dt x``. Erlang-k sizes converge to this with an error of O(1/k).

    ``load`` in (0, 1); ``removal_rate`` >= 0. Relative accuracy 1e-11 up to load 0.9, 1e-8 at load 0.999. Raises
    ValueError outside these ranges, and ArithmeticError where queues of 20,000 matter (few removals at loads above
    0.999).
    """
    require_load(load)
    require_overall_probe_rate(removal_rate)
    levels = _levels(load, removal_rate)
    q = load + removal_rate
    ones = np.ones(levels)
    up, down = load / q * ones[1:], removal_rate / q * ones[1:]
    stay = np.zeros(levels)
    stay[0], stay[-1] = removal_rate / q, load / q
    step = diags_array([down, stay, up], offsets=[-1, 0, 1]).tocsc()

    lengths = np.arange(levels, dtype=np.float64)
    mean_over_service = np.zeros((levels, 2))  # int_0^1 exp(W t) dt of (x, 1[x >= 1])
    values = np.stack((lengths, (lengths > 0).astype(np.float64)), axis=1)
    service: csc_array = csc_array((levels, levels))
    power = eye_array(levels, format="csc")
    weights = _poisson(q)
    more = 1 - np.cumsum(weights)
    for weight, later in zip(weights.tolist(), more.tolist(), strict=True):
        service = service + weight * power
        mean_over_service += max(later, 0.0) / q * values
        power, values = power @ step, step @ values
    depart = diags_array([np.r_[1.0, np.zeros(levels - 1)], ones[1:]], offsets=[0, -1]).tocsc()
    kappa = _stationary(service @ depart)
    mean_waiting, waiting = kappa @ mean_over_service
    return UnitSizeMeanField(float(1 + mean_waiting), float(load * waiting))


def unit_size_load_boundary(overall_probe_rate: float) -> float:
    """Return lam*(R_o) for unit sizes; above it stealing is best for every size, if the conjecture holds.

    See ``stealing_always_best``. Raises ValueError for a negative or infinite R_o.
    """
    require_overall_probe_rate(overall_probe_rate)
    return balanced_load(lambda load: unit_size_mean_field(load, overall_probe_rate).pending_probability)


def _levels(load: float, removal_rate: float) -> int:
    """Return where the number of waiting jobs can be cut: its tail falls like z^-k.

    z > 1 is the root of ``exp(lam (z - 1) + delta (1/z - 1)) = z``.
    """

    def drift(log_z: float) -> float:
        return load * math.expm1(log_z) + removal_rate * math.expm1(-log_z) - log_z

    high = (1 + removal_rate - load) / (1 + removal_rate + load)
    while drift(high) < 0:
        high *= 2
    low = high / 2
    while drift(low) > 0:
        low /= 2
    levels = math.ceil(_LOG_NEGLIGIBLE / float(brentq(drift, low, high))) + 20
    if levels > _MOST_LEVELS:
        raise ArithmeticError(f"queues of {levels} unit-size jobs still matter at load {load}; lower it")
    return levels


def _poisson(mean: float) -> Floats:
    count = np.arange(math.ceil(mean + 9 * math.sqrt(mean) + 40))
    log_weights = count * math.log(mean) - np.array([math.lgamma(k + 1) for k in count.tolist()])
    weights = np.exp(log_weights - mean)
    return np.asarray(weights / weights.sum())


def _stationary(transitions: csc_array) -> Floats:
    """Return the stationary distribution of a chain, relative to state 0: that keeps the equations sparse."""
    rest = (eye_array(transitions.shape[0]) - transitions).tocsc()[1:, 1:]
    first = transitions[[0], 1:].toarray()[0]
    distribution = np.maximum(np.r_[1.0, spsolve(rest.T.tocsc(), first)], 0.0)
    return np.asarray(distribution / distribution.sum())
