"""Agents, and what surrounds them, that note what a policy has them do, break when it breaks a rule, and may die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from typing_extensions import override

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.policy import Policy
from dispatchers.recovery import Recovery
from dispatchers.view import DispatcherView
from servers.copy_server import CopyServer
from servers.late_binding_server import LateBindingServer
from servers.server import Server
from servers.service_clock import ServiceClock
from servers.slot_reserving_server import SlotReservingServer
from servers.task_server import TaskServer
from testbed.core.agent import Agent, Timer
from testbed.core.messages import (
    Assign,
    AssignCopy,
    CancelCopy,
    Commit,
    Message,
    Probe,
    ProbeReply,
    Reserve,
    ReserveSlots,
)
from testbed.core.records import CopyRecords, JobRecords
from testbed.core.streams import Stream
from testbed.runtime.build import build_placement
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario.modes import MODES, Mode, ServerKind, mode_of_policy


@dataclass
class Trial:
    """One run of a policy in a system: what is noted while it runs."""

    policy: type[Policy]
    parameters: Any
    servers: int
    tasks: list[int]  # by job
    repeats: bool  # whether a death may have tasks dispatched again
    buffer: int | None = None  # of each server
    queue_length: Callable[[int, int], int] | None = None  # what a server (the second) replies to a job's probe
    decisions: list[tuple[float, Message]] = field(default_factory=list)  # probes and placements, and when
    probes: Counter[int] = field(default_factory=Counter)  # by job
    taken: Counter[tuple[int, int]] = field(default_factory=Counter)  # tasks that came to a server: job and task
    served: Counter[int] = field(default_factory=Counter)  # tasks whose service began, by job
    copies: Counter[int] = field(default_factory=Counter)  # copies that were placed, by job

    @property
    def mode(self) -> Mode:
        """How the policy places jobs."""
        several_tasks = max(self.tasks, default=1) > 1
        return mode_of_policy(
            self.policy, self.parameters, central=False, reserves_slots=self.buffer is not None and several_tasks
        )

    @property
    def most_copies(self) -> int:
        """The copies of a job that the policy claims to place at most."""
        return self.policy.copies(self.parameters)

    def broken(self, what: str) -> AssertionError:
        """Return the error that says what the policy does."""
        return AssertionError(f"{self.policy.name} {what}")

    def note(self, now: float, message: Message) -> None:
        """Check and note a message that a dispatcher sends."""
        what = f"sends a {type(message).__name__} to {message.to!r}"
        if type(message.to) is not int:
            raise self.broken(f"{what}, which is a {type(message.to).__name__}; a server is an int")
        if not 0 <= message.to < self.servers:
            raise self.broken(f"{what}, but the servers are 0..{self.servers - 1}")
        if isinstance(message, Probe | Reserve):
            self.probes[message.job] += 1
            tasks = self.tasks[message.job]
            claim = (
                self.policy.probes_per_job(self.parameters, self.servers)
                if tasks == 1
                else self.policy.probes_for_tasks(self.parameters, self.servers, tasks)
            )
            if self.probes[message.job] > claim and not self.repeats:
                raise self.broken(
                    f"sends more probes for job {message.job} than the {claim} that "
                    f"{'probes_per_job' if tasks == 1 else 'probes_for_tasks'} claims with {self.servers} server(s)"
                )
        if isinstance(message, AssignCopy):
            self.copies[message.job] += 1
            if self.copies[message.job] > self.most_copies and not self.repeats:
                raise self.broken(f"places more copies of job {message.job} than the {self.most_copies} that it claims")
        if isinstance(message, Probe | Assign | AssignCopy | ReserveSlots | Reserve):
            self.decisions.append((now, message))


class WatchedEnvironment:
    """What a dispatcher may use of the runtime, and nothing else, so that a policy cannot look at other agents."""

    def __init__(self, runtime: VirtualRuntime, trial: Trial) -> None:
        self.__runtime = runtime
        self.__trial = trial
        self.lateness = 0.0

    @property
    def now(self) -> float:
        """The present time."""
        return self.__runtime.now

    def send(self, message: Message) -> None:
        """Note a message, and send it."""
        self.__trial.note(self.now, message)
        self.__runtime.send(message)

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        """Have ``callback`` called at a time."""
        return self.__runtime.call_at(when, callback)

    def stream(self, name: str) -> Stream:
        """Return the random stream of a name."""
        return self.__runtime.stream(name)


def watched_dispatcher(env: Any, address: int, index: int, trial: Trial, records: JobRecords) -> Dispatcher:
    """Return a dispatcher whose policy acts through a view that checks what it is asked to do."""
    surroundings = Surroundings(index=index, servers=trial.servers)
    jobs = Jobs(env, address, surroundings, DispatcherRecords(records, copies=CopyRecords(0)))
    live = LiveServers(jobs) if trial.repeats else None
    cancels_on_start = trial.policy.cancels_on_start(trial.parameters)
    placement = build_placement(MODES[trial.mode].placement, jobs, live, cancels_on_start=cancels_on_start)

    def make_policy(view: DispatcherView) -> Policy:
        return trial.policy(trial.parameters, _checking(view, trial, jobs))

    return Dispatcher(placement, make_policy, Recovery(placement) if trial.repeats else None)


def _checking(view: DispatcherView, trial: Trial, jobs: Jobs) -> DispatcherView:
    """Return a view that places only jobs in the system, and none more often than it has tasks."""

    def check_in_system(job: int) -> None:
        if job not in jobs.in_system:
            raise trial.broken(f"places job {job}, which has ended or is not its dispatcher's")

    def assign(job: int, server: int) -> None:
        check_in_system(job)
        ticket = jobs.in_system[job]
        if trial.most_copies == 1 and len(ticket.at) == trial.tasks[job] and not ticket.again:
            raise trial.broken(f"places job {job} a second time")
        view.assign(job, server)

    def assign_tied(job: int, servers: Sequence[int]) -> None:
        check_in_system(job)
        view.assign_tied(job, servers)

    return replace(view, assign=assign, assign_tied=assign_tied)


class _WatchedClock(ServiceClock[Any]):
    """Counts the services that begin; those of a dead server have no end."""

    def __init__(self, server: Watched, speeds: Sequence[float]) -> None:
        super().__init__(server.env, speeds, self._end)
        self._server = server

    @override
    def start(self, task: Any, wait: float, position: int, now: float) -> Timer:
        self._server.trial.served[task.job] += 1
        return super().start(task, wait, position, now)

    def _end(self) -> None:
        if not self._server.dead:
            self._server.on_finish()


class Watched(TaskServer[Any]):
    """A server that counts the tasks that come to it, may never reply to a probe, and may die."""

    trial: Trial
    silent = False
    dead = False

    def __init__(self, *arguments: Any, speeds: Sequence[float], **settings: Any) -> None:
        super().__init__(*arguments, speeds=speeds, **settings)
        self._clock = _WatchedClock(self, speeds)

    @override
    def on_probe(self, probe: Probe) -> None:
        """Reply, unless the server is silent; with a queue length of the trial's own, if it has one."""
        if self.trial.queue_length is not None:
            length = self.trial.queue_length(probe.job, self.address)
            self.env.send(ProbeReply(probe.sender, self.address, probe.job, length, probe.round))
        elif not self.silent:
            super().on_probe(probe)


