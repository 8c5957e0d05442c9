"""Theory of the policies that look at queues or at idle servers: limits of many identical servers."""

from __future__ import annotations

from typing_extensions import override

from testbed.theory import phase_type
from testbed.theory.baselines import jiq_limit, jsq_limit, mg1, mmc, power_of_d, power_of_d_phase_type
from testbed.theory.cluster_model import ClusterModel
from testbed.theory.jobs_of_tasks import JobsOfTasks, SamplesForEachTask
from testbed.theory.parallel_jobs import MeanField
from testbed.theory.prediction import Formula, NoTheoryError
from testbed.theory.queue_oblivious_policies import random_routing, require_ample_buffers
from testbed.theory.service import is_exponential


def power_of_d_choices(model: ClusterModel) -> Formula:
    """Return power of d: the limit for exponential and for phase-type service times."""
    d = min(float(model.parameters.d), float(model.servers))
    if d == 1:
        return random_routing(model)
    load = _require_identical(model, "power of d")
    _require_patience(model)
    service = model.pools[0].service
    notes = [
        f"a finite cluster lies above the limit of many servers, by about c/N; here N = {model.servers}. In "
        "simulations with exponential sizes and d = 2, c is 3.2 at load 0.9 and 7.7 at load 0.95"
    ]
    if model.parameters.replacement:
        notes.append("sampling with replacement, which sometimes samples fewer servers, adds to that")
    if d == model.servers:
        notes.append(
            "all servers are probed: this is join the shortest queue, of which the limit for fixed d says little"
        )
    lower_bound = None
    if is_exponential(service):
        state = power_of_d(load, d).scaled(service.mean)
        source = "Vvedenskaya, Dobrushin and Karpelevich 1996; Mitzenmacher 2001"
        lower_bound = _central_queue(model, load, notes)
    else:
        phases = service.phase_type()
        if phases is None:
            raise NoTheoryError("power of d has a formula for exponential and phase-type service times only")
        if len(phases[0]) > phase_type.MOST_PHASES:
            raise NoTheoryError(f"power of d is computed for at most {phase_type.MOST_PHASES} phases of service")
        try:
            state = power_of_d_phase_type(load, d, *phases)
        except ArithmeticError as error:
            raise NoTheoryError(f"the fixed point of power of d was not found: {error}") from None
        source = "cavity queue M_n/PH/1 (Bramson, Lu and Prabhakar 2012)"
    # With a d between 1 and 2 some jobs sample a single server, and then need no probe.
    probing = 1.0 if d >= 2 else d - 1
    name = f"power of {d:g} choices, N → ∞"
    return Formula(name, source, "limit", state, tuple(notes), probing=probing, lower_bound=lower_bound)


def _no_waiting(model: ClusterModel, policy: str, source: str, probing: float = 0.0) -> Formula:
    if model.servers == 1:
        return random_routing(model)
    load = _require_exponential(model, policy)
    notes = [
        "a finite cluster lies above the limit of many servers, and far above it while N (1 - load)^2 is below about "
        f"2; here it is {model.servers * (1 - load) ** 2:.3g}"
    ]
    lower_bound = _central_queue(model, load, notes)
    state = jsq_limit(load).scaled(model.pools[0].service.mean)
    return Formula(f"{policy}, N → ∞", source, "limit", state, tuple(notes), probing=probing, lower_bound=lower_bound)


def _require_identical(model: ClusterModel, policy: str) -> float:
    """Return the load as a fraction of what the servers can do, or raise NoTheoryError."""
    if not model.poisson:
        raise NoTheoryError(f"{policy} has a formula for Poisson arrivals only")
    if not model.identical_servers:
        raise NoTheoryError(f"{policy} has a formula for servers of the same speed and buffer only")
    service = model.pools[0].service
    load = model.rate * service.mean / model.servers
    if load >= 1:
        raise NoTheoryError(f"{policy} has no formula for an overloaded cluster with finite buffers")
    if model.buffers:
        # Random routing has the longest queues of all the policies; if those fit, so do this one's.
        require_ample_buffers(mg1(model.rate / model.servers, service), model.buffers[0])
    return load


def _require_exponential(model: ClusterModel, policy: str) -> float:
    load = _require_identical(model, policy)
    if not is_exponential(model.pools[0].service):
        raise NoTheoryError(f"{policy} has a formula for exponential service times only")
    return load


