"""The metrics of one process of a cluster: what its agents have counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from servers.balancer import LATE, NO, PROBES, SHARED, STOLEN, YES
from servers.pool_agent import PoolAgent
from servers.task_server import TaskServer
from testbed.cluster.metrics.families import counter, counters, gauge, gauges, histogram
from testbed.core.messages import Message, message_name
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.scenario.modes import has_copies

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from testbed.cluster.hosted import Hosted
    from testbed.cluster.metrics.serving import MetricsServer
    from testbed.cluster.peers import PeerConnections
    from testbed.cluster.snapshot import Theory

QUEUE_LENGTHS = (1, 2, 3, 4, 5, 10, 20, 50, 100)


class ProcessMetrics(Collector):
    """The metrics of one process, read from its agents' counters and records.

    It runs in the threads of scrapes while the agents go on: it reads numbers and whole lists, and writes nothing.
    """

    def __init__(self, hosted: Hosted, peers: PeerConnections, server: MetricsServer) -> None:
        self._hosted = hosted
        self._peers = peers
        self._server = server

    def describe(self) -> list[Metric]:
        """Return no description, so that registering does not collect."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield every metric with its present value."""
        hosted = self._hosted
        unit = hosted.scenario.run.time_unit_seconds
        yield histogram(
            "testbed_timer_lateness_seconds",
            "How late timers fired, by wall clock.",
            hosted.lateness,
            1.0,
            keep_every=5,
        )
        yield from self._messages()
        yield counter(
            "testbed_process_restarts",
            "How often this process was started again after it had died.",
            hosted.setup.restarts,
        )
        yield gauge("testbed_scrape_duration_seconds", "How long the latest scrape took here.", self._server.seconds)
        if hosted.dispatcher is not None:
            yield from self._dispatcher(hosted.dispatcher, unit)
            if has_copies(hosted.scenario):
                yield from self._copies(unit)
        if hosted.theory is not None:
            yield gauge("testbed_load", "Work that arrives per server and time unit.", hosted.theory.load)
            yield from _theory(hosted.theory, unit)
        if hosted.pool_agent is not None:
            yield from _pools(hosted.pool_agent)
        if hosted.occupancy.servers:
            yield from self._servers()

    def _messages(self) -> Iterator[Metric]:
        connections = list(self._peers.connections)
        sent: Counter[type[Message]] = Counter()
        estimated_bytes: Counter[type[Message]] = Counter()
        for connection in connections:
            # Copied first: the agents' loop may add a new type of message meanwhile.
            sent.update(dict(connection.sent))
            estimated_bytes.update(dict(connection.estimated_bytes))
        yield counters(
            "testbed_sent_messages",
            "Messages between agents that were sent, by kind.",
            ["kind"],
            (([message_name(kind)], count) for kind, count in sent.items()),
        )
        yield counters(
            "testbed_sent_message_bytes",
            "Bytes of messages that were sent, by kind: an estimate, from some of the frames.",
            ["kind"],
            (([message_name(kind)], count) for kind, count in estimated_bytes.items()),
        )
        yield counter(
            "testbed_sent_bytes",
            "Bytes of frames sent.",
            sum(connection.bytes_sent for connection in connections),
        )
        yield counter(
            "testbed_received_messages",
            "Messages between agents that were received.",
            self._hosted.runtime.messages_received,
        )
        yield counter(
            "testbed_rejected_frames",
            "Connections closed for malformed or foreign frames.",
            self._peers.rejected_frames,
        )

    def _dispatcher(self, dispatcher: Dispatcher, unit: float) -> Iterator[Metric]:
        records = self._hosted.records
        yield histogram(
            "testbed_response_time_seconds",
            "Time from a job's intended arrival to its completion.",
            records.responses,
            unit,
            examples=records.examples,
        )
        yield histogram(
            "testbed_inherent_delay_seconds",
            "Longest service of a job's tasks: its response time had every task started at once.",
            records.inherent,
            unit,
        )
        yield histogram("testbed_queueing_delay_seconds", "Response time minus inherent delay.", records.queueing, unit)
        yield histogram(
            "testbed_dispatch_lag_seconds",
            "How late the dispatcher handled arrivals.",
            records.lags,
            unit,
            keep_every=2,
        )
        outcomes = [[outcome.replace(" ", "_")] for outcome in JobOutcome.labels()]
        ended = list(records.outcomes)
        ended[JobOutcome.LOST] += self._hosted.setup.lost
        yield counters(
            "testbed_jobs", "Jobs that have ended, by outcome.", ["outcome"], zip(outcomes, ended, strict=True)
        )
        yield counters(
            "testbed_tasks",
            "Tasks of jobs that have ended, by the job's outcome.",
            ["outcome"],
            zip(outcomes, records.tasks, strict=True),
        )
        yield counter("testbed_jobs_arrived", "Jobs that have arrived.", dispatcher.arrived)
        yield counter("testbed_probes", "Probes sent.", dispatcher.probes.sent)
        yield gauge("testbed_jobs_in_system", "Jobs that have arrived and not ended.", len(dispatcher.in_system))

    def _copies(self, unit: float) -> Iterator[Metric]:
        records = self._hosted.copies
        yield counters(
            "testbed_copies",
            "Copies of jobs that have ended, by what became of them.",
            ["copy", "fate"],
            (
                ([which, fate], count)
                for which, counts in (("first", records.first), ("later", records.later))
                for fate, count in zip(CopyOutcome.labels(), counts, strict=True)
            ),
        )
        yield counters(
            "testbed_copies_cancelled",
            "Cancelled copies, by what the cancellation found.",
            ["met"],
            (
                ([state.label.replace(" ", "_")], records.states_at_cancellation[state])
                for state in StateAtCancellation
                if state is not StateAtCancellation.NOT_CANCELLED
            ),
        )
        yield counters(
            "testbed_wasted_service_seconds",
            "Service of copies that were not their job's end.",
            ["fate"],
            (
                ([outcome.label], records.received[outcome] * unit)
                for outcome in (CopyOutcome.SUPERSEDED, CopyOutcome.REROUTED)
            ),
        )

    def _servers(self) -> Iterator[Metric]:
        servers = self._hosted.occupancy.servers
        lengths = [server.queue_length for server in servers]
        yield gauge("testbed_servers", "Servers of this process.", len(lengths))
        yield gauge("testbed_busy_servers", "Servers that hold a task.", sum(length > 0 for length in lengths))
        yield gauge("testbed_tasks_at_servers", "Tasks at the servers, those in service included.", sum(lengths))
        yield gauge("testbed_longest_queue_length", "Most tasks at one of the servers.", max(lengths))
        yield gauges(
            "testbed_servers_with_queue_length_at_least",
            "Servers holding at least that many tasks.",
            ["tasks"],
            (([str(level)], sum(length >= level for length in lengths)) for level in QUEUE_LENGTHS),
        )
        probed = [server for server in servers if isinstance(server, TaskServer)]
        yield counters(
            "testbed_probes_answered",
            "Probes of queue lengths that servers have answered, by how they found the server.",
            ["found"],
            (
                (["idle"], sum(server.probes_idle for server in probed)),
                (["busy"], sum(server.probes_busy for server in probed)),
            ),
        )
        if self._hosted.scenario.balance is not None:
            yield from self._balancing()

    def _balancing(self) -> Iterator[Metric]:
        counts = list(self._hosted.occupancy.counts)
        yield counter("testbed_balancing_probes", "Probes that servers sent to move tasks.", counts[PROBES])
        yield counters(
            "testbed_balancing_probes_answered",
            "Probes that servers sent to move tasks, by answer.",
            ["answer"],
            ((["yes"], counts[YES]), (["no"], counts[NO])),
        )
        yield counter("testbed_steals", "Tasks that servers stole from another.", counts[STOLEN])
        yield counter("testbed_shares", "Tasks that servers took because another offered them.", counts[SHARED])
        yield counter(
            "testbed_tasks_moved_too_late",
            "Stolen or shared tasks that came to a server that had got work meanwhile.",
            counts[LATE],
        )


def _pools(agent: PoolAgent) -> Iterator[Metric]:
    yield counter("testbed_reroutes", "Jobs that left a pool at their threshold.", agent.reroutes)
    yield counter("testbed_replicas_started", "Replicas that started at a threshold.", agent.replicas)
    yield counter("testbed_preemptions", "Services that were interrupted for a pair.", agent.preemptions)
    yield gauge("testbed_jobs_waiting", "Jobs in central queues, pairs that wait included.", agent.waiting)


def _theory(theory: Theory, unit: float) -> Iterator[Metric]:
    yield gauge("testbed_stability_bound", "Loads below it are stable.", theory.stability_bound)
    if theory.mean is not None:
        yield gauge(
            "testbed_predicted_response_time_seconds", "Mean response time by queueing theory.", theory.mean * unit
        )
    if theory.quantiles:
        yield gauges(
            "testbed_predicted_response_time_quantile_seconds",
            "Quantiles of the response time by queueing theory.",
            ["probability"],
            (([f"{probability:g}"], value * unit) for probability, value in theory.quantiles.items()),
        )
