"""Theory of static assignment in a scenario: queues of servers, central queues, rerouting and replication."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from testbed.theory.baselines import mg1, mmc
from testbed.theory.cluster_model import ClusterModel, PoolModel
from testbed.theory.policy_theory import QueueOblivious
from testbed.theory.prediction import Formula, Kind, NoTheoryError
from testbed.theory.queue_oblivious_policies import random_routing
from testbed.theory.rerouting_replication import (
    KnownSizes,
    Model,
    Replicate,
    Reroute,
    ZeroRedundancy,
    mean_latency,
    rational_rule,
    service_requirement,
    stability_bound,
)
from testbed.theory.rerouting_replication.latency import mean_wait
from testbed.theory.service import is_exponential
from testbed.theory.steady_state import SteadyState, mixture

Floats = npt.NDArray[np.float64]

#: The most reroutings for which the best thresholds are searched here, between two pools: others take a minute or more.
_MOST_HOPS = 2
SOURCE = "Raaijmakers, Borst and Boxma, arXiv 2005.13353"


@dataclass(frozen=True)
class Thresholds:
    """The [threshold] of a scenario as testbed.theory.rerouting_replication knows it.

    ``assignment`` is alpha_ij, shape (pools, types); ``tau`` are the thresholds, by the pool where the job is, shape
    (pools,), or by starting pool and visit, (pools, hops). Both are None where each job's own sizes decide.
    """

    model: Model
    policy: Reroute | Replicate | KnownSizes
    assignment: Floats | None
    tau: Floats | None

    @classmethod
    def of(cls, model: ClusterModel) -> Thresholds | None:
        """Return the thresholds of a scenario's model; None if no job ever leaves its pool."""
        threshold = model.threshold
        if threshold is None:
            return None
        pools = pools_of(model)
        if threshold.rational:
            return cls(pools, KnownSizes(threshold.action), None, None)
        names = [pool.name for pool in model.pools]
        tau = np.array(threshold.by_visit(names) or threshold.by_pool(names), dtype=np.float64)
        first = tau if tau.ndim == 1 else tau[:, 0]
        if np.isinf(first).all():
            return None
        policy = (
            Reroute(threshold.hops, threshold.target, threshold.carry_over)
            if threshold.action == "reroute"
            else Replicate(threshold.target, threshold.carry_over)
        )
        return cls(pools, policy, model.assignment, tau)

    def handover(self, model: ClusterModel) -> float:
        """Return the time between two servers, by way of the pool agent; not counted with known sizes."""
        return 0.0 if isinstance(self.policy, KnownSizes) else 2 * model.mean_delay

    def service_requirement(self, handover: float = 0.0, lag: float = 0.0) -> Floats:
        """Return E[B_i], the mean processing time that a job uses in each pool, shape (pools,), in time units.

        With a ``handover`` that of each visit to a server counts too, with a ``lag`` that replicas start and losers
        stop late; not with known sizes.
        """
        if isinstance(self.policy, KnownSizes):
            return np.array(rational_rule(self.model, self.policy).requirement)
        assert self.assignment is not None
        return service_requirement(self.model, self.policy, self.assignment, self.tau, handover=handover, lag=lag)


def pools_of(model: ClusterModel) -> Model:
    """Return the scenario's pools, types and sizes."""
    return Model(
        tuple(pool.servers for pool in model.pools),
        model.types,
        tuple(pool.speeds for pool in model.pools),
        model.size,
        model.dependence,
    )


def _queue(model: ClusterModel, pool: PoolModel) -> tuple[str, SteadyState, bool]:
    """Return name, steady state and exactness of a pool that gets its fraction of the jobs at random."""
    assert pool.fraction is not None
    n = pool.servers if pool.central else 1
    rate, service, handover = model.rate * pool.fraction * n / pool.servers, pool.service, 2 * model.mean_delay
    exponential = is_exponential(service)
    if n == 1 and handover == 0:
        state = mg1(rate, service)
        if not math.isfinite(state.mean_response_time):
            raise NoTheoryError("the mean response time is infinite: so is the second moment of the service time")
        return "M/M/1" if exponential else "M/G/1", state, True
    if exponential and handover == 0:
        return f"M/M/{n}", mmc(n, rate * service.mean / n).scaled(service.mean), True
    # A server is taken until the next job's Serve could reach it: two messages longer than it serves.
    taken = service.mean + handover
    square = service.second_moment + 2 * handover * service.mean + handover**2
    wait = float(mean_wait(np.array([n]), rate, np.array([[taken]]), np.array([[square]]))[0, 0])
    if not math.isfinite(wait):
        raise NoTheoryError("the mean response time is infinite: so is the second moment of the service time")
    return f"M/G/{n}", SteadyState(wait + service.mean), n == 1


