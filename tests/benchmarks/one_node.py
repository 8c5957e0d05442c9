"""A run of a dispatcher and one node on this machine, for benchmarks of what makes the node's timers late."""

from __future__ import annotations

from collections.abc import Callable

import trio

from testbed.cluster.controller import Controller
from testbed.core.records import ProcessReport
from testbed.scenario import Scenario, load


def scenario() -> Scenario:
    """Return two hundred servers for twelve seconds."""
    return load("quickstart").with_settings(
        {
            "run.time_unit": "100ms",
            "run.warmup": 0,
            "run.duration": 120,
            "cluster.nodes": 1,
            "cluster.pools.main.servers": 200,
            "workload.load": 0.8,
            "dispatch": {"policy": "power-of-d"},
            "variants": [],
        }
    )


def run(observe: Callable[[Controller], object]) -> ProcessReport:
    """Run it, looked at by ``observe`` meanwhile, and return the node's report."""
    measurements = trio.run(Controller(scenario(), 0, labels={}, observe=observe).run)
    return next(process for process in measurements.processes if process.name == "node-0")
