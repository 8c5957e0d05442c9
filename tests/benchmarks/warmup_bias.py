"""Print how far the mean response time with an automatic warm-up is from the right one, for queues that begin empty.

    python tests/benchmarks/warmup_bias.py [replications]

For M/M/1 and M/H2/1 queues the right value is exact. For power-of-2 and stealing it is the mean of as many runs of the
twin with a fixed warm-up of 1000 time units. ``bias`` is the difference in percent with its 95 % interval, and
``valid`` is the number of replications with a valid verdict, all of them judged together. The seeds are fixed, so the
output is the same each time. 200 replications take about eleven minutes on two cores.
"""

from __future__ import annotations

import math
import sys
from concurrent.futures import ProcessPoolExecutor
from typing import Any

from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary, judged_together
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.studies.sweep.sweeping import twin_summary
from testbed.theory.predict import Prediction, predict
from testbed.theory.relaxation import queue_relaxation_time

LOADS = (0.5, 0.7, 0.8, 0.9, 0.95)
H2 = {"kind": "hyperexponential", "scv": 4.0}
SYSTEMS: dict[str, dict[str, Any]] = {
    "M/M/1": {"servers": 1},
    "M/H2/1": {"servers": 1, "size": H2},
    "power-of-2, N = 20": {"servers": 20, "policy": "power-of-d"},
    "stealing, N = 20": {"servers": 20, "balance": {"policy": "stealing", "probe_rate": 1.0}},
}
FIXED = 1000.0


def scenario(load: float, duration: float, warmup: float | str, system: dict[str, Any]) -> Scenario:
    """Return a scenario of one of the systems."""
    mapping = {
        "name": "warmup-bias",
        "run": {"warmup": warmup, "duration": duration},
        "cluster": {"pools": [{"servers": system["servers"]}]},
        "workload": {"load": load, "size": system.get("size", {"kind": "exponential"})},
        "dispatch": {"policy": system.get("policy", "random")},
    }
    if "balance" in system:
        mapping["balance"] = system["balance"]
    return decode(mapping)


def one(run: tuple[Scenario, int]) -> Summary:
    """Return the summary of one replication on the twin."""
    return twin_summary(run[0], simulate(*run))


def means(pool: ProcessPoolExecutor, of: Scenario, replications: int) -> tuple[Interval, list[Summary]]:
    """Return the mean over replications, and their summaries."""
    runs = judged_together(list(pool.map(one, [(of, i) for i in range(replications)], chunksize=5)))
    return replication_interval([run.response.mean for run in runs]), runs


def line(pool: ProcessPoolExecutor, name: str, load: float, duration: float, replications: int) -> str:
    """Return a line of the table."""
    system = SYSTEMS[name]
    automatic = scenario(load, duration, "auto", system)
    mean, runs = means(pool, automatic, replications)
    error = 0.0
    prediction = predict(automatic)
    if isinstance(prediction, Prediction) and prediction.kind == "exact":
        right = prediction.mean_response_time
    else:
        fixed, _ = means(pool, scenario(load, duration, FIXED, system), replications)
        assert fixed.mean is not None
        assert fixed.half_width is not None
        right, error = fixed.mean, fixed.half_width
    assert mean.mean is not None
    assert mean.half_width is not None
    bias, width = mean.mean / right - 1, math.hypot(mean.half_width, error) / right
    start = sum(run.window[0] for run in runs) / replications
    valid = sum(run.verdict.valid for run in runs)
    return (
        f"| {name} | {load:g} | {duration:.0f} | {start:.0f} | {mean.mean:.3f} ± {mean.half_width:.3f} | {right:.3f} | "
        f"{bias:+.1%} ± {width:.1%} | {valid} of {replications} |"
    )


def main() -> None:
    """Print the table."""
    replications = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    print("| system | load | duration | window begins | mean response time | right | bias | valid |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    with ProcessPoolExecutor(2) as pool:
        for name, system in SYSTEMS.items():
            for load in LOADS:
                relaxation = queue_relaxation_time(load, 1.0, 4.0 if "size" in system else 1.0)
                lengths = (400.0,) if system["servers"] > 1 else (relaxation, 10 * relaxation)
                for duration in lengths:
                    print(line(pool, name, load, duration, replications), flush=True)
        random = {"servers": 20, "size": H2}
        SYSTEMS["random, H2, N = 20"] = random
        for duration in (400.0, 1000.0):
            print(line(pool, "random, H2, N = 20", 0.8, duration, replications), flush=True)


if __name__ == "__main__":
    main()
