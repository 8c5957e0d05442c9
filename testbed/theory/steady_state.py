"""What a formula says about a queue in steady state: the form in which every baseline gives its result."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from scipy.optimize import brentq
from scipy.special import gammaln

Floats = npt.NDArray[np.float64]
Tail = Callable[[float], float]

#: Where a sum over queue lengths or service stages is cut off. It bounds the quantiles that can be asked for.
NEGLIGIBLE = 1e-13
_SMALLEST_TAIL = 1e-9


@dataclass(frozen=True)
class SteadyState:
    """A queue, or a typical server of a cluster, in steady state.

    ``mean_response_time`` is that of accepted jobs, in the time unit of the formula that made it (the mean service time
    unless it says otherwise).
    ``queue_length_tail[i]`` is the fraction of servers with at least i tasks, the one in service included, from
    ``queue_length_tail[0] = 1`` to where it becomes negligible; None where it is not derived.
    ``response_time_tail(t)`` is P(response time > t); None where it is not derived.
    ``drop_probability`` is the fraction of jobs that find a full buffer.
    """

    mean_response_time: float
    queue_length_tail: Floats | None = None
    response_time_tail: Tail | None = None
    drop_probability: float = 0.0

    def quantile(self, probability: float) -> float:
        """Return the response time that a fraction ``probability`` of the accepted jobs stays within.

        Raises ValueError where the response-time distribution is not derived, or for a probability outside
        (0, 1 - 1e-9].
        """
        if self.response_time_tail is None:
            raise ValueError("no response-time distribution is derived here; use mean_response_time")
        if not 0 < probability <= 1 - _SMALLEST_TAIL:
            raise ValueError(f"probability is {probability}; it must lie in (0, 1 - {_SMALLEST_TAIL:g}]")
        tail = self.response_time_tail
        high = self.mean_response_time
        while tail(high) > 1 - probability:
            high *= 2
        # A delay shifts the distribution away from zero, so that the tail is 1 there: the bracket holds.
        return float(brentq(lambda t: tail(t) - (1 - probability), 0.0, high, xtol=1e-12 * high, rtol=1e-12))

    def scaled(self, factor: float) -> SteadyState:
        """Return the same queue with times in a unit that is ``factor`` times smaller."""
        tail = self.response_time_tail
        return replace(
            self,
            mean_response_time=self.mean_response_time * factor,
            response_time_tail=None if tail is None else lambda t: tail(t / factor),
        )


def mixture(weights: Sequence[float], states: Sequence[SteadyState]) -> SteadyState:
    """Return the response times of jobs of which a fraction ``weights[i]`` goes to the queue ``states[i]``.

    The weights sum to 1 and count arriving jobs; response times are those of the accepted ones. The queue-length tail
    is left out, since the fractions of jobs are not the fractions of servers.
    """
    accepted = np.array([w * (1 - s.drop_probability) for w, s in zip(weights, states, strict=True)])
    fractions = accepted / accepted.sum()
    tails = [s.response_time_tail for s in states]
    known = [tail for tail in tails if tail is not None]

    def response_time_tail(t: float) -> float:
        return float(sum(fraction * tail(t) for fraction, tail in zip(fractions, known, strict=True)))

    return SteadyState(
        mean_response_time=float(
            sum(fraction * s.mean_response_time for fraction, s in zip(fractions, states, strict=True))
        ),
        response_time_tail=response_time_tail if len(known) == len(tails) else None,
        drop_probability=float(sum(w * s.drop_probability for w, s in zip(weights, states, strict=True))),
    )


def stage_count_tail(more_than: Floats, rate: float = 1.0) -> Tail:
    """Return the tail of a sum of K exponential stages of the same rate, K random.

    ``more_than[n]`` is P(K > n), n = 0, 1, ...; zero beyond its end. By uniformisation P(sum > t) =
    sum_n P(K > n) e^(-rate t) (rate t)^n / n!, the probability that fewer than K events of a Poisson process fall into
    [0, t].
    """
    counts = np.arange(len(more_than))
    log_factorials = gammaln(counts + 1)

    def tail(t: float) -> float:
        if t <= 0:
            return float(more_than[0])
        log_poisson = counts * np.log(rate * t) - rate * t - log_factorials
        return float(more_than @ np.exp(log_poisson))

    return tail
