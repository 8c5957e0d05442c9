"""The twin: the discrete-event simulation of a whole scenario, with the agents of the cluster."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dispatchers.jobs import DispatcherRecords
from testbed.core.records import COUNTED, CopyRecords, JobRecords, Measurements, Occupancy, TaskRecords
from testbed.runtime.build import (
    Source,
    build_delay,
    build_dispatcher,
    build_servers,
    build_trace,
    build_workload,
    expected_copies,
    expected_jobs,
    expected_tasks,
    schedule_slices,
    slice_edges,
)
from testbed.runtime.central_queues import build_pool_agent, pool_counters
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario import Scenario
from testbed.scenario.modes import has_copies, has_tasks

STEPS = 200  # of a run; between two of them it may be stopped


def simulate(scenario: Scenario, replication: int = 0, stopped: Callable[[], bool] = lambda: False) -> Measurements:
    """Run a scenario on the virtual runtime and return what it measured.

    The workload, the policy's choices and the message delays come from the same streams as on the cluster. The result
    is a deterministic function of the scenario and the replication, unless ``stopped()`` becomes true, which ends the
    run early.
    """
    trace = build_trace(scenario)
    runtime = VirtualRuntime(scenario.seed, replication, build_delay(scenario, replication, "twin"), trace)
    occupancy = Occupancy()
    records = JobRecords(expected_jobs(scenario))
    tasks = TaskRecords(expected_tasks(scenario))
    workload = build_workload(scenario, replication)
    copies = CopyRecords(expected_copies(scenario))
    kept = DispatcherRecords(records, tasks if has_tasks(scenario) else None, copies if has_copies(scenario) else None)
    dispatchers = [build_dispatcher(runtime, scenario, i, kept) for i in range(scenario.cluster.dispatchers)]
    pool_agent = build_pool_agent(runtime, scenario)
    for agent in (*build_servers(runtime, scenario, range(scenario.servers), occupancy), *dispatchers):
        runtime.add(agent)
    if pool_agent is not None:
        runtime.add(pool_agent)
    schedule_slices(runtime, occupancy, slice_edges(scenario))
    runtime.start()
    for dispatcher in dispatchers:
        Source(runtime, dispatcher, workload.for_dispatcher(dispatcher.index), scenario.horizon).start()

    for i in range(STEPS):
        if not stopped():
            runtime.run(scenario.horizon * (i + 1) / STEPS)
    stopped_at = runtime.now
    # Drain in steps, and not until no timer is left: agents with periodic timers always have one.
    last = scenario.horizon + scenario.drain
    while (
        runtime.now < last
        and any(d.in_system or d.placement.awaiting_cancellation for d in dispatchers)
        and not stopped()
    ):
        runtime.run(min(runtime.now + 1.0, last))
    for dispatcher in dispatchers:
        dispatcher.close(lambda server: False)

    edges, table = occupancy.table()
    return Measurements(
        source="twin",
        columns=records.columns(),
        tasks=tasks.columns() if has_tasks(scenario) else {},
        copies=copies.columns() if has_copies(scenario) else {},
        occupancy_edges=edges,
        occupancy=table,
        counters={
            "jobs arrived": sum(dispatcher.arrived for dispatcher in dispatchers),
            "probes": sum(dispatcher.probes.sent for dispatcher in dispatchers),
            "idle reports": sum(dispatcher.idle_reports for dispatcher in dispatchers),
            "reservations cancelled": sum(dispatcher.probes.cancellations for dispatcher in dispatchers),
            "messages": runtime.messages_received,
            **dict(zip(COUNTED, occupancy.counts, strict=True)),
            **pool_counters(pool_agent),
        },
        counted=np.array(occupancy.counted()),
        processes=[],
        events=trace.take() if trace is not None else [],
        stopped_at=stopped_at,
    )
