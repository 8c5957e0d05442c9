"""The largest load that a policy can carry."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from scipy.optimize import linprog

from testbed.theory.cluster_model import ClusterModel, PoolModel, ScenarioLike
from testbed.theory.copies import copies_everywhere, copies_may_save, fills_servers
from testbed.theory.static_assignment import Thresholds

#: Policies that place jobs without looking at the servers: each server has a share of the jobs that is fixed.
BLIND = ("random", "round-robin", "static")
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

    Both are work per server per time unit, at speed 1: sizes, not service times, which depend on where a job goes.
    Where ``reason`` begins with "at most" the true bound may be lower.
    """

    bound: float
    load: float
    reason: str

    @property
    def at_most(self) -> bool:
        """Whether the true bound may be lower."""
        return self.reason.startswith("at most")

    @property
    def stable(self) -> bool:
        """Whether the load is below the bound."""
        return self.load < self.bound


def stability_bound(scenario: ScenarioLike) -> Stability:
    """Return the largest load for which the scenario's policy is stable.

    A blind policy gives each server a fixed share of the jobs: the server with the most work for its speed decides,
    unless servers move waiting tasks to others. The others carry what identical servers can; for servers of different
    speeds the bound is the capacity of the whole cluster, which a policy may fail to use. Job types count with the
    shares that the scenario gives them. Copies that are served in vain are not counted, unless every server has a copy
    of every job, so that all serve the same one; none is known where copies may save service.

    With thresholds it is the arrival rate at which the effective load of some pool is 1, for the scenario's own
    assignment and thresholds; a server of a central queue is also taken while it waits to hear of its next job, for two
    message delays.
    """
    model = ClusterModel.of(scenario)
    thresholds = Thresholds.of(model)
    if thresholds is not None:
        return _of_thresholds(model, thresholds)
    if model.buffers and len(model.buffers) == len(model.pools):
        return Stability(math.inf, model.load, "all buffers are finite: jobs are dropped, queues can't grow")
    if model.policy in BLIND and model.balance is None:
        # A pool with buffers can't overflow; its share does not limit the others.
        limits = [
            (model.load / (model.rate * model.tasks.mean * share * _taken(model, pool)), pool.name)
            for pool, share, _ in model.shares()
            if pool.buffer is None
        ]
        if not limits:
            return Stability(math.inf, model.load, "only servers with finite buffers get jobs")
        bound, name = min(limits)
        return Stability(bound, model.load, f"the fixed share of jobs of a server of pool {name} takes all its time")
    if copies_may_save(model):
        return Stability(math.inf, model.load, "at most: none is known for copies with independent sizes of this law")
    first = model.pools[0]
    if all(pool.service.types == first.service.types for pool in model.pools):
        if model.policy == "late-binding" and model.mean_delay > 0:
            size = first.service.size.mean
            bound = size / (size * first.slowness + 2 * model.mean_delay)
            return Stability(bound, model.load, "each task takes its server two message delays beside its service")
        if copies_everywhere(model):
            reason = "all servers serve copies of the same job"
            return Stability(1 / (first.slowness * model.servers), model.load, reason)
        known = model.policy in _SPREADING or fills_servers(model)
        reason = "identical servers, all busy" if known else "at most: identical servers, all busy"
        return Stability(1 / first.slowness, model.load, reason)
    return Stability(_capacity(model), model.load, "at most: all servers busy with the job types that suit them best")


def _taken(model: ClusterModel, pool: PoolModel) -> float:
    """Return the mean time that a task takes of a server, in time units."""
    return pool.service.mean + (2 * model.mean_delay if pool.central else 0.0)


def _of_thresholds(model: ClusterModel, thresholds: Thresholds) -> Stability:
    if model.sizes_recorded:
        return Stability(math.inf, model.load, "at most: none is known for recorded sizes and thresholds")
    handover = thresholds.handover(model)
    loads = model.rate * thresholds.service_requirement(handover) / thresholds.model.n
    fullest = int(loads.argmax())
    what = {"reroute": "rerouting", "replicate": "replication"}[model.threshold.action]
    reason = f"with this {what} the jobs take all the time of the servers of pool {model.pools[fullest].name}"
    if model.threshold.action == "replicate" and len(model.pools) > 2:
        reason = f"at most: {reason}, and pairs of servers must be found besides"
    return Stability(model.load / float(loads[fullest]), model.load, reason)


def _capacity(model: ClusterModel) -> float:
    """Return the load at which no assignment of the job types to the pools keeps all servers below full use.

    With x[type, pool] the share of all jobs that are of this type and go to this pool, server use per unit of load is
    servers * sum_type x / speed / pool.servers: the largest of these is made as small as possible.
    """
    types, pools = len(model.types), len(model.pools)
    slowness = np.array([[1 / speed for speed in pool.speeds] for pool in model.pools]).T
    use = np.zeros((pools, types * pools + 1))
    for j, pool in enumerate(model.pools):
        use[j, j : types * pools : pools] = slowness[:, j] * model.servers / pool.servers
        use[j, -1] = -1.0
    shares = np.hstack([np.kron(np.eye(types), np.ones(pools)), np.zeros((types, 1))])
    cost = np.zeros(types * pools + 1)
    cost[-1] = 1.0
    solution = linprog(cost, A_ub=use, b_ub=np.zeros(pools), A_eq=shares, b_eq=model.types)
    return float(1 / solution.x[-1])
