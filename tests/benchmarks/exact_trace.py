"""How far real processes are off the exact trace of rerouting and replication, departure by departure.

Prints, for each row of the formula sheet's table, the departures' differences in milliseconds, with 100 ms units; once
on the machine as it is, and once with its processors kept awake by loops of the lowest priority. The difference is what
it takes the machine to wake up, for this cluster is idle most of the time.
Prints figures; asserts nothing. Run: python tests/benchmarks/exact_trace.py
"""

from __future__ import annotations

import contextlib
import os
import runpy
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import trio

from testbed.cluster.controller import Controller


@contextlib.contextmanager
def awake() -> Iterator[None]:
    """Keep the processors awake."""
    loop = "import os\nos.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\nwhile True: pass"
    loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in os.sched_getaffinity(0)]
    try:
        yield
    finally:
        for process in loops:
            process.kill()
            process.wait()


def main() -> None:
    """Run each row once, then once more with the processors awake."""
    measure()
    print("with the processors awake:")
    with awake():
        measure()


def measure() -> None:
    """Run each row once."""
    test = runpy.run_path(str(Path(__file__).parents[1] / "testbed" / "runtime" / "test_exact_trace.py"))
    worst = 0.0
    delays: list[float] = []
    for row in test["TRACE"]["rows"]:
        with tempfile.TemporaryDirectory() as folder:
            scenario = test["exact_trace"](row, Path(folder))
            measured = trio.run(Controller(scenario, 0, labels={}).run)
        off = (test["departures"](measured.columns) - np.array(row["departures"])) * 100.0
        delay = measured.copies["delay"]
        delays += (delay[np.isfinite(delay)] * 100.0).tolist()
        worst = max(worst, float(np.abs(off).max()))
        label = f"{row['action']}, tau {row['tau']}, servers {row['servers']}"
        print(f"{label:45} " + ", ".join(f"{value:+.2f}" for value in off) + " ms")
    print(
        f"largest difference {worst:.2f} ms; cancellations took effect after {np.median(delays):.2f} ms at the median"
    )


if __name__ == "__main__":
    main()
