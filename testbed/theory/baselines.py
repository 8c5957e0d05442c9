"""The classical formulas: one queue, a central queue, and the simplest dispatching policies.

Each takes numbers and distributions and returns a SteadyState; its docstring names the source and says whether the
result is exact or a limit of many servers. Unless said otherwise service times have mean 1, so that response times are
in mean service times, and ``load`` is the arrival rate per server.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq

from testbed.theory import phase_type
from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.power_of_d import power_of_d, power_of_d_phase_type
from testbed.theory.service import ServiceTime
from testbed.theory.steady_state import NEGLIGIBLE, Floats, SteadyState, Tail, stage_count_tail
from testbed.workload.distributions import PhaseType

__all__ = [
    "central_queue_task_delay",
    "erlang_c",
    "gim1",
    "jiq_idle_fraction",
    "jiq_limit",
    "jsq_limit",
    "mg1",
    "mm1",
    "mm1b",
    "mmc",
    "power_of_d",
    "power_of_d_phase_type",
    "round_robin",
]

#: The most queue lengths that a result lists: at loads that need more (0.9997 for M/M/1) it lists none.
_MOST_TERMS = 100_000


def mm1(load: float) -> SteadyState:
    """Return the M/M/1 queue: S_i = load^i, response time exponential with rate 1 - load.

    Kind: exact. Source: Erlang; any queueing text. Raises ValueError unless 0 < load < 1.
    """
    require_load(load)
    return SteadyState(1 / (1 - load), _geometric(load, load), _exponential_tail(1 - load))


def mm1b(load: float, buffer: int) -> SteadyState:
    """Return the M/M/1/b queue: at most ``buffer`` tasks, the one in service included; others are dropped.

    P(n tasks) is proportional to load^n. An accepted job that finds n tasks waits for n + 1 exponential services.
    ``load`` > 0 is the offered load and may exceed 1. Kind: exact. Raises ValueError for bad values.
    """
    if not (math.isfinite(load) and load > 0):
        raise ValueError(f"load is {load}; give a finite load above 0")
    require_count("buffer", buffer)
    n = np.arange(buffer + 1)
    exponents = n * math.log(load)
    occupancy = np.exp(exponents - exponents.max())
    occupancy /= occupancy.sum()
    tail = np.cumsum(occupancy[::-1])[::-1]
    # An accepted job finds n < b tasks; it needs more than j services when it finds at least j.
    more_than = (tail[:-1] - occupancy[-1]) / (1 - occupancy[-1])
    return SteadyState(float(more_than.sum()), tail, stage_count_tail(more_than), float(occupancy[-1]))


def mg1(arrival_rate: float, service: ServiceTime) -> SteadyState:
    """Return the M/G/1 queue, first come first served: mean W = rate E[X^2] / (2 (1 - load)), response W + X.

    ``arrival_rate`` in jobs per time unit, ``service`` with ``mean``, ``second_moment``, ``phase_type()``; response
    times in the same time unit. The mean is infinite when the second moment is. Phase-type service of at most
    MOST_PHASES phases adds the queue-length tail and the response-time distribution of M/PH/1; others have the mean.
    Kind: exact. Sources: Pollaczek 1930, Khinchine 1932; Neuts 1981, section 3.2, for M/PH/1.
    Raises ValueError unless 0 < arrival_rate * service.mean < 1.
    """
    load = arrival_rate * service.mean
    require_load(load)
    mean = service.mean + arrival_rate * service.second_moment / (2 * (1 - load))
    phases = service.phase_type()
    if phases is None or len(phases[0]) > phase_type.MOST_PHASES:
        return SteadyState(mean)
    alpha, S = phase_type.validated(*phases)
    return SteadyState(mean, _mph1_queue_length(arrival_rate, alpha, S), _mph1_response_tail(load, alpha, S))


def gim1(gap_transform: Callable[[float], float], load: float) -> SteadyState:
    """Return the GI/M/1 queue: sigma = A(1 - sigma), response time exponential with rate 1 - sigma.

    ``gap_transform`` is A(s) = E[exp(-s gap)], the Laplace transform of the time between arrivals, whose mean is
    1/load in mean service times. S_i = load sigma^(i-1). Kind: exact. Source: Kendall 1953.
    Raises ValueError unless 0 < load < 1.
    """
    require_load(load)

    def excess(sigma: float) -> float:
        return gap_transform(1 - sigma) - sigma

    # The excess is convex, positive at 0, and has a second root at 1, before which it is negative.
    step = 0.5
    while excess(1 - step) >= 0:
        step /= 2
        if step < 1e-12:
            raise ValueError(f"no sigma below 1: does the mean gap agree with the load {load}?")
    sigma = float(brentq(excess, 0.0, 1 - step, xtol=1e-15, rtol=1e-14))
    return SteadyState(1 / (1 - sigma), _geometric(load, sigma), _exponential_tail(1 - sigma))


def round_robin(servers: float, load: float) -> SteadyState:
    """Return round robin of a Poisson stream over ``servers`` queues with exponential sizes.

    Each server gets every N-th arrival: E_N/M/1. ``servers`` may be math.inf: D/M/1. Kind: exact (limit for inf).
    Source: the GI/M/1 queue with Erlang gaps. Raises ValueError for bad values.
    """
    require_load(load)
    if servers == math.inf:
        return gim1(lambda s: math.exp(-s / load), load)
    require_count("servers", servers)
    return gim1(lambda s: math.exp(-servers * math.log1p(s / (servers * load))), load)


def mmc(servers: int, load: float) -> SteadyState:
    """Return the M/M/c queue: c servers and one central queue.

    A job waits with Erlang's C, and then for an exponential time of rate c (1 - load). The servers have no queues of
    their own, so there is no queue-length tail. Its mean is a lower bound for every policy that does not know sizes,
    with exponential sizes. Kind: exact. Source: Erlang 1917. Raises ValueError for bad values.
    """
    waits = erlang_c(servers, load)
    drain = servers * (1 - load)

    def response_time_tail(t: float) -> float:
        slower = math.exp(-min(1.0, drain) * t)
        apart = abs(drain - 1)
        # P(service + wait > t) = e^-t + (e^-t - e^(-drain t)) / (drain - 1), continued to drain = 1.
        extra = slower * (-math.expm1(-apart * t) / apart if apart > 0 else t)
        return math.exp(-t) + waits * extra

    return SteadyState(1 + waits / drain, None, response_time_tail)


def erlang_c(servers: int, load: float) -> float:
    """Return Erlang's C, the probability that a job waits in M/M/c; from Erlang's B by its recursion."""
    require_load(load)
    require_count("servers", servers)
    offered = servers * load
    blocked = 1.0
    for n in range(1, servers + 1):
        blocked = offered * blocked / (n + offered * blocked)
    return blocked / (1 - load * (1 - blocked))


def central_queue_task_delay(servers: int, load: float, batch: int) -> float:
    """Return the mean response time of a task in M^[k]/M/N: jobs of ``batch`` tasks, one central queue.

    A lower bound for the mean task response time of every policy that does not know sizes, with exponential sizes.
    Kind: exact. Source: the balance of flow across each level of the number of tasks. Raises ValueError for bad values.
    """
    require_load(load)
    require_count("servers", servers)
    require_count("batch", batch)
    job_rate = servers * load / batch
    probabilities = [1.0]
    highest = 1.0
    # Up across n: every job that arrives at n-k+1..n tasks; down: one of min(n+1, N) services ends.
    while len(probabilities) <= servers or probabilities[-1] > NEGLIGIBLE * highest:
        probabilities.append(job_rate * sum(probabilities[-batch:]) / min(len(probabilities), servers))
        highest = max(highest, probabilities[-1])
        if highest > 1e200:  # only ratios count; with many servers they span more than a float does
            probabilities = [p / highest for p in probabilities]
            highest = 1.0
    occupancy = np.array(probabilities)
    return float(np.arange(occupancy.size) @ occupancy / occupancy.sum() / (servers * load))


def jsq_limit(load: float) -> SteadyState:
    """Return join the shortest queue with exponential sizes in the limit of many servers: no job waits.

    S_1 = load, S_2 = 0. Kind: limit, for a fixed load; of little use while N (1 - load)^2 is small.
    Source: Eschenfeldt and Gamarnik 2018; Liu and Ying 2020. Raises ValueError unless 0 < load < 1.
    """
    require_load(load)
    return SteadyState(1.0, np.array([1.0, load, 0.0]), _exponential_tail(1.0))


def jiq_limit(load: float, servers_per_dispatcher: float = math.inf, idle_list_choices: int = 1) -> SteadyState:
    """Return join the idle queue with exponential sizes in the limit of many servers, and of dispatchers if several.

    A dispatcher holds an idle server with probability rho (jiq_idle_fraction); otherwise a job goes to a random server.
    Busy servers get jobs at rate v = load (1 - rho), so S_(i+1) = v S_i and response times are exponential with rate
    1 - v. With one dispatcher (``servers_per_dispatcher`` = inf) no job waits.
    Kind: limit. Source: Lu et al. 2011. Raises ValueError for bad values.
    """
    if servers_per_dispatcher == math.inf:
        return jsq_limit(load)
    busy_rate = load * (1 - jiq_idle_fraction(load, servers_per_dispatcher, idle_list_choices))
    return SteadyState(1 / (1 - busy_rate), _geometric(load, busy_rate), _exponential_tail(1 - busy_rate))


def jiq_idle_fraction(load: float, servers_per_dispatcher: float, idle_list_choices: int = 1) -> float:
    """Return rho, the fraction of dispatchers that hold an idle server: sum_(i>=1) rho^((c^i-1)/(c-1)) = r (1 - load).

    r = ``servers_per_dispatcher`` > 0; an idle server reports to the shortest of c = ``idle_list_choices`` randomly
    chosen idle lists. c = 1 gives rho = r (1 - load) / (1 + r (1 - load)).
    Kind: limit. Source: Lu et al. 2011. Raises ValueError for bad values.
    """
    require_load(load)
    require_count("idle_list_choices", idle_list_choices)
    if not (math.isfinite(servers_per_dispatcher) and servers_per_dispatcher > 0):
        raise ValueError(f"servers_per_dispatcher is {servers_per_dispatcher}; give a finite number above 0")
    idle = servers_per_dispatcher * (1 - load)
    if idle_list_choices == 1:
        return idle / (1 + idle)

    def listed(rho: float) -> float:
        total, term = 0.0, rho
        while term > NEGLIGIBLE:
            total += term
            if total > idle:
                break
            # The exponents 1, 1 + c, 1 + c + c^2, ...: each is c times the one before, plus one.
            term = rho * term**idle_list_choices
        return total - idle

    return float(brentq(listed, 0.0, 1.0 - 1e-16, xtol=1e-15))


def _terms(ratio: float) -> int | None:
    """Return how many powers of a ratio in [0, 1) are not negligible; None for too many to hold."""
    if ratio <= 0:
        return 1
    terms = math.log(NEGLIGIBLE) / math.log(ratio)
    return 1 + math.ceil(terms) if terms < _MOST_TERMS else None


def _geometric(first: float, ratio: float) -> Floats | None:
    """Return 1, first, first ratio, first ratio^2, ... until negligible; None for too many."""
    terms = _terms(ratio)
    if terms is None:
        return None
    return np.concatenate([[1.0], first * ratio ** np.arange(terms)])


def _exponential_tail(rate: float) -> Tail:
    return lambda t: math.exp(-rate * t)


def _mph1_queue_length(arrival_rate: float, alpha: Floats, S: Floats) -> Floats | None:
    """Return the queue-length tail of M/PH/1: pi_n = (1 - load) alpha R^n, R = rate (rate (I - 1 alpha) - S)^-1."""
    m = alpha.size
    R = arrival_rate * np.linalg.inv(arrival_rate * (np.eye(m) - np.outer(np.ones(m), alpha)) - S)
    terms = _terms(float(np.abs(np.linalg.eigvals(R)).max()))
    if terms is None:
        return None
    level = (1 - arrival_rate * phase_type.mean(alpha, S)) * alpha
    at_least = np.linalg.solve(np.eye(m) - R, np.ones(m))
    tail = np.empty(terms + 1)
    for n in range(terms + 1):
        tail[n] = level @ at_least
        level = level @ R
    return tail


def _mph1_response_tail(load: float, alpha: Floats, S: Floats) -> Tail:
    """Return P(response > t) in M/PH/1.

    The waiting time is PH(load alpha_e, S + load exit alpha_e), alpha_e the phase at a random moment of a service: a
    geometric number of residual services. The service itself follows.
    """
    residual = phase_type.equilibrium(alpha, S)
    leave = -S.sum(axis=1)
    m = alpha.size
    generator = np.zeros((2 * m, 2 * m))
    generator[:m, :m] = S + load * np.outer(leave, residual)
    generator[:m, m:] = (1 - load) * np.outer(leave, alpha)
    generator[m:, m:] = S
    start = np.concatenate([load * residual, (1 - load) * alpha])
    # As a distribution of the workload: its distribution function sums nonnegative terms, where scipy's expm can be far
    # off.
    response = PhaseType(alpha=tuple(start.tolist()), S=tuple(map(tuple, generator.tolist())))
    return lambda t: 1 - response.cdf(t)
