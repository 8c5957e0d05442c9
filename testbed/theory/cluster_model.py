"""A scenario as a queueing model: what the formulas need to know of it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Protocol

from testbed.theory.service import ServiceMixture
from testbed.workload.arrivals import ArrivalProcess, Poisson
from testbed.workload.distributions import Distribution
from testbed.workload.task_numbers import TaskNumbers


class ScenarioLike(Protocol):
    """What is read of a testbed.scenario.Scenario; theory stands below the scenario and doesn't import it."""

    @property
    def cluster(self) -> Any:
        """``dispatchers``, ``message_delay`` and ``pools``, each with ``name``, ``servers`` and ``buffer``."""

    @property
    def workload(self) -> Any:
        """``arrivals``, ``size``, ``task_numbers`` and ``types``, each with ``probability``."""

    @property
    def dispatch(self) -> Any:
        """``policy`` and its ``parameters``."""

    @property
    def balance(self) -> Any:
        """How servers move waiting tasks (testbed.scenario.Balance), or None."""

    @property
    def rate(self) -> float:
        """Jobs per time unit for the whole cluster."""

    @property
    def load(self) -> float:
        """Work per server per time unit."""

    def service_rate(self, kind: int, server: int) -> float:
        """Return the speed of a server for a job type."""


@dataclass(frozen=True)
class PoolModel:
    """Servers that are alike: ``first`` is the index of the first of the ``servers``."""

    name: str
    first: int
    servers: int
    buffer: int | None
    service: ServiceMixture

    @property
    def slowness(self) -> float:
        """Mean service time over mean size: sum over the types of probability / speed."""
        return sum(p / speed for p, speed in self.service.types)


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

    @classmethod
    def of(cls, scenario: ScenarioLike) -> ClusterModel:
        """Return the model of a scenario."""
        workload, cluster = scenario.workload, scenario.cluster
        size: Distribution = workload.size
        pools = []
        ends = accumulate(pool.servers for pool in cluster.pools)
        for pool, end in zip(cluster.pools, ends, strict=True):
            first = end - pool.servers
            types = tuple((t.probability, scenario.service_rate(i, first)) for i, t in enumerate(workload.types))
            pools.append(PoolModel(pool.name, first, pool.servers, pool.buffer, ServiceMixture(size, types)))
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

        ``random`` may have a weight for each server; servers of a pool with the same weight are put together.
        """
        weights = getattr(self.parameters, "weights", None) if self.policy == "random" else None
        if weights is None:
            return [(pool, 1 / self.servers, pool.servers) for pool in self.pools]
        total = sum(weights)
        groups: list[tuple[PoolModel, float, int]] = []
        for pool in self.pools:
            own = weights[pool.first : pool.first + pool.servers]
            groups += [(pool, weight / total, own.count(weight)) for weight in dict.fromkeys(own) if weight > 0]
        return groups
