"""What a scenario's jobs ask of each pool: service requirement, effective load, and the best that could be done."""

from __future__ import annotations

from testbed.scenario import Scenario
from testbed.theory.cluster_model import ClusterModel
from testbed.theory.policy_theory import QueueOblivious
from testbed.theory.static_assignment import Thresholds


def pool_requirements(scenario: Scenario) -> list[float] | None:
    """Return E[B_i], the mean processing time that an arriving job uses in each pool, in time units.

    It counts jobs that never come to the pool, with 0. Times ``rate / servers`` of the pool it is the effective load.
    None where the policy looks at queues, so that the fractions of the pools are not known beforehand, where copies
    take an unknown part of it, and where jobs may be dropped or bring sizes that are recorded. Of message delay it
    counts that copies start and stop late, and not that servers wait.
    """
    model = ClusterModel.of(scenario)
    if model.buffers or model.sizes_recorded:
        return None
    thresholds = Thresholds.of(model)
    if thresholds is not None:
        return [float(requirement) for requirement in thresholds.service_requirement(lag=thresholds.handover(model))]
    if len(model.pools) == 1 and model.theory.copies_cost_nothing(model):
        return [model.tasks.mean * model.pools[0].service.mean]
    if not isinstance(model.theory, QueueOblivious) or model.balance is not None:
        return None
    requirements = dict.fromkeys((pool.name for pool in model.pools), 0.0)
    for pool, fraction, servers in model.theory.fractions(model):
        requirements[pool.name] += fraction * servers * model.tasks.mean * pool.service.mean
    return list(requirements.values())


def pool_notes(scenario: Scenario) -> list[str]:
    """Say the effective load of each pool, and for static assignment the best stability bound and where it is reached.

    The best is over all assignments that use what the dispatcher knows, and all thresholds, where their search is
    quick. Nothing is said where pool_requirements is None.
    """
    model = ClusterModel.of(scenario)
    requirements = pool_requirements(scenario)
    if requirements is None:
        return []
    loads = [
        f"{pool.name} {model.rate * requirement / pool.servers:.4g}"
        for pool, requirement in zip(model.pools, requirements, strict=True)
    ]
    return [f"effective load per server: {', '.join(loads)}", *model.theory.pool_notes(model)]
