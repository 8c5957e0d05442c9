"""Random routing: each job goes to a server chosen at random, whatever the queues.

The simplest policy, and the one whose theory is exact: with Poisson arrivals every server is an M/G/1 queue. With
``weights`` server i is chosen with probability proportional to weights[i]; without, uniformly.

The tasks of a job go to distinct servers, a uniform sample; with ``replacement`` each goes its own way and two may
meet. Weights need the latter, and so do jobs of more tasks than there are servers.
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import accumulate
from typing import Annotated

import msgspec
from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.view import DispatcherView


class RandomParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of random routing."""

    weights: Annotated[
        tuple[Annotated[float, msgspec.Meta(ge=0)], ...] | None,
        msgspec.Meta(description="one weight per server, not all zero; default: equal"),
    ] = None
    replacement: Annotated[
        bool, msgspec.Meta(description="whether two tasks of a job may go to the same server; needed with weights")
    ] = False


class Random(Policy):
    """A server chosen at random."""

    name = "random"
    source = "classical; M/G/1 by Pollaczek and Khinchine"
    theory = "testbed.theory.queue_oblivious_policies:RANDOM"
    Parameters = RandomParameters

    def __init__(self, parameters: RandomParameters, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._cumulated: list[float] | None = None
        if parameters.weights is not None:
            self._cumulated = list(accumulate(parameters.weights))

    @classmethod
    @override
    def check(cls, parameters: RandomParameters, servers: int) -> None:
        """Check that there is a weight for each server, and that they are not all zero."""
        weights = parameters.weights
        if weights is not None and len(weights) != servers:
            raise ValueError(f"weights: there are {len(weights)} and {servers} servers; give one for each")
        if weights is not None and not sum(weights) > 0:
            raise ValueError("weights: all are zero; give a positive one to each server that should receive jobs")

    @classmethod
    @override
    def check_tasks(cls, parameters: RandomParameters, servers: int, tasks: int) -> None:
        """Check that there are distinct servers for a job's tasks."""
        if tasks > 1 and not parameters.replacement:
            if parameters.weights is not None:
                raise ValueError(f"weights: with jobs of up to {tasks} tasks they need replacement = true")
            if tasks > servers:
                raise ValueError(
                    f"a job's {tasks} tasks go to distinct servers, and there are {servers}; set replacement = true, "
                    "or have more servers"
                )

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        """Choose distinct servers for the tasks, or one after the other."""
        dispatcher = self.dispatcher
        if self.parameters.replacement:
            super().place_tasks(job, tasks)
        else:
            for server in dispatcher.rng.sample(dispatcher.servers, tasks):
                dispatcher.assign(job, server)

    @override
    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        if self._cumulated is None:
            server = int(dispatcher.rng.uniform() * dispatcher.servers)
        else:
            server = bisect_right(self._cumulated, dispatcher.rng.uniform() * self._cumulated[-1])
        dispatcher.assign(job, server)
