"""The messages between the controller and its processes, over connections that agents do not use.

process                      controller
Hello                ->
                     <-      Setup          what the process hosts, and the whole scenario
Ready                ->                     where it listens
                     <-      Peers          where the others listen
Linked               ->                     it is connected to those that it talks to
                     <-      Start
Records, Progress    ->                     again and again
                     <-      Change, Drain  in a long-running cluster: other settings; no more arrivals
                     <-      Finish         stop arrivals, report
Events (perhaps)     ->
Records, Report      ->                     the process then ends, perhaps when its last metrics have been read
"""

from __future__ import annotations

from collections import deque
from typing import Generic, TypeVar

import msgspec
import trio

from testbed.cluster.snapshot import Theory
from testbed.core.messages import Encoder, FrameReader
from testbed.core.records import ProcessReport
from testbed.core.trace_recorder import TraceEvent


class Hello(msgspec.Struct, tag=True):
    """The first message on a new connection, to the controller or to a peer process. ``token`` is the run's secret."""

    version: int
    token: str
    process: int
    agents: tuple[int, int] | None = None  # the range of its agents' addresses


class Pace(msgspec.Struct, frozen=True):
    """The pace of arrivals: a job at t of the workload, from ``stream`` on, arrives at time + (t - stream) * stretch.

    In time units. The default leaves the workload's times as they are.
    """

    time: float = 0.0
    stream: float = 0.0
    stretch: float = 1.0

    def arrival(self, stream: float) -> float:
        """Return the arrival time of a job at time ``stream`` of the workload."""
        return self.time + (stream - self.stream) * self.stretch

    def stream_time(self, time: float) -> float:
        """Return the time in the workload of a job that arrives at ``time``."""
        return self.stream + (time - self.time) / self.stretch


class Setup(msgspec.Struct, tag=True):
    """What the process hosts: a dispatcher, the servers of a range of addresses, or the pool agent."""

    name: str
    scenario: str  # resolved, as TOML
    replication: int
    dispatcher: int | None
    servers: tuple[int, int] | None
    pools: bool
    folder: str  # for sockets
    theory: Theory | None = None  # for the metrics of dispatcher 0
    pace: Pace | None = None  # in a long-running cluster; None in a run that ends
    restarts: int = 0
    lost: int = 0  # jobs that were lost in its earlier lives


class Ready(msgspec.Struct, tag=True):
    """The process has built its agents and listens at ``address``; ``metrics_port`` serves /metrics."""

    address: str | tuple[str, int]
    metrics_port: int


class Peers(msgspec.Struct, tag=True):
    """Where the processes of servers and of the pool agent listen, by process; later, where a restarted one does."""

    nodes: dict[int, str | tuple[str, int]]
    pools: dict[int, str | tuple[str, int]]


class Linked(msgspec.Struct, tag=True):
    """The process has made all its connections."""


class Start(msgspec.Struct, tag=True):
    """Time 0 is when the machine's monotonic clock, which all its processes share, reads ``at`` seconds.

    A process that is restarted in a long-running cluster acts from time ``since`` on.
    """

    at: float
    since: float = 0.0


class Change(msgspec.Struct, tag=True):
    """Other settings from model time ``at`` on: the pace of arrivals, or a scenario with another policy, as TOML."""

    at: float
    theory: Theory
    pace: Pace | None = None
    scenario: str | None = None


class Drain(msgspec.Struct, tag=True):
    """Stop arrivals."""


class Progress(msgspec.Struct, tag=True):
    """A progress report. Counts are cumulative since the start of the process, which fills in only what it knows."""

    time: float
    arrived: int = 0
    ended: int = 0
    in_system: int = 0
    awaiting_cancellation: int = 0  # jobs that are done, and have a copy whose end is not yet reported
    arrivals_over: bool = False
    responses: list[int] = []  # counts of the response-time histogram
    response_sum: float = 0.0
    lag_sum: float = 0.0
    outcomes: list[int] = []  # jobs by testbed.core.outcomes.JobOutcome
    counters: dict[str, int] = {}  # as in the Report
    queue_lengths: bytes = b""  # of its servers, at most testbed.cluster.snapshot.LONGEST_SHOWN
    cpu_share: float = 0.0  # of one core, since the last report
    timers: int = 0  # that have fired; their lateness in seconds:
    lateness_mean: float = 0.0
    lateness_p50: float = 0.0
    lateness_p99: float = 0.0


class Finish(msgspec.Struct, tag=True):
    """Stop arrivals and report. ``down_servers`` are ranges of servers whose process has died.

    ``hold``: whether to wait, after the report, until the last metrics have been read; None: if Prometheus reads them.
    """

    down_servers: list[tuple[int, int]] = []
    hold: bool | None = None


class Records(msgspec.Struct, tag=True):
    """New records: rows of a table (testbed.core.records.TABLES, row_type).

    The controller keeps them when it has received the report that counts them, a Progress or the Report.
    """

    table: str
    rows: bytes


class Events(msgspec.Struct, tag=True):
    """The events of traced jobs since the last message of this type."""

    events: list[TraceEvent]


class Report(msgspec.Struct, tag=True):
    """The final report of a process. ``held``: the process waits until its metrics have been read."""

    process: ProcessReport
    counters: dict[str, int]
    occupancy_edges: list[float]
    occupancy: list[list[float]]
    counted: list[list[int]]
    held: bool = False


FromProcess = Hello | Ready | Linked | Progress | Records | Events | Report
FromController = Setup | Peers | Start | Change | Drain | Finish

#: Decoders of the messages that each side receives.
FROM_PROCESS: msgspec.msgpack.Decoder[FromProcess] = msgspec.msgpack.Decoder(FromProcess)
FROM_CONTROLLER: msgspec.msgpack.Decoder[FromController] = msgspec.msgpack.Decoder(FromController)
HELLO: msgspec.msgpack.Decoder[Hello] = msgspec.msgpack.Decoder(Hello)

T = TypeVar("T")

#: Control frames carry scenarios with long empirical distributions, and reports with long queues.
CONTROL_FRAME_LIMIT = 1 << 28

#: The environment variable with the controller's address, the run's secret and the process's number, as JSON.
CONTROL_ENV = "TESTBED_CONTROL"


class Channel(Generic[T]):
    """A control connection, which receives the messages of ``decoder``."""

    def __init__(self, stream: trio.SocketStream, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._stream = stream
        self._encoder = Encoder(CONTROL_FRAME_LIMIT)
        self._reader: FrameReader[T] = FrameReader(decoder, CONTROL_FRAME_LIMIT)
        self._received: deque[T] = deque()
        self._sending = trio.Lock()

    async def send(self, message: msgspec.Struct) -> None:
        """Send a message. Raises trio.BrokenResourceError when the peer has gone."""
        async with self._sending:
            await self._stream.send_all(self._encoder.frame(message))

    async def receive(self) -> T | None:
        """Return the next message, or None when the peer has closed. Raises ProtocolError for what is no message."""
        while not self._received:
            try:
                data = await self._stream.receive_some(1 << 16)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                return None
            if not data:
                return None
            self._received.extend(self._reader.feed(bytes(data)))
        return self._received.popleft()

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()
