"""A scenario as a queueing model: what the formulas need to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from testbed.theory.service import ServiceMixture
from testbed.workload.arrivals import ArrivalProcess, Poisson
from testbed.workload.distributions import Distribution
from testbed.workload.task_numbers import TaskNumbers

Floats = npt.NDArray[np.float64]


class ScenarioLike(Protocol):
    """What is read of a testbed.scenario.Scenario; theory stands below the scenario and doesn't import it."""

    @property
    def cluster(self) -> Any:
        """``dispatchers``, ``message_delay`` and ``pools``, each with ``name``, ``servers``, ``buffer``, ``queue``."""

    @property
    def workload(self) -> Any:
        """``arrivals``, ``size``, ``dependence``, ``task_numbers``, ``types``, each with ``name``, ``probability``."""

    @property
    def dispatch(self) -> Any:
        """``policy`` and its ``parameters``."""

    @property
    def balance(self) -> Any:
        """How servers move waiting tasks (testbed.scenario.Balance), or None."""

    @property
    def threshold(self) -> Any:
        """When jobs move to another pool or are replicated (testbed.scenario.Threshold), or None."""

    @property
    def recorded_sizes(self) -> Any:
        """The sizes in the arrivals' trace, or None if sizes are drawn."""

    @property
    def rate(self) -> float:
        """Jobs per time unit for the whole cluster."""

    @property
    def load(self) -> float:
        """Work per server per time unit."""

    def service_rate(self, job_type: int, server: int) -> float:
        """Return the speed of a server for a job type."""


@dataclass(frozen=True)
class PoolModel:
    """Servers that are alike: ``first`` is the index of the first of the ``servers``.

    ``share`` is the share of all jobs that come to the pool first, where the policy fixes it, and ``service`` the
    service time of those jobs; elsewhere it is None, and the service time is that of all jobs. ``speeds`` are by type.
    """

    name: str
    first: int
    servers: int
    buffer: int | None
    service: ServiceMixture
    speeds: tuple[float, ...]
    central: bool
    share: float | None

    @property
    def slowness(self) -> float:
        """Mean service time over mean size: sum over the types of probability / speed."""
        return self.service.slowness


@dataclass(frozen=True)
class ClusterModel:
    """The model: ``rate`` in jobs per time unit for the whole cluster, ``load`` in work per server per time unit."""

    pools: tuple[PoolModel, ...]
    dispatchers: int
    arrivals: ArrivalProcess
    rate: float
    load: float
    mean_delay: float
    constant_delay: bool
    policy: str
    parameters: Any
    balance: Any  # the scenario's [balance], or None
    tasks: TaskNumbers  # law of the number of tasks of a job
    size: Distribution
    sizes_recorded: bool  # whether a trace has the sizes, in place of the law ``size``
    types: tuple[float, ...]  # the job types' probabilities
    type_names: tuple[str, ...]
    assignment: Floats | None  # under static assignment alpha_ij, the share of the type-j jobs sent to pool i
    dependence: Any  # of a job's sizes in several pools, or of its copies
    threshold: Any  # the scenario's [threshold], or None

    @classmethod
    def of(cls, scenario: ScenarioLike) -> ClusterModel:
        """Return the model of a scenario."""
        workload, cluster = scenario.workload, scenario.cluster
        size: Distribution = workload.size
        types = tuple(t.probability for t in workload.types)
        alpha = _assignment(scenario)
        pools = []
        ends = accumulate(pool.servers for pool in cluster.pools)
        for index, (pool, end) in enumerate(zip(cluster.pools, ends, strict=True)):
            first = end - pool.servers
            speeds = tuple(scenario.service_rate(job_type, first) for job_type in range(len(types)))
            mix, share = types, None
            if alpha is not None:
                share = float(alpha[index] @ types)
                mix = tuple((alpha[index] * types / share).tolist()) if share > 0 else types
            service = ServiceMixture(size, tuple(zip(mix, speeds, strict=True)))
            central = pool.queue == "central"
            pools.append(PoolModel(pool.name, first, pool.servers, pool.buffer, service, speeds, central, share))
        delay = cluster.message_delay
        constant = isinstance(delay, float | int)
        return cls(
            pools=tuple(pools),
            dispatchers=cluster.dispatchers,
            arrivals=workload.arrivals,
            rate=scenario.rate,
            load=scenario.load,
            mean_delay=float(delay) if constant else delay.mean,
            constant_delay=constant or delay.variance == 0,
            policy=scenario.dispatch.policy,
            parameters=scenario.dispatch.parameters,
            balance=scenario.balance,
            tasks=workload.task_numbers,
            size=size,
            sizes_recorded=scenario.recorded_sizes is not None,
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
        first = self.pools[0]
        return all(pool.service.types == first.service.types and pool.buffer == first.buffer for pool in self.pools)

    @property
    def buffers(self) -> list[int]:
        """The finite buffers."""
        return [pool.buffer for pool in self.pools if pool.buffer is not None]

    def shares(self) -> list[tuple[PoolModel, float, int]]:
        """Return (pool, share of the jobs per server, servers) of a policy that looks at no queue.

        ``random`` may have a weight for each server; servers of a pool with the same weight are put together. Servers
        without jobs are left out.
        """
        if self.assignment is not None:
            return [(p, p.share / p.servers, p.servers) for p in self.pools if p.share]
        weights = getattr(self.parameters, "weights", None) if self.policy == "random" else None
        if weights is None:
            return [(pool, 1 / self.servers, pool.servers) for pool in self.pools]
        total = sum(weights)
        groups: list[tuple[PoolModel, float, int]] = []
        for pool in self.pools:
            own = weights[pool.first : pool.first + pool.servers]
            groups += [(pool, weight / total, own.count(weight)) for weight in dict.fromkeys(own) if weight > 0]
        return groups


def _assignment(scenario: ScenarioLike) -> Floats | None:
    """Return alpha_ij, shape (pools, types), of static assignment; None if the policy or each job's sizes decide."""
    threshold = scenario.threshold
    if scenario.dispatch.policy != "static" or (threshold is not None and threshold.rational):
        return None
    servers = {pool.name: pool.servers for pool in scenario.cluster.pools}
    types = [job_type.name for job_type in scenario.workload.types]
    return np.array(scenario.dispatch.parameters.assigned(servers, types), dtype=np.float64).T
