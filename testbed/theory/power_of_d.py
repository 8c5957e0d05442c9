"""Power of d choices: probe d servers at random and join the shortest queue. Limits as the number of servers grows.

Sources: Vvedenskaya, Dobrushin and Karpelevich 1996; Mitzenmacher 2001 (exponential sizes). For phase-type sizes, the
cavity queue: in the limit the queues are independent, and each is an M_n/PH/1 queue whose arrival rate depends on its
length n through the common queue-length distribution (Bramson, Lu and Prabhakar 2012).
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from testbed.theory import phase_type
from testbed.theory.argument_checks import require_load
from testbed.theory.steady_state import NEGLIGIBLE, Floats, SteadyState, stage_count_tail

_MOST_LEVELS = 1 << 20
_MOST_ITERATIONS = 10_000
#: The weight of the new queue lengths in an iteration; less than 1, or high loads with large d oscillate.
_DAMPING = 0.7


def power_of_d(load: float, d: float) -> SteadyState:
    """Return power of d with exponential sizes of mean 1 in the limit of many servers.

    S_1 = load and S_(i+1) = load ((1-f) S_i^floor(d) + f S_i^(floor(d)+1)), where a job probes floor(d) or, with
    probability f = d - floor(d), floor(d) + 1 servers. A job finds j tasks or more before it with probability
    S_(j+1)/load, which gives the response-time distribution.

    ``load`` in (0, 1); ``d`` >= 1 is the mean number of probes and need not be an integer; d = 1 is random routing.
    Kind: limit. Raises ValueError for values outside these ranges.
    """
    require_load(load)
    choices = _choices(d)
    tail = [1.0, load]
    while tail[-1] > NEGLIGIBLE * load:
        tail.append(load * sum(fraction * tail[-1] ** probes for probes, fraction in choices))
    S = np.array(tail)
    return SteadyState(float(S[1:].sum() / load), S, stage_count_tail(S[1:] / load))


def power_of_d_phase_type(load: float, d: float, alpha: npt.ArrayLike, S: npt.ArrayLike) -> SteadyState:
    """Return power of d with phase-type sizes PH(alpha, S) in the limit of many servers.

    A server that holds n tasks receives jobs at rate load (S_n^d - S_(n+1)^d) / (S_n - S_(n+1)) per mean size. The
    queue with these rates has a queue-length distribution S of its own; the fixed point is found by damped iteration.
    ``load`` in (0, 1), ``d`` >= 1 as in power_of_d; ``alpha`` (m,), ``S`` (m, m) in any time unit: the response times
    are in the same one. d = 1 is M/PH/1, a single phase gives power_of_d.
    Kind: limit. Raises ValueError for bad values, ArithmeticError where the iteration doesn't settle.
    """
    require_load(load)
    choices = _choices(d)
    initial, generator = phase_type.validated(alpha, S)
    mean = phase_type.mean(initial, generator)
    generator = generator * mean
    levels = 32
    while True:
        queue_length_tail, occupancy, rates = _fixed_point(load, choices, initial, generator, levels)
        if queue_length_tail[levels] <= NEGLIGIBLE * load:
            break
        levels *= 2
        if levels > _MOST_LEVELS:
            raise ArithmeticError(f"queues of more than {_MOST_LEVELS} tasks are likely; lower the load {load}")
    # An arriving job joins level n + 1: behind n tasks, of which the first is in the phase that the server shows.
    joined = np.empty_like(occupancy)
    joined[0] = initial * rates[0] * (1 - queue_length_tail[1]) / load
    joined[1:] = occupancy[:-1] * rates[1:-1, None] / load
    tail = stage_count_tail(*_stages(joined, initial, generator))
    state = SteadyState(float(queue_length_tail[1:].sum() / load), queue_length_tail, tail)
    return state.scaled(mean)


def _choices(d: float) -> list[tuple[int, float]]:
    """Return (probes, probability) for a mean of d probes."""
    if not (math.isfinite(d) and d >= 1):
        raise ValueError(f"d is {d}; it is the mean number of probes for a job, at least 1")
    whole = math.floor(d)
    fraction = d - whole
    return [(whole, 1 - fraction), (whole + 1, fraction)] if fraction > 0 else [(whole, 1.0)]


def _fixed_point(
    load: float, choices: list[tuple[int, float]], alpha: Floats, S: Floats, levels: int
) -> tuple[Floats, Floats, Floats]:
    """Return the queue-length tail (levels + 2,), the phase occupancy of levels 1.. (levels, m), rates (levels + 1,).

    The queue holds at most ``levels`` tasks; S has mean 1.
    """
    tail = np.zeros(levels + 2)
    exponential = power_of_d(load, sum(probes * fraction for probes, fraction in choices)).queue_length_tail
    assert exponential is not None
    tail[: min(exponential.size, levels + 1)] = exponential[: levels + 1]
    for _ in range(_MOST_ITERATIONS):
        rates = _arrival_rates(load, choices, tail)
        occupancy = _occupancy(rates, alpha, S)
        new = np.concatenate([[1.0], np.cumsum(occupancy.sum(axis=1)[::-1])[::-1], [0.0]])
        change = float(np.abs(new - tail).max())
        if change < 1e-14:
            return new, occupancy, rates
        tail = tail + _DAMPING * (new - tail)
    raise ArithmeticError(f"the fixed point for load {load} was not reached in {_MOST_ITERATIONS} iterations")


def _arrival_rates(load: float, choices: list[tuple[int, float]], tail: Floats) -> Floats:
    """Return the arrival rate at a server with n tasks, for n = 0..levels.

    The quotient (a^d - b^d)/(a - b) is written as sum_j a^j b^(d-1-j), which does not cancel when a is close to b.
    """
    above, below = tail[:-1], tail[1:]
    rates = np.zeros(above.size)
    for probes, fraction in choices:
        for j in range(probes):
            rates += fraction * load * above**j * below ** (probes - 1 - j)
    return rates


def _occupancy(rates: Floats, alpha: Floats, S: Floats) -> Floats:
    """Return the stationary probabilities of (n tasks, phase), n = 1..levels, of the M_n/PH/1 queue.

    What flows up from level n flows down from level n + 1, and a new service starts with alpha, so that pi_n =
    rate_(n-1) pi_(n-1) (rate_n (I - 1 alpha) - S)^-1. No job enters the highest level's successor: its rate is 0.
    """
    m = alpha.size
    own = rates[1:].copy()
    own[-1] = 0.0
    restart = np.eye(m) - np.outer(np.ones(m), alpha)
    steps = np.linalg.inv(own[:, None, None] * restart - S) * rates[:-1, None, None]
    occupancy = np.empty((own.size, m))
    level = alpha
    for n in range(own.size):
        level = level @ steps[n]
        occupancy[n] = level
    return np.asarray(occupancy / (1 + occupancy.sum()))


def _stages(joined: Floats, alpha: Floats, S: Floats) -> tuple[Floats, float]:
    """Return P(more than n stages), n = 0.., and the stages' rate, for the response time of a job that joins a queue.

    ``joined`` (levels, m): probability of being at position 1, 2, ... with the server in a given phase. Uniformised at
    the largest rate of the phases, the job moves down one position with each service that ends.
    """
    rate = float(-np.diag(S).min())
    within = np.eye(alpha.size) + S / rate
    leave = -S.sum(axis=1) / rate
    at = joined
    more_than = [float(at.sum())]
    while more_than[-1] > NEGLIGIBLE:
        ended = at @ leave
        at = at @ within
        at[:-1] += np.outer(ended[1:], alpha)
        more_than.append(float(at.sum()))
    return np.array(more_than), rate
