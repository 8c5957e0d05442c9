"""The nominal values of a scenario, with which a run is compared."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from testbed.measure.copies import NominalPool
from testbed.measure.verdict_checks import Nominal
from testbed.scenario.modes import Mode, has_copies, mode_of
from testbed.theory.cluster_model import ClusterModel
from testbed.theory.pool_loads import pool_requirements
from testbed.theory.predict import stability_bound
from testbed.theory.relaxation import relaxation_time

if TYPE_CHECKING:
    from testbed.scenario import Scenario


def nominal(scenario: Scenario) -> Nominal:
    """Return the nominal values that the verdict compares with the measured ones."""
    workload = scenario.workload
    gaps = workload.arrivals.gap_distribution(scenario.rate)
    job_types = workload.types
    delay = scenario.cluster.message_delay
    per_pool = [[job_type.speed.get(pool.name, 1.0) for job_type in job_types] for pool in scenario.cluster.pools]
    policy, parameters = scenario.policy_class, scenario.dispatch.parameters
    # Where a job may move, be copied, or not be served at all its sizes alone don't say how much service it gets.
    stays = scenario.threshold is None and mode_of(scenario) is not Mode.COPIES
    by_sizes = stays and all(all(speeds) for speeds in per_pool)
    same = by_sizes and all(speeds == per_pool[0] for speeds in per_pool)
    slowness = [
        (fraction, 1.0 / speed) for fraction, speed in zip(scenario.type_fractions, per_pool[0], strict=True) if speed
    ]
    size_mean, size_second = scenario.mean_size, workload.size.second_moment
    recorded = scenario.recorded_sizes
    if recorded is not None:
        size_second = float(np.mean(recorded**2))
    dispersion = gaps.scv if gaps is not None else None
    # The types' speeds are those of all tasks of a job together: work = slowness * (sum of K sizes).
    numbers = workload.task_numbers
    mean = sum(p * s for p, s in slowness) * scenario.mean_work
    variance = numbers.mean * (size_second - size_mean**2 + size_mean**2 * numbers.mean * numbers.scv)
    second = sum(p * s * s for p, s in slowness) * (variance + scenario.mean_work**2)
    probes = sum(
        probability * policy.mean_probes(parameters, scenario.servers, int(tasks))
        for tasks, probability in zip(*numbers.probabilities(), strict=True)
    )
    pools: list[NominalPool] = []
    if has_copies(scenario):
        known = pool_requirements(scenario)
        requirements: Sequence[float | None] = [None] * len(scenario.pools) if known is None else known
        carries_over = scenario.threshold is not None and scenario.threshold.carry_over
        pools = [
            NominalPool(pool.name, pool.servers, requirement, carries_over)
            for pool, requirement in zip(scenario.pools, requirements, strict=True)
        ]
    return Nominal(
        servers=scenario.servers,
        rate=scenario.rate,
        load=scenario.rate * mean / scenario.servers if same else None,
        work_scv=second / mean**2 - 1.0 if by_sizes else math.inf,
        probes_per_task=float(probes / numbers.mean),
        gap_cdf=gaps.cdf if gaps is not None and gaps.continuous else None,
        arrival_dispersion=dispersion,
        message_delay=delay if isinstance(delay, (int, float)) else delay.mean,
        stable=stability_bound(scenario).stable,
        pools=pools,
        relaxation_time=relaxation_time(ClusterModel.of(scenario), size_mean, size_second, dispersion),
    )
