"""Raw measurements: one row per job, and the time that servers spend at each queue length.

Both are written on the hot path, so they are plain arrays that agents append to and never read.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import ClassVar, Final, Protocol

import msgspec
import numpy as np
import numpy.typing as npt

COMPLETED: Final = 0
DROPPED: Final = 1
LOST: Final = 2
IN_SYSTEM: Final = 3
#: Buckets of live response-time histograms, in time units: lowest, highest, ratio.
RESPONSE_BUCKETS: Final = (1e-3, 1e5, 1.15)

OUTCOMES: Final = ("completed", "dropped", "lost", "in system")

#: What servers that move tasks count: questions sent (Steal and Offer, or the probes of queue lengths before a Steal),
#: their answers, tasks moved, those of them that came to a server with work, and offers taken back.
COUNTED: Final = (
    "balancing probes",
    "answered yes",
    "answered no",
    "tasks moved",
    "moved too late",
    "offers withdrawn",
)

#: The columns of a job's record: name, array typecode, meaning. Times are in time units.
COLUMNS: Final = (
    ("job", "q", "number of the job in the workload, the same in every run with the same seed"),
    ("type", "h", "index of the job's type"),
    ("dispatcher", "h", "index of the dispatcher that placed it"),
    ("outcome", "b", "0 completed, 1 dropped, 2 lost, 3 still in the system"),
    ("arrival", "d", "intended arrival time"),
    ("lag", "d", "how late the dispatcher handled the arrival"),
    ("response", "d", "response time; NaN unless completed"),
    ("inherent", "d", "inherent delay: the longest service of its tasks; NaN unless completed"),
    ("wait", "d", "longest waiting time of its tasks at their servers; NaN unless completed"),
    (
        "overhead",
        "d",
        "part of the response time that the last task spent neither waiting nor served: dispatch, messages, event "
        "loops; NaN unless completed",
    ),
    ("probes", "i", "probes sent for it"),
    ("server", "i", "server of its last task; -1 if it was never placed"),
    ("tasks", "i", "number of its tasks"),
    ("work", "d", "service of all its tasks together; NaN unless completed"),
    (
        "position",
        "i",
        "largest position in a server's queue that one of its tasks came to, 1 being the head; 0 unless completed",
    ),
    ("last_task", "i", "which of its tasks was done last, from 0; -1 unless completed"),
)

#: The columns of a task's record, kept for finished tasks where jobs may have several.
TASK_COLUMNS: Final = (
    ("job", "q", "number of the job in the workload"),
    ("task", "i", "which of the job's tasks, from 0"),
    ("server", "i", "server that served it"),
    ("position", "i", "position in the server's queue that it came to (late binding: that its reservation came to)"),
    ("wait", "d", "waiting time at its servers"),
    ("service", "d", "service time"),
    ("end", "d", "when its dispatcher heard that it was done"),
)


#: The columns of the record of a job's copy, kept where jobs may be rerouted, replicated or hedged.
COPY_COLUMNS: Final = (
    ("job", "q", "number of the job in the workload"),
    ("copy", "i", "which of the job's copies, from 0 in the order in which they were made"),
    ("pool", "h", "index of its pool"),
    ("server", "i", "server that served it last; -1 if none did"),
    ("wait", "d", "time that it spent in queues, preempted or waiting as a pair"),
    ("received", "d", "processing time that it has received; NaN if it died with its server"),
    ("preemptions", "i", "how often it was preempted"),
    ("fate", "b", "0 won, 1 lost, 2 rerouted, 3 died with its server"),
    (
        "met",
        "b",
        "what its cancellation found: 0 it was not cancelled, 1 queued, 2 in service, 3 preempted, 4 waiting as a "
        "pair, 5 already done, 6 not yet arrived",
    ),
    ("delay", "d", "time from the completion of another copy to the word that this one has stopped; NaN if not"),
)


class Records:
    """Records in preallocated columns; they grow by half when the guess was too small."""

    COLUMNS: ClassVar[tuple[tuple[str, str, str], ...]]

    def __init__(self, capacity: int) -> None:
        self._capacity = max(capacity, 1024)
        self.count = 0
        for name, typecode, _ in self.COLUMNS:
            column = array(typecode)
            column.frombytes(bytes(column.itemsize * self._capacity))
            setattr(self, "_" + name, column)

    def _grow(self) -> None:
        more = self._capacity // 2
        for name, _, _ in self.COLUMNS:
            column = getattr(self, "_" + name)
            column.frombytes(bytes(column.itemsize * more))
        self._capacity += more

    def columns(self) -> dict[str, npt.NDArray[np.generic]]:
        """Return the records as numpy arrays by column name, each of shape (records,), without copying."""
        return {
            name: np.frombuffer(getattr(self, "_" + name), dtype=typecode)[: self.count]
            for name, typecode, _ in self.COLUMNS
        }


class TaskRecords(Records):
    """Records of tasks."""

    COLUMNS = TASK_COLUMNS

    _job: array[int]
    _task: array[int]
    _server: array[int]
    _position: array[int]
    _wait: array[float]
    _service: array[float]
    _end: array[float]

    def write(self, job: int, task: int, server: int, position: int, wait: float, service: float, end: float) -> None:
        """Append one task."""
        i = self.count
        if i == self._capacity:
            self._grow()
        self._job[i] = job
        self._task[i] = task
        self._server[i] = server
        self._position[i] = position
        self._wait[i] = wait
        self._service[i] = service
        self._end[i] = end
        self.count = i + 1


class CopyRecords(Records):
    """Records of copies."""

    COLUMNS = COPY_COLUMNS

    _job: array[int]
    _copy: array[int]
    _pool: array[int]
    _server: array[int]
    _wait: array[float]
    _received: array[float]
    _preemptions: array[int]
    _fate: array[int]
    _met: array[int]
    _delay: array[float]

    def write(
        self,
        job: int,
        copy: int,
        pool: int,
        server: int,
        wait: float,
        received: float,
        preemptions: int,
        fate: int,
        met: int,
        delay: float,
    ) -> None:
        """Append one copy."""
        i = self.count
        if i == self._capacity:
            self._grow()
        self._job[i] = job
        self._copy[i] = copy
        self._pool[i] = pool
        self._server[i] = server
        self._wait[i] = wait
        self._received[i] = received
        self._preemptions[i] = preemptions
        self._fate[i] = fate
        self._met[i] = met
        self._delay[i] = delay
        self.count = i + 1


class JobRecords(Records):
    """Records of jobs. ``ended``, if set, is told the outcome, dispatch lag and response time of each."""

    COLUMNS = COLUMNS
    ended: Callable[[int, float, float], object] | None = None

    _job: array[int]
    _type: array[int]
    _dispatcher: array[int]
    _outcome: array[int]
    _arrival: array[float]
    _lag: array[float]
    _response: array[float]
    _inherent: array[float]
    _wait: array[float]
    _overhead: array[float]
    _probes: array[int]
    _server: array[int]
    _tasks: array[int]
    _work: array[float]
    _position: array[int]
    _last_task: array[int]

    def write(
        self,
        job: int,
        kind: int,
        dispatcher: int,
        outcome: int,
        arrival: float,
        lag: float,
        response: float,
        inherent: float,
        wait: float,
        overhead: float,
        probes: int,
        server: int,
        tasks: int,
        work: float,
        position: int,
        last_task: int,
    ) -> None:
        """Append one job."""
        i = self.count
        if i == self._capacity:
            self._grow()
        self._job[i] = job
        self._type[i] = kind
        self._dispatcher[i] = dispatcher
        self._outcome[i] = outcome
        self._arrival[i] = arrival
        self._lag[i] = lag
        self._response[i] = response
        self._inherent[i] = inherent
        self._wait[i] = wait
        self._overhead[i] = overhead
        self._probes[i] = probes
        self._server[i] = server
        self._tasks[i] = tasks
        self._work[i] = work
        self._position[i] = position
        self._last_task[i] = last_task
        self.count = i + 1
        if self.ended is not None:
            self.ended(outcome, lag, response)


class Occupancy:
    """How long the servers of a process spent at each queue length, over slices of time.

    A server reports each change of its queue length. Entering level q at time t subtracts t from ``_time[q]``, leaving
    it at t' adds t', so that the sum is the time spent there, save for the servers that are there now: each of those
    still owes the present time. Two list operations per event, and no sweep over the servers but at the end of a slice.
    """

    __slots__ = ("_counted", "_edges", "_slices", "_time", "counts", "servers")

    def __init__(self) -> None:
        #: What the servers' balancers count (servers.balancer.COUNTED), cumulated.
        self.counts = [0] * len(COUNTED)
        self._counted: list[list[int]] = []
        self._time = [0.0] * 32
        self.servers: list[HasQueueLength] = []
        self._slices: list[list[float]] = []
        self._edges: list[float] = []

    def change(self, old: int, new: int, now: float) -> None:
        """Note that a server's queue length goes from ``old`` to ``new`` at time ``now``."""
        time = self._time
        if new >= len(time):
            time.extend([0.0] * (new + 1))
        time[old] += now
        time[new] -= now

    def close_slice(self, now: float) -> None:
        """End a slice of time at ``now`` and begin the next; the first call begins the first."""
        time = list(self._time)
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
        return self._counted


