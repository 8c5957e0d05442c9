"""Does queueing delay vanish as a cluster grows? The paper's message, on one plot and in one table."""

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
from testbed.studies.reproduce.study import PARALLEL_JOBS, Point, Row, Settings, Study, value_of
from testbed.theory.parallel_jobs import Regime, mean_field, regime

ALPHA = 0.3  # load 1 - N^-0.3: sub-Halfin-Whitt, since it is below 1/2
BATCH, SINGLE = "batch-filling", "power-of-d"
DELAY = "relative_queueing_delay"
RATIOS = ("h / ln k", "k ln²N / (√N ε)", "ln d ln k / ln N")


class ZeroQueueingDelay(Study):
    """Batch-filling against single-task power of d with the same probe overhead, at loads that approach 1 with N."""

    name = "zero-queueing-delay"
    paper = PARALLEL_JOBS
    shows = (
        "E[T - T*]/E[T*] against N at load 1 - N^-0.3, with k = floor(ln² N) tasks (at most N/2) and d = c/((1 - load) "
        "ln k) probes per task, compared with single tasks with the same d (the message of theorems 3.1 to 3.4)"
    )
    takes = "13 minutes"
    columns: ClassVar = {
        "policy": "batch-filling of jobs of k tasks, or power-of-d of jobs of one task (random routing where d < 1)",
        "c": "d (1 - load) ln k: theorem 3.2 wants it large",
        "servers": "N",
        "tasks": "tasks per job, k (of single-task jobs 1; their d is that of the parallel jobs)",
        "load": "1 - N^-0.3",
        "d": "probes per task",
        "side": "the side of the theorems' conditions on which the system lies; they are not about jobs of one task",
    }
    quantities: ClassVar = {
        DELAY: "E[T - T*]/E[T*], the mean queueing delay over the mean inherent delay; theory: the limit of many "
        "servers at this load, k and d",
        **UTILISATION,
        "h / ln k": "should be much less than 1 for theorem 3.1",
        "k ln²N / (√N ε)": "should be much less than 1 for theorem 3.1; ε = 1 - load",
        "ln d ln k / ln N": "should be much less than 1 for theorem 3.3, which says that delay does not vanish",
    }
    tabulated = (DELAY,)
    hidden = ("load", "tasks")
    controls: ClassVar = {DELAY: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return both policies at c = 4, 1, 1/4 and N = 64 to 4096."""
        return [
            _point(policy, c, servers, quick)
            for policy in (BATCH, SINGLE)
            for c in (4.0, 1.0, 0.25)
            for servers in ((64, 256) if quick else (64, 256, 1024, 4096))
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the mean field's delay and, of jobs of several tasks, the ratios of the theorems' conditions."""
        load, d, servers, tasks = (float(settings[name]) for name in ("load", "d", "servers", "tasks"))
        if tasks == 1:
            return {DELAY: mean_field("per-task-power-of-d", load, 1, max(1.0, d)).relative_queueing_delay}
        where = _regime(int(servers), int(tasks), load, d)
        ratios = {name: where.value(name) for name in RATIOS}
        return {DELAY: mean_field(BATCH, load, int(tasks), min(d, servers / tasks)).relative_queueing_delay, **ratios}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the relative queueing delay of the jobs, and the utilisation."""
        return {DELAY: relative_queueing_delay(scenario, measurements), **utilised(scenario, measurements)}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return one plot with a panel for each c."""
        figure = curves(
            rows,
            DELAY,
            x="servers",
            by=("policy",),
            panel="c",
            log_x=True,
            share_y=False,
            x_label="servers N",
            y_label="relative queueing delay E[T − T*]/E[T*]",
            caption="Load 1 − N^(−0.3), k = floor(ln² N) tasks per job (at most N/2), c/((1 − load) ln k) probes per "
            "task; Poisson arrivals, exponential sizes. Theory: limit of many servers at the same load, k and d.",
        )
        return {"relative-queueing-delay": figure}

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say which way the delays go, and what the theorems' conditions are worth here."""
        found = []
        for policy, jobs in ((BATCH, "batch-filling"), (SINGLE, "power of d of single tasks")):
            delays = [row.value for row in rows if _is(row, policy, 4.0)]
            if len(delays) > 1:
                way = "falls" if delays[-1] < delays[0] else "rises"
                found.append(f"{jobs}, c = 4: the delay {way} with N, from {delays[0]:.3f} to {delays[-1]:.3f}")
        batch = [row for row in rows if row.settings["policy"] == BATCH and row.quantity == DELAY]
        if batch and all(row.settings["side"] == "neither" for row in batch):
            largest = max(batch, key=lambda row: float(row.settings["servers"])).settings
            size = value_of(rows, "k ln²N / (√N ε)", "theory", policy=BATCH, servers=largest["servers"])
            found.append(
                "no system here meets the theorems' conditions, on neither side"
                + (
                    f": k ln²N/(√N ε), which must be much less than 1, is {size:.0f} at N = {largest['servers']}"
                    if size
                    else ""
                )
                + "; what they say of N → ∞ shows as a trend"
            )
        return found


def _is(row: Row, policy: str, c: float) -> bool:
    return row.source == "twin" and row.quantity == DELAY and (row.settings["policy"], row.settings["c"]) == (policy, c)


def _point(policy: str, c: float, servers: int, quick: bool) -> Point:
    spare = servers**-ALPHA
    k = min(math.floor(math.log(servers) ** 2), servers // 2)
    d = c / (spare * math.log(k))
    tasks, side = (k, _regime(servers, k, 1 - spare, d).side) if policy == BATCH else (1, "-")
    settings = {
        "policy": policy,
        "c": c,
        "servers": servers,
        "tasks": tasks,
        "load": 1 - spare,
        "d": d,
        "side": side,
    }
    if policy == SINGLE and d < 1:
        return Point(settings)  # random routing, of which the theory is exact
    fits = policy == BATCH and servers <= 256
    return Point(settings, twin=_on_twin(settings, quick), cluster=_on_cluster(settings, quick) if fits else None)


def _on_twin(settings: Settings, quick: bool) -> Scenario:
    """Return runs that bring batch-filling at c = 4 to ±0.003 (N = 64) to ±0.005, the rest to a few hundredths."""
    important = settings["c"] == 4 and settings["policy"] == BATCH
    largest = settings["servers"] == 4096  # whose runs take the longest
    replications = 3 if quick else 6 if not important else 8 if largest else 12
    server_time = 4e3 if quick else 1e5 if not important else 2e6 if largest else 5e5  # of a replication, in time units
    return _scenario(settings, max(15.0, server_time / float(settings["servers"])), replications, quick)


def _on_cluster(settings: Settings, quick: bool) -> Scenario:
    return _scenario(settings, 60.0 if quick else 200.0, 2 if quick else 5, quick)


def _scenario(settings: Settings, duration: float, replications: int, quick: bool) -> Scenario:
    # From empty, the queues of policies that see many servers settle in some 5/(1 - load); few probes take longer.
    relaxations = 1 if quick else 5 if float(settings["c"]) >= 1 else 10
    warmup = relaxations / (1 - float(settings["load"]))
    return parallel_jobs(settings, warmup=warmup, duration=duration, replications=replications)


@cache
def _regime(servers: int, tasks: int, load: float, d: float) -> Regime:
    return regime(servers, tasks, load, d)
