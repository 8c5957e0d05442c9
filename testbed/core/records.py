"""Raw measurements: tables with a row per job, task or copy, and the time that servers spend at each queue length.

Agents write them on the hot path, into plain arrays which they never read.
"""

from __future__ import annotations

import struct
from array import array
from collections import deque
from typing import ClassVar, Final, Generic, Protocol, TypeVar, get_type_hints

import msgspec
import numpy as np
import numpy.typing as npt
from msgspec.structs import astuple

from testbed.core.rows import CopyRecord, JobRecord, TaskRecord
from testbed.core.trace_recorder import TraceEvent

#: Buckets of live response-time histograms, in time units: lowest, highest, ratio, finer ranges. Each of the 159
#: buckets is a series in Prometheus. They are narrow where 99 % quantiles of response times lie, so that the
#: interpolated quantile is within 3 % of the exact one, unless that itself depends on a few jobs. They are narrowest
#: where sizes with atoms give the distribution steps; further out the tail is smooth.
RESPONSE_BUCKETS: Final = (1e-3, 1e5, 2.0, ((0.05, 1000.0, 1.3), (0.8, 150.0, 1.05), (0.8, 4.0, 1.03)))
#: The same for inherent and queueing delays, of which means and shapes matter rather than tails.
DELAY_BUCKETS: Final = (1e-3, 1e4, 1.35)

#: Counters of servers that move tasks: probes sent (Steal and Offer, or the queue-length probes before a Steal), their
#: answers, tasks moved, tasks moved to a server that had other work by then, offers withdrawn, and the tasks moved by
#: stealing and by sharing.
COUNTED: Final = (
    "balancing probes",
    "answered yes",
    "answered no",
    "tasks moved",
    "moved too late",
    "offers withdrawn",
    "tasks stolen",
    "tasks shared",
)

Record = TypeVar("Record", bound=msgspec.Struct)


#: The columns of a table of records: name, array typecode, meaning.
Columns = tuple[tuple[str, str, str], ...]


def _columns(record: type[msgspec.Struct]) -> Columns:
    hints = get_type_hints(record, include_extras=True)
    names = zip(record.__struct_encode_fields__, record.__struct_fields__, strict=True)
    return tuple((name, *hints[field].__metadata__[0]) for name, field in names)


#: The columns of the records of jobs, tasks and copies.
COLUMNS: Final = _columns(JobRecord)
TASK_COLUMNS: Final = _columns(TaskRecord)
COPY_COLUMNS: Final = _columns(CopyRecord)
TABLES: Final = {"jobs": COLUMNS, "tasks": TASK_COLUMNS, "copies": COPY_COLUMNS}


def row_type(columns: Columns) -> np.dtype[np.void]:
    """Return the type of a row as Records packs it."""
    return np.dtype([(name, typecode) for name, typecode, _ in columns])