def _with_thresholds(model: ClusterModel, thresholds: Thresholds) -> Formula:
    if not model.poisson:
        raise NoTheoryError("rerouting and replication have formulas for Poisson arrivals only")
    if isinstance(thresholds.policy, KnownSizes):
        raise NoTheoryError("rational thresholds have a formula for the effective load, but none for the latency")
    assert thresholds.assignment is not None
    assert thresholds.tau is not None
    policy, tau = thresholds.policy, thresholds.tau
    single = all(pool.servers == 1 for pool in model.pools)
    latency = mean_latency(
        thresholds.model,
        policy,
        thresholds.assignment,
        tau,
        rate=model.rate,
        approximation="pollaczek-khinchine" if single else "several-servers",
        handover=thresholds.handover(model),
    )
    if not math.isfinite(latency.overall):
        raise NoTheoryError("the approximation of the mean latency is infinite: a second moment of service times is")
    replicate = isinstance(policy, Replicate)
    full = replicate and len({pool.servers for pool in model.pools}) == 1 and len(model.pools) == 2 and not tau.any()
    exact = full and model.mean_delay == 0 and (single or _exponential_minimum(thresholds.model))
    visits = thresholds.service_requirement(handover=1.0) - thresholds.service_requirement()
    # Admit and JobDone; at each visit Serve, and Served or Reached. A replica starts while the original is served.
    relayed = 2.0 if replicate else 2.0 * float(visits.sum())
    notes = []
    if not full:
        notes.append(_error(thresholds, single))
    elif not exact:
        notes.append("a two-moment formula for several servers, exact for exponential service times")
    if replicate and single and len(model.pools) == 2 and not exact and model.mean_delay == 0:
        stretched = mean_latency(
            thresholds.model, policy, thresholds.assignment, tau, rate=model.rate, approximation="stretched"
        )
        notes.append(
            f"with unreplicated service stretched by the copies that preempt it the formula gives "
            f"{stretched.overall:.4g}; in most cases the two have the truth between them"
        )
    by_pool = [
        f"{value:.4g} from {pool.name}"
        for pool, value in zip(model.pools, latency.by_pool, strict=True)
        if not math.isnan(value)
    ]
    notes.append(f"mean latency by the pool where a job starts: {', '.join(by_pool)}")
    notes += _handover_note(model)
    name = ("full redundancy" if full else "replication") if replicate else "rerouting"
    queue = "M/G/1" if single else "M/G/n"
    state = SteadyState(latency.overall)
    kind: Kind = "exact" if exact else "approximation"
    return Formula(
        f"{name}, {queue} at each pool", SOURCE, kind, state, tuple(notes), relayed=relayed, queue_oblivious=True
    )


def _exponential_minimum(model: Model) -> bool:
    """Return whether the time until the first of two copies that start at once is done is exponential."""
    speeds = model.r[:, model.p > 0]
    if model.theta not in (0.0, 1.0) or not is_exponential(model.size):
        return False
    rates = speeds.max(axis=0) if model.theta == 1 else speeds.sum(axis=0)
    return bool(np.ptp(rates) == 0)


def _handover_note(model: ClusterModel) -> list[str]:
    if model.mean_delay == 0:
        return []
    return ["a server of a central queue waits two message delays for its next job, which counts as load here"]


