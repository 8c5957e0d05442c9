"""The agents that one process of a cluster hosts, with their runtime, their arrivals and their records."""

from __future__ import annotations

import math
import tomllib

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords
from servers.task_server import TaskServer
from testbed.cluster.control import Change, Setup
from testbed.cluster.live_records import LiveCopies, LiveRecords
from testbed.core.agent import Agent
from testbed.core.records import COUNTED, Occupancy, TaskRecords
from testbed.measure.histogram import LogHistogram
from testbed.runtime.build import (
    SLICES,
    Source,
    build_delay,
    build_dispatcher,
    build_servers,
    build_trace,
    build_workload,
    policy_of,
    schedule_slices,
    slice_edges,
    slice_forever,
)
from testbed.runtime.central_queues import addresses, build_pool_agent, pool_counters
from testbed.runtime.realtime import RealTimeRuntime
from testbed.runtime.timerfd import finest_timer
from testbed.scenario import Scenario, decode
from testbed.scenario.modes import has_copies, has_tasks, tasks_move

IDLE_REPORTS_AFTER = 0.25  # seconds from a change of policy until servers report as the new policy asks
SLICES_KEPT = 1024  # of time, for which the occupancy of a long-running cluster is known
RECORDS_PER_PIECE = 4096


class Hosted:
    """The agents of a process as in the controller's ``setup``; ``addresses`` is the range of their addresses.

    ``theory`` is shown in the process's metrics.
    """

    def __init__(self, setup: Setup) -> None:
        scenario = self.scenario = decode(tomllib.loads(setup.scenario), source="the controller")
        self.setup = setup
        self.theory = setup.theory
        self.lateness = LogHistogram(1e-6, 10.0, 1.15)
        self.wake_up_timer = finest_timer()
        self.trace = build_trace(scenario)
        self.runtime = RealTimeRuntime(
            scenario.seed,
            setup.replication,
            time_unit=scenario.run.time_unit_seconds,
            addresses=addresses(scenario),
            wake_up_timer=self.wake_up_timer,
            lateness_seconds=self.lateness,
            delay=build_delay(scenario, setup.replication, setup.name),
            trace=self.trace,
        )
        pace = setup.pace
        self.occupancy = Occupancy(None if pace is None else SLICES_KEPT)
        room = RECORDS_PER_PIECE if setup.dispatcher is not None else 0
        self.records = LiveRecords(room, scenario.run.time_unit_seconds, scenario.run.traced)
        self.tasks = TaskRecords(room)
        self.copies = LiveCopies(room)
        self.dispatcher: Dispatcher | None = None
        self.source: Source | None = None
        agents: list[Agent] = []
        if setup.servers is not None:
            agents.extend(build_servers(self.runtime, scenario, range(*setup.servers), self.occupancy))
            if pace is None:
                schedule_slices(self.runtime, self.occupancy, slice_edges(scenario))
        if setup.dispatcher is not None:
            kept = DispatcherRecords(
                self.records,
                self.tasks if has_tasks(scenario) else None,
                self.copies if has_copies(scenario) else None,
            )
            self.dispatcher = build_dispatcher(
                self.runtime, scenario, setup.dispatcher, kept, switches=pace is not None
            )
            agents.append(self.dispatcher)
            jobs = build_workload(scenario, setup.replication).for_dispatcher(setup.dispatcher)
            until = scenario.horizon if pace is None else math.inf
            self.source = Source(self.runtime, self.dispatcher, jobs, until)
            if pace is not None:
                self.source.change_pace(pace.arrival)
        self.pool_agent = build_pool_agent(self.runtime, scenario) if setup.pools else None
        if self.pool_agent is not None:
            agents.append(self.pool_agent)
        for agent in agents:
            self.runtime.add(agent)
        hosted = [agent.address for agent in agents]
        self.addresses = min(hosted), max(hosted) + 1

    def start(self, at: float, since: float) -> None:
        """Begin at time ``since``, where the monotonic clock reads ``at`` at time 0."""
        pace = self.setup.pace
        if self.source is not None:
            self.source.start(since if pace is None else pace.stream_time(since))
        if pace is not None and self.setup.servers is not None:
            slice_forever(self.runtime, self.occupancy, self.scenario.run.duration / SLICES, since)
        self.runtime.start(at, since)

    def stop_arrivals(self) -> None:
        """Let no further job arrive."""
        if self.source is not None:
            self.source.stop()

    def close(self, down_servers: list[tuple[int, int]]) -> None:
        """End the records: each unfinished job is recorded by its place, on ``down_servers`` (ranges) or elsewhere."""
        if self.dispatcher is not None:
            self.runtime.advance()
            down = [range(*servers) for servers in down_servers]
            self.dispatcher.close(lambda server: any(server in servers for servers in down))
        self.catch_up()

    def catch_up(self) -> None:
        """Bring what is shown and scraped up to date with the records."""
        self.records.catch_up()
        self.copies.catch_up()

    def counters(self) -> dict[str, int]:
        """Return the agents' counters by name."""
        dispatcher = self.dispatcher
        counters = {
            "jobs arrived": dispatcher.arrived if dispatcher else 0,
            "probes": dispatcher.probes.sent if dispatcher else 0,
            "idle reports": dispatcher.idle_reports if dispatcher else 0,
            "reservations cancelled": dispatcher.probes.cancellations if dispatcher else 0,
        }
        if tasks_move(self.scenario):
            counters.update(zip(COUNTED, self.occupancy.counts, strict=True))
        if dispatcher is not None and dispatcher.recovery is not None:
            counters["tasks dispatched again"] = dispatcher.jobs.dispatched_again
            counters["tasks done twice"] = dispatcher.jobs.done_twice
        return counters | pool_counters(self.pool_agent)

    # --- other settings, in a long-running cluster ---

    def change(self, change: Change) -> None:
        """Schedule other settings for the time of the change."""
        if self.theory is not None:
            self.theory = change.theory
        pace = change.pace
        source = self.source
        if pace is not None and source is not None:
            self.runtime.call_at(change.at, lambda: source.change_pace(pace.arrival))
        if change.scenario is not None:
            scenario = decode(tomllib.loads(change.scenario), source="the controller")
            self.runtime.call_at(change.at, lambda: self._switch(scenario))
            # Later: a dispatcher that still has the old policy could not handle a report.
            later = change.at + IDLE_REPORTS_AFTER / self.scenario.run.time_unit_seconds
            self.runtime.call_at(later, lambda: self._report_idle(scenario))
        self.runtime.iterate()

    def _switch(self, scenario: Scenario) -> None:
        """Switch to the policy of ``scenario``."""
        if self.dispatcher is not None and self.source is not None and self.source.next_job is not None:
            policy = policy_of(scenario)
            self.dispatcher.switch(policy(scenario.dispatch.parameters, self.dispatcher.view), self.source.next_job)

    def _report_idle(self, scenario: Scenario) -> None:
        """Have servers report that they are idle if the policy of ``scenario`` uses such reports, otherwise not."""
        reports = scenario.policy_class.idle_reports
        dispatchers = range(scenario.servers, scenario.servers + scenario.cluster.dispatchers) if reports else ()
        for server in self.occupancy.servers:
            if isinstance(server, TaskServer):
                server.report_idle_to(dispatchers)
