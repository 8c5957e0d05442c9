"""Batch sampling: probe k d servers for a job of k tasks; one task to each of the k with the shortest queues.

The m = min(N, ceil(k d)) probed servers are a uniform sample without replacement, in random order, which breaks the
ties uniformly. It needs m >= k, so d of at least 1 and no fewer servers than a job has tasks: a scenario that lacks
this is refused. With m = k every probed server gets a task whatever its queue, so that none is asked: random routing.

When time is up, the servers that have not replied come after those that have, in the order drawn. With message delay,
jobs whose probes overlap do not see each other's tasks.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from typing_extensions import override

from dispatchers.policy import Timeout
from dispatchers.probing import ProbeRound, ProbingPolicy
from dispatchers.whole_jobs import DistinctServersPolicy, number_of_probes


class BatchSamplingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of batch sampling."""

    d: Annotated[float, msgspec.Meta(ge=1, description="probes per task; k d is rounded up, and at most N")] = 2
    timeout: Timeout = None


class BatchSampling(DistinctServersPolicy, ProbingPolicy):
    """One task to each of the k shortest of k d sampled queues."""

    name = "batch-sampling"
    source = "Ousterhout, Wendell, Zaharia and Stoica 2013 (Sparrow); Ying, Srikant and Kang 2017"
    theory = "testbed.theory.probing_policies:BATCH_SAMPLING"
    Parameters = BatchSamplingParameters

    @classmethod
    @override
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        probes = number_of_probes(tasks, parameters.d, servers)
        return probes if probes > tasks else 0

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        dispatcher = self.dispatcher
        servers = dispatcher.servers
        sample = dispatcher.rng.sample(servers, number_of_probes(tasks, self.parameters.d, servers))
        if len(sample) > tasks:
            self.start_round(job, sample, tasks=tasks)
        else:
            for server in sample:
                dispatcher.assign(job, server)

    @override
    def decide(self, round: ProbeRound) -> None:
        """Place a task on each of the shortest queues; the sort keeps the random order of equal ones."""
        queue_lengths = round.queue_lengths
        known = sorted((server for server in round.servers if server in queue_lengths), key=queue_lengths.__getitem__)
        if len(known) < round.tasks:
            known += [server for server in round.servers if server not in queue_lengths]
        for server in known[: round.tasks]:
            self.dispatcher.assign(round.job, server)