def _error(thresholds: Thresholds, single: bool) -> str:
    """Say how far the approximation was from simulations (exponential sizes, two pools, two types)."""
    if isinstance(thresholds.policy, Reroute):
        return (
            "takes rerouted jobs for a Poisson stream, but they come in bunches: in simulations at loads of 0.5 to 0.9 "
            "it was within 5 % for thresholds of at least twice the mean size, and for smaller ones too low, by 1 to "
            "34 % at half to one mean size and by up to 66 % at 0" + ("" if single else "; less with 5 and 5 servers")
        )
    if len(thresholds.model.pools) > 2:
        return (
            "ignores that copies preempt and that a pair needs a free server in each of two pools: with more than two "
            "pools it may be far too low, and the queues may even grow"
        )
    if single:
        return "ignores that copies preempt: in simulations at loads of 0.5 to 0.9 it was 2 to 12 % too low"
    return (
        "ignores that copies preempt: in simulations it was 1 to 10 % too low with 5 and 5 servers, "
        "and up to 21 % with pools of different sizes, most for thresholds near the mean size"
    )


class StaticAssignment(QueueOblivious):
    """Fixed fractions of the jobs for each pool, by what is known of their types."""

    @override
    def formula(self, model: ClusterModel) -> Formula:
        """Return static assignment: M/G/1 at servers with queues of their own, M/G/n at central queues, and thresholds.

        With thresholds the latency is an approximation. Raises NoTheoryError where there is none.
        """
        thresholds = Thresholds.of(model)
        if thresholds is not None:
            return _with_thresholds(model, thresholds)
        if not any(pool.central for pool in model.pools):
            return random_routing(model)
        if not model.poisson:
            raise NoTheoryError("central queues have a formula for Poisson arrivals only")
        if model.mean_delay > 0 and not all(pool.central for pool in model.pools):
            raise NoTheoryError(
                "with message delay there is no formula for pools of which only some have central queues"
            )
        queues = [_queue(model, pool) for pool in model.pools if pool.fraction]
        names = list(dict.fromkeys(name for name, _, _ in queues))
        kind: Kind = "exact" if all(exact for _, _, exact in queues) else "approximation"
        state = mixture([pool.fraction for pool in model.pools if pool.fraction], [state for _, state, _ in queues])
        notes = []
        if kind == "approximation":
            notes.append("several servers behind a queue: a two-moment formula, exact for exponential service times")
        notes += _handover_note(model)
        source = "Erlang 1917; Pollaczek-Khinchine formula; two-moment approximation of M/G/n (Lee and Longton 1959)"
        return Formula(
            f"{', '.join(names)}, static", source, kind, state, tuple(notes), relayed=2.0, queue_oblivious=True
        )

    @override
    def fractions(self, model: ClusterModel) -> list[tuple[PoolModel, float, int]]:
        if model.assignment is None:  # each job's sizes decide
            return super().fractions(model)
        return [(pool, pool.fraction / pool.servers, pool.servers) for pool in model.pools if pool.fraction]

    @override
    def pool_notes(self, model: ClusterModel) -> list[str]:
        quick = model.threshold is None or (len(model.pools) == 2 and model.threshold.hops <= _MOST_HOPS)
        return [_best(model)] if len(model.pools) > 1 and model.tasks.most == 1 and quick else []


STATIC = StaticAssignment()


def _best(model: ClusterModel) -> str:
    thresholds = Thresholds.of(model)
    policy = ZeroRedundancy() if thresholds is None else thresholds.policy
    signals = np.array(model.parameters.signal_probabilities(len(model.types)), dtype=np.float64)
    best = stability_bound(pools_of(model), policy, signals)
    load = f"the best stability bound is a load of {best.rate * model.load / model.rate / model.load_unit:.4g}"
    if model.mean_delay > 0:
        load += " if messages took no time"
    if isinstance(policy, KnownSizes):
        return f"{load}: each job takes the pool and the thresholds that are best for its sizes"
    assert best.assignment is not None
    assert best.thresholds is not None
    by_type = [
        f"{job_type}: "
        + ", ".join(f"{p.name} {fraction:.3g}" for p, fraction in zip(model.pools, fractions, strict=True))
        for job_type, fractions in zip(model.type_names, best.assignment.T, strict=True)
    ]
    text = f"{load}, for one with the assignment {{{'; '.join(by_type)}}}"
    if thresholds is None:
        return text
    negligible = 1e-6 * model.size.mean  # the search ends a little above 0
    taus = [
        f"{pool.name} {', '.join(f'{tau:.4g}' if tau > negligible else '0' for tau in visits)}"
        for pool, visits in zip(model.pools, best.thresholds, strict=True)
    ]
    return f"{text} and the thresholds {{{'; '.join(taus)}}}"
