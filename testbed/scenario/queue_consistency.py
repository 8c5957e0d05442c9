"""What must hold of central queues, thresholds and copies."""

from __future__ import annotations

import math
from collections.abc import Sequence

from testbed.core.placed_pool import PlacedPool
from testbed.scenario.errors import ScenarioError
from testbed.scenario.modes import Mode, mode_of
from testbed.scenario.policies import policies
from testbed.scenario.settings import Scenario
from testbed.scenario.threshold import MOST_POOLS, Threshold


def check_queues(scenario: Scenario) -> None:
    """Raise ScenarioError for the first fault in what a scenario says of queues, thresholds and copies."""
    _check_central_pools(scenario)
    _check_copies(scenario)
    _check_threshold(scenario)
    _check_impossible_service(scenario)


def _check_central_pools(scenario: Scenario) -> None:
    central = scenario.central_pools
    if not central:
        return
    key = f"cluster.pools[{central[0].index}].queue"
    able = [policy.name for policy in policies().values() if policy.admits]
    if scenario.dispatch.policy not in able:
        raise ScenarioError(
            f"{scenario.dispatch.policy} places jobs on servers; for central queues set dispatch.policy to "
            f"{' or '.join(able)}",
            key=key,
            value="central",
        )
    if len(central) > MOST_POOLS:
        raise ScenarioError(f"at most {MOST_POOLS} pools can have central queues, not {len(central)}", key=key)
    if scenario.workload.task_numbers.most > 1:
        raise ScenarioError("with central queues a job has one task; leave it out", key="workload.tasks")
    if scenario.balance is not None:
        raise ScenarioError("the tasks of central queues don't wait at servers; leave the table out", key="balance")
    for pool in central:
        if scenario.cluster.pools[pool.index].buffer is not None:
            raise ScenarioError("a central queue is unbounded; leave it out", key=f"cluster.pools[{pool.index}].buffer")


def _check_copies(scenario: Scenario) -> None:
    dispatch = scenario.dispatch
    if mode_of(scenario) is not Mode.COPIES:
        return
    if scenario.workload.task_numbers.most > 1:
        raise ScenarioError(f"{dispatch.policy} needs jobs of a single task; remove it", key="workload.tasks")
    if scenario.balance is not None:
        raise ScenarioError(f"copies that {dispatch.policy} makes stay where they are; leave it out", key="balance")
    for index, pool in enumerate(scenario.cluster.pools):
        if pool.buffer is not None:
            raise ScenarioError(
                f"{dispatch.policy} copies jobs only into unbounded queues; leave it out",
                key=f"cluster.pools[{index}].buffer",
            )


def _check_threshold(scenario: Scenario) -> None:
    threshold, pools = scenario.threshold, scenario.pools
    if threshold is None or not threshold.rational:
        _check_knowledge(scenario)
    if threshold is None:
        return
    for pool in pools:
        if not pool.central:
            raise ScenarioError(
                'thresholds are for central queues; set queue = "central", or leave [threshold] out',
                key=f"cluster.pools[{pool.index}].queue",
                value="per-server",
            )
    if len(pools) < 2:
        raise ScenarioError("there is one pool, and no other to move to; leave the table out", key="threshold")
    if threshold.hops > 1:
        _check_hops(scenario)
    if threshold.rational:
        _check_rational(scenario)
        return
    try:
        threshold.by_visit([pool.name for pool in pools])
    except ValueError as error:
        raise ScenarioError(str(error), key="threshold.tau") from None


def _check_hops(scenario: Scenario) -> None:
    threshold = scenario.threshold
    assert threshold is not None
    problem = ""
    if threshold.action == "replicate":
        problem = "a job is replicated once; leave hops out"
    elif threshold.carry_over:
        problem = "carry_over is defined for one hop only; leave one of the two out"
    elif threshold.target == "random" and len(scenario.pools) <= threshold.hops:
        most = len(scenario.pools) - 1
        problem = f'at random a job goes to pools that it has not been in; set at most {most}, or target = "cyclic"'
    if problem:
        raise ScenarioError(problem, key="threshold.hops", value=threshold.hops)


