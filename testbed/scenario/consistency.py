"""What must hold between the settings of a scenario, beyond the type and range of each."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

import numpy as np

from testbed.scenario.errors import ScenarioError, suggestion
from testbed.scenario.modes import Mode, mode_of
from testbed.scenario.queue_consistency import check_queues, check_speeds
from testbed.scenario.settings import Scenario
from testbed.workload.arrivals import Trace

T = TypeVar("T")

_TOLERANCE = 1e-9  # how far the types' probabilities may be from a sum of 1


def check(scenario: Scenario) -> None:
    """Raise ScenarioError for the first settings of a decoded scenario that don't fit together.

    Its variants and its sweep are not looked at, nor what only a run needs: whether a probe rate can be calibrated.
    """
    _check_run(scenario)
    _check_cluster(scenario)
    _check_types_of_jobs(scenario)
    check_speeds(scenario)
    _check_arrivals(scenario)
    _check_policy(scenario)
    _check_balance(scenario)
    check_queues(scenario)
    _check_expect(scenario)


def _check_expect(scenario: Scenario) -> None:
    problem = None if scenario.expect is None else scenario.expect.problem()
    if problem is not None:
        raise ScenarioError(problem[1], key=f"expect.{problem[0]}")


def _check_run(scenario: Scenario) -> None:
    try:
        _ = scenario.run.time_unit_seconds
    except ValueError as error:
        raise ScenarioError(str(error), key="run.time_unit", value=scenario.run.time_unit) from None


def _check_cluster(scenario: Scenario) -> None:
    cluster = scenario.cluster
    _check_unique("cluster.pools", [pool.name for pool in cluster.pools])
    if isinstance(cluster.nodes, int) and cluster.nodes > scenario.servers:
        raise ScenarioError(
            f"must be at most the number of servers, {scenario.servers}: a node hosts at least one",
            key="cluster.nodes",
            value=cluster.nodes,
        )


def _check_policy(scenario: Scenario) -> None:
    policy, parameters = scenario.policy_class, scenario.dispatch.parameters
    try:
        policy.check(parameters, scenario.servers)
        policy.check_tasks(parameters, scenario.servers, scenario.workload.task_numbers.most)
        policy.check_pools(
            parameters,
            {pool.name: pool.servers for pool in scenario.cluster.pools},
            [job_type.name for job_type in scenario.workload.types],
        )
    except ValueError as error:
        raise ScenarioError(str(error), key="dispatch") from None
    if mode_of(scenario) is Mode.LATE_BINDING:
        what = "the policy queues reservations and keeps waiting tasks at the dispatcher"
        if scenario.balance is not None:
            raise ScenarioError(f"{what}, where there are none to move; leave the table out", key="balance")
        for index, pool in enumerate(scenario.cluster.pools):
            if pool.buffer is not None:
                raise ScenarioError(f"{what}; leave the buffer out", key=f"cluster.pools[{index}].buffer")


def _check_balance(scenario: Scenario) -> None:
    balance = scenario.balance
    if balance is None:
        return

    def refuse(key: str, problem: str) -> ScenarioError:
        return ScenarioError(problem, key=f"balance.{key}" if key else "balance")

    hybrid = balance.policy == "hybrid"
    by_rate = balance.probe_rate is not None or balance.overall_probe_rate is not None
    if by_rate == (balance.max_probes is not None):
        raise refuse("", "give probe_rate or overall_probe_rate for probes at a rate, or max_probes for the others")
    if hybrid and balance.overall_probe_rate is not None:
        raise refuse("overall_probe_rate", "a hybrid has two rates; give probe_rate and sharing_probe_rate")
    if hybrid and by_rate and balance.sharing_probe_rate is None:
        raise refuse("sharing_probe_rate", "a hybrid needs it as well as probe_rate, the rate of stealing")
    if balance.sharing_probe_rate is not None and not (hybrid and by_rate):
        raise refuse("sharing_probe_rate", 'only for policy = "hybrid" with rates; for sharing alone it is probe_rate')
    for key, default in (("steal", "one"), ("victim_choices", 1)):
        if balance.policy == "sharing" and getattr(balance, key) != default:
            raise refuse(key, "is about stealing, and the policy is sharing; leave it out")
    if scenario.servers < 2:
        raise refuse("", "there is one server, and tasks can only move between two; leave the table out")


def _check_types_of_jobs(scenario: Scenario) -> None:
    types = scenario.workload.types
    _check_unique("workload.types", [job_type.name for job_type in types])
    total = math.fsum(job_type.probability for job_type in types)
    if abs(total - 1) > _TOLERANCE:
        raise ScenarioError(f"the types' probabilities must add up to 1, not {total:.12g}", key="workload.types")
    pools = [pool.name for pool in scenario.cluster.pools]
    for index, job_type in enumerate(types):
        for name in job_type.speed:
            if name not in pools:
                raise ScenarioError(
                    f"unknown pool{suggestion(name, pools)} (known pools: {', '.join(pools)})",
                    key=f"workload.types[{index}].speed.{name}",
                )


def _check_arrivals(scenario: Scenario) -> None:
    """Check the rate, and compute each distribution once: that finds what is wrong with a file that it names."""
    workload = scenario.workload
    if workload.load is not None and workload.rate is not None:
        raise ScenarioError(
            f"give workload.load or workload.rate = {workload.rate:g}, not both: one follows from the other",
            key="workload.load",
            value=workload.load,
        )
    arrivals = workload.arrivals
    natural_rate = _computed(lambda: arrivals.natural_rate, "workload.arrivals")
    if workload.load is None and workload.rate is None and natural_rate is None:
        raise ScenarioError(
            "missing; give workload.load (work per server) or workload.rate (jobs per time unit)", key="workload.load"
        )
    recorded = _computed(lambda: scenario.recorded_sizes, "workload.arrivals")
    if workload.task_numbers.most > 1 and recorded is not None:
        raise ScenarioError(
            "the trace has a size for each job, so that a job has one task; leave tasks out", key="workload.tasks"
        )
    _computed(lambda: scenario.type_fractions, "workload.arrivals")
    mean_size = _computed(lambda: scenario.mean_size, "workload.size")
    if not 0 < mean_size < math.inf:
        raise ScenarioError(f"the mean size must be positive and finite, not {mean_size:g}", key="workload.size")
    if not (0 < scenario.rate < math.inf and 0 < scenario.load < math.inf):
        raise ScenarioError(
            f"makes {scenario.rate:g} jobs per time unit and a load of {scenario.load:g}: both must be positive and "
            "finite",
            key="workload",
        )
    _computed(lambda: arrivals.stream(scenario.rate, np.random.default_rng(0)), "workload.arrivals")
    if isinstance(arrivals, Trace):
        names = [job_type.name for job_type in workload.types]
        _computed(lambda: arrivals.recording.type_indices(names), "workload.arrivals")
        length = arrivals.recording.period * arrivals.natural_rate / scenario.rate
        if not arrivals.repeat and length < scenario.horizon:
            own = workload.load is None and workload.rate is None
            raise ScenarioError(
                f"{'' if own else 'at this rate '}the trace lasts {length:.4g} time units, and the run "
                f"{scenario.horizon:.4g}; set repeat = true, "
                + ("or shorten run.duration" if own else "shorten run.duration, or lower the rate"),
                key="workload.arrivals",
                value=arrivals.file,
            )
    delay = scenario.cluster.message_delay
    if not isinstance(delay, float | int):
        _computed(lambda: delay.mean, "cluster.message_delay")


def _computed(compute: Callable[[], T], key: str) -> T:
    """Return ``compute()``; what it finds wrong becomes an error at ``key``."""
    try:
        with np.errstate(all="raise", under="ignore"):
            return compute()
    except ValueError as error:
        raise ScenarioError(str(error).replace("`", ""), key=key) from None
    except ArithmeticError:
        raise ScenarioError("has numbers too large or too small to compute with", key=key) from None


def _check_unique(key: str, names: Iterable[str]) -> None:
    seen: dict[str, int] = {}
    for index, name in enumerate(names):
        if name in seen:
            raise ScenarioError(
                f"{key}[{seen[name]}] has this name already; give each its own", key=f"{key}[{index}].name", value=name
            )
        seen[name] = index
