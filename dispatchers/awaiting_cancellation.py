"""Jobs of several copies, from their end until all their copies have been heard of.

A job is done when its first copy finishes, which is when its response time is taken. What its other copies have
received is known later, when word has come of each. Until then the job is *closing*: in the system no more, and not
recorded yet, since its record has the work of all its copies.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.records import CopyRecord, JobRecord

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher
    from dispatchers.ticket import Ticket
    from testbed.core.records import CopyRecords


class Account:
    """Of a job: its copies that have ended, what they have received, and once it is done its record."""

    __slots__ = ("copies", "ended", "record", "work")

    def __init__(self) -> None:
        self.copies = 0  # in all; known once the job is done
        self.ended = 0
        self.work = 0.0
        self.record: JobRecord | None = None


class Closing:
    """Writes the records of copies, and those of their jobs. Times are in time units."""

    def __init__(self, dispatcher: Dispatcher, records: CopyRecords) -> None:
        self._dispatcher = dispatcher
        self._records = records
        self._accounts: dict[int, Account] = {}
        self.jobs = 0  # that are done, and of which a copy is still to be heard of

    def copy_ended(
        self,
        job: int,
        copy: int,
        pool: int,
        server: int,
        wait: float,
        received: float,
        preemptions: int,
        outcome: CopyOutcome,
        state_at_cancellation: StateAtCancellation,
        delay: float,
    ) -> None:
        """Write the record of a copy (testbed.core.records.CopyRecord), whose end is known from now on."""
        end = self._dispatcher.env.now
        self._records.write(
            CopyRecord(job, copy, pool, server, wait, received, preemptions, outcome, state_at_cancellation, delay, end)
        )
        account = self._account(job)
        account.ended += 1
        if not isnan(received):
            account.work += received
        if account.record is not None and account.ended >= account.copies:
            self.jobs -= 1
            self._write(job)

    def job_done(
        self,
        job: int,
        ticket: Ticket,
        *,
        server: int,
        wait: float,
        service: float,
        position: int,
        lateness: float,
        copies: int,
    ) -> None:
        """Note that a job is done now, by the copy at ``server``, which waited and was served for so long.

        Its server noticed the end so late. ``copies`` were made of it in all. The job must have left the system.
        """
        dispatcher = self._dispatcher
        response = dispatcher.env.now - ticket.arrival
        account = self._account(job)
        account.copies = copies
        account.record = JobRecord(
            job,
            ticket.job_type,
            dispatcher.index,
            JobOutcome.COMPLETED,
            ticket.arrival,
            ticket.lag,
            response,
            service,
            wait,
            response - (wait + service),
            ticket.probes,
            server,
            1,
            0.0,
            position,
            0,
            lateness,
        )
        if account.ended >= copies:
            self._write(job)
        else:
            self.jobs += 1

    def close(self) -> None:
        """Write the records of the jobs that are done, whatever is still to be heard of their copies."""
        for job, account in list(self._accounts.items()):
            if account.record is not None:
                self._write(job)
        self.jobs = 0

    def _account(self, job: int) -> Account:
        account = self._accounts.get(job)
        if account is None:
            account = self._accounts[job] = Account()
        return account

    def _write(self, job: int) -> None:
        account = self._accounts.pop(job)
        assert account.record is not None
        account.record.work = account.work
        self._dispatcher.ledger.write(account.record)