class WatchedServer(Watched, Server):
    """A watched server with a queue of tasks."""

    @override
    def on_assign(self, task: Assign) -> None:
        """Count a task that comes."""
        self.trial.taken[task.job, task.task] += 1
        super().on_assign(task)
        self.check_buffer()

    def check_buffer(self) -> None:
        """Check that the buffer does not hold more tasks than it can."""
        if self.queue_length > self._buffer:
            raise self.trial.broken("has more tasks come to a server than its buffer holds")


class WatchedSlotReservingServer(WatchedServer, SlotReservingServer):
    """A watched server with slots that can be reserved."""

    @override
    def on_commit(self, task: Commit) -> None:
        """Count a task that comes."""
        self.trial.taken[task.job, task.task] += 1
        super().on_commit(task)
        self.check_buffer()

    @override
    def check_buffer(self) -> None:
        """Check this of reserved slots, too."""
        super().check_buffer()
        if not 0 <= self.reserved <= self._buffer - self.queue_length:
            raise self.trial.broken(f"has a server reserve {self.reserved} slots of a buffer of {self._buffer}")


class WatchedLateBindingServer(Watched, LateBindingServer):
    """A watched server into whose queue reservations may be put."""

    @override
    def on_assign(self, task: Assign) -> None:
        """Count a task that comes."""
        self.trial.taken[task.job, task.task] += 1
        super().on_assign(task)


class WatchedCopyServer(Watched, CopyServer):
    """A watched server of copies."""

    @override
    def on_assign_copy(self, task: AssignCopy) -> None:
        """Count a copy that comes."""
        self.trial.taken[task.job, task.copy] += 1
        super().on_assign_copy(task)

    @override
    def on_cancel_copy(self, cancel: CancelCopy) -> None:
        """Cancel a copy, and check that it has gone if its dispatcher says so."""
        super().on_cancel_copy(cancel)
        if cancel.sender == cancel.dispatcher and self.has(cancel.dispatcher, cancel.number):
            raise self.trial.broken(f"has a server keep a copy of job {cancel.job} after its cancellation")


WATCHED: Final[dict[ServerKind, type[Watched]]] = {
    ServerKind.PLAIN: WatchedServer,
    ServerKind.LATE_BINDING: WatchedLateBindingServer,
    ServerKind.SLOT_RESERVING: WatchedSlotReservingServer,
    ServerKind.COPIES: WatchedCopyServer,
}


class Grave(Agent):
    """In place of a server that has died: whatever comes is lost."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.handlers = _Swallows()


class _Swallows(dict[type[Message], Callable[[Any], object]]):
    def __missing__(self, kind: type[Message]) -> Callable[[Any], object]:
        return lambda message: None