def _check_knowledge(scenario: Scenario) -> None:
    if scenario.policy_class.rational and scenario.knows == "sizes":
        raise ScenarioError(
            'fixed shares make no use of sizes; set threshold.tau = "rational", or leave it out',
            key="dispatch.knows",
            value="sizes",
        )


def _check_rational(scenario: Scenario) -> None:
    threshold = scenario.threshold
    assert threshold is not None
    if not scenario.policy_class.rational or scenario.knows != "sizes":
        raise ScenarioError('a rational threshold needs known sizes; set knows = "sizes"', key="dispatch.knows")
    if getattr(scenario.dispatch.parameters, "assignment", None) is not None:
        raise ScenarioError("a rational threshold comes with its assignment; leave it out", key="dispatch.assignment")
    if len(scenario.pools) != 2:
        raise ScenarioError("rational thresholds are defined for two pools", key="threshold.tau", value="rational")
    reroutings = len(scenario.workload.types) - 1
    if threshold.action == "reroute" and threshold.hops < reroutings:
        raise ScenarioError(
            f"rational thresholds rule out one type after the other, which may take {reroutings} reroutings; "
            f"set hops = {reroutings}",
            key="threshold.hops",
            value=threshold.hops,
        )
    if threshold.carry_over:
        raise ScenarioError("rational thresholds carry nothing over; leave it out", key="threshold.carry_over")


def check_speeds(scenario: Scenario) -> None:
    """Check that every type of job can be served, and that only pools with central queues refuse a type."""
    for index, job_type in enumerate(scenario.workload.types):
        speeds = [job_type.speed.get(pool.name, 1.0) for pool in scenario.pools]
        for pool in scenario.pools:
            if speeds[pool.index] > 0:
                continue
            key = f"workload.types[{index}].speed.{pool.name}"
            if not pool.central:
                raise ScenarioError("must be above 0 but in pools with central queues", key=key, value=0)
            if not any(speeds):
                raise ScenarioError("some pool must serve this type; give one a speed above 0", key=key, value=0)


def _check_impossible_service(scenario: Scenario) -> None:
    """Check that a type of job that a pool can't serve never stays there."""
    for index, job_type in enumerate(scenario.workload.types):
        speeds = [job_type.speed.get(pool.name, 1.0) for pool in scenario.pools]
        stuck = _stuck(scenario, index, speeds) if not all(speeds) else None
        if stuck is not None:
            raise ScenarioError(
                f"jobs of this type could come to {stuck.name} and stay there for ever; assign none there "
                "(dispatch.knows, dispatch.assignment), or give a finite threshold at which they leave",
                key=f"workload.types[{index}].speed.{stuck.name}",
                value=0,
            )


def _stuck(scenario: Scenario, job_type: int, speeds: Sequence[float]) -> PlacedPool | None:
    """Return a pool that can't serve a type of jobs and that some of them never leave; None if there is none."""
    pools, threshold = scenario.pools, scenario.threshold
    if threshold is not None and threshold.rational:
        return None  # its options end where all types that are left can be served
    fractions = scenario.pool_fractions
    starts = [1.0] * len(pools) if fractions is None else fractions[job_type]
    for start, share in enumerate(starts):
        if share > 0:
            end = _end_without_service(threshold, [pool.name for pool in pools], speeds, (start,))
            if end is not None:
                return pools[end]
    return None


def _end_without_service(
    threshold: Threshold | None, names: Sequence[str], speeds: Sequence[float], visits: tuple[int, ...]
) -> int | None:
    """Return a pool of speed 0 where a job that has made ``visits`` may end up; None if there is none."""
    pool, hops = visits[-1], len(visits) - 1
    tau = math.inf
    if threshold is not None and hops < threshold.hops:
        by_visit = threshold.by_visit(names)
        tau = by_visit[visits[0]][hops] if by_visit else threshold.by_pool(names)[pool]
    if threshold is None or math.isinf(tau):
        return None if speeds[pool] > 0 else pool
    if threshold.action == "replicate" and speeds[pool] > 0:
        return None  # the original goes on, whatever its copy does
    targets = [(pool + 1) % len(names)]
    if threshold.target == "random":
        targets = [q for q in range(len(names)) if q not in visits]
    ends = (_end_without_service(threshold, names, speeds, (*visits, target)) for target in targets)
    return next((end for end in ends if end is not None), None)
