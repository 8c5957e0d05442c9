"""Rows of the tables that a run records: of jobs, tasks and copies. Times are in time units."""

from __future__ import annotations

from math import nan
from typing import Annotated, NamedTuple

import msgspec
from msgspec import field

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation


class Column(NamedTuple):
    """How a field of a row is kept: its array typecode, and what it means."""

    typecode: str
    meaning: str


class JobRecord(msgspec.Struct, gc=False):
    """The record of a job that has ended. Times are in time units."""

    job: Annotated[int, Column("q", "number of the job in the workload, the same in every run with the same seed")]
    type: Annotated[int, Column("h", "index of the job's type")]
    dispatcher: Annotated[int, Column("h", "index of the dispatcher that placed it")]
    outcome: Annotated[JobOutcome, Column("b", "0 completed, 1 dropped, 2 lost, 3 still in the system")]
    arrival: Annotated[float, Column("d", "intended arrival time")]
    lag: Annotated[float, Column("d", "how late the dispatcher handled the arrival")]
    response: Annotated[float, Column("d", "response time; NaN unless completed")]
    inherent: Annotated[float, Column("d", "inherent delay: the longest service of its tasks; NaN unless completed")]
    wait: Annotated[float, Column("d", "longest waiting time of its tasks at their servers; NaN unless completed")]
    overhead: Annotated[
        float,
        Column(
            "d",
            "part of the response time that the last task spent neither waiting nor served: dispatch, messages, event "
            "loops; NaN unless completed",
        ),
    ]
    probes: Annotated[int, Column("i", "probes sent for it")]
    server: Annotated[int, Column("i", "server of its last task; -1 if it was never placed")]
    tasks: Annotated[int, Column("i", "number of its tasks")]
    work: Annotated[float, Column("d", "service of all its tasks together; NaN unless completed")]
    position: Annotated[
        int,
        Column(
            "i",
            "largest position in a server's queue that one of its tasks came to, 1 being the head; 0 unless completed",
        ),
    ]
    last_task: Annotated[int, Column("i", "which of its tasks was done last, from 0; -1 unless completed")]
    lateness: Annotated[
        float, Column("d", "how late the last task's server noticed the end of its service; NaN unless completed")
    ]


class TaskRecord(msgspec.Struct, gc=False):
    """The record of a finished task, kept where jobs may have several. Times are in time units."""

    job: Annotated[int, Column("q", "number of the job in the workload")]
    task: Annotated[int, Column("i", "which of the job's tasks, from 0")]
    server: Annotated[int, Column("i", "server that served it")]
    position: Annotated[
        int,
        Column("i", "position in the server's queue that it came to (late binding: that its reservation came to)"),
    ]
    wait: Annotated[float, Column("d", "waiting time at its servers")]
    service: Annotated[float, Column("d", "service time")]
    end: Annotated[float, Column("d", "when its dispatcher received the report that it was done")]


class CopyRecord(msgspec.Struct, gc=False, array_like=True):
    """The record of a job's copy, kept where jobs may be rerouted, replicated or hedged. Times are in time units."""

    job: Annotated[int, Column("q", "number of the job in the workload")]
    copy: Annotated[int, Column("i", "which of the job's copies, from 0 in the order in which they were made")]
    pool: Annotated[int, Column("h", "index of its pool")]
    server: Annotated[int, Column("i", "server that served it last; -1 if none did")]
    wait: Annotated[float, Column("d", "time that it spent in queues, preempted or waiting as a pair")]
    received: Annotated[float, Column("d", "processing time that it has received; NaN if it died with its server")]
    preemptions: Annotated[int, Column("i", "how often it was preempted")]
    outcome: Annotated[CopyOutcome, Column("b", "0 won, 1 lost, 2 rerouted, 3 died with its server")] = field(
        name="fate"
    )
    state_at_cancellation: Annotated[
        StateAtCancellation,
        Column(
            "b",
            "what its cancellation found: 0 it was not cancelled, 1 queued, 2 in service, 3 preempted, 4 waiting as a "
            "pair, 5 already done, 6 not yet arrived",
        ),
    ] = field(name="met")
    delay: Annotated[
        float,
        Column(
            "d",
            "time from the completion of another copy, or the report of its start where that cancels, to the report "
            "that this one has stopped; NaN if it was not cancelled, or by another server",
        ),
    ] = nan
    end: Annotated[float, Column("d", "when its dispatcher received the report of its end")] = nan