class Records(Generic[Record]):
    """Records of one table in a preallocated buffer, which grows by half when it is full.

    One call packs a record into its row: storing field after field in separate columns takes longer.
    """

    COLUMNS: ClassVar[Columns]

    def __init__(self, capacity: int) -> None:
        self.count = 0
        self.taken = 0  # records that were written before those that are here
        self._capacity = max(capacity, 1024)
        row = struct.Struct("=" + "".join(typecode for _, typecode, _ in self.COLUMNS))
        self._pack = row.pack_into
        self._size = row.size
        self._rows = bytearray(row.size * self._capacity)

    def write(self, record: Record) -> None:
        """Append one record."""
        i = self.count
        if i == self._capacity:
            self._grow()
        self._pack(self._rows, i * self._size, *astuple(record))
        self.count = i + 1

    def _grow(self) -> None:
        more = self._capacity // 2
        self._rows.extend(bytes(self._size * more))
        self._capacity += more

    def rows(self, first: int = 0) -> npt.NDArray[np.void]:
        """Return the records from ``first`` on as a structured array, shape (records,).

        It is a view of the buffer, which cannot grow while a view exists: delete it before the next ``write``.
        """
        return np.frombuffer(self._rows, dtype=row_type(self.COLUMNS))[first : self.count]

    def columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return a copy of the records as numpy arrays by column name, each of shape (records,)."""
        rows = self.rows()
        return {name: rows[name].copy() for name, _, _ in self.COLUMNS}

    def take(self, most: int) -> list[bytes]:
        """Return the records as rows of ``row_type``, at most ``most`` in a piece, and begin anew with none."""
        size = self._size
        end = self.count * size
        pieces = [bytes(self._rows[i : min(i + most * size, end)]) for i in range(0, end, most * size)]
        self.taken += self.count
        self.count = 0
        return pieces


class TaskRecords(Records[TaskRecord]):
    """Records of tasks."""

    COLUMNS = TASK_COLUMNS


class CopyRecords(Records[CopyRecord]):
    """Records of copies."""

    COLUMNS = COPY_COLUMNS


class JobRecords(Records[JobRecord]):
    """Records of jobs."""

    COLUMNS = COLUMNS


class Occupancy:
    """How long the servers of a process spent at each queue length, over slices of time.

    A server reports each change of its queue length. Entering level q at time t subtracts t from ``_time[q]``, leaving
    it at t' adds t', so that the sum is the time spent there once the present time is added for each server that is
    there now. Two list operations per event, and no sweep over the servers but at the end of a slice.
    """

    __slots__ = ("_counted", "_edges", "_slices", "_time", "counts", "servers")

    def __init__(self, most_slices: int | None = None) -> None:
        """Keep the latest ``most_slices`` slices; by default all."""
        most_edges = None if most_slices is None else most_slices + 1
        #: Cumulative counters of the servers' balancers, in the order of COUNTED.
        self.counts = [0] * len(COUNTED)
        self._counted: deque[list[int]] = deque(maxlen=most_edges)
        self._time = [0.0] * 32
        self.servers: list[HasQueueLength] = []
        self._slices: deque[array[float]] = deque(maxlen=most_edges)
        self._edges: deque[float] = deque(maxlen=most_edges)

    def change(self, old: int, new: int, now: float) -> None:
        """Note that a server's queue length goes from ``old`` to ``new`` at time ``now``."""
        time = self._time
        if new >= len(time):
            time.extend([0.0] * (new + 1))
        time[old] += now
        time[new] -= now

    def close_slice(self, now: float) -> None:
        """End a slice of time at ``now`` and begin the next; the first call begins the first."""
        time = array("d", self._time)
        for server in self.servers:
            time[server.queue_length] += now
        self._edges.append(now)
        self._counted.append(list(self.counts))
        self._slices.append(time)

    def table(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Return slice boundaries, shape (slices + 1,), and server-time per slice and level, (slices, levels)."""
        levels = max(map(len, self._slices), default=1)
        cumulated = np.zeros((len(self._slices), levels))
        for row, slice_ in zip(cumulated, self._slices, strict=True):
            row[: len(slice_)] = slice_
        used = max(1, int(np.flatnonzero(np.abs(cumulated).sum(axis=0) > 0).max(initial=0)) + 1)
        return np.array(self._edges), np.diff(cumulated[:, :used], axis=0)

    def counted(self) -> list[list[int]]:
        """Return what had been counted at each edge, (slices + 1) rows in the order of COUNTED."""
        return list(self._counted)


class HasQueueLength(Protocol):
    """What Occupancy reads of a server: its present queue length, the task in service included."""

    queue_length: int


class ProcessReport(msgspec.Struct, kw_only=True):
    """The report of one process at the end of a run. Seconds are wall-clock seconds."""

    name: str
    seconds: float  # from the start of the run to its end
    cpu_seconds: float  # used in that time
    timers: int  # timers fired
    lateness_mean: float  # seconds
    lateness_p50: float
    lateness_p99: float
    lateness_max: float
    messages_sent: int
    messages_received: int
    bytes_sent: int
    rejected_frames: int  # malformed, oversized or from unauthenticated peers
    exact_timers: bool  # false where the platform has no timerfd
    peak_queue_bytes: int  # most bytes that waited for a peer to read
    #: Event-loop lag in seconds, on average over the messages sent: from the start of the loop iteration that wrote a
    #: message until it was handed to the socket; and over the messages received: from the start of the iteration in
    #: which a message came until it was delivered.
    sent_after_mean: float = 0.0
    delivered_after_mean: float = 0.0


class Measurements(msgspec.Struct, kw_only=True):
    """All measurements of one run (one variant, one replication) of the cluster or of the twin."""

    source: str  # "cluster" or "twin"
    columns: dict[str, npt.NDArray[np.generic]]  # see COLUMNS; one row per arrived job
    occupancy_edges: npt.NDArray[np.float64]  # (slices + 1,)
    occupancy: npt.NDArray[np.float64]  # (slices, levels), server-time at each queue length, over all servers
    counters: dict[str, int]  # messages and events by name
    counted: npt.NDArray[np.int64]  # (slices + 1, len(COUNTED)): what balancers had counted at each edge
    processes: list[ProcessReport]  # empty for the twin
    stopped_at: float  # time when arrivals stopped, in time units
    tasks: dict[str, npt.NDArray[np.generic]] = {}  # see TASK_COLUMNS; empty where a job is one task
    copies: dict[str, npt.NDArray[np.generic]] = {}  # see COPY_COLUMNS; empty where jobs have no copies
    events: list[TraceEvent] = []  # of traced jobs
    failure: str | None = None  # what went wrong, if the run did not end as planned
    incidents: list[str] = []  # deaths of processes after which the run went on
    unrecorded: dict[str, int] = {}  # by label of JobOutcome: jobs that have ended without a record here
