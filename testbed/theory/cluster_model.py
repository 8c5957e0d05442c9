"""A scenario as a queueing model: what the formulas need to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.scenario import Scenario
from testbed.scenario.capacity import capacity
from testbed.theory.policy_theory import PolicyTheory, theory_of_policy
from testbed.theory.service import ServiceMixture
from testbed.workload.arrivals import ArrivalProcess, Poisson
from testbed.workload.distributions import Distribution, Empirical
from testbed.workload.task_numbers import TaskNumbers

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class PoolModel:
    """Servers that are alike: ``first`` is the index of the first of the ``servers``.

    ``fraction`` is the fraction of all jobs that come to the pool first, where the policy fixes it, and ``service`` the
    service time of those jobs; elsewhere it is None, and the service time is that of all jobs. ``speeds`` are by type.
    """

    name: str
    first: int
    servers: int
    buffer: int | None
    service: ServiceMixture
    speeds: tuple[float, ...]
    central: bool
    fraction: float | None

    @property
    def slowness(self) -> float:
        """Mean service time over mean size: sum over the types of probability / speed."""
        return self.service.slowness

    def taken(self, mean_delay: float) -> float:
        """Return the mean time that a task takes of a server, in time units; a central queue's waits for messages."""
        return self.service.mean + (2 * mean_delay if self.central else 0.0)


@dataclass(frozen=True)
class ClusterModel:
    """The model: ``rate`` in jobs per time unit for the whole cluster, ``load`` in work per server per time unit."""

    pools: tuple[PoolModel, ...]
    dispatchers: int
    arrivals: ArrivalProcess
    rate: float
    load: float
    load_unit: float  # the ``load`` that the scenario calls 1
    mean_delay: float
    constant_delay: bool
    policy: str
    parameters: Any
    theory: PolicyTheory
    copies: int  # the most copies of a job
    balance: Any  # the scenario's [balance], or None
    tasks: TaskNumbers  # distribution of the number of tasks of a job
    size: Distribution  # of the recorded sizes, if the arrivals are a trace that has them
    sizes_recorded: bool
    types: tuple[float, ...]  # the fraction of the work that each job type brings
    type_names: tuple[str, ...]
    assignment: Floats | None  # under static assignment alpha_ij, the fraction of the type-j jobs sent to pool i
    dependence: Any  # of a job's sizes in several pools, or of its copies
    threshold: Any  # the scenario's [threshold], or None

    @classmethod
    def of(cls, scenario: Scenario) -> ClusterModel:
        """Return the model of a scenario."""
        workload, cluster = scenario.workload, scenario.cluster
        recorded = scenario.recorded_sizes
        size: Distribution = workload.size if recorded is None else Empirical(values=tuple(recorded.ravel().tolist()))
        types = scenario.type_fractions
        alpha = _assignment(scenario)
        pools = []
        ends = accumulate(pool.servers for pool in cluster.pools)
        for index, (pool, end) in enumerate(zip(cluster.pools, ends, strict=True)):
            first = end - pool.servers
            speeds = tuple(scenario.service_rate(job_type, first) for job_type in range(len(types)))
            mix, fraction = types, None
            if alpha is not None:
                fraction = float(alpha[index] @ types)
                mix = tuple((alpha[index] * types / fraction).tolist()) if fraction > 0 else types
            service = ServiceMixture(size, tuple(zip(mix, speeds, strict=True)))
            central = pool.queue == "central"
            pools.append(PoolModel(pool.name, first, pool.servers, pool.buffer, service, speeds, central, fraction))
        delay: Any = cluster.message_delay
        constant = isinstance(delay, float | int)
        return cls(
            pools=tuple(pools),
            dispatchers=cluster.dispatchers,
            arrivals=workload.arrivals,
            rate=scenario.rate,
            load=scenario.work_per_server,
            load_unit=scenario.load_unit,
            mean_delay=float(delay) if constant else delay.mean,
            constant_delay=constant or delay.variance == 0,
            policy=scenario.dispatch.policy,
            parameters=scenario.dispatch.parameters,
            theory=theory_of_policy(scenario.policy_class),
            copies=scenario.policy_class.copies(scenario.dispatch.parameters),
            balance=scenario.balance,
            tasks=workload.task_numbers,
            size=size,
            sizes_recorded=recorded is not None,
            types=types,
            type_names=tuple(t.name for t in workload.types),
            assignment=alpha,
            dependence=workload.dependence,
            threshold=scenario.threshold,
        )

    @property
    def servers(self) -> int:
        """The number of servers, N."""
        return sum(pool.servers for pool in self.pools)

    @property
    def poisson(self) -> bool:
        """Whether jobs arrive in a Poisson process."""
        return isinstance(self.arrivals, Poisson)

    @property
    def identical_servers(self) -> bool:
        """Whether all servers have the same speeds and the same buffer."""
        return self.same_speeds and len({pool.buffer for pool in self.pools}) == 1

    @property
    def buffers(self) -> list[int]:
        """The finite buffers."""
        return [pool.buffer for pool in self.pools if pool.buffer is not None]

    @property
    def same_speeds(self) -> bool:
        """Whether all servers have the same speeds."""
        first = self.pools[0]
        return all(pool.service.types == first.service.types for pool in self.pools)

    def capacity(self) -> float:
        """Return the load at which no assignment of the job types to the pools keeps all servers below full use."""
        servers = tuple(pool.servers for pool in self.pools)
        return capacity(servers, tuple(pool.speeds for pool in self.pools), self.types) / self.servers


def _assignment(scenario: Scenario) -> Floats | None:
    """Return alpha_ij, shape (pools, types), of static assignment; None if the policy or each job's sizes decide."""
    if scenario.threshold is not None and scenario.threshold.rational:
        return None
    fractions = scenario.pool_fractions
    return None if fractions is None else np.array(fractions, dtype=np.float64).T
