"""A simulated cluster: M/M/1 queues by Lindley's recursion, as measurements that a run would hand in."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.core.records import Measurements, Occupancy, ProcessReport
from testbed.measure.verdict_checks import Nominal


class FakeServer:
    queue_length = 0


def healthy_process(name: str, **changes: Any) -> ProcessReport:
    settings: dict[str, Any] = {
        "name": name,
        "seconds": 20.0,
        "cpu_seconds": 8.0,
        "timers": 10_000,
        "lateness_mean": 0.0001,
        "lateness_p50": 0.0001,
        "lateness_p99": 0.0004,
        "lateness_max": 0.002,
        "messages_sent": 1,
        "messages_received": 1,
        "bytes_sent": 1,
        "rejected_frames": 0,
        "exact_timers": True,
        "peak_queue_bytes": 0,
    }
    return ProcessReport(**(settings | changes))


def simulate(
    servers: int = 20,
    load: float = 0.7,
    horizon: float = 300.0,
    seed: int = 1,
    slow_server: float = 1.0,
    lag: float = 0.0005,
    slices: int = 60,
) -> Measurements:
    """Poisson arrivals of rate ``servers * load``, routed at random to FCFS servers with exponential sizes of mean 1.

    ``slow_server`` stretches services behind the records' back: the servers are busy longer than they report.
    """
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1 / (servers * load), int(servers * load * horizon * 1.2) + 100))
    arrival = arrival[arrival < horizon]
    jobs = len(arrival)
    size = rng.exponential(1.0, jobs)
    server = rng.integers(servers, size=jobs)
    departure = np.empty(jobs)
    free = np.zeros(servers)
    for i in range(jobs):
        departure[i] = free[server[i]] = max(arrival[i], free[server[i]]) + slow_server * size[i]
    occupancy = Occupancy()
    occupancy.servers = [FakeServer() for _ in range(servers)]
    edges = np.linspace(0.0, horizon, slices + 1)
    events = sorted(
        [(t, 1, s) for t, s in zip(arrival, server, strict=True)]
        + [(t, -1, s) for t, s in zip(departure, server, strict=True)]
        + [(t, 0, 0) for t in edges]
    )
    for time, change, at in events:
        if change:
            old = occupancy.servers[at].queue_length
            occupancy.servers[at].queue_length = old + change
            occupancy.change(old, old + change, time)
        else:
            occupancy.close_slice(time)
    table = occupancy.table()
    return Measurements(
        source="cluster",
        columns={
            "job": np.arange(jobs),
            "type": np.zeros(jobs, np.int16),
            "dispatcher": np.zeros(jobs, np.int16),
            "outcome": np.full(jobs, JobOutcome.COMPLETED, np.int8),
            "arrival": arrival,
            "lag": np.full(jobs, lag),
            "response": departure - arrival,
            "inherent": size,
            "wait": departure - arrival - slow_server * size,
            "overhead": np.zeros(jobs),
            "probes": np.full(jobs, 2, np.int32),
            "server": server.astype(np.int32),
            "tasks": np.ones(jobs, np.int32),
            "work": size,
            "position": np.ones(jobs, np.int32),
            "last_task": np.zeros(jobs, np.int32),
            "lateness": np.full(jobs, 0.0002),
        },
        occupancy_edges=table[0],
        occupancy=table[1],
        counted=np.array(occupancy.counted()),
        counters={"jobs arrived": jobs, "messages": 6 * jobs, "probes": 2 * jobs},
        processes=[healthy_process("node 0"), healthy_process("dispatcher 0", timers=0, lateness_mean=float("nan"))],
        stopped_at=horizon,
    )


def nominal_of(servers: int = 20, load: float = 0.7, **changes: Any) -> Nominal:
    rate = servers * load
    settings: dict[str, Any] = {
        "servers": servers,
        "rate": rate,
        "load": load,
        "work_scv": 1.0,
        "gap_cdf": lambda x: -np.expm1(-rate * x),
        "arrival_dispersion": 1.0,
        "message_delay": 0.0,
        "stable": True,
        "relaxation_time": 20.0,
    }
    return Nominal(**(settings | changes))


@pytest.fixture(scope="session")
def simulate_run() -> Callable[..., Measurements]:
    return simulate


@pytest.fixture(scope="session")
def make_nominal() -> Callable[..., Nominal]:
    return nominal_of


@pytest.fixture(scope="session")
def make_process() -> Callable[..., ProcessReport]:
    return healthy_process
