"""Random routing: each job goes to a server chosen at random, whatever the queues.

The simplest policy, and the one whose theory is exact: with Poisson arrivals every server is an M/G/1 queue. With
``weights`` server i is chosen with probability proportional to weights[i]; without, uniformly.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated, Any

import msgspec

from dispatchers.policy import Policy


class RandomParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of random routing."""

    weights: Annotated[
        tuple[Annotated[float, msgspec.Meta(ge=0)], ...] | None,
        msgspec.Meta(description="one weight per server, not all zero; default: equal"),
    ] = None


class Random(Policy):
    """A server chosen at random."""

    name = "random"
    source = "classical; M/G/1 by Pollaczek and Khinchine"
    Parameters = RandomParameters

    def __init__(self, parameters: RandomParameters, dispatcher: Any) -> None:
        super().__init__(parameters, dispatcher)
        self._cumulated: list[float] | None = None
        if parameters.weights is not None:
            self._cumulated = list(accumulate(parameters.weights))

    @classmethod
    def check(cls, parameters: RandomParameters, servers: int) -> None:
        """Check that there is a weight for each server, and that they are not all zero."""
        weights = parameters.weights
        if weights is not None and len(weights) != servers:
            raise ValueError(f"weights: there are {len(weights)} and {servers} servers; give one for each")
        if weights is not None and not sum(weights) > 0:
            raise ValueError("weights: all are zero; give a positive one to each server that should receive jobs")

    def place(self, job: int) -> None:
        """Choose a server and place the job there."""
        dispatcher = self.dispatcher
        if self._cumulated is None:
            server = int(dispatcher.rng.uniform() * dispatcher.servers)
        else:
            server = bisect_right(self._cumulated, dispatcher.rng.uniform() * self._cumulated[-1])
        dispatcher.assign(job, server)
