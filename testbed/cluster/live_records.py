"""Records of a process that is observed while it runs.

What is shown and scraped is computed a few times a second, for all new records at once (``catch_up``): job by job it
would cost more than the record itself. Metrics are therefore a fraction of a second behind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np
import numpy.typing as npt

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.records import (
    DELAY_BUCKETS,
    RESPONSE_BUCKETS,
    CopyRecords,
    JobRecords,
    Record,
    Records,
)
from testbed.core.rows import CopyRecord, JobRecord
from testbed.core.trace_choice import are_traced
from testbed.measure.histogram import LogHistogram


class Live(Records[Record], ABC):
    """Records that are counted a few times a second, and before they are taken."""

    _seen = 0  # records that were counted

    def take(self, most: int) -> list[bytes]:
        """Count what was written, and return it; see Records."""
        self.catch_up()
        self._seen = 0
        return super().take(most)

    def catch_up(self) -> None:
        """Count what was written since the last time."""
        rows = self.rows(self._seen)
        self._seen = self.count
        if len(rows):
            self._count(rows)

    @abstractmethod
    def _count(self, rows: npt.NDArray[np.void]) -> None:
        """Count ``rows``, at least one."""


class LiveRecords(Live[JobRecord], JobRecords):
    """Job records with what is shown and scraped while the run goes on.

    ``responses``, ``inherent``, ``queueing`` and ``lags`` hold response times, inherent and queueing delays of
    completed jobs and dispatch lags of all, in time units; ``outcomes`` and ``tasks`` count jobs and tasks by outcome.
    ``examples`` has a job's number and response time for each bucket of ``responses``: those of the latest one, of
    the ``traced`` fraction of jobs if some are traced.
    """

    def __init__(self, capacity: int, time_unit: float, traced: float = 0.0) -> None:
        super().__init__(capacity)
        self.responses = LogHistogram(*RESPONSE_BUCKETS)
        self.inherent = LogHistogram(*DELAY_BUCKETS)
        self.queueing = LogHistogram(*DELAY_BUCKETS)
        self.lags = LogHistogram(1e-6 / time_unit, 10.0 / time_unit, 1.5)
        self.outcomes = [0] * len(JobOutcome)
        self.tasks = [0] * len(JobOutcome)
        self.examples: list[tuple[int, float] | None] = [None] * len(self.responses.counts)
        self._traced = traced

    def _count(self, rows: npt.NDArray[np.void]) -> None:
        outcome = rows["outcome"]
        tasks = np.bincount(outcome, rows["tasks"], len(JobOutcome))
        self.outcomes = (np.bincount(outcome, minlength=len(JobOutcome)) + self.outcomes).tolist()
        self.tasks = [before + int(more) for before, more in zip(self.tasks, tasks, strict=True)]
        self.lags.add_all(rows["lag"])
        done = rows[outcome == JobOutcome.COMPLETED]
        response = done["response"]
        self.responses.add_all(response)
        self.inherent.add_all(done["inherent"])
        # Not below 0: the two times may be equal except for rounding.
        self.queueing.add_all(np.maximum(response - done["inherent"], 0.0))
        self._choose_examples(done["job"], response)

    def _choose_examples(self, jobs: npt.NDArray[np.int64], responses: npt.NDArray[np.float64]) -> None:
        """Keep the last job of each bucket."""
        if self._traced:
            chosen = are_traced(jobs, self._traced)
            jobs, responses = jobs[chosen], responses[chosen]
        for bucket, i in {b: i for i, b in enumerate(self.responses.buckets_of(responses).tolist())}.items():
            self.examples[bucket] = int(jobs[i]), float(responses[i])


class LiveCopies(Live[CopyRecord], CopyRecords):
    """Records of copies with what is scraped while the run goes on."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        #: By outcome: the jobs' first copies, and those that were made later.
        self.first = [0] * len(CopyOutcome)
        self.later = [0] * len(CopyOutcome)
        self.states_at_cancellation = [0] * len(StateAtCancellation)
        self.received = [0.0] * len(CopyOutcome)  # time units

    @property
    def cancelled(self) -> int:
        """The number of cancelled copies."""
        return sum(self.states_at_cancellation) - self.states_at_cancellation[StateAtCancellation.NOT_CANCELLED]

    def _count(self, rows: npt.NDArray[np.void]) -> None:
        first = rows["copy"] == 0
        outcome = rows["fate"]
        self.first = (np.bincount(outcome[first], minlength=len(CopyOutcome)) + self.first).tolist()
        self.later = (np.bincount(outcome[~first], minlength=len(CopyOutcome)) + self.later).tolist()
        met = np.bincount(rows["met"], minlength=len(StateAtCancellation))
        self.states_at_cancellation = (met + self.states_at_cancellation).tolist()
        received = np.bincount(outcome, np.nan_to_num(rows["received"]), len(CopyOutcome))
        self.received = (received + self.received).tolist()
