"""Short runs on real processes: every job accounted for, the same workload as the twin, the same choices where they do
not depend on timing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.core.records import COLUMNS, Measurements
from testbed.measure.accounting import check
from testbed.runtime.build import slice_edges
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario
from testbed.scenario.policies import policies

pytestmark = pytest.mark.cluster


def by_job(measured: Measurements) -> dict[str, np.ndarray[Any, Any]]:
    order = np.argsort(measured.columns["job"])
    return {name: column[order] for name, column in measured.columns.items()}


def check_run(scenario: Scenario, measured: Measurements, *, same_servers: bool) -> None:
    """Check what holds of every run that nothing went wrong in."""
    assert measured.failure is None
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced, accounting.problems
    assert (accounting.lost, accounting.in_system) == (0, 0)
    assert list(measured.columns) == [name for name, _, _ in COLUMNS]
    assert [column.dtype.char for column in measured.columns.values()] == [code for _, code, _ in COLUMNS]

    # The twin meets the same jobs.
    ours, twin = by_job(measured), by_job(simulate(scenario))
    for name in ("job", "type", "arrival", "dispatcher"):
        np.testing.assert_array_equal(ours[name], twin[name])
    if same_servers:
        np.testing.assert_array_equal(ours["server"], twin["server"])

    # No job is faster than its parts, and each part is what the workload says.
    done = ours["outcome"] == JobOutcome.COMPLETED
    assert np.all(ours["response"][done] >= ours["inherent"][done] + ours["wait"][done] - 1e-9)
    both = done & (twin["outcome"] == JobOutcome.COMPLETED)
    if len(scenario.cluster.pools) == 1:
        np.testing.assert_array_equal(ours["inherent"][both], twin["inherent"][both])
    assert np.all(np.isnan(ours["response"]) == ~done)
    assert np.all((ours["server"] >= 0) & (ours["server"] < scenario.servers))
    assert np.all(ours["lag"] >= 0)

    # Every server is somewhere at every time.
    edges = measured.occupancy_edges
    assert edges.tolist() == pytest.approx(slice_edges(scenario))
    np.testing.assert_allclose(measured.occupancy.sum(axis=1), scenario.servers * np.diff(edges), rtol=1e-9)
    assert_busy_as_recorded(measured, ours)

    reports = {process.name: process for process in measured.processes}
    names = [f"dispatcher-{i}" for i in range(scenario.cluster.dispatchers)]
    assert [name for name in reports if name.startswith("dispatcher")] == names
    assert sum(process.rejected_frames for process in measured.processes) == 0
    sent = sum(process.messages_sent for process in measured.processes)
    received = sum(process.messages_received for process in measured.processes)
    assert sent == received == measured.counters["messages"]
    assert measured.counters["probes"] == ours["probes"].sum()
    for process in measured.processes:
        assert 0 < process.cpu_seconds < process.seconds * 1.5
        assert process.lateness_p50 <= process.lateness_p99 <= process.lateness_max
    assert measured.stopped_at == pytest.approx(scenario.horizon)


def assert_busy_as_recorded(measured: Measurements, jobs: dict[str, np.ndarray[Any, Any]]) -> None:
    """Check that servers were busy for about as long as the services in the records, between the edges of occupancy.

    About: each process begins when it has read Start, on a busy machine some ten milliseconds before or after the
    others, which is a tenth of the run, and the run ends in the midst of services. That no server is lost the sum over
    all queue lengths says, and exactly.
    """
    start, stop = measured.occupancy_edges[[0, -1]]
    if measured.copies:
        end, service = measured.copies["end"], measured.copies["received"]
    else:
        done = jobs["outcome"] == JobOutcome.COMPLETED
        end, service = (jobs["arrival"] + jobs["response"])[done], jobs["inherent"][done]
    served = np.clip(end, start, stop) - np.clip(end - service, start, stop)
    assert measured.occupancy[:, 1:].sum() == pytest.approx(served.sum(), rel=0.3)


CASES: dict[str, dict[str, Any]] = {
    "tcp": {"cluster.transport": "tcp", "cluster.dispatchers": 2},
    "several dispatchers and nodes": {"cluster.dispatchers": 2, "cluster.nodes": 3, "dispatch.policy": "round-robin"},
    "a process per server": {"cluster.nodes": "per-server", "cluster.pools.main.servers": 4, "run.time_unit": "20ms"},
    "constant delay": {"cluster.message_delay": 0.5, "dispatch.policy": "round-robin"},
    "random delay": {"cluster.message_delay": {"kind": "exponential", "mean": 0.5}, "cluster.dispatchers": 2},
    "types, pools and buffers": {
        "run.warmup": "auto",
        "cluster.pools": [{"name": "fast", "servers": 8, "buffer": 2}, {"name": "slow", "servers": 12, "buffer": 3}],
        "workload.types": [
            {"name": "a", "probability": 0.3, "speed": {"fast": 2.0}},
            {"name": "b", "probability": 0.7, "speed": {"slow": 0.5}},
        ],
    },
}


@pytest.mark.parametrize("case", list(CASES))
def test_a_run_is_complete_and_of_the_same_workload_as_its_twin(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario], case: str
) -> None:
    scenario = make_scenario(**CASES[case])
    measured = run_cluster(scenario)
    if case == "types, pools and buffers":
        assert np.count_nonzero(measured.columns["outcome"] == JobOutcome.DROPPED) > 0
        assert set(measured.columns["type"].tolist()) == {0, 1}
    check_run(scenario, measured, same_servers=True)
    if "delay" in case:
        # A task's way to the server and its completion's way back, both delayed.
        overhead = measured.columns["response"] - measured.columns["wait"] - measured.columns["inherent"]
        least = 2 * 0.5 - 1e-9 if case == "constant delay" else 0.0
        assert overhead.min() >= least
        assert overhead.mean() >= 0.9


@pytest.mark.parametrize("policy", [name for name in sorted(policies()) if name not in ("random", "round-robin")])
def test_every_policy_runs_on_real_processes(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario], policy: str
) -> None:
    scenario = make_scenario(**{"dispatch.policy": policy, "cluster.dispatchers": 2, "cluster.nodes": 1})
    check_run(scenario, run_cluster(scenario), same_servers=False)


def test_replications_have_other_jobs(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario]
) -> None:
    scenario = make_scenario(**{"run.duration": 20, "run.warmup": 0})
    arrivals = by_job(run_cluster(scenario, replication=1))["arrival"].tolist()
    assert arrivals == by_job(simulate(scenario, 1))["arrival"].tolist()
    assert arrivals[:20] != by_job(simulate(scenario, 0))["arrival"].tolist()[:20]


@pytest.mark.parametrize("drain", [0.0, 1.0])
def test_jobs_that_the_drain_is_too_short_for_are_in_the_system_and_the_books_balance(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario], drain: float
) -> None:
    scenario = make_scenario(**{"run.drain": drain, "run.duration": 20, "workload.load": 1.3})
    measured = run_cluster(scenario)
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert measured.failure is None
    assert accounting.balanced, accounting.problems
    assert accounting.in_system > 0
    assert measured.counters["jobs arrived"] == simulate(scenario).counters["jobs arrived"]
    assert measured.occupancy_edges.tolist() == pytest.approx(slice_edges(scenario))


def test_a_single_server_keeps_to_lindleys_recursion(
    run_cluster: Callable[..., Measurements], make_scenario: Callable[..., Scenario]
) -> None:
    """Path by path, within bounds that hold whatever the machine does, if and only if deadlines chain.

    Job n reaches the server a little late, by delta_n, and its completion is noticed a little late, by epsilon_n; the
    records give their sum, o_n = response - wait - service. A server that starts each service when the last one was
    due maps arrivals to departures by departure_n = max(departure_{n-1}, arrival_n) + service_n. Departures never come
    earlier if arrivals don't, and a delay of the arrivals by at most D delays the departures by at most D (induction
    over n). Hence, with Lindley's departures L_n: L_n <= emulated_n <= L_n + max(o_1 .. o_n) + o_n; and in a busy
    period of the emulated server, only the jobs of that period count in the maximum. A server that slept from each
    wake-up would leave these bounds after some ten jobs of a busy period.
    """
    settings = {"cluster.pools.main.servers": 1, "cluster.nodes": 1, "workload.load": 0.85, "run.time_unit": "5ms"}
    scenario = make_scenario(**settings, **{"run.duration": 240})
    jobs = by_job(run_cluster(scenario))
    count = len(jobs["job"])
    assert count > 120
    arrival, service = jobs["arrival"], jobs["inherent"]
    overhead = jobs["response"] - jobs["wait"] - service
    assert np.all(overhead > 0)
    free = worst = 0.0
    longest = run_length = 0
    for n in range(count):
        free = max(free, arrival[n]) + service[n]
        emulated = arrival[n] + jobs["response"][n]
        if jobs["wait"][n] == 0.0:  # a busy period begins
            worst, run_length = 0.0, 0
        run_length += 1
        longest = max(longest, run_length)
        worst = max(worst, overhead[n])
        assert free - 1e-9 <= emulated <= free + worst + overhead[n] + 1e-9, f"job {n}"
    assert longest > 10  # there was something to accumulate
