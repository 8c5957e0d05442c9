"""The dispatcher agent: takes jobs, has its policy place them, and accounts for each until its last task is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import nan
from typing import Any, ClassVar, Final, Protocol

from dispatchers.policy import Policy
from dispatchers.recovery import Recovery
from testbed.agent import Agent, Environment
from testbed.protocol import Assign, Done, Dropped, Idle, Message, Moved, Noticed, Probe, ProbeReply

#: Most jobs never move: their tickets share this.
NOTHING: Final[Mapping[int, int]] = {}


class Ledger(Protocol):
    """Where a dispatcher writes the record of a job that has ended (testbed.measure.records.JobRecords)."""

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
        /,
    ) -> None:
        """Append one record."""


class Ticket:
    """What the dispatcher knows of a job in the system."""

    __slots__ = (
        "again",
        "arrival",
        "at",
        "dropped",
        "inherent",
        "kind",
        "lag",
        "moves",
        "probes",
        "remaining",
        "sizes",
        "wait",
    )

    def __init__(self, arrival: float, lag: float, kind: int, sizes: Sequence[float]) -> None:
        self.arrival = arrival
        self.lag = lag
        self.kind = kind
        self.sizes = sizes
        self.at: list[int] = []  # by task that was placed: the server that has it
        self.moves: Mapping[int, int] = NOTHING  # by task that has moved: how often
        self.again: Sequence[int] = ()  # tasks to be placed once more
        self.remaining = len(sizes)  # tasks not yet done
        self.probes = 0
        self.inherent = 0.0
        self.wait = 0.0
        self.dropped = False


class Dispatcher(Agent):
    """Receives jobs and places their tasks on servers, as its policy says.

    ``rng`` draws the policy's choices. The response time of a job is the time between its *intended* arrival and the
    receipt of its last ``Done``, both on this dispatcher's clock (DESIGN, rules 6 and 7). With ``recovers`` it
    dispatches again what dies with servers; ``tasks_move`` says whether servers move tasks among themselves.
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
        ledger: Ledger,
        recovers: bool = False,
        tasks_move: bool = False,
    ) -> None:
        super().__init__(env, address)
        self.index = index
        self.servers = servers
        self.rng = env.stream(f"dispatcher/{index}/choices")
        self.policy = policy(parameters, self)
        self.handlers[ProbeReply] = self.policy.on_probe_reply
        self.in_system: dict[int, Ticket] = {}
        self.arrived = 0
        self.done_twice = 0  # tasks reported as done whose job had ended: it never happens, and is looked at
        self.probes = 0
        self._ledger = ledger
        overrides = type(self.policy).on_done is not Policy.on_done
        self._policy_on_done = self.policy.on_done if overrides else None
        self._place = self.policy.place
        self.recovery = Recovery(self, tasks_move) if recovers else None
        if self.recovery is not None:
            self.handlers[Noticed] = self.recovery.on_noticed

    def arrive(self, job: int, kind: int, sizes: Sequence[float]) -> None:
        """Take a job whose intended arrival time is now."""
        env = self.env
        self.arrived += 1
        self.in_system[job] = Ticket(env.now, env.lateness, kind, sizes)
        self._place(job)

    def probe(self, server: int, job: int) -> None:
        """Ask a server for its queue length on behalf of a job."""
        self.probes += 1
        ticket = self.in_system.get(job)
        if ticket is not None:
            ticket.probes += 1
        self.env.send(Probe(server, self.address, job))

    def probe_all(self, servers: Sequence[int], job: int) -> None:
        """Ask several servers for their queue lengths; see ``probe``."""
        count = len(servers)
        self.probes += count
        ticket = self.in_system.get(job)
        if ticket is not None:
            ticket.probes += count
        send = self.env.send
        address = self.address
        for server in servers:
            send(Probe(server, address, job))

    def assign(self, job: int, server: int) -> None:
        """Place the next task of a job on a server."""
        ticket = self.in_system[job]
        task = len(ticket.at)
        ticket.at.append(server)
        self.env.send(Assign(server, self.address, job, task, ticket.kind, ticket.sizes[task]))

    def on_moved(self, moved: Moved) -> None:
        """Note that a task has gone to another server, unless a later move of it is known already.

        A task that moves twice quickly is spoken of by two servers, whose words may come in any order, and after the
        end of its job.
        """
        ticket = self.in_system.get(moved.job)
        if ticket is None or moved.moves <= ticket.moves.get(moved.task, 0):
            return
        ticket.moves = {**ticket.moves, moved.task: moved.moves}
        old = ticket.at[moved.task]
        if old != moved.server:
            ticket.at[moved.task] = moved.server
            self.policy.on_moved(old, moved.server)

    def on_lost(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` have died; dispatch again what they had, if the scenario says so."""
        if self.recovery is not None:
            # From now on every probe and every assignment is looked at; before the first death none is.
            self.probe = self._probe_if_alive  # type: ignore[method-assign]
            self.probe_all = self._probe_all_alive  # type: ignore[method-assign]
            self.assign = self._assign_alive  # type: ignore[method-assign]
            self.recovery.on_lost(first, last)

    def _probe_if_alive(self, server: int, job: int) -> None:
        assert self.recovery is not None
        if not self.recovery.probe(server, job):
            Dispatcher.probe(self, server, job)

    def _probe_all_alive(self, servers: Sequence[int], job: int) -> None:
        for server in servers:
            self._probe_if_alive(server, job)

    def _assign_alive(self, job: int, server: int) -> None:
        assert self.recovery is not None
        chosen = self.recovery.instead_of(server)
        ticket = self.in_system[job]
        if ticket.again:
            *ticket.again, task = ticket.again
            ticket.at[task] = chosen
            moves = ticket.moves.get(task, 0)
            self.env.send(Assign(chosen, self.address, job, task, ticket.kind, ticket.sizes[task], moves))
        else:
            Dispatcher.assign(self, job, chosen)
        if chosen != server:
            self.policy.on_moved(server, chosen)

    def place_again(self, job: int, task: int) -> None:
        """Have the policy place a task once more; jobs have one task, so that placing the job is placing the task."""
        ticket = self.in_system[job]
        ticket.again = [*ticket.again, task]
        self._place(job)

    def on_done(self, done: Done) -> None:
        """Note a finished task; with the last one the job is done."""
        ticket = self.in_system.get(done.job)
        if ticket is None:
            self.done_twice += 1
            return
        if self._policy_on_done is not None:
            self._policy_on_done(done)
        if done.service > ticket.inherent:
            ticket.inherent = done.service
        if done.wait > ticket.wait:
            ticket.wait = done.wait
        ticket.remaining -= 1
        if not ticket.remaining:
            self._end(done.job, ticket, 1 if ticket.dropped else 0, done.wait + done.service)

    def on_dropped(self, dropped: Dropped) -> None:
        """Note a task that met a full buffer; its job counts as dropped."""
        ticket = self.in_system[dropped.job]
        self.policy.on_done(Done(dropped.to, dropped.sender, dropped.job, dropped.task, 0.0, 0.0))
        ticket.dropped = True
        ticket.remaining -= 1
        if not ticket.remaining:
            self._end(dropped.job, ticket, 1)

    def on_idle(self, idle: Idle) -> None:
        """Pass an idle report on to the policy."""
        self.policy.on_idle(idle.sender)

    def _end(self, job: int, ticket: Ticket, outcome: int, last_at_server: float = 0.0) -> None:
        """Write the record of a job; ``last_at_server`` is the time that its last task spent at its server."""
        del self.in_system[job]
        completed = outcome == 0
        response = self.env.now - ticket.arrival
        self._ledger.write(
            job,
            ticket.kind,
            self.index,
            outcome,
            ticket.arrival,
            ticket.lag,
            response if completed else nan,
            ticket.inherent if completed else nan,
            ticket.wait if completed else nan,
            response - last_at_server if completed else nan,
            ticket.probes,
            ticket.at[-1] if ticket.at else -1,
        )

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write a record for every job still here; it is lost if ``is_lost(server)`` says that its server has died."""
        for job, ticket in list(self.in_system.items()):
            self._end(job, ticket, 2 if any(is_lost(server) for server in ticket.at) else 3)
