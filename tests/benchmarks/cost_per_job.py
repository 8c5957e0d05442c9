"""Whether the cost of a job grows with the number of servers, and how long a large cluster takes to start.

For policies with bounded probes, at N = 10, 100 and 1000: microseconds a job on the twin, and processor microseconds a
job of the cluster's processes at about the same jobs a second (the time unit grows with N). Then the time from the
command to time 0 for a cluster of 1000 servers. Prints figures and ratios; asserts nothing.
Run: python tests/benchmarks/cost_per_job.py
"""

from __future__ import annotations

import statistics
import time

import trio

from testbed.cluster.controller import Controller
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, load

SERVERS = (10, 100, 1000)
POLICIES = ("random", "round-robin", "power-of-d", "jiq", "least-outstanding")
JOBS = 20_000
JOBS_PER_SECOND = 2000
ROUNDS = 3


def scenario(policy: str, servers: int) -> Scenario:
    """Return a run of about JOBS jobs at load 0.8, JOBS_PER_SECOND of them a second."""
    rate = 0.8 * servers
    return load("quickstart").with_settings(
        {
            "run.warmup": 0,
            "run.duration": JOBS / rate,
            "run.time_unit": f"{1000 * rate / JOBS_PER_SECOND:g}ms",
            "cluster.nodes": 1,
            "cluster.pools.main.servers": servers,
            "dispatch": {"policy": policy},
            "variants": [],
        }
    )


def on_twin(policy: str, servers: int) -> float:
    """Return microseconds a job."""
    settings = scenario(policy, servers)
    start = time.perf_counter()
    jobs = len(simulate(settings).columns["job"])
    return (time.perf_counter() - start) / jobs * 1e6


def on_cluster(policy: str, servers: int) -> float:
    """Return processor microseconds a job, of all processes together."""
    measurements = trio.run(Controller(scenario(policy, servers), 0, labels={}).run)
    return sum(process.cpu_seconds for process in measurements.processes) / len(measurements.columns["job"]) * 1e6


def start_up(servers: int) -> float:
    """Return seconds from the command to the start of the arrivals, the starting of the processes included."""
    started: list[float] = []

    def observe(controller: Controller) -> None:
        if controller.started and not started:
            started.append(time.perf_counter())
            controller.stop()

    begin = time.perf_counter()
    trio.run(Controller(scenario("power-of-d", servers), 0, labels={}, observe=observe).run)
    return started[0] - begin


def main() -> None:
    """Take turns over N, and print medians and their ratios to that at the smallest N."""
    for where, measure, rounds in (("twin", on_twin, ROUNDS), ("cluster", on_cluster, 1)):
        for policy in POLICIES:
            costs: dict[int, list[float]] = {servers: [] for servers in SERVERS}
            for _ in range(rounds):
                for servers in SERVERS:
                    costs[servers].append(measure(policy, servers))
            medians = [statistics.median(costs[servers]) for servers in SERVERS]
            words = "  ".join(
                f"N = {servers}: {cost:6.1f} us ({cost / medians[0]:.2f})"
                for servers, cost in zip(SERVERS, medians, strict=True)
            )
            print(f"{where:8} {policy:18} {words}")
    print("start-up of 1000 servers:", ", ".join(f"{start_up(1000):.2f} s" for _ in range(3)))


if __name__ == "__main__":
    main()
