"""The recording that is shipped, ``data/sample_trace.csv``, and how it was made.

It looks like two days of a service: the arrival rate goes up and down once a day, with short bursts on top; most jobs
are interactive, some are batch jobs, and both have lognormal sizes. The mean size is 1 and there are 5 jobs per time
unit, a load of 0.5 on ten servers: they keep up with the wave, but not with every burst. To write it anew:
``python -m testbed.workload.sample_trace FILE``.
"""

from __future__ import annotations

import math
import random
import sys
from pathlib import Path
from statistics import NormalDist

JOBS = 4000
RATE = 5.0  # jobs per time unit, on average
DAYS = 2
SWING = 0.6  # of the day's wave, as a share of the mean rate
BURST_RATE = 2.5  # times the usual rate
BURST_LENGTH, BURST_DISTANCE = 4.0, 36.0  # mean times, in time units
TYPES = (("interactive", 0.8, 0.5, 2.0), ("batch", 0.2, 3.0, 4.0))  # name, probability, mean size, SCV of the size


def write(path: Path) -> None:
    """Write the recording to ``path``: columns arrival, size and type, one row per job.

    Only uniform numbers of Python's generator are used, whose values are the same in all versions, and figures are
    rounded, so that the file is the same everywhere.
    """
    source = random.Random(2024)
    arrivals = _arrivals(source)
    stretch = JOBS / RATE / arrivals[-1]
    rows = []
    for arrival in arrivals:
        name, _, mean, scv = TYPES[0] if source.random() < TYPES[0][1] else TYPES[1]
        log_variance = math.log1p(scv)
        normal = NormalDist(math.log(mean) - log_variance / 2, math.sqrt(log_variance))
        rows.append((arrival * stretch, math.exp(normal.inv_cdf(1 - source.random())), name))
    mean_size = math.fsum(size for _, size, _ in rows) / JOBS
    lines = [f"{arrival:.4f},{max(size / mean_size, 0.001):.3f},{name}" for arrival, size, name in rows]
    path.write_text("\n".join(["arrival,size,type", *lines, ""]), encoding="ascii", newline="\n")


def _arrivals(source: random.Random) -> list[float]:
    """Return the arrival times of a Poisson process with the rate of wave and bursts, by thinning."""

    def exponential(mean: float) -> float:
        return -mean * math.log(1 - source.random())

    day = JOBS / RATE / DAYS
    highest = RATE * (1 + SWING) * BURST_RATE
    times: list[float] = []
    now = 0.0
    burst_start = exponential(BURST_DISTANCE)
    burst_end = burst_start + exponential(BURST_LENGTH)
    while len(times) < JOBS:
        now += exponential(1 / highest)
        while now > burst_end:
            burst_start = burst_end + exponential(BURST_DISTANCE)
            burst_end = burst_start + exponential(BURST_LENGTH)
        rate = RATE * (1 - SWING * math.cos(2 * math.pi * now / day))
        if now >= burst_start:
            rate *= BURST_RATE
        if source.random() * highest < rate:
            times.append(now)
    return times


if __name__ == "__main__":
    write(Path(sys.argv[1]))
