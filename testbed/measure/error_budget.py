"""The mean response time in parts: service and queueing, which theory has as well, and what the machine adds."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from testbed.core.records import ProcessReport
from testbed.measure.summary import Summary

#: The parts in the order in which they are shown: the name of each, and how it is measured.
PARTS: Final = {
    "service": (
        "service",
        "inherent delay: the longest service of the job's tasks; per job, by its server",
    ),
    "queueing": (
        "queueing",
        "time of the last task at its servers beyond that; per job, by its server",
    ),
    "dispatch_delay": (
        "dispatch delay",
        "how late the dispatcher handled the arrival; per job, by its dispatcher",
    ),
    "timer_lateness": (
        "timer lateness",
        "from the time when the last task's service was due to end until its server's process noticed; per job, by its "
        "server",
    ),
    "event_loop_lag": (
        "event-loop lag",
        "from a process' waking up until it has sent or delivered a message; means over all messages of the processes "
        "in the whole run, times the messages that a job waits for",
    ),
    "message_delay": (
        "message delay",
        "delay that the scenario adds to each message, times the messages that a job waits for",
    ),
    "rest": (
        "sockets, waking up, and the rest",
        "the rest of the time that the last task spent neither waiting at a server nor in service: in sockets, until "
        "the receiving process wakes up, waiting for the slowest of several replies, on the way between servers",
    ),
}


class ErrorBudget(msgspec.Struct, frozen=True, kw_only=True):
    """The mean response time of the measured jobs in parts, which add up to it. In time units; see ``PARTS``.

    Service, queueing and the sum of the other parts are measured job by job, each on one clock. Among
    the others, so are the dispatch delay and the timer lateness. Event-loop lag comes from the processes' own means
    over all their messages. The rest is the remainder, and absorbs the difference between the messages that jobs wait
    for and all messages.
    """

    service: float
    queueing: float
    dispatch_delay: float
    timer_lateness: float
    event_loop_lag: float
    message_delay: float
    rest: float

    @property
    def total(self) -> float:
        """The mean response time."""
        return math.fsum(msgspec.structs.astuple(self))


def error_budget(summary: Summary, *, round_trips: float, message_delay: float) -> ErrorBudget | None:
    """Return the parts of a run's mean response time; None when no job was completed.

    ``round_trips``: how often a job waits for a message and the reply to it; the assignment of its last task and the
    report of its end are one. ``message_delay``: mean delay that the scenario adds to each message, in time units. For
    the twin, which has no processes, the parts of the machine are 0.
    """
    mean, inherent, overhead = summary.response.mean, summary.inherent_mean, summary.overhead_mean
    if mean is None or inherent is None or overhead is None:
        return None
    unit = summary.time_unit_seconds
    dispatchers = [process for process in summary.processes if process.name.startswith("dispatcher")]
    others = [process for process in summary.processes if not process.name.startswith("dispatcher")]
    lag = summary.dispatch_lag_mean or 0.0
    lateness = summary.timer_lateness_mean or 0.0
    sending = sum(_mean(of, lambda p: p.sent_after_mean, lambda p: p.messages_sent) for of in (dispatchers, others))
    # For a message that causes another in the same loop iteration, the sending lag counts from that iteration's
    # beginning already.
    delivery = sum(
        _mean(of, lambda p: p.delivered_after_mean, lambda p: p.messages_received) for of in (dispatchers, others)
    )
    event_loops = (round_trips * sending + delivery) / unit if summary.processes else 0.0
    delay = 2 * round_trips * message_delay
    return ErrorBudget(
        service=inherent,
        queueing=mean - overhead - inherent,
        dispatch_delay=lag,
        timer_lateness=lateness,
        event_loop_lag=event_loops,
        message_delay=delay,
        rest=overhead - lag - lateness - event_loops - delay,
    )


def mean_budget(budgets: Sequence[ErrorBudget]) -> ErrorBudget | None:
    """Return the mean of the budgets of replications; None where there is none."""
    if not budgets:
        return None
    rows = [msgspec.structs.astuple(budget) for budget in budgets]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    return ErrorBudget(**dict(zip(PARTS, means, strict=True)))


def _mean(
    processes: Sequence[ProcessReport], value: Callable[[ProcessReport], float], weight: Callable[[ProcessReport], int]
) -> float:
    total = sum(map(weight, processes))
    return sum(value(process) * weight(process) for process in processes) / total if total else 0.0
