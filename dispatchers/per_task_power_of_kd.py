"""Per-task power of k d: each of a job's k tasks probes as many servers as batch-filling does for the whole job.

The rule that batch-filling is compared with: it has each task see m = min(N, ceil(k d)) queues, at k times the probes.
All else is as in ``per-task-power-of-d``: samples of its own for each task, without replacement, and tasks that see the
job's earlier ones.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from typing_extensions import override

from dispatchers.per_task_power_of_d import PerTaskPowerOfD
from dispatchers.policy import Timeout
from dispatchers.whole_jobs import WholeJobPolicy, number_of_probes


class PerTaskPowerOfKDParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of the per-task power of k d."""

    d: Annotated[float, msgspec.Meta(gt=0, description="k d servers are sampled for each task, rounded up")] = 2
    timeout: Timeout = None


class PerTaskPowerOfKD(WholeJobPolicy, PerTaskPowerOfD):
    """Each task in turn to the shortest of k d queues of its own, with the job's earlier tasks counted."""

    name = "per-task-power-of-kd"
    source = "Weng and Wang 2021"
    theory = "testbed.theory.probing_policies:PER_TASK_POWER_OF_KD"
    Parameters = PerTaskPowerOfKDParameters

    @classmethod
    @override
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        probes = number_of_probes(tasks, parameters.d, servers)
        return tasks * probes if probes > 1 else 0

    @classmethod
    @override
    def mean_probes(cls, parameters: Any, servers: int, tasks: int) -> float:
        """Return the same: the number is not random."""
        return cls.probes_for_tasks(parameters, servers, tasks)

    @override
    def sample_size(self, tasks: int) -> int:
        return number_of_probes(tasks, self.parameters.d, self.dispatcher.servers)
