"""How many probes per task a given relative queueing delay costs."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import UTILISATION, relative_queueing_delay, utilised
from testbed.studies.reproduce.scenarios import parallel_jobs
from testbed.studies.reproduce.study import PARALLEL_JOBS, Point, Row, Settings, Study
from testbed.theory.parallel_jobs import mean_field, probe_overhead_needed

SERVERS = 1000
TARGETS = (0.5, 0.2, 0.05)
TASKS = (5, 20, 50)
LOADS = (0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.92, 0.94, 0.95)
SIMULATED = (0.7, 0.9)
NEEDED, DELAY = "probe_overhead_needed", "relative_queueing_delay"


class ProbeOverheadNeeded(Study):
    """Batch-filling's price of a target, in the limit of many servers, and what a thousand get for it."""

    name = "probe-overhead-needed"
    paper = PARALLEL_JOBS
    shows = (
        "the probes per task with which batch-filling's relative queueing delay is at most 0.5, 0.2 and 0.05, against "
        "the load, for k = 5, 20 and 50; and the delay that 1000 servers have with them"
    )
    takes = "4 minutes"
    columns: ClassVar = {
        "target": "the relative queueing delay that is wanted",
        "tasks": "tasks per job, k",
        "load": "load",
    }
    quantities: ClassVar = {
        NEEDED: "the least d, a multiple of 1/k, that reaches the target in the limit of many servers",
        DELAY: "E[T - T*]/E[T*] with that d; theory: the limit of many servers, twin: 1000 servers (quick: 200)",
        **UTILISATION,
    }
    tabulated = (NEEDED, DELAY)
    controls: ClassVar = {DELAY: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return the theory's loads, and the twin at two of them."""
        return [
            Point(
                {"target": target, "tasks": tasks, "load": load},
                twin=_scenario(target, tasks, load, quick) if load in SIMULATED else None,
                line=load not in SIMULATED,
            )
            for target in TARGETS
            for tasks in (TASKS[:1] if quick else TASKS)
            for load in LOADS
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the probe overhead needed and the mean field's delay with it."""
        target, tasks, load = float(settings["target"]), int(settings["tasks"]), float(settings["load"])
        needed = _needed(tasks, load, target)
        return {NEEDED: needed, DELAY: mean_field("batch-filling", load, tasks, needed).relative_queueing_delay}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the relative queueing delay and the utilisation."""
        return {DELAY: relative_queueing_delay(scenario, measurements), **utilised(scenario, measurements)}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return the overhead needed against the load, and the delay that the twin has with it."""
        setting = "Batch-filling, Poisson arrivals, exponential sizes. "
        needed = curves(
            rows,
            NEEDED,
            x="load",
            by=("target",),
            panel="tasks",
            log_y=True,
            label=lambda settings: f"delay {settings['target']}",
            x_label="load",
            y_label="probes per task needed",
            caption=setting + "Theory: limit of many servers; d is a multiple of 1/k.",
        )
        delay = curves(
            rows,
            DELAY,
            x="load",
            by=("target",),
            panel="tasks",
            label=lambda settings: f"wanted {settings['target']}",
            x_label="load",
            y_label="relative queueing delay E[T − T*]/E[T*]",
            caption=setting + f"With the probes that the limit needs for the wanted delay; twin: N = {SERVERS} "
            "(quick: 200).",
        )
        return {"probe-overhead-needed": needed, "delay-with-it": delay}

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say by how much a finite cluster misses the target."""
        twins = [row for row in rows if row.source == "twin" and row.quantity == DELAY]
        if not twins:
            return []
        worst = max(twins, key=lambda row: row.value - float(row.settings["target"]))
        return [
            "a finite cluster needs more probes than the limit: at worst the twin's delay is "
            f"{worst.value:.3f} instead of {worst.settings['target']} (k = {worst.settings['tasks']}, load "
            f"{worst.settings['load']})"
        ]


def _scenario(target: float, tasks: int, load: float, quick: bool) -> Scenario:
    servers = 200 if quick else SERVERS
    d = _needed(tasks, load, target)
    assert math.isfinite(d), "all targets can be reached"
    settings: Settings = {"policy": "batch-filling", "servers": servers, "load": load, "tasks": tasks, "d": d}
    return parallel_jobs(
        settings,
        warmup=(2 if quick else 8) / (1 - load),
        duration=10.0 if quick else 150.0,
        replications=3 if quick else 5,
    )


@cache
def _needed(tasks: int, load: float, target: float) -> float:
    return probe_overhead_needed(SERVERS, tasks, load, target)
