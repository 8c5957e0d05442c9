"""What the policies have in common that place a job of k tasks by one sample of m = min(N, ceil(k d)) servers, or by k.

To them a single task is a job of one. How many servers they sample is fixed by the job's number of tasks.
"""

from __future__ import annotations

from math import ceil
from typing import Any

from typing_extensions import override

from dispatchers.policy import Policy


def number_of_probes(tasks: int, d: float, servers: int) -> int:
    """Return m = min(N, ceil(k d - 1e-9)), at least 1: the servers that a batch policy probes for ``tasks`` tasks.

    The tolerance is there because 10 times 1.1 is 11.000000000000002.
    """
    return min(servers, max(1, ceil(tasks * d - 1e-9)))


class WholeJobPolicy(Policy):
    """Base of these policies, the first of their bases: they implement ``probes_for_tasks`` and ``place_tasks``."""

    @classmethod
    @override
    def probes_per_job(cls, parameters: Any, servers: int) -> float:
        """Return the probes of a job of one task."""
        return cls.probes_for_tasks(parameters, servers, 1)

    @override
    def place(self, job: int) -> None:
        """Place a single task as a job of one."""
        self.place_tasks(job, 1)


class DistinctServersPolicy(WholeJobPolicy):
    """Base of those that put at most one of a job's tasks on a server."""

    @classmethod
    @override
    def check_tasks(cls, parameters: Any, servers: int, tasks: int) -> None:
        """Check that there is a server for each task of a job."""
        if tasks > servers:
            raise ValueError(
                f"{cls.name} puts a job's {tasks} tasks on distinct servers, and there are {servers}; have more "
                "servers, or use batch-filling"
            )
