"""Theory of the policies that look at no queue: each server is a queue of its own, and the formulas are exact."""

from __future__ import annotations

import math

from typing_extensions import override

from testbed.theory.baselines import gim1, mg1, mm1b, round_robin
from testbed.theory.cluster_model import ClusterModel, PoolModel
from testbed.theory.jobs_of_tasks import JobsOfTasks
from testbed.theory.parallel_jobs import MeanField
from testbed.theory.policy_theory import QueueOblivious
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.service import is_exponential
from testbed.theory.steady_state import NEGLIGIBLE, SteadyState, mixture

#: A buffer that an unlimited queue would exceed with less than this probability is taken as unlimited.
_RARELY_FULL = 1e-6
#: M/M/1/b is summed over its states, so that b is limited when the load makes use of them all.
_LARGEST_BUFFER = 1_000_000


def random_routing(model: ClusterModel) -> Formula:
    """Return random routing, uniform or weighted: a thinned arrival stream at each server.

    Poisson arrivals: M/G/1, or M/M/1/b for exponential service and a finite buffer. Renewal arrivals: a server's gaps
    are geometric sums of the cluster's, GI/M/1. It makes no difference how many dispatchers share the stream.
    """
    queues = [
        (fraction * count, *_thinned(model, pool, fraction)) for pool, fraction, count in model.theory.fractions(model)
    ]
    names = list(dict.fromkeys(name for _, name, _, _ in queues))
    sources = list(dict.fromkeys(source for _, _, source, _ in queues))
    state = mixture([weight for weight, *_ in queues], [state for *_, state in queues])
    notes = []
    if state.drop_probability > 0:
        notes.append(f"of accepted jobs; a fraction {state.drop_probability:.4g} of the jobs finds a full buffer")
    routing = "random routing" if model.servers > 1 else "one server"
    return Formula(
        f"{', '.join(names)}, {routing}", "; ".join(sources), "exact", state, tuple(notes), queue_oblivious=True
    )


def require_ample_buffers(state: SteadyState, buffer: int | None) -> None:
    """Raise NoTheoryError unless a queue with an unlimited buffer would almost never be as long as ``buffer``."""
    if buffer is None:
        return
    tail = state.queue_length_tail
    if tail is None:
        raise NoTheoryError("with finite buffers there is a formula only for phase-type service times of few phases")
    if buffer < len(tail) and tail[buffer] > _RARELY_FULL:
        raise NoTheoryError(
            f"no formula for a buffer of {buffer} that fills up (an unlimited queue is as long with probability "
            f"{tail[buffer]:.2g})"
        )


def _thinned(model: ClusterModel, pool: PoolModel, fraction: float) -> tuple[str, str, SteadyState]:
    """Return name, source and steady state of a server that gets a random ``fraction`` of all jobs."""
    service = pool.service
    exponential = is_exponential(service)
    arrival_rate = model.rate * fraction
    load = arrival_rate * service.mean
    never_full = load < 1 and pool.buffer is not None and load**pool.buffer < NEGLIGIBLE
    if model.poisson and exponential and pool.buffer is not None and not never_full:
        if pool.buffer > _LARGEST_BUFFER:
            raise NoTheoryError(f"no formula is computed for buffers above {_LARGEST_BUFFER} at a load this high")
        state = mm1b(load, pool.buffer).scaled(service.mean)
        return f"M/M/1/{pool.buffer}", "M/M/1 queue with a finite buffer", state
    if load >= 1:
        raise NoTheoryError(f"a server of pool {pool.name} is overloaded, and its buffer has no formula")
    if model.poisson:
        state = mg1(arrival_rate, service)
        if not math.isfinite(state.mean_response_time):
            raise NoTheoryError("the mean response time is infinite: so is the second moment of the service time")
        name = "M/M/1" if exponential else "M/G/1"
        source = "Pollaczek-Khinchine formula"
    else:
        gap = model.arrivals.gap_distribution(model.rate)
        if gap is None:
            raise NoTheoryError("no formula for arrivals that are neither Poisson nor a renewal process")
        if not exponential:
            raise NoTheoryError("arrivals other than Poisson have a formula for exponential service times only")

        def thinned_transform(s: float) -> float:
            whole = gap.laplace_transform(s / service.mean)
            return fraction * whole / (1 - (1 - fraction) * whole)

        state = gim1(thinned_transform, load).scaled(service.mean)
        name, source = "GI/M/1", "GI/M/1 queue (Kendall 1953) with gaps thinned at random"
    require_ample_buffers(state, pool.buffer)
    return name, source, state


def _dealt(model: ClusterModel) -> SteadyState:
    """Return the steady state of servers of which each gets every N-th job; service is exponential."""
    states = [_dealt_to(model, pool) for pool in model.pools]
    return mixture([pool.servers / model.servers for pool in model.pools], states)


