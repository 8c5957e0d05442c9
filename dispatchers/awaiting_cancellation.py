"""Jobs in copies that are done, while they await the cancellation of their other copies.

A job is done when its first copy finishes, which is when its response time is taken. What its other copies have
received is known later, when the end of each has been reported. Until then the job awaits cancellation: it is in the
system no more, and not recorded yet, since its record has the work of all its copies.
"""

from __future__ import annotations

from math import isnan

from dispatchers.jobs import COMPLETED, Jobs
from dispatchers.ticket import Ticket
from testbed.core.messages import Done
from testbed.core.rows import CopyRecord, JobRecord


class _Account:
    """The copies of a job that have ended, what they have received, and the job's record once it is done."""

    __slots__ = ("copies", "ended", "record", "work")

    def __init__(self) -> None:
        self.copies = 0  # in all; known once the job is done
        self.ended = 0
        self.work = 0.0
        self.record: JobRecord | None = None


class AwaitingCancellation:
    """Writes the records of copies, and those of their jobs. Times are in time units."""

    def __init__(self, jobs: Jobs) -> None:
        assert jobs.records.copies is not None, "copies need records"
        self.jobs = 0  # that are done, while the end of some copy is not known
        self._jobs = jobs
        self._records = jobs.records.copies
        self._accounts: dict[int, _Account] = {}

    def write_copy(self, record: CopyRecord) -> None:
        """Write the record of a copy, whose end is known from now on."""
        record.end = self._jobs.env.now
        self._records.write(record)

    def copy_ended(self, record: CopyRecord) -> None:
        """Write the record of a copy, and count it among those of its job that have ended."""
        self.write_copy(record)
        account = self._account(record.job)
        account.ended += 1
        if not isnan(record.received):
            account.work += record.received
        if account.record is not None and account.ended >= account.copies:
            self.jobs -= 1
            self._write(record.job)

    def job_done(self, job: int, ticket: Ticket, done: Done, copies: int) -> None:
        """Note that a job is done now, as ``done`` reports of the copy that won.

        ``copies`` were made of it in all. The job must have left the system.
        """
        ticket.inherent, ticket.wait, ticket.position = done.service, done.wait, done.position
        account = self._account(job)
        account.copies = copies
        account.record = self._jobs.record(job, ticket, COMPLETED, done)
        if account.ended >= copies:
            self._write(job)
        else:
            self.jobs += 1

    def close(self) -> None:
        """Write the records of the jobs that are done, whether or not the ends of all their copies are known."""
        for job, account in list(self._accounts.items()):
            if account.record is not None:
                self._write(job)
        self.jobs = 0

    def _account(self, job: int) -> _Account:
        account = self._accounts.get(job)
        if account is None:
            account = self._accounts[job] = _Account()
        return account

    def _write(self, job: int) -> None:
        account = self._accounts.pop(job)
        assert account.record is not None
        account.record.work = account.work
        self._jobs.records.jobs.write(account.record)
