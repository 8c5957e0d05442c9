"""What a process of a cluster reports to the controller: progress, new records, and a final report."""

from __future__ import annotations

import time

import trio

from testbed.cluster.control import Channel, Events, FromController, Progress, Records, Report
from testbed.cluster.hosted import RECORDS_PER_PIECE, Hosted
from testbed.cluster.peers import PeerConnections
from testbed.cluster.snapshot import LONGEST_SHOWN
from testbed.core.records import ProcessReport
from testbed.scenario.modes import has_copies

PROGRESS_SECONDS = 0.25


class Reporter:
    """Sends the counters and records of a process's agents over the control channel."""

    def __init__(self, hosted: Hosted, peers: PeerConnections, channel: Channel[FromController]) -> None:
        self._hosted = hosted
        self._peers = peers
        self._channel = channel
        # The processor time of the run proper: from time 0 to the end of the arrivals.
        self._cpu: list[tuple[float, float]] = []
        self._last_cpu = time.monotonic(), time.process_time()
        for when in (0.0, hosted.scenario.horizon) if hosted.setup.pace is None else (0.0,):
            hosted.runtime.call_at(when, self._note_cpu)

    def _note_cpu(self) -> None:
        self._cpu.append((time.monotonic(), time.process_time()))

    def note_end(self) -> None:
        """Note that the run proper ends now, unless it has ended before."""
        if len(self._cpu) < 2:
            self._note_cpu()

    # --- while the run goes on ---

    async def run(self) -> None:
        """Send the controller the progress and the new records four times a second."""
        while True:
            await trio.sleep(PROGRESS_SECONDS)
            self._hosted.catch_up()
            with trio.CancelScope(shield=True):  # half a frame would make what follows unreadable
                # Records, and then the report that counts their jobs; both of one moment.
                progress, records = self.progress(), self._take_records()
                for message in [*records, progress]:
                    await self._channel.send(message)
                await self._send_events()

    async def _send_events(self) -> None:
        if self._hosted.trace is not None:
            await self._channel.send(Events(self._hosted.trace.take()))

    def _take_records(self) -> list[Records]:
        hosted = self._hosted
        return [
            Records(table, rows)
            for table, records in (("jobs", hosted.records), ("tasks", hosted.tasks), ("copies", hosted.copies))
            for rows in records.take(RECORDS_PER_PIECE)
        ]

    def progress(self) -> Progress:
        """Return the present progress."""
        hosted = self._hosted
        lateness, records = hosted.lateness, hosted.records
        progress = Progress(
            time=hosted.runtime.clock(),
            counters=self._counters(),
            queue_lengths=bytes(min(server.queue_length, LONGEST_SHOWN) for server in hosted.occupancy.servers),
            cpu_share=self._cpu_share(),
            timers=lateness.count,
        )
        if progress.timers:
            progress.lateness_mean = lateness.mean
            progress.lateness_p50, progress.lateness_p99 = lateness.quantile(0.5), lateness.quantile(0.99)
        dispatcher, source = hosted.dispatcher, hosted.source
        if dispatcher is not None and source is not None:
            progress.arrived = dispatcher.arrived
            progress.ended = records.taken + records.count
            progress.in_system = len(dispatcher.in_system)
            progress.awaiting_cancellation = dispatcher.placement.awaiting_cancellation
            progress.arrivals_over = source.ended
            progress.responses = records.responses.counts
            progress.response_sum = records.responses.sum
            progress.lag_sum = records.lags.sum
            progress.outcomes = records.outcomes
            if has_copies(hosted.scenario):
                progress.counters["copies cancelled"] = hosted.copies.cancelled
        return progress

    def _cpu_share(self) -> float:
        """Return the fraction of a core that this process has used since the last call."""
        before, used_before = self._last_cpu
        self._last_cpu = now, used = time.monotonic(), time.process_time()
        return (used - used_before) / (now - before) if now > before else 0.0

    def _counters(self) -> dict[str, int]:
        return {**self._hosted.counters(), "messages": self._messages_sent()}

    def _messages_sent(self) -> int:
        return sum(connection.messages_sent for connection in self._peers.connections)

    # --- at the end ---

    async def finish(self, held: bool) -> None:
        """Send the remaining events and records, and the report. ``held``: the process waits for a last scrape."""
        await self._send_events()
        for message in self._take_records():
            await self._channel.send(message)
        edges, occupancy = self._hosted.occupancy.table()
        await self._channel.send(
            Report(
                process=self._process_report(),
                counters=self._counters(),
                occupancy_edges=edges.tolist(),
                occupancy=occupancy.tolist(),
                counted=self._hosted.occupancy.counted(),
                held=held,
            )
        )

    def _process_report(self) -> ProcessReport:
        hosted, connections = self._hosted, self._peers.connections
        lateness, runtime = hosted.lateness, hosted.runtime
        sent, received = self._messages_sent(), runtime.messages_received
        unit = hosted.scenario.run.time_unit_seconds
        started, ended = self._cpu[0], self._cpu[-1]
        return ProcessReport(
            name=hosted.setup.name,
            seconds=ended[0] - started[0],
            cpu_seconds=ended[1] - started[1],
            timers=lateness.count,
            lateness_mean=lateness.mean if lateness.count else 0.0,
            lateness_p50=lateness.quantile(0.5) if lateness.count else 0.0,
            lateness_p99=lateness.quantile(0.99) if lateness.count else 0.0,
            lateness_max=lateness.max,
            messages_sent=sent,
            messages_received=received,
            bytes_sent=sum(connection.bytes_sent for connection in connections),
            rejected_frames=self._peers.rejected_frames,
            exact_timers=hosted.wake_up_timer.exact,
            peak_queue_bytes=max((connection.peak_unsent for connection in connections), default=0),
            sent_after_mean=runtime.sent_after * unit / max(sent, 1),
            delivered_after_mean=runtime.delivered_after * unit / max(received, 1),
        )
