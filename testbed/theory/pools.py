"""What a scenario's jobs ask of each pool: service requirement, effective load, and the best that could be done."""

from __future__ import annotations

import numpy as np

from testbed.theory.cluster_model import ClusterModel, ScenarioLike
from testbed.theory.copies import COPYING, copies_cost_nothing
from testbed.theory.rerouting_replication import KnownSizes, ZeroRedundancy, stability_bound
from testbed.theory.stability import BLIND
from testbed.theory.static_assignment import Thresholds, pools_of

#: The most reroutings for which the best thresholds are searched here, between two pools: others take a minute or more.
_MOST_HOPS = 2


def pool_requirements(scenario: ScenarioLike) -> list[float] | None:
    """Return E[B_i], the mean processing time that an arriving job uses in each pool, in time units.

    It counts jobs that never come to the pool, with 0. Times ``rate / servers`` of the pool it is the effective load.
    None where the policy looks at queues, so that the shares of the pools are not known beforehand, where copies take
    an unknown part of it, and where jobs may be dropped or bring sizes that are recorded. Of message delay it counts
    that copies start and stop late, and not that servers wait.
    """
    model = ClusterModel.of(scenario)
    if model.buffers or model.sizes_recorded:
        return None
    thresholds = Thresholds.of(model)
    if thresholds is not None:
        return [float(requirement) for requirement in thresholds.service_requirement(lag=thresholds.handover(model))]
    if len(model.pools) == 1 and (model.policy not in COPYING or copies_cost_nothing(model)):
        return [model.tasks.mean * model.pools[0].service.mean]
    if model.policy not in BLIND or model.balance is not None:
        return None
    requirements = dict.fromkeys((pool.name for pool in model.pools), 0.0)
    for pool, share, servers in model.shares():
        requirements[pool.name] += share * servers * model.tasks.mean * pool.service.mean
    return list(requirements.values())


def pool_notes(scenario: ScenarioLike) -> list[str]:
    """Say the effective load of each pool, and for static assignment the best stability bound and where it is reached.

    The best is over all assignments that use what the dispatcher is told, and all thresholds, where their search is
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
    notes = [f"effective load per server: {', '.join(loads)}"]
    quick = model.threshold is None or (len(model.pools) == 2 and model.threshold.hops <= _MOST_HOPS)
    if model.policy == "static" and len(model.pools) > 1 and model.tasks.most == 1 and quick:
        notes.append(_best(model))
    return notes


def _best(model: ClusterModel) -> str:
    thresholds = Thresholds.of(model)
    policy = ZeroRedundancy() if thresholds is None else thresholds.policy
    signals = np.array(model.parameters.signal_probabilities(len(model.types)), dtype=np.float64)
    best = stability_bound(pools_of(model), policy, signals)
    load = f"the best stability bound is a load of {best.rate * model.load / model.rate:.4g}"
    if model.mean_delay > 0:
        load += " if messages took no time"
    if isinstance(policy, KnownSizes):
        return f"{load}: each job takes the pool and the thresholds that are best for its sizes"
    assert best.assignment is not None
    assert best.thresholds is not None
    by_type = [
        f"{job_type}: " + ", ".join(f"{p.name} {share:.3g}" for p, share in zip(model.pools, shares, strict=True))
        for job_type, shares in zip(model.type_names, best.assignment.T, strict=True)
    ]
    text = f"{load}, for one with the assignment {{{'; '.join(by_type)}}}"
    if thresholds is None:
        return text
    negligible = 1e-6 * model.size.mean  # the search ends a little above 0
    taus = [
        f"{pool.name} {', '.join(f'{tau:.4g}' if tau > negligible else '0' for tau in visits)}"
        for pool, visits in zip(model.pools, best.thresholds, strict=True)
    ]
    return f"{text} and the thresholds {{{'; '.join(taus)}}}"
