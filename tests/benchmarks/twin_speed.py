"""How fast the twin is: jobs a second of random routing over 20 servers, beside Ciw and SimPy doing the same.

Prints figures and ratios; asserts nothing. Run: python tests/benchmarks/twin_speed.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import ciw
import numpy as np
import simpy

from testbed.runtime.twin import simulate
from testbed.scenario import load

SERVERS = 20
LOAD = 0.8
ROUNDS = 5


def twin(policy: str, duration: float) -> float:
    """Return jobs a second of the twin, records and accounting included."""
    scenario = load("quickstart").with_settings(
        {
            "cluster.pools.main.servers": SERVERS,
            "dispatch": {"policy": policy},
            "run.warmup": 0,
            "run.duration": duration,
            "variants": [],
        }
    )
    start = time.perf_counter()
    jobs = len(simulate(scenario).columns["job"])
    return jobs / (time.perf_counter() - start)


def with_simpy(duration: float) -> float:
    """Return jobs a second of the same system in SimPy: a resource per server, a process per job."""
    rng = np.random.default_rng(1)
    env = simpy.Environment()
    servers = [simpy.Resource(env) for _ in range(SERVERS)]
    responses = []

    def job(server: simpy.Resource, size: float):
        arrived = env.now
        with server.request() as request:
            yield request
            yield env.timeout(size)
        responses.append(env.now - arrived)

    def source():
        while True:
            yield env.timeout(rng.exponential(1 / (SERVERS * LOAD)))
            env.process(job(servers[rng.integers(SERVERS)], rng.exponential()))

    env.process(source())
    start = time.perf_counter()
    env.run(until=duration)
    return len(responses) / (time.perf_counter() - start)


def with_ciw(duration: float) -> float:
    """Return jobs a second of the same system in Ciw: a node per server, each with its share of the arrivals."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=LOAD) for _ in range(SERVERS)],
        service_distributions=[ciw.dists.Exponential(rate=1.0) for _ in range(SERVERS)],
        number_of_servers=[1] * SERVERS,
        routing=[[0.0] * SERVERS for _ in range(SERVERS)],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    start = time.perf_counter()
    simulation.simulate_until_max_time(duration)
    return len(simulation.get_all_records()) / (time.perf_counter() - start)


CASES: dict[str, Callable[[], float]] = {
    "twin, random": lambda: twin("random", 6000),
    "SimPy, random": lambda: with_simpy(3000),
    "Ciw, random": lambda: with_ciw(600),
    "twin, power-of-d": lambda: twin("power-of-d", 3000),
}


def main() -> None:
    """Take turns, so that a drift of the machine hits all alike, and print medians and ratios."""
    speeds: dict[str, list[float]] = {name: [] for name in CASES}
    for _ in range(ROUNDS):
        for name, measure in CASES.items():
            speeds[name].append(measure())
    for name, values in speeds.items():
        ratios = [own / other for own, other in zip(speeds["twin, random"], values, strict=True)]
        print(
            f"{name:18} {statistics.median(values):9,.0f} jobs/s ({min(values):,.0f} to {max(values):,.0f})"
            f"   twin, random is {statistics.median(ratios):.2f} times as fast"
        )


if __name__ == "__main__":
    main()
