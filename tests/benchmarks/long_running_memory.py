"""Whether the memory of a standing cluster is bounded: resident sizes of all its processes over minutes.

Starts a cluster at a full rate, and prints the resident size of each process every ten seconds, and at the end how much
each has grown since the first minute. Asserts nothing. Run: python tests/benchmarks/long_running_memory.py [minutes]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from testbed.cli.detached import start
from testbed.runs.long_running import connect
from testbed.runs.long_running.cluster import Order
from testbed.scenario import load, resolved

NAME = "standing-memory"
PERIOD = 10.0  # seconds


def resident(pid: int) -> float:
    """Return the resident size of a process, in MB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise ValueError(f"process {pid} has no resident size")


def main(minutes: float) -> None:
    """Run the benchmark."""
    scenario = load("quickstart").with_settings(
        {
            "run.time_unit": "100ms",
            "cluster.pools.main.servers": 500,
            "cluster.nodes": 1,
            "workload.load": 0.9,
            "dispatch": {"policy": "power-of-d"},
            "variants": [],
        }
    )
    with tempfile.TemporaryDirectory(prefix="tb") as folder:
        state = start(Order(NAME, "power-of-d", resolved(scenario), folder))
        try:
            begin = time.monotonic()
            after_minute: dict[str, float] = {}
            sizes: dict[str, float] = {}
            while (passed := time.monotonic() - begin) < 60 * minutes:
                time.sleep(PERIOD)
                with connect(NAME) as client:
                    status = client.status()
                assert status.snapshot is not None
                pids = {"supervisor": state.pid, **{p.name: p.pid for p in status.snapshot.processes}}
                sizes = {name: resident(pid) for name, pid in pids.items()}
                if passed >= 50 and not after_minute:
                    after_minute = sizes
                print(
                    f"{passed + PERIOD:5.0f} s  {status.snapshot.jobs_per_second:6,.0f} jobs/s  "
                    + "  ".join(f"{name} {size:.1f} MB" for name, size in sizes.items()),
                    flush=True,
                )
            for name, size in sizes.items():
                print(f"{name}: {size - after_minute.get(name, size):+.1f} MB since the first minute")
        finally:
            with connect(NAME) as client:
                client.down()


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 10.0)