class HasQueueLength(Protocol):
    """What Occupancy reads of a server: its present queue length, the task in service included."""

    queue_length: int


class ProcessReport(msgspec.Struct, kw_only=True):
    """What one process says of itself at the end of a run. Seconds are wall-clock seconds."""

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
    rejected_frames: int  # malformed, oversized or from strangers
    exact_timers: bool  # false where the platform has no timerfd
    peak_queue_bytes: int  # most that waited for a peer to read


class Measurements(msgspec.Struct, kw_only=True):
    """All that one run (one variant, one replication) measured; from the cluster or from the twin."""

    source: str  # "cluster" or "twin"
    columns: dict[str, npt.NDArray[np.generic]]  # see COLUMNS; one row per arrived job
    occupancy_edges: npt.NDArray[np.float64]  # (slices + 1,)
    occupancy: npt.NDArray[np.float64]  # (slices, levels), server-time at each queue length, over all servers
    counters: dict[str, int]  # messages and events by name
    counted: npt.NDArray[np.int64]  # (slices + 1, len(COUNTED)): what balancers had counted at each edge
    processes: list[ProcessReport]  # empty for the twin
    stopped_at: float  # time when arrivals stopped, in time units
    tasks: dict[str, npt.NDArray[np.generic]] = {}  # see TASK_COLUMNS; empty where a job is one task
    failure: str | None = None  # what went wrong, if the run did not end as planned
    incidents: list[str] = []  # deaths that the run went on after
