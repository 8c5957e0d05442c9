"""One process of a cluster: a node, which hosts servers, a dispatcher's, or the pool agent's.

Started by the controller as ``python -m testbed.cluster.process``. Where to find the controller, and the run's secret,
come in environment variables: command lines can be read by other users. The process ends when it has reported, or when
its control connection ends: no controller, no process.
"""

from __future__ import annotations

import gc
import math
import os
import shutil
import sys
import time
import tomllib
from pathlib import Path

import msgspec
import trio

from dispatchers.dispatcher import Dispatcher
from dispatchers.registry import policies
from servers.server import Server
from testbed.agent import Agent
from testbed.cluster.connecting import connect, listen, take_newcomers
from testbed.cluster.control import (
    CONTROL_ENV,
    FROM_CONTROLLER,
    Change,
    Channel,
    Drain,
    Events,
    Finish,
    FromController,
    Hello,
    Linked,
    Peers,
    Progress,
    Ready,
    Records,
    Report,
    Setup,
    Start,
)
from testbed.cluster.live_records import LiveCopies, LiveRecords
from testbed.cluster.peers import PeerConnections
from testbed.measure.histogram import LogHistogram
from testbed.measure.records import (
    COUNTED,
    Occupancy,
    ProcessReport,
    TaskRecords,
)
from testbed.metrics.process_metrics import ProcessMetrics
from testbed.metrics.serving import MetricsServer
from testbed.protocol import VERSION, ProtocolError
from testbed.runtime.pools import addresses, build_pool_agent, pool_counters
from testbed.runtime.realtime import RealTimeRuntime
from testbed.runtime.system import (
    SLICES,
    Source,
    build_delay,
    build_dispatcher,
    build_servers,
    build_trace,
    build_workload,
    has_copies,
    schedule_slices,
    servers_talk,
    slice_edges,
    slice_forever,
)
from testbed.runtime.timerfd import wake_up
from testbed.scenario import Scenario, decode
from testbed.snapshot import LONGEST_SHOWN

PROGRESS_SECONDS = 0.25
HOLD_LOOK_SECONDS = 0.02
IDLE_REPORTS_AFTER = 0.25  # seconds from a change of policy until servers report as the new one wants
SLICES_KEPT = 1024  # of time, in which a standing cluster's occupancy is known
RECORDS_PER_PIECE = 4096


