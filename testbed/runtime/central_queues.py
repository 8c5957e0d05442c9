"""The agent of the central queues, and what dispatchers that assign jobs to pools know."""

from __future__ import annotations

from collections.abc import Mapping

from dispatchers.knowledge import Knowledge
from dispatchers.view import Rational
from servers.central_queue import CentralPool
from servers.pool_agent import PoolAgent
from servers.thresholds import Rules
from testbed.core.agent import Environment
from testbed.scenario import Scenario


def pool_agent_address(scenario: Scenario) -> int | None:
    """Return the address of the pool agent, the one after the dispatchers'; None where no queue is central."""
    return scenario.servers + scenario.cluster.dispatchers if scenario.central_pools else None


def addresses(scenario: Scenario) -> int:
    """Return the number of agents, which is that of addresses."""
    return scenario.servers + scenario.cluster.dispatchers + bool(scenario.central_pools)


def build_pool_agent(env: Environment, scenario: Scenario) -> PoolAgent | None:
    """Return the agent of the central queues, or None where there are none."""
    address = pool_agent_address(scenario)
    if address is None:
        return None
    job_types = scenario.workload.types
    pools = [
        CentralPool(
            pool.index, pool.first, pool.servers, [job_type.speed.get(pool.name, 1.0) for job_type in job_types]
        )
        for pool in scenario.central_pools
    ]
    threshold = scenario.threshold
    if threshold is None:
        return PoolAgent(env, address, pools=pools, rules=Rules())
    names = [pool.name for pool in scenario.pools]
    rules = Rules(
        action=threshold.action,
        thresholds=threshold.by_pool(names),
        by_visit=threshold.by_visit(names),
        hops=threshold.hops,
        target=threshold.target,
        carry_over=threshold.carry_over,
    )
    return PoolAgent(env, address, pools=pools, rules=rules)


def build_knowledge(env: Environment, scenario: Scenario, index: int) -> Knowledge | None:
    """Return what the scenario lets a dispatcher know of its jobs; None for nothing."""
    knows = scenario.knows
    if knows == "nothing":
        return None
    types = len(scenario.workload.types)
    stream = env.stream(f"dispatcher/{index}/signals")
    if isinstance(knows, Mapping):
        return Knowledge(types, stream, **knows)
    return Knowledge(types, stream, signals=knows == "types", sizes=knows == "sizes")


def build_rational(scenario: Scenario) -> Rational | None:
    """Return what chooses pool and thresholds for jobs of known sizes; None where the scenario has no such thresholds.

    Best are the choices that let the arrival rate be largest (testbed.theory.rerouting_replication.rational_rule).
    """
    if scenario.threshold is None or not scenario.threshold.rational:
        return None
    # Here because these modules need scipy, whose import would cost each process of a cluster 0.65 CPU seconds.
    from testbed.theory.cluster_model import ClusterModel
    from testbed.theory.rerouting_replication import KnownSizes, rational_rule
    from testbed.theory.static_assignment import pools_of

    return rational_rule(pools_of(ClusterModel.of(scenario)), KnownSizes(scenario.threshold.action))


def pool_counters(agent: PoolAgent | None) -> dict[str, int]:
    """Return what the pool agent has counted, by name."""
    if agent is None:
        return {}
    return {"reroutes": agent.reroutes, "replicas started": agent.replicas, "preemptions": agent.preemptions}
