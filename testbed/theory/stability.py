"""The largest load that a policy can carry."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from scipy.optimize import linprog

from testbed.theory.cluster_model import ClusterModel, ScenarioLike

#: Policies that place jobs without looking at the servers: each server has a share of the jobs that is fixed.
_BLIND = ("random", "round-robin")
#: Policies that are known to keep identical servers stable up to full use.
_SPREADING = (
    "power-of-d",
    "jsq",
    "least-outstanding",
    "jiq",
    "batch-filling",
    "batch-sampling",
    "per-task-power-of-d",
    "per-task-power-of-kd",
    "late-binding",
)


class Stability(msgspec.Struct, frozen=True):
    """Queues stay finite for a load below ``bound``; ``load`` is the scenario's, ``reason`` where the bound comes from.

    Both are work per server per time unit. Where ``reason`` begins with "at most" the true bound may be lower.
    """

    bound: float
    load: float
    reason: str

    @property
    def stable(self) -> bool:
        """Whether the load is below the bound."""
        return self.load < self.bound


def stability_bound(scenario: ScenarioLike) -> Stability:
    """Return the largest load for which the scenario's policy is stable.

    A blind policy gives each server a fixed share of the jobs: the server with the most work for its speed decides,
    unless servers move waiting tasks to others. The others carry what identical servers can; for servers of different
    speeds the bound is the capacity of the whole cluster, which a policy may fail to use. Job types count with the
    shares that the scenario gives them.
    """
    model = ClusterModel.of(scenario)
    if model.buffers and len(model.buffers) == len(model.pools):
        return Stability(math.inf, model.load, "all buffers are finite: jobs are dropped, queues can't grow")
    if model.policy in _BLIND and model.balance is None:
        # A pool with buffers can't overflow; its share does not limit the others.
        limits = [
            (1 / (model.servers * share * pool.slowness), pool.name)
            for pool, share, _ in model.shares()
            if pool.buffer is None
        ]
        if not limits:
            return Stability(math.inf, model.load, "only servers with finite buffers get jobs")
        bound, name = min(limits)
        return Stability(bound, model.load, f"the fixed share of jobs of a server of pool {name} takes all its time")
    first = model.pools[0]
    if all(pool.service.types == first.service.types for pool in model.pools):
        if model.policy == "late-binding" and model.mean_delay > 0:
            size = first.service.size.mean
            bound = size / (size * first.slowness + 2 * model.mean_delay)
            return Stability(bound, model.load, "each task takes its server two message delays beside its service")
        reason = "identical servers, all busy" if model.policy in _SPREADING else "at most: identical servers, all busy"
        return Stability(1 / first.slowness, model.load, reason)
    return Stability(_capacity(model), model.load, "at most: all servers busy with the job types that suit them best")


def _capacity(model: ClusterModel) -> float:
    """Return the load at which no assignment of the job types to the pools keeps all servers below full use.

    With x[type, pool] the share of all jobs that are of this type and go to this pool, server use per unit of load is
    servers * sum_type x / speed / pool.servers: the largest of these is made as small as possible.
    """
    types, pools = len(model.pools[0].service.types), len(model.pools)
    slowness = np.array([[1 / speed for _, speed in pool.service.types] for pool in model.pools]).T
    use = np.zeros((pools, types * pools + 1))
    for j, pool in enumerate(model.pools):
        use[j, j : types * pools : pools] = slowness[:, j] * model.servers / pool.servers
        use[j, -1] = -1.0
    shares = np.hstack([np.kron(np.eye(types), np.ones(pools)), np.zeros((types, 1))])
    probabilities = [p for p, _ in model.pools[0].service.types]
    cost = np.zeros(types * pools + 1)
    cost[-1] = 1.0
    solution = linprog(cost, A_ub=use, b_ub=np.zeros(pools), A_eq=shares, b_eq=probabilities)
    return float(1 / solution.x[-1])
