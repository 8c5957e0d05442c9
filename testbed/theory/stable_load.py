"""The largest load that a policy can carry."""

from __future__ import annotations

import math

import msgspec

from testbed.scenario import Scenario
from testbed.theory.cluster_model import ClusterModel
from testbed.theory.static_assignment import Thresholds


class Stability(msgspec.Struct, frozen=True):
    """Queues stay finite for a load below ``bound``; ``load`` is the scenario's, ``reason`` where the bound comes from.

    Both are loads as the scenario counts them: fractions of the capacity, or work per server (``workload.load_per``).
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


def stability_bound(scenario: Scenario) -> Stability:
    """Return the largest load for which the scenario's policy is stable.

    A queue-oblivious policy gives each server a fixed fraction of the jobs: the server with the most work for its speed
    decides, unless servers move waiting tasks to others. The others carry what identical servers can; for servers of
    different speeds the bound is the capacity of the whole cluster, which a policy may fail to use. Job types count
    with the fractions that the scenario gives them. Copies that are served in vain are not counted, unless every server
    has a copy of every job, so that all serve the same one; none is known where copies may save service.

    With thresholds it is the arrival rate at which the effective load of some pool is 1, for the scenario's own
    assignment and thresholds; a server of a central queue is also taken while it waits to hear of its next job, for two
    message delays.
    """
    return stability_of(ClusterModel.of(scenario))


def stability_of(model: ClusterModel) -> Stability:
    """Return what ``stability_bound`` does, of a scenario's model."""
    found = _in_work(model)
    return Stability(found.bound / model.load_unit, found.load / model.load_unit, found.reason)


def _in_work(model: ClusterModel) -> Stability:
    """Return the stability bound in work per server and time unit, at speed 1."""
    thresholds = Thresholds.of(model)
    if thresholds is not None:
        return _of_thresholds(model, thresholds)
    if model.buffers and len(model.buffers) == len(model.pools):
        return Stability(math.inf, model.load, "all buffers are finite: jobs are dropped, queues can't grow")
    bound, reason = model.theory.stability_bound(model)
    return Stability(bound, model.load, reason)


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
