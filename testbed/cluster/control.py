"""What the controller and its processes tell each other, over a connection of its own beside the agents' messages.

process                      controller
Hello                ->
                     <-      Setup          what you are, and the whole scenario
Ready                ->                     where I listen
                     <-      Peers          where the others listen
Linked               ->                     connected to those that I talk to
                     <-      Start
Records, Progress    ->                    often
                     <-      Change, Drain  to a standing cluster: other settings; no more arrivals
                     <-      Finish         stop arrivals, report
Events (perhaps)     ->
Records, Report      ->                    then the process ends, or when its last metrics have been read
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
    """First words on a new connection, to the controller or to a peer process. ``token`` is the run's secret."""

    version: int
    token: str
    process: int
    agents: tuple[int, int] | None = None  # the range of its agents' addresses


class Pace(msgspec.Struct, frozen=True):
    """How fast arrivals come: what the workload has at t, from ``stream`` on, comes at time + (t - stream) * stretch.

    In time units. Without any change all is as the workload has it.
    """

    time: float = 0.0
    stream: float = 0.0
    stretch: float = 1.0

    def arrival(self, stream: float) -> float:
        """Return when comes what the workload has at time ``stream``."""
        return self.time + (stream - self.stream) * self.stretch

    def stream_time(self, time: float) -> float:
        """Return the time in the workload of what comes at ``time``."""
        return self.stream + (time - self.time) / self.stretch


class Setup(msgspec.Struct, tag=True):
    """Which process you are: a dispatcher's, a node's (``servers``: a range of addresses), or the pool agent's."""

    name: str
    scenario: str  # resolved, as TOML
    replication: int
    dispatcher: int | None
    servers: tuple[int, int] | None
    pools: bool
    folder: str  # for sockets
    theory: Theory | None = None  # what the metrics of dispatcher 0 say of it
    standing: Pace | None = None  # that of a cluster that stands until it is told to go
    restarts: int = 0  # how often the process was started again
    lost: int = 0  # jobs that were lost with its predecessors


class Ready(msgspec.Struct, tag=True):
    """The process has built its agents and listens at ``address``; ``metrics_port`` serves /metrics."""

    address: str | tuple[str, int]
    metrics_port: int


class Peers(msgspec.Struct, tag=True):
    """Where the processes of servers and of the pool agent listen, by process; later, where one that is new does."""

    nodes: dict[int, str | tuple[str, int]]
    pools: dict[int, str | tuple[str, int]]


class Linked(msgspec.Struct, tag=True):
    """The process has all its connections."""


class Start(msgspec.Struct, tag=True):
    """Time 0 is when the machine's monotonic clock, which all its processes share, reads ``at`` seconds.

    A process that joins a standing cluster later acts from time ``since`` on.
    """

    at: float
    since: float = 0.0


class Change(msgspec.Struct, tag=True):
    """Other settings from model time ``at`` on: the pace of arrivals, a dispatching policy (in a scenario, as TOML)."""

    at: float
    theory: Theory
    pace: Pace | None = None
    scenario: str | None = None


class Drain(msgspec.Struct, tag=True):
    """Stop arrivals."""


class Progress(msgspec.Struct, tag=True):
    """How a process is doing. Cumulated since time 0; a process fills only what it knows."""

    time: float
    arrived: int = 0
    ended: int = 0
    in_system: int = 0
    closing: int = 0  # jobs that are done, and of which a copy is still to be heard of
    arrivals_over: bool = False
    responses: list[int] = []  # counts of the response-time histogram
    response_sum: float = 0.0
    lag_sum: float = 0.0
    outcomes: list[int] = []  # jobs by testbed.core.outcomes.JobOutcome
    counters: dict[str, int] = {}  # as in the Report
    queue_lengths: bytes = b""  # of its servers, at most testbed.cluster.snapshot.LONGEST_SHOWN
    cpu_share: float = 0.0  # of one core, since the last word
    timers: int = 0  # that have fired; how late, in seconds:
    lateness_mean: float = 0.0
    lateness_p50: float = 0.0
    lateness_p99: float = 0.0


class Finish(msgspec.Struct, tag=True):
    """Stop arrivals and report. ``lost_servers`` are ranges of servers whose process has died.

    ``hold``: whether to go on, after the report, until the last metrics have been read; None: if Prometheus reads them.
    """

    lost_servers: list[tuple[int, int]] = []
    hold: bool | None = None


class Records(msgspec.Struct, tag=True):
    """Records as they come: rows of a table (testbed.core.records.TABLES, row_type).

    They are kept when the word that counts them has come, a Progress or the Report.
    """

    table: str
    rows: bytes


class Events(msgspec.Struct, tag=True):
    """What has happened to traced jobs since the last word of it."""

    events: list[TraceEvent]


class Report(msgspec.Struct, tag=True):
    """The last word of a process. ``held``: its metrics are still to be read, and then it ends."""

    process: ProcessReport
    counters: dict[str, int]
    occupancy_edges: list[float]
    occupancy: list[list[float]]
    counted: list[list[int]]
    held: bool = False


FromProcess = Hello | Ready | Linked | Progress | Records | Events | Report
FromController = Setup | Peers | Start | Change | Drain | Finish

#: What each side can be told.
FROM_PROCESS: msgspec.msgpack.Decoder[FromProcess] = msgspec.msgpack.Decoder(FromProcess)
FROM_CONTROLLER: msgspec.msgpack.Decoder[FromController] = msgspec.msgpack.Decoder(FromController)
HELLO: msgspec.msgpack.Decoder[Hello] = msgspec.msgpack.Decoder(Hello)

T = TypeVar("T")

#: Control frames carry scenarios with long empirical laws and reports with long queues.
CONTROL_FRAME_LIMIT = 1 << 28

#: The environment variable that tells a process the controller's address, the run's secret and its own number, as JSON.
CONTROL_ENV = "TESTBED_CONTROL"


class Channel(Generic[T]):
    """A control connection: objects out, what ``decoder`` decodes in."""

    def __init__(self, stream: trio.SocketStream, decoder: msgspec.msgpack.Decoder[T]) -> None:
        self._stream = stream
        self._encoder = Encoder(CONTROL_FRAME_LIMIT)
        self._reader: FrameReader[T] = FrameReader(decoder, CONTROL_FRAME_LIMIT)
        self._received: deque[T] = deque()
        self._sending = trio.Lock()

    async def send(self, message: msgspec.Struct) -> None:
        """Send one object. Raises trio.BrokenResourceError when the peer is gone."""
        async with self._sending:
            await self._stream.send_all(self._encoder.frame(message))

    async def receive(self) -> T | None:
        """Return the next object, or None when the peer has closed. Raises ProtocolError for anything else."""
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
