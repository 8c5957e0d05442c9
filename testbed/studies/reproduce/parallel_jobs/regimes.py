"""Jobs of k tasks as the cluster grows, where the theorems promise that delay vanishes and where they forbid it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import UTILISATION, relative_queueing_delay, utilised
from testbed.studies.reproduce.scenarios import parallel_jobs
from testbed.studies.reproduce.study import PARALLEL_JOBS, Point, Row, Settings, Study
from testbed.theory.parallel_jobs import mean_field, number_of_probes, regime

POLICIES = ("batch-filling", "batch-sampling", "per-task-power-of-d")
ALPHA = 0.3
RATIO = "response_time_ratio"
#: How k and d grow: with N and k and the spare capacity. d is kept at 1 and above, which all three policies need.
TASKS: dict[str, Callable[[int], int]] = {
    "k = ln² N": lambda N: math.floor(math.log(N) ** 2),
    "k = ln N": lambda N: math.floor(math.log(N)),
}
PROBES: dict[str, Callable[[int, float], float]] = {
    "d = 4/(ε ln k)": lambda k, ε: 4 / (ε * math.log(k)),
    "d = 2": lambda k, ε: 2.0,
}


class Regimes(Study):
    """Three policies with the same number of probes, along four ways to infinity."""

    name = "parallel-jobs-regimes"
    paper = PARALLEL_JOBS
    shows = (
        "E[T]/E[T*] against N for batch-filling, batch-sampling and per-task power of d at load 1 - N^-0.3, on the "
        "achievable side (theorems 3.1 and 3.2: d = 4/(ε ln k)) and on the impossible one (3.3 and 3.4: d = 2)"
    )
    takes = "4 minutes"
    columns: ClassVar = {
        "regime": "how k and d depend on N; ε = N^-0.3 is the spare capacity",
        "policy": "all with k d probes per job",
        "servers": "N",
        "tasks": "tasks per job, k",
        "load": "1 - N^-0.3",
        "d": "probes per task, k d rounded up and at most N",
    }
    quantities: ClassVar = {
        RATIO: "E[T]/E[T*], the mean response time over the mean inherent delay; theory: the limit of many servers at "
        "this load, k and d",
        **UTILISATION,
        "d ε ln k": "theorem 3.2 wants it to grow without bound; only for batch-filling",
        "ln d ln k / ln N": "theorem 3.3 wants it to vanish; only for batch-filling",
    }
    tabulated = (RATIO,)
    hidden = ("load",)
    controls: ClassVar = {RATIO: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return all policies in all regimes; the largest N are for the theory's lines."""
        simulated = (64,) if quick else (64, 256, 1024)
        return [
            _point(tasks, probes, policy, servers, servers in simulated, quick)
            for tasks in TASKS
            for probes in PROBES
            for policy in POLICIES
            for servers in (64, 128, 256, 512, 1024, 4096)
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the mean field's ratio and, for batch-filling, the theorems' two ratios."""
        load, d, servers, tasks = (float(settings[name]) for name in ("load", "d", "servers", "tasks"))
        policy = str(settings["policy"])
        found = {RATIO: 1 + mean_field(policy, load, int(tasks), d).relative_queueing_delay}
        if policy == "batch-filling":
            where = regime(int(servers), int(tasks), load, d)
            found |= {name: where.value(name) for name in ("d ε ln k", "ln d ln k / ln N")}
        return found

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the ratio of mean response time and inherent delay, and the utilisation."""
        return {RATIO: 1 + relative_queueing_delay(scenario, measurements), **utilised(scenario, measurements)}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return one plot with a panel for each regime."""
        figure = curves(
            rows,
            RATIO,
            x="servers",
            by=("policy",),
            panel="regime",
            log_x=True,
            x_label="servers N",
            y_label="E[T]/E[T*]",
            caption="Load 1 − N^(−0.3), Poisson arrivals, exponential sizes; whole tasks and probes per job. "
            "Theory: limit of many servers at the same load, k and d.",
        )
        return {"response-time-ratio": figure}


def _point(tasks: str, probes: str, policy: str, servers: int, simulated: bool, quick: bool) -> Point:
    spare = servers**-ALPHA
    k = min(TASKS[tasks](servers), servers // 2)
    d = number_of_probes(k, PROBES[probes](k, spare), servers) / k
    settings: Settings = {
        "regime": f"{tasks}, {probes}",
        "policy": policy,
        "servers": servers,
        "tasks": k,
        "load": 1 - spare,
        "d": d,
    }
    if not simulated:
        return Point(settings, line=True)
    return Point(
        settings,
        twin=parallel_jobs(
            settings,
            warmup=(3 if quick else 6) / spare,
            duration=max(15.0, (2e3 if quick else 1e5) / servers),
            replications=3 if quick else 6,
        ),
        cluster=parallel_jobs(settings, warmup=5 / spare, duration=100.0, replications=3) if servers == 64 else None,
    )
