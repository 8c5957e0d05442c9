"""Prometheus metrics of a cluster process: /metrics on a loopback port that the system chooses.

Agents never touch a metric. A collector reads the arrays that they write anyway, only when scraped, and each scrape
is served by a thread of its own. Metrics are in seconds, as Prometheus' conventions ask; the rest of the testbed
keeps to time units.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from servers.balancer import LATE, MOVED, NO, PROBES, YES
from servers.pool_agent import PoolAgent
from testbed.copy_life import FATES, LOST, MET, NOT_CANCELLED, REROUTED
from testbed.measure.histogram import LogHistogram
from testbed.runtime.system import has_copies

if TYPE_CHECKING:
    from testbed.cluster.process import ClusterProcess

#: A scrape thread that has the interpreter gives it back after this long when the agents' loop wants it. Python's own
#: 5 ms would show in the timers' lateness.
SWITCH_SECONDS = 0.0002

QUEUE_LENGTHS = (1, 2, 3, 4, 5, 10, 20, 50, 100)


def serve_metrics(process: ClusterProcess) -> int:
    """Serve the metrics of ``process`` and return the port."""
    sys.setswitchinterval(SWITCH_SECONDS)
    registry = CollectorRegistry()
    registry.register(ProcessMetrics(process))
    ProcessCollector(registry=registry)
    server, _ = start_http_server(0, addr="127.0.0.1", registry=registry)
    return int(server.server_port)


class ProcessMetrics(Collector):
    """Reads what the agents of one process have counted."""

    def __init__(self, process: ClusterProcess) -> None:
        self._process = process
        self._names = list(process.setup.metric_labels)
        self._values = list(process.setup.metric_labels.values())

    def describe(self) -> list[Metric]:
        """Return no description, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present value."""
        process = self._process
        unit = process.scenario.run.time_unit_seconds
        runtime = process.runtime
        connections = process.peers.connections
        yield self._histogram(
            "testbed_timer_lateness_seconds", "How late timers fired, by wall clock.", process.lateness, 1.0, 5
        )
        messages = self._counter("testbed_messages", "Messages between agents.", "direction")
        messages.add_metric([*self._values, "sent"], sum(connection.messages_sent for connection in connections))
        messages.add_metric([*self._values, "received"], runtime.messages_received)
        yield messages
        sent = self._counter("testbed_sent_bytes", "Bytes of frames sent.")
        sent.add_metric(self._values, sum(connection.bytes_sent for connection in connections))
        yield sent
        rejected = self._counter("testbed_rejected_frames", "Connections closed for malformed or foreign frames.")
        rejected.add_metric(self._values, process.peers.rejected_frames)
        yield rejected
        if process.dispatcher is not None:
            yield from self._dispatcher(unit)
        if process.dispatcher is not None and has_copies(process.scenario):
            yield from self._copies(unit)
        if process.pool_agent is not None:
            yield from self._pools(process.pool_agent)
        if process.occupancy.servers:
            yield from self._servers()

    def _dispatcher(self, unit: float) -> Iterator[Metric]:
        process = self._process
        records, dispatcher = process.records, process.dispatcher
        assert dispatcher is not None
        yield self._histogram(
            "testbed_response_time_seconds",
            "Time from a job's intended arrival to its completion.",
            records.responses,
            unit,
            2,
        )
        yield self._histogram(
            "testbed_dispatch_lag_seconds", "How late the dispatcher handled arrivals.", records.lags, unit, 2
        )
        jobs = self._counter("testbed_jobs", "Jobs that have ended, by outcome.", "outcome")
        for outcome, count in zip(("completed", "dropped", "lost", "in_system"), records.outcomes, strict=True):
            jobs.add_metric([*self._values, outcome], count)
        yield jobs
        arrived = self._counter("testbed_jobs_arrived", "Jobs that have arrived.")
        arrived.add_metric(self._values, dispatcher.arrived)
        yield arrived
        probes = self._counter("testbed_probes", "Probes sent.")
        probes.add_metric(self._values, dispatcher.probes)
        yield probes
        in_system = self._gauge("testbed_jobs_in_system", "Jobs that have arrived and not ended.")
        in_system.add_metric(self._values, len(dispatcher.in_system))
        yield in_system

    def _copies(self, unit: float) -> Iterator[Metric]:
        records = self._process.copies
        copies = self._counter(
            "testbed_copies", "Copies of jobs that have ended, by what became of them.", "copy", "fate"
        )
        for which, counts in (("first", records.first), ("later", records.later)):
            for fate, count in zip(FATES, counts, strict=True):
                copies.add_metric([*self._values, which, fate], count)
        yield copies
        cancelled = self._counter(
            "testbed_copies_cancelled", "Cancelled copies, by what the cancellation found.", "met"
        )
        for code, met in enumerate(MET):
            if code != NOT_CANCELLED:
                cancelled.add_metric([*self._values, met.replace(" ", "_")], records.met[code])
        yield cancelled
        wasted = self._counter(
            "testbed_wasted_service_seconds", "Service of copies that were not their job's end.", "fate"
        )
        for code in (LOST, REROUTED):
            wasted.add_metric([*self._values, FATES[code]], records.received[code] * unit)
        yield wasted

    def _pools(self, agent: PoolAgent) -> Iterator[Metric]:
        for name, documentation, count in (
            ("testbed_reroutes", "Jobs that left a pool at their threshold.", agent.reroutes),
            ("testbed_replicas_started", "Replicas that started at a threshold.", agent.replicas),
            ("testbed_preemptions", "Services that were interrupted for a pair.", agent.preemptions),
        ):
            counter = self._counter(name, documentation)
            counter.add_metric(self._values, count)
            yield counter
        waiting = self._gauge("testbed_jobs_waiting", "Jobs in central queues, pairs that wait included.")
        waiting.add_metric(self._values, agent.waiting)
        yield waiting

    def _servers(self) -> Iterator[Metric]:
        lengths = [server.queue_length for server in self._process.occupancy.servers]
        servers = self._gauge("testbed_servers", "Servers of this process.")
        servers.add_metric(self._values, len(lengths))
        yield servers
        tasks = self._gauge("testbed_tasks_at_servers", "Tasks at the servers, those in service included.")
        tasks.add_metric(self._values, sum(lengths))
        yield tasks
        tail = self._gauge(
            "testbed_servers_with_queue_length_at_least", "Servers holding at least that many tasks.", "tasks"
        )
        for level in QUEUE_LENGTHS:
            tail.add_metric([*self._values, str(level)], sum(length >= level for length in lengths))
        yield tail
        if self._process.scenario.balance is not None:
            yield from self._balancing()

    def _balancing(self) -> Iterator[Metric]:
        counts = self._process.occupancy.counts
        probes = self._counter(
            "testbed_balancing_probes", "Probes that servers sent to move tasks, by answer.", "answer"
        )
        probes.add_metric([*self._values, "yes"], counts[YES])
        probes.add_metric([*self._values, "no"], counts[NO])
        probes.add_metric([*self._values, "none_yet"], counts[PROBES] - counts[YES] - counts[NO])
        yield probes
        moved = self._counter("testbed_tasks_moved", "Tasks that came from another server.")
        moved.add_metric(self._values, counts[MOVED])
        yield moved
        late = self._counter("testbed_tasks_moved_too_late", "Of these, to a server that had got work meanwhile.")
        late.add_metric(self._values, counts[LATE])
        yield late

    def _counter(self, name: str, documentation: str, *labels: str) -> CounterMetricFamily:
        return CounterMetricFamily(name, documentation, labels=[*self._names, *labels])

    def _gauge(self, name: str, documentation: str, *labels: str) -> GaugeMetricFamily:
        return GaugeMetricFamily(name, documentation, labels=[*self._names, *labels])

    def _histogram(
        self, name: str, documentation: str, histogram: LogHistogram, scale: float, keep_every: int
    ) -> HistogramMetricFamily:
        """Expose a histogram: its bounds times ``scale``, every ``keep_every``-th of them, for each is a series."""
        family = HistogramMetricFamily(name, documentation, labels=self._names)
        counts = list(histogram.counts)
        buckets = []
        cumulated = 0
        for i, bound in enumerate(histogram.bounds):
            cumulated += counts[i]
            if i % keep_every == 0:
                buckets.append((repr(bound * scale), cumulated))
        buckets.append(("+Inf", sum(counts)))
        family.add_metric(self._values, buckets, histogram.sum * scale)
        return family
