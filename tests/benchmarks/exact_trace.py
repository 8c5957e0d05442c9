"""How far real processes are off the exact trace of rerouting and replication, departure by departure.

Runs each row of the formula sheet's table several times with 100 ms units and prints, in milliseconds, by how much the
departures differ: of each departure the median over the runs, which is what messages and timers take, and of each run
the largest, which is also what else went on in the machine. Once on the machine as it is, and once with its processors
kept awake by loops of the lowest priority: that leaves out what it takes the machine to wake up, for this cluster is
idle most of the time.
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

RUNS = 5
WITHIN = 5.0  # milliseconds that are asked


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
    """Measure on the machine as it is, then with its processors awake."""
    measure()
    print("with the processors awake:")
    with awake():
        measure()


def measure() -> None:
    """Run all rows several times."""
    test = runpy.run_path(str(Path(__file__).parents[1] / "testbed" / "runtime" / "test_exact_trace.py"))
    rows = test["TRACE"]["rows"]
    off = np.empty((RUNS, len(rows), len(rows[0]["departures"])))
    delays: list[float] = []
    for run in range(RUNS):
        for i, row in enumerate(rows):
            with tempfile.TemporaryDirectory() as folder:
                scenario = test["exact_trace"](row, Path(folder))
                measured = trio.run(Controller(scenario, 0, labels={}).run)
            off[run, i] = (test["departures"](measured.columns) - np.array(row["departures"])) * 100.0
            delay = measured.copies["delay"]
            delays += (delay[np.isfinite(delay)] * 100.0).tolist()
        far = np.abs(off[run])
        print(f"run {run + 1}: {np.sum(far <= WITHIN)} of {far.size} within {WITHIN:g} ms, largest {far.max():.2f} ms")
    medians = np.median(off, axis=0)
    whole = np.all(np.abs(off) <= WITHIN, axis=2).sum(axis=0)
    for row, values, count in zip(rows, medians, whole, strict=True):
        label = f"{row['action']}, tau {row['tau']}, servers {row['servers']}"
        shown = ", ".join(f"{value:+.2f}" for value in values)
        print(f"{label:45} {shown} ms at the median; all within {WITHIN:g} ms in {count} of {RUNS} runs")
    print(f"largest median {np.abs(medians).max():.2f} ms, of all differences {np.median(np.abs(off)):.2f} ms")
    print(f"cancellations took effect after {np.median(delays):.2f} ms at the median")


if __name__ == "__main__":
    main()
