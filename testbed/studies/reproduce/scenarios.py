"""The scenarios that several studies have in common."""

from __future__ import annotations

from typing import Any

from testbed.scenario import Scenario, decode
from testbed.studies.reproduce.study import Settings


def parallel_jobs(settings: Settings, *, warmup: float, duration: float, replications: int) -> Scenario:
    """Return a cluster for jobs of several tasks, with exponential sizes.

    ``settings``: policy, servers, load, tasks and, for policies that probe, d. All else in time units.
    """
    dispatch: dict[str, Any] = {"policy": settings["policy"]}
    if "d" in settings:
        dispatch["d"] = settings["d"]
    return scenario(
        servers=int(settings["servers"]),
        workload={"load": settings["load"], "tasks": settings["tasks"]},
        dispatch=dispatch,
        warmup=warmup,
        duration=duration,
        replications=replications,
    )


def scenario(
    *,
    servers: int,
    workload: dict[str, Any],
    dispatch: dict[str, Any],
    warmup: float,
    duration: float,
    replications: int,
    balance: dict[str, Any] | None = None,
) -> Scenario:
    """Return one pool of servers under a workload, with 100 ms time units on the cluster."""
    return decode(
        {
            "name": "study",
            "run": {"time_unit": "100ms", "warmup": warmup, "duration": duration, "replications": replications},
            "cluster": {"pools": [{"servers": servers}]},
            "workload": workload,
            "dispatch": dispatch,
            **({"balance": balance} if balance else {}),
        }
    )
