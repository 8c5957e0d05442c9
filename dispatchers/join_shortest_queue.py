"""Join the shortest queue: ask every server, and place the job where the queue is shortest.

Ties are broken uniformly at random, by one number drawn when the job arrives. When time is up the job goes to the
shortest queue among the servers that have replied, or, if none has, to a server chosen at random. With one server there
is nothing to ask. The paper's decision is instantaneous: with message delay, queue lengths are as old as the delay, and
jobs whose probes overlap, of one dispatcher or of several, choose without knowing of each other (they herd).

Of a job of several tasks each goes to a shortest queue in turn, with the job's earlier ones counted (water-filling):
all N servers are asked once for the job, in random order, which breaks the ties.
"""

from __future__ import annotations

from typing import Any

import msgspec
from typing_extensions import override

from dispatchers.policy import Timeout
from dispatchers.probing import ProbeRound, ProbingPolicy
from dispatchers.water_filling import fill


class JoinShortestQueueParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of join the shortest queue."""

    timeout: Timeout = None


class JoinShortestQueue(ProbingPolicy):
    """A shortest queue among all servers."""

    name = "jsq"
    source = "Winston 1977; Weber 1978 (optimality)"
    theory = "testbed.theory.queue_aware_policies:JOIN_SHORTEST_QUEUE"
    Parameters = JoinShortestQueueParameters

    @classmethod
    @override
    def probes_per_job(cls, parameters: Any, servers: int) -> float:
        return servers if servers > 1 else 0

    @classmethod
    @override
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        return cls.probes_per_job(parameters, servers)

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        dispatcher = self.dispatcher
        order = dispatcher.rng.sample(dispatcher.servers, dispatcher.servers)
        if dispatcher.servers == 1:
            super().place_tasks(job, tasks)
        else:
            self.start_round(job, order, tasks=tasks)

    @override
    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        draw = dispatcher.rng.uniform()
        if dispatcher.servers == 1:
            dispatcher.assign(job, 0)
        else:
            self.start_round(job, range(dispatcher.servers), draw)

    @override
    def decide(self, round: ProbeRound) -> None:
        """Place the tasks on shortest queues among those known."""
        queue_lengths = round.queue_lengths
        if round.tasks > 1:
            for server in fill(round.servers, queue_lengths, round.tasks):
                self.dispatcher.assign(round.job, server)
            return
        shortest = min(queue_lengths.values(), default=0)
        # In the order of the servers, not of the replies: the choice must not depend on which reply came first.
        tied = [server for server in round.servers if queue_lengths.get(server, shortest + 1) == shortest]
        candidates = tied or round.servers
        self.dispatcher.assign(round.job, candidates[int(round.draw * len(candidates))])
