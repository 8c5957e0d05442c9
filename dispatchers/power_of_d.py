"""The power of d choices: probe d servers chosen at random, and place the job on the shortest of their queues.

Servers are sampled without replacement, or with it (``replacement``), where a server that is drawn again is not asked
again. A d that is not an integer means floor(d) or floor(d) + 1 servers, at random, with mean d. A d above the number N
of servers counts as N. Ties go to the server drawn first, a uniform choice as the order of the sample is exchangeable.
A sample of a single server needs no probe: with d = 1 this is random routing. When time is up the job goes to
the shortest queue among the servers that have replied, or, if none has, to the server drawn first. With message delay,
jobs whose probes overlap, of one dispatcher or of several, do not see each other's placement.

Of a job of several tasks each samples its own servers, all at the same time: they all decide on the state before the
job. ``per-task-power-of-d`` is the rule in which a task sees where the job's earlier ones went.
"""

from __future__ import annotations

from math import ceil, floor
from typing import Annotated

import msgspec
from typing_extensions import override

from dispatchers.policy import Timeout
from dispatchers.probing import ProbeRound, ProbingPolicy
from dispatchers.view import DispatcherView


def mean_probes_of_one(d: float, servers: int) -> float:
    """Return the mean number of probes of a task: floor(d) or floor(d) + 1 servers, and none for a sample of one."""
    d = min(d, servers)
    return (d - 1) * 2 if d < 2 else d


class PowerOfDParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the power of d choices."""

    d: Annotated[float, msgspec.Meta(ge=1, description="mean number of servers to sample for a job")] = 2
    replacement: Annotated[bool, msgspec.Meta(description="whether a server may be drawn more than once")] = False
    timeout: Timeout = None


class PowerOfD(ProbingPolicy):
    """The shortest queue among d servers chosen at random."""

    name = "power-of-d"
    source = "Vvedenskaya, Dobrushin and Karpelevich 1996; Mitzenmacher 2001"
    theory = "testbed.theory.queue_aware_policies:POWER_OF_D"
    Parameters = PowerOfDParameters

    def __init__(self, parameters: PowerOfDParameters, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        d = min(parameters.d, dispatcher.servers)
        self._count = floor(d)
        self._one_more = d - self._count  # the probability of sampling one more
        self._replacement = parameters.replacement

    @classmethod
    @override
    def probes_per_job(cls, parameters: PowerOfDParameters, servers: int) -> float:
        most = ceil(min(parameters.d, servers))
        return most if most > 1 else 0

    @classmethod
    @override
    def mean_probes(cls, parameters: PowerOfDParameters, servers: int, tasks: int) -> float:
        """Return d per task; a sample of one server needs no probe. Sampling with replacement may ask fewer."""
        return tasks * mean_probes_of_one(parameters.d, servers)

    @override
    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        rng = dispatcher.rng
        count = self._count
        if self._one_more and rng.uniform() < self._one_more:
            count += 1
        if self._replacement:
            sample = list(dict.fromkeys(rng.integer(dispatcher.servers) for _ in range(count)))
        else:
            sample = rng.sample(dispatcher.servers, count)
        if len(sample) == 1:
            dispatcher.assign(job, sample[0])
        else:
            self.start_round(job, sample)

    @override
    def decide(self, round: ProbeRound) -> None:
        """Place the job on the first among the shortest of the queues known."""
        queue_lengths = round.queue_lengths
        sample = round.servers
        if len(sample) == len(queue_lengths) == 2:
            first, second = sample
            server = second if queue_lengths[second] < queue_lengths[first] else first
            self.dispatcher.assign(round.job, server)
            return
        if len(queue_lengths) < len(sample):
            sample = [server for server in sample if server in queue_lengths]
        server = min(sample, key=queue_lengths.__getitem__, default=round.servers[0])
        self.dispatcher.assign(round.job, server)
