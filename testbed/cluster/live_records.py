"""Job records of a process that is looked at while it runs."""

from __future__ import annotations

from testbed.measure.histogram import LogHistogram
from testbed.measure.records import COMPLETED, OUTCOMES, RESPONSE_BUCKETS, JobRecord, JobRecords


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
