"""Theory of servers that move waiting tasks among themselves, behind random routing: stealing and sharing."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.queue_oblivious_policies import RandomRouting
from testbed.theory.steady_state import SteadyState
from testbed.theory.stealing_sharing import (
    MeanField,
    mean_field,
    probe_rate_for,
    traditional_sharing,
    traditional_stealing,
)
from testbed.workload.distribution import DistributionBase

SOURCE = "Van Houdt 2019"
#: Beyond these the 1/N correction takes seconds or more.
_CORRECTED_PHASES = 4
_CORRECTED_LOAD = 0.95


def moving_tasks(model: ClusterModel) -> Formula:
    """Return the mean field of stealing or sharing, with its 1/N correction where that is quick to compute.

    Raises NoTheoryError where the model is not the paper's: random routing of Poisson arrivals to equal servers without
    buffers, phase-type sizes, one task at a time from a uniformly chosen victim.
    """
    balance = model.balance
    size = _covered(model, balance)
    if balance.max_probes is not None:
        return _traditional(model, balance, size)
    rate = balance.probe_rate
    if balance.overall_probe_rate is not None:  # the cost at which policies are compared, whatever rate meets it here
        rate = probe_rate_for(balance.policy, model.load, size, balance.overall_probe_rate)
    if math.isinf(rate):
        state = SteadyState(1.0, response_time_tail=lambda t: 1.0 - size.cdf(t))
        note = "in the limit of many servers sharing never sends that many probes: every task finds an idle server"
        return Formula("sharing without end, N → ∞", SOURCE, "limit", state, (note,))
    field = mean_field(model.load, size, rate)
    tail = partial(_tail, field, balance.moves)
    overall = field.overall_probe_rate(balance.policy)
    notes = [
        f"clocks of rate {rate:.4g}, which in the limit of many servers send {overall:.4g} probes per server and time "
        "unit"
    ]
    phases = size.phase_type()
    assert phases is not None
    if len(phases[0]) <= _CORRECTED_PHASES and model.load <= _CORRECTED_LOAD:
        correction = field.finite_size_correction().mean_response_time / model.servers
        notes.append(
            f"the limit is {field.mean_response_time:.4g}; a cluster of {model.servers} lies above it by about "
            f"{correction:.2g} (the 1/N term, which is added); the quantiles are those of the limit"
        )
        state = SteadyState(field.mean_response_time + correction, response_time_tail=tail)
        return Formula(f"{balance.policy}, mean field + 1/N", SOURCE, "approximation", state, tuple(notes))
    notes.append("a finite cluster lies above the limit")
    state = SteadyState(field.mean_response_time, response_time_tail=tail)
    return Formula(f"{balance.policy}, N → ∞", SOURCE, "limit", state, tuple(notes))


def _tail(field: MeanField, moved: Any, t: float) -> float:
    return float(field.response_time_tail(t, moved))


def _covered(model: ClusterModel, balance: Any) -> DistributionBase:
    """Return the size distribution of the paper's model, of mean 1. Raises NoTheoryError where the model is another."""
    weights = getattr(model.parameters, "weights", None)
    if not isinstance(model.theory, RandomRouting) or (weights is not None and len(set(weights)) > 1):
        raise NoTheoryError("moving tasks has a theory behind uniformly random routing only")
    if model.tasks.most > 1:
        raise NoTheoryError("moving tasks has a theory for jobs of one task only")
    if not model.poisson:
        raise NoTheoryError("moving tasks has a theory for Poisson arrivals only")
    if balance.policy == "hybrid":
        raise NoTheoryError("the hybrid of stealing and sharing has no theory here")
    if balance.steal != "one" or balance.victim_choices > 1:
        raise NoTheoryError("stealing has a theory for one task at a time from a uniformly chosen victim only")
    service = model.pools[0].service
    if not model.identical_servers or any(speed != 1 for _, speed in service.types) or model.buffers:
        raise NoTheoryError("moving tasks has a theory for equal servers of speed 1 without buffers only")
    size = service.size
    if not isinstance(size, DistributionBase) or size.phase_type() is None:
        raise NoTheoryError("moving tasks has a theory for phase-type sizes only")
    if not math.isclose(size.mean, 1.0, rel_tol=1e-9):
        raise NoTheoryError("moving tasks has a theory for sizes of mean 1 only: the mean size is the time unit")
    return size


def _traditional(model: ClusterModel, balance: Any, size: DistributionBase) -> Formula:
    formula = traditional_stealing if balance.policy == "stealing" else traditional_sharing
    found = formula(model.load, size, balance.max_probes)
    notes = (
        f"in the limit of many servers the servers send {found.overall_probe_rate:.4g} probes per server and time unit",
        "a finite cluster lies above the limit",
    )
    state = SteadyState(found.mean_response_time)
    return Formula(f"traditional {balance.policy}, N → ∞", SOURCE, "limit", state, notes)