def _require_patience(model: ClusterModel) -> None:
    timeout = model.parameters.timeout
    if model.servers > 1 and timeout is not None and timeout <= 2 * model.mean_delay:
        raise NoTheoryError(f"no formula for a timeout of {timeout:g} that ends before the probes' replies come")


def _central_queue(model: ClusterModel, load: float, notes: list[str]) -> float:
    """Return the mean of M/M/N, and add a note that says so."""
    bound = mmc(model.servers, load).mean_response_time * model.pools[0].service.mean
    notes.append(
        f"no policy that does not know the sizes can have a mean below {bound:.4g}, that of M/M/{model.servers}, one "
        "queue for all" + (" (before message delays)" if model.mean_delay > 0 else "")
    )
    return bound


class PowerOfD(SamplesForEachTask):
    """Power of d choices."""

    fills_servers = True
    mean_field = "per-task-power-of-d"
    mean_field_source = "Mitzenmacher 2001; Vvedenskaya, Dobrushin and Karpelevich 1996"

    @override
    def formula(self, model: ClusterModel) -> Formula:
        return power_of_d_choices(model)

    @override
    def notes_on_limit(self, model: ClusterModel, field: MeanField) -> list[str]:
        return [
            *super().notes_on_limit(model, field),
            "tasks of a job do not see each other, which makes no difference in the limit",
        ]


class JoinShortestQueue(JobsOfTasks):
    """Join the shortest queue."""

    fills_servers = True
    mean_field = "jsq"
    mean_field_source = "Liu and Ying 2020"
    no_waiting = True

    @override
    def formula(self, model: ClusterModel) -> Formula:
        """Return join the shortest queue: no job waits in the limit."""
        _require_patience(model)
        return _no_waiting(
            model, "join the shortest queue", "Eschenfeldt and Gamarnik 2018; Liu and Ying 2020", probing=1.0
        )

    @override
    def probing(self, model: ClusterModel) -> float:
        return 1.0


class LeastOutstanding(JobsOfTasks):
    """Least outstanding: of one dispatcher, join the shortest queue."""

    fills_servers = True
    mean_field = "jsq"
    mean_field_source = "Liu and Ying 2020"
    several_dispatchers = False
    no_waiting = True

    @override
    def formula(self, model: ClusterModel) -> Formula:
        """Return least outstanding, which is join the shortest queue when one dispatcher places all jobs."""
        if model.dispatchers > 1 and model.servers > 1:
            raise NoTheoryError("least outstanding has a formula for one dispatcher only: each sees but its own jobs")
        return _no_waiting(
            model, "least outstanding = join the shortest queue", "Eschenfeldt and Gamarnik 2018; Liu and Ying 2020"
        )


class JoinIdleQueue(JobsOfTasks):
    """Join the idle queue."""

    fills_servers = True
    mean_field = "jiq"
    mean_field_source = "Lu, Xie, Kliot, Geller, Larus and Greenberg 2011"
    several_dispatchers = False
    no_waiting = True

    @override
    def formula(self, model: ClusterModel) -> Formula:
        """Return join the idle queue: no job waits with one dispatcher; several may find their own idle list empty."""
        source = "Lu, Xie, Kliot, Geller, Larus and Greenberg 2011"
        if model.dispatchers == 1 or model.servers == 1:
            return _no_waiting(model, "join the idle queue", source)
        load = _require_exponential(model, "join the idle queue")
        ratio = model.servers / model.dispatchers
        notes = [
            f"the limit of many servers and many dispatchers, {ratio:.4g} servers to each; of the difference with "
            f"{model.servers} servers and {model.dispatchers} dispatchers not even the sign is known"
        ]
        lower_bound = _central_queue(model, load, notes)
        state = jiq_limit(load, ratio).scaled(model.pools[0].service.mean)
        name = f"join the idle queue, {model.dispatchers} dispatchers, N → ∞"
        return Formula(name, source, "limit", state, tuple(notes), lower_bound=lower_bound)


POWER_OF_D = PowerOfD()
JOIN_SHORTEST_QUEUE = JoinShortestQueue()
LEAST_OUTSTANDING = LeastOutstanding()
JOIN_IDLE_QUEUE = JoinIdleQueue()
