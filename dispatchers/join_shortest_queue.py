"""Join the shortest queue: ask every server, and place the job where the queue is shortest.

Ties are broken uniformly at random, by one number drawn when the job arrives. When time is up the job goes to the
shortest queue among the servers that have replied, or, if none has, to a server chosen at random. With one server there
is nothing to ask. The paper's decision is instantaneous: with message delay, queue lengths are as old as the delay, and
jobs whose probes overlap, of one dispatcher or of several, choose without knowing of each other (they herd).
"""

from __future__ import annotations

from typing import Any

import msgspec

from dispatchers.policy import Timeout
from dispatchers.probing import ProbingPolicy, Question


class JoinShortestQueueParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of join the shortest queue."""

    timeout: Timeout = None


class JoinShortestQueue(ProbingPolicy):
    """A shortest queue among all servers."""

    name = "jsq"
    source = "Winston 1977; Weber 1978 (optimality)"
    Parameters = JoinShortestQueueParameters

    @classmethod
    def probes_per_job(cls, parameters: Any, servers: int) -> float:
        """Return one per server, or none when there is but one."""
        return servers if servers > 1 else 0

    def place(self, job: int) -> None:
        """Ask all servers."""
        dispatcher = self.dispatcher
        draw = dispatcher.rng.uniform()
        if dispatcher.servers == 1:
            dispatcher.assign(job, 0)
        else:
            self.ask(job, range(dispatcher.servers), draw)

    def decide(self, question: Question) -> None:
        """Place the job on a shortest queue among those known."""
        queue_lengths = question.queue_lengths
        shortest = min(queue_lengths.values(), default=0)
        # In the order of the servers, not of the replies: the choice must not depend on which reply came first.
        tied = [server for server in question.servers if queue_lengths.get(server, shortest + 1) == shortest]
        candidates = tied or question.servers
        self.dispatcher.assign(question.job, candidates[int(question.draw * len(candidates))])
