"""The exact trace of the paper's formulas, as a scenario with a recorded workload, on the twin.

tests/benchmarks/exact_trace.py runs the same scenarios on real processes and prints how far departures are off.
"""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode

TRACE = tomllib.loads((Path(__file__).parents[2] / "servers" / "exact_trace.toml").read_text())
POOLS = ("one", "two")
AHEAD = 20.0  # a job without work comes this long before the trace's first: processes are busy at their start


def name_of(job: dict[str, Any]) -> str:
    """A type of its own for each type and starting pool, for the dispatcher to know where a job starts."""
    return f"type{job['type']}from{job['start']}"


def exact_trace(row: dict[str, Any], folder: Path) -> Scenario:
    """Return a row of the paper's table as a scenario; its recording is written into ``folder``."""
    jobs = TRACE["jobs"]
    file = folder / "trace.csv"
    lines = [f"0,{name_of(jobs[0])},0,0"]
    lines += [f"{AHEAD + job['arrival']},{name_of(job)},{job['sizes'][0]},{job['sizes'][1]}" for job in jobs]
    file.write_text("\n".join(["arrival,type,size_one,size_two", *lines, ""]))
    kinds = {name_of(job): job for job in jobs}
    speeds = {0: {"two": 0.5}, 1: {"one": 0.5}}
    return decode(
        {
            "name": "exact trace",
            "run": {"time_unit": "100ms", "warmup": 0, "duration": AHEAD + 5.5, "drain": 30},
            "cluster": {
                "nodes": 2,
                "pools": [
                    {"name": name, "servers": servers, "queue": "central"}
                    for name, servers in zip(POOLS, row["servers"], strict=True)
                ],
            },
            "workload": {
                "arrivals": {"kind": "trace", "file": str(file)},
                "types": [
                    {"name": name, "probability": 1 / len(kinds), "speed": speeds[job["type"]]}
                    for name, job in kinds.items()
                ],
            },
            "dispatch": {
                "policy": "static",
                "knows": "types",
                "assignment": {name: {POOLS[job["start"]]: 1.0} for name, job in kinds.items()},
            },
            "threshold": {
                "action": row["action"],
                "tau": {
                    name: "inf" if tau == float("inf") else tau for name, tau in zip(POOLS, row["tau"], strict=True)
                },
            },
        }
    )


def departures(columns: dict[str, Any]) -> np.ndarray:
    """Return when the trace's jobs departed, in time units of the trace."""
    order = np.argsort(columns["job"])
    return (columns["arrival"] + columns["response"])[order][1:] - AHEAD


@pytest.mark.parametrize("row", TRACE["rows"], ids=lambda row: f"{row['action']} {row['tau']} {row['servers']}")
def test_the_twin_reproduces_the_exact_trace(row: dict[str, Any], tmp_path: Path) -> None:
    measured = simulate(exact_trace(row, tmp_path))
    assert departures(measured.columns) == pytest.approx(row["departures"], abs=1e-12)
