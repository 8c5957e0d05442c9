"""How long the queues are under the policies for parallel jobs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import queue_length_tail
from testbed.studies.reproduce.scenarios import parallel_jobs
from testbed.studies.reproduce.study import PARALLEL_JOBS, Point, Row, Setting, Settings, Study
from testbed.theory.parallel_jobs import many_tasks_limit, mean_field

LOAD, SERVERS, TASKS, D = 0.9, 1000, 10, 2.0
LONGEST = 8
POLICIES = ("batch-filling", "batch-sampling", "per-task-power-of-d", "random")
MANY_TASKS = ("batch-filling", "batch-sampling")
TAIL = "queue_length_tail"


class QueueLengths(Study):
    """The stationary queue lengths of the paper's mean field, and those of a thousand servers."""

    name = "parallel-jobs-queue-lengths"
    paper = PARALLEL_JOBS
    shows = (
        "S_i, the fraction of servers with at least i tasks, at load 0.9 with N = 1000, k = 10 and d = 2: "
        "batch-filling, batch-sampling, per-task power of d and random, with limits of many servers and of many tasks"
    )
    takes = "2 minutes"
    columns: ClassVar = {
        "policy": "with d = 2 probes per task, except for random",
        "tasks": 'tasks per job, k; "infinite" is the limit of many tasks after that of many servers',
        "length": "i, the task in service included",
    }
    quantities: ClassVar = {TAIL: "S_i, the time-averaged fraction of servers with at least i tasks"}

    def points(self, quick: bool) -> list[Point]:
        """Return all lengths of all policies; those of a policy share its runs."""
        found: list[Point] = []
        for policy in POLICIES:
            # Random routing forgets its state in some 1/(1 - √load)² = 380 time units, the others in tens.
            warmup = 20.0 if quick else 1000.0 if policy == "random" else 100.0
            duration, replications = (20.0, 3) if quick else (500.0 if policy == "random" else 200.0, 4)
            servers = 200 if quick else SERVERS
            settings: dict[str, Setting] = {"policy": policy, "servers": servers, "load": LOAD, "tasks": TASKS}
            if policy != "random":
                settings["d"] = D
            twin: Scenario | None = parallel_jobs(settings, warmup=warmup, duration=duration, replications=replications)
            cluster = None
            if policy == "random":
                twin = None if quick else twin
            else:
                cluster = parallel_jobs(settings, warmup=50.0, duration=100.0, replications=2)
            found += [
                Point({"policy": policy, "tasks": TASKS, "length": i}, twin=twin, cluster=cluster)
                for i in range(1, LONGEST + 1)
            ]
        found += [
            Point({"policy": policy, "tasks": "infinite", "length": i}, line=True)
            for policy in MANY_TASKS
            for i in range(1, LONGEST + 1)
        ]
        return found

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return S_i of the mean field, or of its limit of many tasks."""
        policy, length = str(settings["policy"]), int(settings["length"])
        if settings["tasks"] == "infinite":
            tail = many_tasks_limit(policy, LOAD, D)
        else:
            found = mean_field(policy, LOAD, TASKS, D).queue_length_tail
            assert found is not None
            tail = found
        return {TAIL: float(tail[length]) if length < len(tail) else 0.0}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return S_i."""
        return {TAIL: queue_length_tail(scenario, measurements, int(settings["length"]))}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return S_i against i, on a logarithmic scale."""
        figure = curves(
            [row for row in rows if row.value > 1e-4],
            TAIL,
            x="length",
            by=("policy", "tasks"),
            log_y=True,
            label=lambda settings: (
                f"{settings['policy']}, k " + ("→ ∞" if settings["tasks"] == "infinite" else f"= {settings['tasks']}")
            ),
            x_label="queue length i (tasks, the one in service included)",
            y_label="fraction of servers with at least i tasks",
            caption=f"Load {LOAD}, {D:g} probes per task, N = {SERVERS} (quick: 200), Poisson arrivals, exponential "
            "sizes. Theory: limit of many servers; k → ∞: limit of many tasks after it. Fractions above 1e-4.",
        )
        return {"queue-lengths": figure}
