"""Records of a process that is looked at while it runs."""

from __future__ import annotations

from math import isnan

from testbed.copy_life import FATES, MET
from testbed.measure.histogram import LogHistogram
from testbed.measure.records import (
    COMPLETED,
    OUTCOMES,
    RESPONSE_BUCKETS,
    CopyRecord,
    CopyRecords,
    JobRecord,
    JobRecords,
)


class LiveRecords(JobRecords):
    """Job records that also keep what is shown and scraped while the run goes on."""

    def __init__(self, capacity: int, time_unit: float) -> None:
        super().__init__(capacity)
        #: Response times and dispatch lags in time units.
        self.responses = LogHistogram(*RESPONSE_BUCKETS)
        self.lags = LogHistogram(1e-6 / time_unit, 10.0 / time_unit, 1.5)
        self.outcomes = [0] * len(OUTCOMES)

    def write(self, record: JobRecord) -> None:
        """Append one job, and count it."""
        super().write(record)
        self.outcomes[record.outcome] += 1
        self.lags.add(record.lag)
        if record.outcome == COMPLETED:
            self.responses.add(record.response)


class LiveCopies(CopyRecords):
    """Records of copies that also keep what is scraped while the run goes on."""

    def __init__(self, capacity: int) -> None:
        super().__init__(capacity)
        #: By what became of them: of the jobs' first copies, and of those that were made later.
        self.first = [0] * len(FATES)
        self.later = [0] * len(FATES)
        self.met = [0] * len(MET)
        self.received = [0.0] * len(FATES)  # time units

    def write(self, record: CopyRecord) -> None:
        """Append one copy, and count it."""
        super().write(record)
        (self.later if record.copy else self.first)[record.fate] += 1
        self.met[record.met] += 1
        if not isnan(record.received):
            self.received[record.fate] += record.received
