"""How a sweep on the twin scales over cores: runs a second with two processes, and how often as many as with one.

Prints figures and ratios; asserts nothing. Run it on a quiet machine: python tests/benchmarks/sweep_speed.py
"""

from __future__ import annotations

import statistics
import time

import testbed
from testbed.studies.plan import Run
from testbed.studies.progress import Progress

ROUNDS = 3
RUNS = 60


class Clock(Progress):
    """Notes when each run is finished."""

    def __init__(self) -> None:
        super().__init__()
        self.times = [time.perf_counter()]

    def finished(self, run: Run) -> None:
        """Note the time."""
        super().finished(run)
        self.times.append(time.perf_counter())


def seconds(processes: int) -> tuple[float, float]:
    """Return how long a sweep takes, with the start of its workers, and without: from the first finished run on."""
    scenario = testbed.Scenario.from_file("quickstart").with_settings(
        {
            "run.replications": RUNS // 2,
            "dispatch": {"policy": "power-of-d"},
            "variants": [],
            "sweep.grid": {"workload.load": [0.7, 0.8]},
        }
    )
    clock = Clock()
    testbed.sweep(scenario, on=["twin"], processes=processes, progress=clock)
    first, *_, last = clock.times[1:]
    return last - clock.times[0], (last - first) / (RUNS - 1)


def main() -> None:
    """Take turns, so that a drift of the machine hits all alike, and print medians and ratios."""
    whole: dict[int, list[float]] = {1: [], 2: []}
    running: dict[int, list[float]] = {1: [], 2: []}
    for _ in range(ROUNDS):
        for processes in whole:
            total, per_run = seconds(processes)
            whole[processes].append(total)
            running[processes].append(per_run)
    for processes in whole:
        print(
            f"{processes} process(es): {statistics.median(whole[processes]):.1f} s for {RUNS} runs, "
            f"{1 / statistics.median(running[processes]):.2f} runs/s once the workers are up"
        )
    for name, values in (("with the start of the workers", whole), ("once they are up", running)):
        ratios = [one / two for one, two in zip(values[1], values[2], strict=True)]
        print(f"two processes are {statistics.median(ratios):.2f} times as fast as one {name}")


if __name__ == "__main__":
    main()