def _dealt_to(model: ClusterModel, pool: PoolModel) -> SteadyState:
    gap = model.arrivals.gap_distribution(model.rate)
    if gap is None:
        raise NoTheoryError("no formula for arrivals that are neither Poisson nor a renewal process")
    mean, servers = pool.service.mean, model.servers
    load = model.rate * mean / servers
    if load >= 1:
        raise NoTheoryError(f"a server of pool {pool.name} is overloaded, and its buffer has no formula")
    state = gim1(lambda s: gap.laplace_transform(s / mean) ** servers, load).scaled(mean)
    require_ample_buffers(state, pool.buffer)
    return state


class RandomRouting(QueueOblivious, JobsOfTasks):
    """Random routing, uniform or by the weights of the servers."""

    mean_field = "random"
    mean_field_source = "M/M/1; Wang et al. 2019"

    @override
    def formula(self, model: ClusterModel) -> Formula:
        return random_routing(model)

    @override
    def fractions(self, model: ClusterModel) -> list[tuple[PoolModel, float, int]]:
        """Servers of a pool with the same weight are put together."""
        weights = model.parameters.weights
        if weights is None:
            return super().fractions(model)
        total = sum(weights)
        groups: list[tuple[PoolModel, float, int]] = []
        for pool in model.pools:
            own = weights[pool.first : pool.first + pool.servers]
            groups += [(pool, weight / total, own.count(weight)) for weight in dict.fromkeys(own) if weight > 0]
        return groups

    @override
    def notes_on_limit(self, model: ClusterModel, field: MeanField) -> list[str]:
        if not model.parameters.replacement and field.tasks > 1:
            return [
                "a finite cluster lies below the limit, which takes a job's tasks for independent; here N = "
                f"{model.servers}"
            ]
        return [f"the limit takes a job's tasks for independent; here N = {model.servers}"]


class RoundRobin(QueueOblivious, JobsOfTasks):
    """Round robin: the jobs are dealt to the servers in turn."""

    mean_field = "round-robin"
    mean_field_source = "D/M/1"
    several_dispatchers = False

    @override
    def formula(self, model: ClusterModel) -> Formula:
        """Return round robin: with one dispatcher every N-th arrival at each server, GI/M/1 with N gaps as one.

        Several dispatchers deal independently; the superposition of their streams at a server tends to a Poisson
        process as their number grows, so that M/M/1 is an approximation.
        """
        if model.servers == 1:
            return random_routing(model)
        if not all(is_exponential(pool.service) for pool in model.pools):
            raise NoTheoryError("round robin has a formula for exponential service times only")
        if model.dispatchers > 1:
            if not model.poisson:
                raise NoTheoryError("round robin with several dispatchers has a formula for Poisson arrivals only")
            formula = random_routing(model)
            regular = _dealt(model)
            return Formula(
                "M/M/1, round robin by several dispatchers",
                "superposition of independent regular streams, tending to Poisson (Palm, Khinchine)",
                "approximation",
                formula.state,
                (
                    "the stream at a server is more regular than Poisson, less regular than with one dispatcher: "
                    f"expect a value between {regular.mean_response_time:.4g} (one dispatcher) and "
                    f"{formula.state.mean_response_time:.4g}, nearer to the latter the more dispatchers there are",
                    *formula.notes,
                ),
                queue_oblivious=True,
            )
        gaps = f"E_{model.servers}" if model.poisson else f"GI^({model.servers})"
        state = _dealt(model)
        notes: tuple[str, ...] = ()
        if model.poisson and model.identical_servers:
            load = model.rate * model.pools[0].service.mean / model.servers
            limit = round_robin(math.inf, load).scaled(model.pools[0].service.mean).mean_response_time
            notes = (f"with ever more servers it falls to {limit:.4g} (D/M/1)",)
        return Formula(
            f"{gaps}/M/1, round robin",
            "GI/M/1 queue with Erlang gaps" if model.poisson else "GI/M/1 queue",
            "exact",
            state,
            notes,
            queue_oblivious=True,
        )

    @override
    def covered_load(self, model: ClusterModel) -> float:
        load = super().covered_load(model)
        if model.servers % model.tasks.most:
            raise NoTheoryError(
                f"round robin has a formula where the {model.tasks.most} tasks of a job divide {model.servers} servers"
            )
        return load

    @override
    def arrival_dispersion(self, fraction: float, dispersion: float) -> float:
        """A server gets every N-th of the jobs, which evens them out."""
        return fraction * dispersion

    @override
    def notes_on_limit(self, model: ClusterModel, field: MeanField) -> list[str]:
        return ["the limit is D/M/1 at each server; a finite cluster has E_(N/k)/M/1, which is a little larger"]


RANDOM = RandomRouting()
ROUND_ROBIN = RoundRobin()