class ClusterProcess:
    """The agents of one process, their runtime and their connections."""

    def __init__(self, setup: Setup, token: str, number: int, channel: Channel[FromController]) -> None:
        scenario = self.scenario = decode(tomllib.loads(setup.scenario), source="the controller")
        self.setup = setup
        self.theory = setup.theory
        self._number = number
        self._channel = channel
        self._unit = scenario.run.time_unit_seconds
        self.lateness = LogHistogram(1e-6, 10.0, 1.15)
        self._alarm = wake_up()
        self._trace = build_trace(scenario)
        self.runtime = RealTimeRuntime(
            scenario.seed,
            setup.replication,
            time_unit=self._unit,
            addresses=addresses(scenario),
            alarm=self._alarm,
            lateness_seconds=self.lateness,
            delay=build_delay(scenario, setup.replication, setup.name),
            trace=self._trace,
        )
        self.metrics_server = MetricsServer()
        standing = setup.standing
        self.occupancy = Occupancy(None if standing is None else SLICES_KEPT)
        room = RECORDS_PER_PIECE if setup.dispatcher is not None else 0
        self.records = LiveRecords(room, self._unit, scenario.run.traced)
        self.tasks = TaskRecords(room)
        self.copies = LiveCopies(room)
        self.dispatcher: Dispatcher | None = None
        self._source: Source | None = None
        agents: list[Agent] = []
        if setup.servers is not None:
            agents.extend(build_servers(self.runtime, scenario, range(*setup.servers), self.occupancy))
            if standing is None:
                schedule_slices(self.runtime, self.occupancy, slice_edges(scenario))
        if setup.dispatcher is not None:
            self.dispatcher = build_dispatcher(
                self.runtime, scenario, setup.dispatcher, self.records, self.tasks, self.copies
            )
            agents.append(self.dispatcher)
            jobs = build_workload(scenario, setup.replication).for_dispatcher(setup.dispatcher)
            until = scenario.horizon if standing is None else math.inf
            self._source = Source(self.runtime, self.dispatcher, jobs, until)
            if standing is not None:
                self._source.change_pace(standing.arrival)
        self.pool_agent = build_pool_agent(self.runtime, scenario) if setup.pools else None
        if self.pool_agent is not None:
            agents.append(self.pool_agent)
        for agent in agents:
            self.runtime.add(agent)
        hosted = [agent.address for agent in agents]
        hello = Hello(VERSION, token, number, (min(hosted), max(hosted) + 1))
        self.peers = PeerConnections(self.runtime, scenario, hello)
        # The processor time of the run proper: from time 0 to the end of the arrivals.
        self._cpu: list[tuple[float, float]] = []
        self._last_cpu = time.monotonic(), time.process_time()
        for when in (0.0, scenario.horizon) if standing is None else (0.0,):
            self.runtime.call_at(when, self._note_cpu)

    def _note_cpu(self) -> None:
        self._cpu.append((time.monotonic(), time.process_time()))

    # --- the controller's words ---

    def start(self, at: float, since: float) -> None:
        """Begin at time ``since``, where the monotonic clock reads ``at`` at time 0."""
        # What exists now lives as long as the run; the collector need not walk through it again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        pace = self.setup.standing
        if self._source is not None:
            self._source.start(since if pace is None else pace.stream_time(since))
        if pace is not None and self.setup.servers is not None:
            slice_forever(self.runtime, self.occupancy, self.scenario.run.duration / SLICES, since)
        self.runtime.start(at, since)

    async def report_progress(self) -> None:
        """Tell the controller how things are, and send it the records that have come, four times a second."""
        while True:
            await trio.sleep(PROGRESS_SECONDS)
            self._catch_up()
            with trio.CancelScope(shield=True):  # half a frame would make what follows unreadable
                progress = self.progress()
                # First the records: those of jobs that are said to have ended are not lost with this process then.
                await self._send_records()
                await self._channel.send(progress)
                await self._send_events()

    async def _send_events(self) -> None:
        if self._trace is not None:
            await self._channel.send(Events(self._trace.take()))

    def _catch_up(self) -> None:
        """Have what is shown and scraped follow the records."""
        self.records.catch_up()
        self.copies.catch_up()

    def progress(self) -> Progress:
        """Return how things are now."""
        lateness = self.lateness
        progress = Progress(
            time=self.runtime.clock(),
            counters=self.counters(),
            queue_lengths=bytes(min(server.queue_length, LONGEST_SHOWN) for server in self.occupancy.servers),
            cpu_share=self._cpu_share(),
            timers=lateness.count,
        )
        if progress.timers:
            progress.lateness_mean = lateness.mean
            progress.lateness_p50, progress.lateness_p99 = lateness.quantile(0.5), lateness.quantile(0.99)
        dispatcher, source = self.dispatcher, self._source
        if dispatcher is not None and source is not None:
            progress.arrived = dispatcher.arrived
            progress.ended = self.records.taken + self.records.count
            progress.in_system = len(dispatcher.in_system)
            progress.closing = dispatcher.closing
            progress.arrivals_over = source.ended
            progress.responses = self.records.responses.counts
            progress.response_sum = self.records.responses.sum
            progress.lag_sum = self.records.lags.sum
            progress.outcomes = self.records.outcomes
            if has_copies(self.scenario):
                progress.counters["copies cancelled"] = self.copies.cancelled
        return progress

    def _cpu_share(self) -> float:
        """Return the part of a core that this process has used since it was last asked."""
        before, used_before = self._last_cpu
        self._last_cpu = now, used = time.monotonic(), time.process_time()
        return (used - used_before) / (now - before) if now > before else 0.0

    async def finish(self, finish: Finish) -> None:
        """Stop arrivals, close the books, send records and report."""
        if self._source is not None:
            self._source.stop()
        if len(self._cpu) < 2:
            self._note_cpu()
        if self.dispatcher is not None:
            self.runtime.now = max(self.runtime.now, self.runtime.clock())
            lost = [range(*servers) for servers in finish.lost_servers]
            self.dispatcher.close(lambda server: any(server in servers for servers in lost))
        self._catch_up()
        self.metrics_server.final = True
        held = self.metrics_server.watched if finish.hold is None else finish.hold
        await self._send_events()
        await self._send_records()
        edges, occupancy = self.occupancy.table()
        lateness = self.lateness
        sent = sum(connection.messages_sent for connection in self.peers.connections)
        received = self.runtime.messages_received
        unit = self.scenario.run.time_unit_seconds
        started, ended = self._cpu[0], self._cpu[-1]
        await self._channel.send(
            Report(
                process=ProcessReport(
                    name=self.setup.name,
                    seconds=ended[0] - started[0],
                    cpu_seconds=ended[1] - started[1],
                    timers=lateness.count,
                    lateness_mean=lateness.mean if lateness.count else 0.0,
                    lateness_p50=lateness.quantile(0.5) if lateness.count else 0.0,
                    lateness_p99=lateness.quantile(0.99) if lateness.count else 0.0,
                    lateness_max=lateness.max,
                    messages_sent=sent,
                    messages_received=received,
                    bytes_sent=sum(connection.bytes_sent for connection in self.peers.connections),
                    rejected_frames=self.peers.rejected_frames,
                    exact_timers=self._alarm.exact,
                    peak_queue_bytes=max((connection.peak_unsent for connection in self.peers.connections), default=0),
                    sent_after_mean=self.runtime.sent_after * unit / max(sent, 1),
                    delivered_after_mean=self.runtime.delivered_after * unit / max(received, 1),
                ),
                counters=self.counters(),
                occupancy_edges=edges.tolist(),
                occupancy=occupancy.tolist(),
                counted=self.occupancy.counted(),
                held=held,
            )
        )
        if held:
            await self._hold()

    async def _hold(self) -> None:
        """Wait until the last metrics have been read, or the controller wants to wait no longer."""
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await self._channel.receive()
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            while not self.metrics_server.read:
                await trio.sleep(HOLD_LOOK_SECONDS)
            nursery.cancel_scope.cancel()

    def counters(self) -> dict[str, int]:
        """Return what has been counted, by name."""
        return {
            "jobs arrived": self.dispatcher.arrived if self.dispatcher else 0,
            "probes": self.dispatcher.probes if self.dispatcher else 0,
            "idle reports": self.dispatcher.idle_reports if self.dispatcher else 0,
            "reservations cancelled": self.dispatcher.cancellations if self.dispatcher else 0,
            **self._balancing(),
            **pool_counters(self.pool_agent),
            "messages": sum(connection.messages_sent for connection in self.peers.connections),
        }

    def _balancing(self) -> dict[str, int]:
        counters = dict(zip(COUNTED, self.occupancy.counts, strict=True)) if self.scenario.balance is not None else {}
        if self.dispatcher is not None and self.dispatcher.recovery is not None:
            counters["tasks dispatched again"] = self.dispatcher.recovery.dispatched_again
            counters["tasks done twice"] = self.dispatcher.done_twice
        return counters

    async def _send_records(self) -> None:
        for table, records in (("jobs", self.records), ("tasks", self.tasks), ("copies", self.copies)):
            for rows in records.take(RECORDS_PER_PIECE):
                await self._channel.send(Records(table, rows))

    def _talks_to(self, node: int) -> bool:
        """Whether this process begins a connection with the node process of that number.

        Dispatchers and the pool agent talk to all nodes. Nodes talk to each other where tasks move or copies are tied,
        over one connection for each pair, and a node to itself: every message crosses a socket, also between two
        servers of one process.
        """
        return self.setup.servers is None or (servers_talk(self.scenario) and node <= self._number)

    async def _link(self, peers: Peers, nursery: trio.Nursery) -> None:
        addresses = [address for number, address in peers.nodes.items() if self._talks_to(number)]
        if self.dispatcher is not None:
            addresses.extend(peers.pools.values())
        for address in addresses:
            try:
                await self.peers.link(address, nursery)
            except (OSError, ProtocolError) as error:
                if self.setup.standing is None:
                    raise
                # It has died meanwhile; the controller starts it again, and says so again.
                print(f"cannot connect to {address}: {error}", file=sys.stderr)

    def change(self, change: Change) -> None:
        """Take on other settings at the time that the change says."""
        if self.theory is not None:
            self.theory = change.theory
        pace = change.pace
        source = self._source
        if pace is not None and source is not None:
            self.runtime.call_at(change.at, lambda: source.change_pace(pace.arrival))
        if change.scenario is not None:
            scenario = decode(tomllib.loads(change.scenario), source="the controller")
            self.runtime.call_at(change.at, lambda: self._switch(scenario))
            # Later: a dispatcher that is not yet at the new policy would not know what to do with a report.
            self.runtime.call_at(change.at + IDLE_REPORTS_AFTER / self._unit, lambda: self._report_idle(scenario))
        self.runtime.turn()

    def _switch(self, scenario: Scenario) -> None:
        """Go over to the policy of ``scenario``."""
        if self.dispatcher is not None and self._source is not None and self._source.next_job is not None:
            policy = policies()[scenario.dispatch.policy]
            self.dispatcher.switch(policy(scenario.dispatch.parameters, self.dispatcher), self._source.next_job)

    def _report_idle(self, scenario: Scenario) -> None:
        """Have servers report that they are idle, if the policy of ``scenario`` wants them to, and else not."""
        reports = policies()[scenario.dispatch.policy].idle_reports
        dispatchers = range(scenario.servers, scenario.servers + scenario.cluster.dispatchers) if reports else ()
        for server in self.occupancy.servers:
            if isinstance(server, Server):
                server.report_idle_to(dispatchers)

    async def run(self) -> None:
        """Do what the controller says until it says Finish or goes away."""
        listener, address = listen(self.scenario.cluster.transport, Path(self.setup.folder), str(self._number))
        self.metrics_server.start(ProcessMetrics(self))
        await self._channel.send(Ready(address, self.metrics_server.port))
        finish: Finish | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(take_newcomers, listener, nursery, self.peers.serve)
            while (message := await self._channel.receive()) is not None:
                if isinstance(message, Peers):
                    await self._link(message, nursery)
                    await self._channel.send(Linked())
                elif isinstance(message, Start):
                    nursery.start_soon(self.runtime.run_timers)
                    nursery.start_soon(self.report_progress)
                    self.start(message.at, message.since)
                elif isinstance(message, Change):
                    self.change(message)
                elif isinstance(message, Drain):
                    if self._source is not None:
                        self._source.stop()
                elif isinstance(message, Finish):
                    finish = message
                    break
            self.peers.finishing = True  # the connections that end from here on are no deaths
            # The agents stop before the books are closed: the job of a task that ends meanwhile would not be found.
            nursery.cancel_scope.cancel()
        if finish is not None:
            await self.finish(finish)
        else:  # the controller was killed, and can't tidy up itself
            shutil.rmtree(self.setup.folder, ignore_errors=True)


async def main() -> None:
    """Find the controller, learn what to be, be it."""
    raw_address, token, number = msgspec.json.decode(
        os.environ[CONTROL_ENV], type=tuple[str | tuple[str, int], str, int]
    )
    sock = await connect(raw_address)
    channel: Channel[FromController] = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(sock)), FROM_CONTROLLER)
    await channel.send(Hello(VERSION, token, number))
    setup = await channel.receive()
    if isinstance(setup, Setup):
        await ClusterProcess(setup, token, number, channel).run()
    await channel.aclose()


if __name__ == "__main__":
    trio.run(main)
