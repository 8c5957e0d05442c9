"""The jobs of one dispatcher: those in the system, and the records of those that have ended.

The parts of a dispatcher (its placement, its probes, its recovery from failures) share this object, and know nothing of
the dispatcher itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import nan

from dispatchers.knowledge import Knowledge, NotKnownError
from dispatchers.switching import Policies
from dispatchers.ticket import Ticket
from dispatchers.view import Rational
from testbed.core.agent import Environment
from testbed.core.messages import Done
from testbed.core.outcomes import JobOutcome
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords, JobRecords, TaskRecords
from testbed.core.rows import JobRecord
from testbed.core.streams import Stream

#: Bound here because looking up a member of an enumeration for every job takes time.
COMPLETED = JobOutcome.COMPLETED


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Which dispatcher this is (``index``), and what it knows of the cluster.

    By default there is one pool. ``rational``: the best choice for known sizes, where there is one.
    """

    index: int
    servers: int
    pools: Sequence[PlacedPool] = ()
    types: Sequence[str] = ("default",)
    rational: Rational | None = None


@dataclass(frozen=True, slots=True)
class DispatcherRecords:
    """Where a dispatcher writes the records of jobs, of their tasks and of their copies; None for no records."""

    jobs: JobRecords
    tasks: TaskRecords | None = None
    copies: CopyRecords | None = None


class Jobs:
    """The jobs of the dispatcher at ``address``; ``knowledge`` is what the scenario lets its policy know of them."""

    def __init__(
        self,
        env: Environment,
        address: int,
        surroundings: Surroundings,
        records: DispatcherRecords,
        knowledge: Knowledge | None = None,
    ) -> None:
        self.env = env
        self.address = address
        self.surroundings = surroundings
        self.pools = surroundings.pools or (PlacedPool("main", 0, 0, surroundings.servers, central=False),)
        self.records = records
        self.knowledge = knowledge
        self.in_system: dict[int, Ticket] = {}
        self.policies = Policies(self.in_system)
        self.done_twice = 0  # ends of tasks whose job had ended; an invariant, checked after each run: zero
        self.dispatched_again = 0  # tasks, or jobs in copies, that died with a server
        self._index = surroundings.index

    def stream(self, use: str) -> Stream:
        """Return this dispatcher's random stream for a use."""
        return self.env.stream(f"dispatcher/{self._index}/{use}")

    # --- what a policy may know of a job ---

    def signal(self, job: int) -> int:
        """Return the signal of a job's type (dispatchers.view). Raises NotKnownError."""
        if self.knowledge is None or not self.knowledge.signals:
            raise NotKnownError("the type of a job is not known; the scenario must say so with dispatch.knows")
        return self.in_system[job].signal

    def sizes(self, job: int) -> Sequence[float]:
        """Return the sizes of a job (dispatchers.view). Raises NotKnownError."""
        if self.knowledge is None or not self.knowledge.sizes:
            raise NotKnownError('sizes are not known; the scenario must say so with dispatch.knows = "sizes"')
        return self.in_system[job].every_size

    # --- ends of jobs ---

    def record(self, job: int, ticket: Ticket, outcome: JobOutcome, last: Done | None = None) -> JobRecord:
        """Return the record of a job; ``last`` reports the task of a completed one that was done last, which is now."""
        if last is not None:
            response = self.env.now - ticket.arrival
            overhead = response - (last.wait + last.service)
            server, last_task, lateness = last.sender, last.task, last.lateness
        else:
            response = overhead = lateness = ticket.inherent = ticket.wait = ticket.work = nan
            ticket.position = 0
            server, last_task = ticket.at[-1] if ticket.at else -1, -1
        # Positional, in the order of JobRecord's fields: keywords would cost half a microsecond for every job.
        return JobRecord(
            job,
            ticket.job_type,
            self._index,
            outcome,
            ticket.arrival,
            ticket.lag,
            response,
            ticket.inherent,
            ticket.wait,
            overhead,
            ticket.probes,
            server,
            len(ticket.sizes),
            ticket.work,
            ticket.position,
            last_task,
            lateness,
        )

    def end(self, job: int, outcome: JobOutcome) -> None:
        """Write the record of a job that is not completed."""
        self.records.jobs.write(self.record(job, self.in_system.pop(job), outcome))

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write a record for every job still here; it is lost if ``is_lost(server)`` says that its server has died."""
        for job, ticket in list(self.in_system.items()):
            lost = any(is_lost(server) for server in ticket.at)
            self.end(job, JobOutcome.LOST if lost else JobOutcome.IN_SYSTEM)
