"""Per-task power of d: each task of a job probes d servers of its own and joins the shortest, task after task.

A task sees the job's earlier tasks: all k samples are drawn and asked at once, and when the replies to all have come,
the tasks are placed in turn, each on the shortest of its own sample with the job's tasks already placed there counted.
That takes one round of messages and, when messages take no time, is the same as k rounds one after the other (the
"batch version" of power-of-d in Ying, Srikant and Kang). ``power-of-d`` is the rule in which the tasks do not see each
other.

Samples are without replacement, ties go to the server drawn first, a d that is not an integer means floor(d) or
floor(d) + 1 servers with mean d, a d above N counts as N, and a sample of one server needs no probe. A server in
several samples is asked once for each. When time is up a task considers the servers of its sample that have replied,
or, if none has, goes to the one drawn first.
"""

from __future__ import annotations

from collections import Counter
from math import ceil, floor
from typing import Annotated, Any, ClassVar

import msgspec
from typing_extensions import override

from dispatchers.policy import Timeout
from dispatchers.power_of_d import mean_probes_of_one
from dispatchers.probing import ProbeRound, ProbingPolicy
from dispatchers.view import DispatcherView


class PerTaskPowerOfDParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the per-task power of d."""

    d: Annotated[float, msgspec.Meta(ge=1, description="mean number of servers to sample for a task")] = 2
    timeout: Timeout = None


class _Batch:
    """Tasks of a job, each with its round; ``awaited`` counts the rounds that are not settled."""

    __slots__ = ("awaited", "rounds")

    def __init__(self) -> None:
        self.rounds: list[ProbeRound] = []
        self.awaited = 0


class PerTaskPowerOfD(ProbingPolicy):
    """Each task in turn to the shortest of d queues of its own, with the job's earlier tasks counted."""

    name = "per-task-power-of-d"
    source = "Ying, Srikant and Kang 2017; Mitzenmacher 2001"
    theory = "testbed.theory.probing_policies:PER_TASK_POWER_OF_D"
    Parameters: ClassVar[type[Any]] = PerTaskPowerOfDParameters

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._batches: dict[int, _Batch] = {}  # by the number of a round that is open

    @classmethod
    @override
    def probes_per_job(cls, parameters: Any, servers: int) -> float:
        most = ceil(min(parameters.d, servers))
        return most if most > 1 else 0

    @classmethod
    @override
    def mean_probes(cls, parameters: Any, servers: int, tasks: int) -> float:
        """Return d per task; a sample of one server needs no probe."""
        return tasks * mean_probes_of_one(parameters.d, servers)

    def sample_size(self, tasks: int) -> int:
        """Return the number of servers to sample for one of ``tasks`` tasks."""
        d: float = min(self.parameters.d, self.dispatcher.servers)
        whole = floor(d)
        return whole + 1 if d > whole and self.dispatcher.rng.uniform() < d - whole else whole

    @override
    def place(self, job: int) -> None:
        """Place a single task: the power of d choices."""
        self.place_tasks(job, 1)

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        dispatcher = self.dispatcher
        batch = _Batch()
        for _ in range(tasks):
            sample = dispatcher.rng.sample(dispatcher.servers, self.sample_size(tasks))
            if len(sample) > 1:
                round = self.start_round(job, sample)
                self._batches[round.number] = batch
                batch.awaited += 1
            else:
                round = ProbeRound(0, job, sample, 0.0, 1)  # settled without a probe
            batch.rounds.append(round)
        if not batch.awaited:
            self._place(batch)

    @override
    def decide(self, round: ProbeRound) -> None:
        """Place all tasks, if this was the last of their rounds."""
        batch = self._batches.pop(round.number)
        batch.awaited -= 1
        if not batch.awaited:
            self._place(batch)

    def _place(self, batch: _Batch) -> None:
        placed: Counter[int] = Counter()
        for round in batch.rounds:
            lengths = round.queue_lengths
            known = [(lengths[s] + placed[s], i, s) for i, s in enumerate(round.servers) if s in lengths]
            server = min(known)[-1] if known else round.servers[0]
            placed[server] += 1
            self.dispatcher.assign(round.job, server)
