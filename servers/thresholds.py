"""Thresholds of received processing time: when the pool agent reroutes or replicates a job, and to which pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import inf
from typing import Literal

from servers.central_queue import Copy, Queue
from testbed.core.streams import Stream


@dataclass(frozen=True)
class Rules:
    """What happens to a job that has received its threshold of processing time without an end.

    ``thresholds`` are indexed by the job's present pool; ``by_visit``, if given, by its first pool and the visit. A job
    is rerouted ``hops`` times at most, to the next pool or to a random one that it has not visited. With ``carry_over``
    the work done on a copy counts for the next one.
    """

    action: Literal["reroute", "replicate"] | None = None
    thresholds: Sequence[float] = ()
    by_visit: Sequence[Sequence[float]] = ()
    hops: int = 1
    target: Literal["cyclic", "random"] = "cyclic"
    carry_over: bool = False


class Thresholds:
    """The rules, applied to the pools as they are: a pool whose servers are all down is no target."""

    def __init__(self, rules: Rules, pools: Sequence[Queue], choices: Stream) -> None:
        self._rules = rules
        self._pools = pools
        self._choose = choices.integer

    def of(self, copy: Copy) -> float:
        """Return the received processing time at which a copy moves or is replicated; inf for never."""
        rules, job = self._rules, copy.job
        visit = len(job.visited) - 1
        if rules.action is None or visit >= rules.hops or not self._targets(copy):
            return inf
        by_visit = job.admission.thresholds or (rules.by_visit[job.visited[0]] if rules.by_visit else ())
        if by_visit:
            return by_visit[visit] if visit < len(by_visit) else inf
        return rules.thresholds[copy.pool]

    def target(self, copy: Copy) -> int | None:
        """Choose the pool of a copy's next visit, or of its replica; None where no other pool has servers."""
        targets = self._targets(copy)
        if len(targets) > 1:
            return targets[self._choose(len(targets))]
        return targets[0] if targets else None

    def _targets(self, copy: Copy) -> list[int]:
        if self._rules.target == "random":
            visited = copy.job.visited
            return [i for i, pool in enumerate(self._pools) if pool.alive and i not in visited]
        pool = self.next_pool(copy.pool)
        return [] if pool is None else [pool]

    def next_pool(self, pool: int) -> int | None:
        """Return the next of the other pools that has servers left."""
        count = len(self._pools)
        return next((i % count for i in range(pool + 1, pool + count) if self._pools[i % count].alive), None)

    def work(self, copy: Copy) -> float:
        """Return the work done on a copy that counts for the next one."""
        if not self._rules.carry_over:
            return 0.0
        return copy.done_work + copy.received * self._pools[copy.pool].speeds[copy.job.admission.job_type]
