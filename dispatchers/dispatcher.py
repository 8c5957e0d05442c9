"""The dispatcher agent: takes jobs, has its policy place them, and accounts for each until its last task is done."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import nan
from typing import Any, ClassVar

from dispatchers.admission import Entering
from dispatchers.copying import Copying
from dispatchers.knowledge import Knowledge, NotToldError
from dispatchers.policy import Policy
from dispatchers.recovery import Recovery
from dispatchers.slot_reservation import Holding
from dispatchers.static import Rational
from dispatchers.switching import Switching
from dispatchers.ticket import Ticket
from testbed.core.agent import Agent, Environment
from testbed.core.messages import (
    Assign,
    Cancel,
    Cancelled,
    Commit,
    CopyEnded,
    Done,
    Dropped,
    Fetch,
    Idle,
    JobDone,
    Message,
    Moved,
    PeerDown,
    Probe,
    ProbeReply,
    Reserve,
    SlotsRefused,
    SlotsReserved,
    Started,
)
from testbed.core.outcomes import JobOutcome
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords, JobRecord, JobRecords, TaskRecord, TaskRecords

#: In place of a task's server, once the task is done.
FINISHED = -1
#: Bound here because looking up a member of an enumeration for every job takes time.
COMPLETED, DROPPED = JobOutcome.COMPLETED, JobOutcome.DROPPED


class Dispatcher(Agent):
    """Receives jobs and places their tasks on servers, as its policy says.

    ``rng`` draws the policy's choices. The response time of a job is the time between its *intended* arrival and the
    receipt of its last ``Done``, both on this dispatcher's clock (DESIGN, rules 6 and 7). With ``recovers`` it
    dispatches again what dies with servers; ``tasks_move`` says whether servers move tasks among themselves.

    ``ledger`` takes the jobs' records, ``tasks`` those of finished tasks, ``copies`` those of copies. ``holds``: a job
    of several tasks is placed whole or not at all (dispatchers.slot_reservation). ``knowledge``: what it knows of jobs.
    ``pools`` and ``types``, the names of the types, are there for policies that assign jobs to pools; ``pool_agent`` is
    the address of the agent that has the central queues of some, ``rational`` the best choice for known sizes.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {
        Done: "on_done",
        Dropped: "on_dropped",
        Idle: "on_idle",
        Moved: "on_moved",
    }

    def __init__(
        self,
        env: Environment,
        address: int,
        *,
        index: int,
        servers: int,
        policy: type[Policy],
        parameters: Any,
        ledger: JobRecords,
        tasks: TaskRecords | None = None,
        recovers: bool = False,
        tasks_move: bool = False,
        holds: bool = False,
        copies: CopyRecords | None = None,
        pool_agent: int | None = None,
        pools: Sequence[PlacedPool] = (),
        types: Sequence[str] = ("default",),
        knowledge: Knowledge | None = None,
        rational: Rational | None = None,
    ) -> None:
        super().__init__(env, address)
        self.index = index
        self.servers = servers
        self.pools = pools or (PlacedPool("main", 0, 0, servers, central=False),)
        self.types = types
        self.rational = rational
        self.rng = env.stream(f"dispatcher/{index}/choices")
        self.policy = policy(parameters, self)
        self.handlers[ProbeReply] = self.policy.on_probe_reply
        self.in_system: dict[int, Ticket] = {}
        self.arrived = 0
        self.done_twice = 0  # tasks reported as done whose job had ended: it never happens, and is looked at
        self.probes = 0
        self.idle_reports = 0
        self.cancellations = 0
        self.ledger = ledger
        self._switching: Switching | None = None
        self._ticket: Callable[[float, float, int, Sequence[float]], Ticket] = Ticket
        self._tasks = tasks
        overrides = type(self.policy).on_done is not Policy.on_done
        self._policy_on_done: Callable[[Done], object] | None = self.policy.on_done if overrides else None
        self._place = self.policy.place
        if self.policy.reserves:
            self.handlers[Fetch] = self.policy.on_fetch
        self.holding = Holding(self, self.assign) if holds else None
        if self.holding is not None:
            # Replaced on this object alone, so that jobs that need no holding pay nothing for it; mypy wants methods
            # left alone.
            self.assign = self.holding.assign  # type: ignore[method-assign]
            self.handlers[SlotsReserved] = self.holding.on_slots_reserved
            self.handlers[SlotsRefused] = self.holding.on_slots_refused
        self.recovery = Recovery(self, tasks_move) if recovers else None
        if self.recovery is not None:
            self.handlers[PeerDown] = self.recovery.on_peer_down
        self.knowledge = knowledge
        self.entering: Entering | None = None
        self.copying: Copying | None = None
        if copies is not None and pool_agent is not None:
            self.entering = Entering(self, copies, pool_agent)
            self.handlers[CopyEnded] = self.entering.on_copy_ended
            self.handlers[JobDone] = self.entering.on_job_done
            self.handlers[Done] = self.entering.on_done
        if copies is not None and policy.copies(parameters) > 1:
            first_of_pool = [pool.first for pool in self.pools]
            start_cancels = policy.cancels_on_start(parameters)
            self.copying = Copying(self, copies, first_of_pool, cancels_on_start=start_cancels)
            self.assign = self.copying.assign  # type: ignore[method-assign]  # as for holding
            self.handlers[Started] = self.copying.on_started
            self.handlers[Done] = self.copying.on_done
            self.handlers[Cancelled] = self.copying.on_cancelled
        self._in_copies = self.entering is not None or self.copying is not None
        if self._in_copies or knowledge is not None:
            self._ticket = self._full_ticket

    def _full_ticket(self, arrival: float, lag: float, job_type: int, sizes: Sequence[float]) -> Ticket:
        """Return the ticket of a job with all that may be told of it; one in copies is a single task."""
        ticket = Ticket(arrival, lag, job_type, sizes[:1] if self._in_copies else sizes)
        ticket.every_size = sizes
        if self.knowledge is not None and self.knowledge.signals:
            ticket.signal = self.knowledge.signal(job_type)
        return ticket

    def arrive(self, job: int, job_type: int, sizes: Sequence[float]) -> None:
        """Take a job whose intended arrival time is now."""
        env = self.env
        self.arrived += 1
        self.in_system[job] = ticket = self._ticket(env.now, env.lateness, job_type, sizes)
        tasks = ticket.remaining
        if tasks == 1:
            self._place(job)
        else:
            self.policy.place_tasks(job, tasks)

    def signal(self, job: int) -> int:
        """Return what is told of a job's type: the index of a type, or the one after the last type for nothing.

        Raises NotToldError where the scenario lets no policy know.
        """
        if self.knowledge is None or not self.knowledge.signals:
            raise NotToldError("the type of a job is not told; the scenario must say so with dispatch.knows")
        return self.in_system[job].signal

    def sizes(self, job: int) -> Sequence[float]:
        """Return a job's size in each central pool, or of each copy or task. Raises NotToldError."""
        if self.knowledge is None or not self.knowledge.sizes:
            raise NotToldError('sizes are not told; the scenario must say so with dispatch.knows = "sizes"')
        return self.in_system[job].every_size

    def enter(self, job: int, pool: int, thresholds: Sequence[float] = ()) -> None:
        """Have a job join the central queue of a pool, by its index, with thresholds of its own if there are any."""
        assert self.entering is not None, "there is no central queue"
        self.entering.enter(job, pool, thresholds)

    def assign_tied(self, job: int, servers: Sequence[int]) -> None:
        """Place copies of a job that know of each other: the one that starts cancels the others."""
        assert self.copying is not None, "the policy makes no copies"
        self.copying.assign_tied(job, servers)

    def probe(self, server: int, job: int, question: int = 0) -> None:
        """Ask a server for its queue length on behalf of a job; the reply bears the number ``question``."""
        self.probes += 1
        ticket = self.in_system.get(job)
        if ticket is not None:
            ticket.probes += 1
        self.env.send(Probe(server, self.address, job, question))

    def probe_all(self, servers: Sequence[int], job: int, question: int) -> None:
        """Ask several servers for their queue lengths; see ``probe``."""
        count = len(servers)
        self.probes += count
        ticket = self.in_system.get(job)
        if ticket is not None:
            ticket.probes += count
        send = self.env.send
        address = self.address
        for server in servers:
            send(Probe(server, address, job, question))

    def reserve(self, server: int, job: int, number: int) -> int:
        """Put a reservation for one of the job's tasks into a server's queue; return the server that gets it.

        ``number`` is its own among this dispatcher's. A reservation counts as a probe. That server is another one if
        ``server`` has died.
        """
        if self.recovery is not None:
            server = self.recovery.instead_of(server)
        self.probes += 1
        self.in_system[job].probes += 1
        self.env.send(Reserve(server, self.address, job, number))
        return server

    def cancel(self, server: int, job: int, number: int) -> None:
        """Take back a reservation, or answer its Fetch: no task is left for it."""
        self.cancellations += 1
        self.env.send(Cancel(server, self.address, job, number))

    def assign(self, job: int, server: int) -> None:
        """Place the next task of a job on a server."""
        ticket = self.in_system[job]
        task = len(ticket.at)
        ticket.at.append(server)
        self.env.send(Assign(server, self.address, job, task, ticket.job_type, ticket.sizes[task]))

    def on_moved(self, moved: Moved) -> None:
        """Note that a task has gone to another server, unless a later move of it is known already.

        A task that moves twice quickly is spoken of by two servers, whose words may come in any order, and after the
        end of the task.
        """
        ticket = self.in_system.get(moved.job)
        if ticket is None or moved.moves <= ticket.moves.get(moved.task, 0):
            return
        ticket.moves = {**ticket.moves, moved.task: moved.moves}
        old = ticket.at[moved.task]
        if old not in (moved.server, FINISHED):
            ticket.at[moved.task] = moved.server
            self.policy_of(moved.job).on_moved(old, moved.server)

    def on_found(self, first: int, last: int) -> None:
        """Use servers again that had died and are there again."""
        if self.recovery is not None:
            self.recovery.on_found(first, last)

    def switch(self, policy: Policy, first_job: int) -> None:
        """Have another policy place the jobs from number ``first_job`` on (dispatchers.switching)."""
        if self._switching is None:
            self._switching = Switching(self)
        former, self.policy, self._place = self.policy, policy, policy.place
        self._policy_on_done = self._switching.on_done
        self.handlers[ProbeReply] = self._switching.on_probe_reply
        self._switching.follow(former, first_job)

    @property
    def policies(self) -> list[Policy]:
        """The policy, after former ones that still have jobs."""
        return [*(self._switching.former() if self._switching is not None else ()), self.policy]

    def policy_of(self, job: int) -> Policy:
        """Return the policy that places a job of this dispatcher."""
        return self.policy if self._switching is None else self._switching.policy_of(job) or self.policy

    def on_lost(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` have died; dispatch again what they had, if the scenario says so."""
        if self.recovery is not None:
            # From now on every probe and every assignment is looked at; before the first death none is. Replaced on
            # this object alone, which mypy does not allow of a method.
            self.probe = self.recovery.probe  # type: ignore[method-assign]
            self.probe_all = self.recovery.probe_all  # type: ignore[method-assign]
            if self.copying is None:
                self.assign = self.recovery.assign  # type: ignore[method-assign]
            if self.entering is not None:
                self.entering.on_lost(first, last)
            self.recovery.on_lost(first, last)
            if self.copying is not None:
                self.copying.on_lost(first, last)

    def on_done(self, done: Done) -> None:
        """Note a finished task; with the last one the job is done."""
        ticket = self.in_system.get(done.job)
        if ticket is None:
            self.done_twice += 1
            return
        if len(ticket.sizes) > 1:
            if ticket.at[done.task] == FINISHED:
                self.done_twice += 1
                return
            ticket.at[done.task] = FINISHED
        if self._tasks is not None:
            self._tasks.write(
                TaskRecord(done.job, done.task, done.sender, done.position, done.wait, done.service, self.env.now)
            )
        if self._policy_on_done is not None:
            self._policy_on_done(done)
        if done.service > ticket.inherent:
            ticket.inherent = done.service
        if done.wait > ticket.wait:
            ticket.wait = done.wait
        if done.position > ticket.position:
            ticket.position = done.position
        ticket.work += done.service
        ticket.remaining -= 1
        if not ticket.remaining:
            self._end(done.job, ticket, DROPPED if ticket.dropped else COMPLETED, done)

    def on_dropped(self, dropped: Dropped) -> None:
        """Note a task that met a full buffer; its job counts as dropped."""
        ticket = self.in_system.get(dropped.job)
        if ticket is None:  # of the time before this dispatcher was started again
            return
        self.policy_of(dropped.job).on_done(Done(dropped.to, dropped.sender, dropped.job, dropped.task, 0.0, 0.0))
        ticket.dropped = True
        ticket.remaining -= 1
        if not ticket.remaining:
            self._end(dropped.job, ticket, JobOutcome.DROPPED)

    def commit(self, job: int) -> None:
        """Send the tasks of a job to the servers that hold places for them."""
        ticket = self.in_system[job]
        for task, server in enumerate(ticket.at):
            self.env.send(Commit(server, self.address, job, task, ticket.job_type, ticket.sizes[task]))

    def drop(self, job: int) -> None:
        """Drop a job of which no task has been sent to a server; ``at`` says where its tasks would have gone."""
        ticket = self.in_system[job]
        for task, server in enumerate(ticket.at):
            self.policy.on_done(Done(self.address, server, job, task, 0.0, 0.0))
        self._end(job, ticket, JobOutcome.DROPPED)

    def on_idle(self, idle: Idle) -> None:
        """Pass an idle report on to the policy."""
        self.idle_reports += 1
        self.policy.on_idle(idle.sender)

    def _end(self, job: int, ticket: Ticket, outcome: JobOutcome, last: Done | None = None) -> None:
        """Write the record of a job; ``last`` reports the task that was done last."""
        del self.in_system[job]
        if outcome is COMPLETED and last is not None:
            response = self.env.now - ticket.arrival
            overhead = response - (last.wait + last.service)
            server, last_task, lateness = last.sender, last.task, last.lateness
        else:
            response = overhead = lateness = ticket.inherent = ticket.wait = ticket.work = nan
            ticket.position = 0
            server, last_task = ticket.at[-1] if ticket.at else -1, -1
        self.ledger.write(
            JobRecord(
                job,
                ticket.job_type,
                self.index,
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
        )

    @property
    def closing(self) -> int:
        """Jobs that are done, and of which a copy is still to be heard of."""
        return sum(several.closing.jobs for several in (self.entering, self.copying) if several is not None)

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write a record for every job still here; it is lost if ``is_lost(server)`` says that its server has died."""
        if self.entering is not None:
            self.entering.closing.close()
        if self.copying is not None:
            self.copying.close(is_lost)
        for job, ticket in list(self.in_system.items()):
            self._end(
                job, ticket, JobOutcome.LOST if any(is_lost(server) for server in ticket.at) else JobOutcome.IN_SYSTEM
            )
