"""What the theory says of a scenario, or why it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import msgspec
import numpy as np

from testbed.theory.steady_state import SteadyState

if TYPE_CHECKING:
    from testbed.theory.cluster_model import ClusterModel

Kind = Literal["exact", "limit", "approximation", "bound"]

#: The probabilities whose quantiles a prediction gives.
QUANTILES = (0.5, 0.9, 0.99, 0.999)
TAIL_POINTS = 16  # of a prediction's curve; some tails take 25 ms a point


class Prediction(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted response time, in time units.

    ``kind``: exact for the scenario's finite system; the limit of many servers; an approximation; or a bound.
    ``quantiles`` maps 0.5, 0.9, 0.99 and 0.999 to response times, and is empty where no distribution is derived.
    ``response_tail`` are points (t, P(response time > t)) of the same distribution, for drawing: from a tenth of the
    median to beyond the last quantile, equally far apart on a logarithmic axis.
    ``lower_bound`` is a mean response time that no policy without knowledge of sizes can go below, where one is known.
    """

    name: str
    source: str
    kind: Kind
    mean_response_time: float
    quantiles: dict[float, float]
    notes: list[str]
    lower_bound: float | None = None
    response_tail: list[tuple[float, float]] = []


class NoPrediction(msgspec.Struct, frozen=True):
    """Why there is no prediction."""

    reason: str


class NoTheoryError(Exception):
    """Raised by a policy's theory where it doesn't cover the scenario; the message becomes NoPrediction's reason."""


@dataclass(frozen=True)
class Formula:
    """A policy's theory applied to a scenario without message delay.

    ``probing`` is how often a job waits for the answers to questions before it is placed, on average; ``relayed`` how
    many more messages it waits for on its way through central queues. ``queue_oblivious`` says that the policy looks
    at no queue, so that a constant delay only shifts its response times. ``lower_bound`` is as in Prediction.
    """

    name: str
    source: str
    kind: Kind
    state: SteadyState
    notes: tuple[str, ...] = ()
    probing: float = 0.0
    relayed: float = 0.0
    queue_oblivious: bool = False
    lower_bound: float | None = None

    def prediction(self, model: ClusterModel) -> Prediction:
        """Return the prediction: the formula, with the time that messages take added.

        A job is sent to its server and reported done, which takes two messages; probing takes two more. What the delay
        does to a central queue, whose servers wait for messages too, must be in the formula already. Raises
        NoTheoryError for random delays of probes, whose slowest reply counts.
        """
        state = self.state
        known = state.response_time_tail is not None
        quantiles = {p: state.quantile(p) for p in QUANTILES} if known else {}
        tail = _curve(state, quantiles) if known else []
        mean, lower_bound, notes = state.mean_response_time, self.lower_bound, list(self.notes)
        kind = self.kind
        delay = model.mean_delay
        if delay > 0:
            if self.probing and not model.constant_delay:
                raise NoTheoryError("no formula for random message delays with probing: the slowest reply counts")
            messages = 2 + 2 * self.probing + self.relayed
            mean += messages * delay
            lower_bound = None if lower_bound is None else lower_bound + 2 * delay
            shifted = model.constant_delay and messages in (2, 4, 6)
            quantiles = {p: t + messages * delay for p, t in quantiles.items()} if shifted else {}
            tail = [(t + messages * delay, p) for t, p in tail] if shifted else []
            notes.append(
                f"the formula gives {state.mean_response_time:.4g}; {messages:.3g} one-way message delays of {delay:g} "
                "are added"
            )
            if not model.constant_delay:
                kind = "approximation"
                notes.append(
                    "random message delays change the order and spacing of arrivals at a server, which is ignored"
                )
            if not self.queue_oblivious:
                kind = "approximation"
                notes.append("the age of what the dispatcher knows of the queues is ignored: the true value is higher")
        return Prediction(
            name=self.name,
            source=self.source,
            kind=kind,
            mean_response_time=mean,
            quantiles=quantiles,
            notes=notes,
            lower_bound=lower_bound,
            response_tail=tail,
        )


def _curve(state: SteadyState, quantiles: dict[float, float]) -> list[tuple[float, float]]:
    assert state.response_time_tail is not None
    times = np.geomspace(quantiles[QUANTILES[0]] / 10, 1.5 * quantiles[QUANTILES[-1]], TAIL_POINTS)
    return [(float(t), float(state.response_time_tail(float(t)))) for t in times]
