"""Batch-filling: probe k d servers for a job of k tasks, and fill the tasks in where the queues are shortest.

The tasks go one by one to a currently shortest of the probed queues, whose length is then raised by one, so that a
server may get several tasks of a job. The m = min(N, ceil(k d)) probed servers are a uniform sample without
replacement, in random order, which breaks the ties uniformly; m may be below k, and d below 1. With m = N this is JSQ
for jobs of several tasks. A sample of a single server needs no probe.

When time is up the tasks go to the servers that have replied, or, if none has, are spread over the sample in the order
drawn. With message delay, jobs whose probes overlap do not see each other's tasks: two dispatchers that sample the same
idle server both use it.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from typing_extensions import override

from dispatchers.policy import Timeout
from dispatchers.probing import ProbeRound, ProbingPolicy
from dispatchers.water_filling import fill
from dispatchers.whole_jobs import WholeJobPolicy, number_of_probes


class BatchFillingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of batch-filling."""

    d: Annotated[float, msgspec.Meta(gt=0, description="probes per task; k d is rounded up, and at most N")] = 2
    timeout: Timeout = None


class BatchFilling(WholeJobPolicy, ProbingPolicy):
    """Tasks one by one to the shortest of k d sampled queues, with those already placed counted."""

    name = "batch-filling"
    source = "Ying, Srikant and Kang 2017; Weng and Wang 2021"
    theory = "testbed.theory.probing_policies:BATCH_FILLING"
    Parameters = BatchFillingParameters

    @classmethod
    @override
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        probes = number_of_probes(tasks, parameters.d, servers)
        return probes if probes > 1 else 0

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        dispatcher = self.dispatcher
        servers = dispatcher.servers
        sample = dispatcher.rng.sample(servers, number_of_probes(tasks, self.parameters.d, servers))
        if len(sample) > 1:
            self.start_round(job, sample, tasks=tasks)
        else:
            for _ in range(tasks):
                dispatcher.assign(job, sample[0])

    @override
    def decide(self, round: ProbeRound) -> None:
        for server in fill(round.servers, round.queue_lengths, round.tasks):
            self.dispatcher.assign(round.job, server)
