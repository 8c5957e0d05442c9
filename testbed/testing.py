"""The conformance suite of dispatching policies.

    from testbed.testing import check_policy

    def test_my_policy_keeps_the_rules():
        check_policy(MyPolicy)

``check_policy`` runs a policy in many small random systems on the virtual runtime and checks the rules that every
policy must keep, whatever it decides:

* it places every task of every job, each once, on a server that exists;
* it sends at most the probes that ``probes_for_tasks`` claims;
* for the same seed it makes the same decisions;
* it reads neither the type nor the sizes of a job, and no other agent;
* of a job that is dropped no task is served;
* it does so with one server, with jobs of several tasks, with several dispatchers, with full buffers, when messages
  are slow, when a server dies, and, if it has a ``timeout`` parameter, when every reply is late and when none comes.

Needs hypothesis (the extra ``test`` of this distribution).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import numpy as np

from dispatchers.dispatcher import Dispatcher, Ticket
from dispatchers.policy import Policy
from dispatchers.registry import policies
from servers.holding_server import HoldingServer
from servers.reserving_server import ReservingServer
from servers.server import Server
from testbed.agent import Agent, Timer
from testbed.measure.records import COMPLETED, DROPPED, JobRecords, Occupancy
from testbed.protocol import Assign, Commit, Hold, Message, Probe, Reserve
from testbed.runtime.delay import Delay
from testbed.runtime.virtual import VirtualRuntime
from testbed.streams import Stream, generator

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SPEEDS = (1.0, 0.5)  # by job type
MOST_SERVERS = 8
MOST_TASKS = 5
PATIENCE = 1000.0  # time units after the last service could have ended; a job still not placed then counts as lost


class Job(NamedTuple):
    """A job of a test system: time since the previous one, dispatcher (modulo their number), type and tasks' sizes.

    A policy that takes fewer tasks with so many servers gets the first of them.
    """

    gap: float
    dispatcher: int
    kind: int
    sizes: tuple[float, ...]


@dataclass(frozen=True)
class System:
    """A small system to try a policy in. Message delays are uniform between the two numbers of ``delay``.

    ``dies``: when a server dies, and which (modulo their number), if there are at least two. What the others had sent
    to it is lost; they hear of its death when all that it had sent has come.
    """

    servers: int
    jobs: Sequence[Job]
    dispatchers: int = 1
    seed: int = 0
    buffer: int | None = None
    delay: tuple[float, float] | None = None
    timeout: float | None = None  # given to a policy that has this parameter; else nothing below applies
    silent: frozenset[int] = frozenset()  # servers that never reply to a probe
    dies: tuple[float, int] | None = None


def check_policy(
    policy: type[Policy] | str, parameters: Mapping[str, Any] | msgspec.Struct | None = None, *, examples: int = 100
) -> None:
    """Check that a policy keeps the rules of this module.

    ``policy`` is a class, or the name of a registered one; ``parameters`` are its parameters, by default their
    defaults. It is tried in ``examples`` random systems, always the same ones, and in some fixed ones. Raises
    AssertionError with a sentence that says which rule was broken and the smallest system in which it was found,
    ValueError for parameters that the policy's ``check`` refuses for any of 1 to 8 servers, and ImportError where
    hypothesis is missing.
    """
    try:
        from hypothesis import HealthCheck, Phase, example, given, settings
        from hypothesis.errors import Flaky
    except ImportError as error:
        raise ImportError(
            "check_policy needs hypothesis: python -m pip install 'loadbalance-testbed[test]'", name="hypothesis"
        ) from error
    checked = policies()[policy] if isinstance(policy, str) else policy
    if not (getattr(checked, "name", "") and getattr(checked, "source", "")):
        raise AssertionError(f"{checked.__name__} must have a name and a source")
    given_parameters = (
        parameters if isinstance(parameters, msgspec.Struct) else msgspec.convert(parameters or {}, checked.Parameters)
    )

    def keeps_the_rules(system: System) -> None:
        _check(checked, given_parameters, system)

    sizes = _fitting(checked, given_parameters)
    test: Callable[..., None] = given(system=_systems(sizes))(keeps_the_rules)
    for corner in reversed(list(_corners())):  # hypothesis tries the example first that was added last
        nearest = min(sizes, key=lambda servers: abs(servers - corner.servers))
        test = example(system=replace(corner, servers=nearest))(test)
    test = settings(
        max_examples=examples,
        derandomize=True,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow,),
    )(test)
    try:
        test()
    except Flaky as error:
        raise AssertionError(
            f"{checked.name} breaks a rule in one run and not in the next of the same system"
        ) from error


def _fitting(policy: type[Policy], parameters: Any) -> list[int]:
    """Return the numbers of servers that the policy accepts with these parameters."""
    sizes = []
    refusal = None
    for servers in range(1, MOST_SERVERS + 1):
        try:
            policy.check(parameters, servers)
        except ValueError as error:
            refusal = error
        else:
            sizes.append(servers)
    if not sizes:
        raise ValueError(f"{policy.name} refuses these parameters with 1 to {MOST_SERVERS} servers: {refusal}")
    return sizes


def _most_tasks(policy: type[Policy], parameters: Any, servers: int) -> int:
    """Return the largest number of tasks, up to MOST_TASKS, that the policy takes with so many servers."""
    for tasks in range(MOST_TASKS, 1, -1):
        try:
            policy.check_tasks(parameters, servers, tasks)
        except ValueError:
            continue
        return tasks
    return 1


def _corners() -> Iterable[System]:
    jobs = [Job(0.3, i, i % 2, (0.1 + i % 3,)) for i in range(20)]
    together = [job._replace(gap=0.0) for job in jobs]
    batches = [Job(0.8, i, i % 2, (0.1 + i % 3, 1.0, 0.5, 0.2, 2.0)[: i % 5 + 1]) for i in range(20)]
    yield System(servers=1, jobs=jobs)
    yield System(servers=1, jobs=jobs, dispatchers=3, delay=(0.0, 1.0), buffer=2)
    yield System(servers=8, jobs=jobs, dispatchers=2)
    yield System(servers=4, jobs=together, dispatchers=3, buffer=1)
    yield System(servers=5, jobs=jobs, delay=(2.0, 2.0), timeout=0.5)  # every reply is late
    yield System(servers=5, jobs=together, dispatchers=2, timeout=0.5, silent=frozenset(range(5)))  # no reply comes
    yield System(servers=1, jobs=batches, delay=(0.0, 0.3))
    yield System(servers=6, jobs=batches, dispatchers=2, delay=(0.1, 0.1))
    yield System(servers=5, jobs=batches, dispatchers=3, buffer=2, delay=(0.0, 0.5))  # races for the last places
    lopsided = [Job(0.5, i, 0, (0.2, 0.3, 3.0, 0.4)) for i in range(20)]  # some tasks are long done when a server dies
    yield System(servers=5, jobs=lopsided, dispatchers=2, delay=(0.2, 0.2), dies=(3.0, 1))
    yield System(servers=5, jobs=batches, delay=(2.0, 2.0), timeout=0.5, dies=(2.0, 0))
    for when in (1.0, 4.3, 7.7):
        yield System(servers=5, jobs=batches, dispatchers=3, buffer=3, delay=(2.0, 2.0), dies=(when, 2))


def _systems(sizes: list[int]) -> SearchStrategy[System]:
    from hypothesis import strategies as st

    size = st.floats(0.01, 4)
    one_or_more = st.tuples(size) | st.lists(size, min_size=1, max_size=MOST_TASKS).map(tuple)
    jobs = st.builds(Job, st.floats(0, 2), st.integers(0, 2), st.integers(0, 1), one_or_more)
    delays = st.tuples(st.floats(0, 2), st.floats(0, 2)).map(lambda bounds: (min(bounds), max(bounds)))
    return st.builds(
        System,
        servers=st.sampled_from(sizes),
        jobs=st.lists(jobs, max_size=30),
        dispatchers=st.integers(1, 3),
        seed=st.integers(0, 2**32 - 1),
        buffer=st.none() | st.integers(1, 4),
        delay=st.none() | delays,
        timeout=st.none() | st.floats(0.01, 5),
        silent=st.frozensets(st.integers(0, MOST_SERVERS - 1)),
        dies=st.none() | st.tuples(st.floats(0, 20), st.integers(0, MOST_SERVERS - 1)),
    )


@dataclass
class _Trial:
    """One run of a policy in a system: what is noted while it runs."""

    policy: type[Policy]
    parameters: Any
    servers: int
    tasks: list[int]  # by job
    repeats: bool  # whether a death may have tasks dispatched again
    decisions: list[tuple[float, Message]] = field(default_factory=list)  # probes and placements, and when
    probes: Counter[int] = field(default_factory=Counter)  # by job
    taken: Counter[tuple[int, int]] = field(default_factory=Counter)  # tasks that came to a server: job and task
    served: Counter[int] = field(default_factory=Counter)  # tasks whose service began, by job

    def broken(self, what: str) -> AssertionError:
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
        if isinstance(message, Probe | Assign | Hold | Reserve):
            self.decisions.append((now, message))


class _Environment:
    """What a dispatcher may use of the runtime, and nothing else, so that a policy cannot look at other agents."""

    def __init__(self, runtime: VirtualRuntime, trial: _Trial) -> None:
        self.__runtime = runtime
        self.__trial = trial
        self.lateness = 0.0

    @property
    def now(self) -> float:
        return self.__runtime.now

    def send(self, message: Message) -> None:
        self.__trial.note(self.now, message)
        self.__runtime.send(message)

    def call_at(self, when: float, callback: Callable[[], object]) -> Timer:
        return self.__runtime.call_at(when, callback)

    def stream(self, name: str) -> Stream:
        return self.__runtime.stream(name)


#: What may read all of a ticket.
_PRIVY = ("dispatchers.dispatcher", "dispatchers.holding", "dispatchers.recovery", __name__)


class _SealedTicket(Ticket):
    """A ticket whose type and sizes can be read by the dispatcher only."""

    def __init__(self, trial: _Trial, ticket: Ticket) -> None:
        super().__init__(ticket.arrival, ticket.lag, ticket.kind, ticket.sizes)
        self.trial = trial

    def __getattribute__(self, name: str) -> Any:
        if name in ("kind", "sizes") and sys._getframe(1).f_globals["__name__"] not in _PRIVY:
            raise self.trial.broken(f"reads the {name} of a job, which a policy may not know")
        return super().__getattribute__(name)


class _SealedTickets(dict[int, Any]):
    """A dispatcher's table of jobs, which seals each ticket that it is given."""

    def __init__(self, trial: _Trial) -> None:
        super().__init__()
        self.__trial = trial

    def __setitem__(self, job: int, ticket: Ticket) -> None:
        super().__setitem__(job, _SealedTicket(self.__trial, ticket))


class _Dispatcher(Dispatcher):
    """A dispatcher that checks what its policy asks of it."""

    def __init__(self, env: Any, address: int, *, index: int, trial: _Trial, ledger: JobRecords, holds: bool) -> None:
        self._trial = trial
        super().__init__(
            env,
            address,
            index=index,
            servers=trial.servers,
            policy=trial.policy,
            parameters=trial.parameters,
            ledger=ledger,
            recovers=trial.repeats,
            holds=holds,
        )
        self.in_system: _SealedTickets = _SealedTickets(trial)
        self._watch_assign()

    def _watch_assign(self) -> None:
        """Check what is asked of ``assign``, which the dispatcher itself exchanges as things happen."""
        assign = self.assign

        def checked(job: int, server: int) -> None:
            ticket = self.in_system.get(job)
            if ticket is None:
                raise self._trial.broken(f"places job {job}, which has ended or is not its dispatcher's")
            if len(ticket.at) == self._trial.tasks[job] and not ticket.again:
                raise self._trial.broken(f"places job {job} a second time")
            assign(job, server)

        # Over whatever the dispatcher has put there itself; mypy wants methods left alone.
        self.assign = checked  # type: ignore[method-assign]

    def on_lost(self, first: int, last: int) -> None:
        super().on_lost(first, last)
        self._watch_assign()


class _Watched(Server):
    """A server that counts the tasks that come to it, may never reply to a probe, and may die."""

    trial: _Trial
    silent = False
    dead = False

    def on_assign(self, task: Assign) -> None:
        self.trial.taken[task.job, task.task] += 1
        super().on_assign(task)
        self.check_buffer()

    def check_buffer(self) -> None:
        if self.queue_length > self._buffer:
            raise self.trial.broken("has more tasks come to a server than its buffer holds")

    def _serve(self, task: Assign, wait: float, position: int, now: float) -> None:
        self.trial.served[task.job] += 1
        super()._serve(task, wait, position, now)

    def on_finish(self) -> None:
        if not self.dead:
            super().on_finish()

    def on_probe(self, probe: Probe) -> None:
        if not self.silent:
            super().on_probe(probe)


class _WatchedHolding(_Watched, HoldingServer):
    def on_commit(self, task: Commit) -> None:
        self.trial.taken[task.job, task.task] += 1
        super().on_commit(task)
        self.check_buffer()

    def check_buffer(self) -> None:
        super().check_buffer()
        if not 0 <= self.held <= self._buffer - self.queue_length:
            raise self.trial.broken(f"has a server hold {self.held} places of a buffer of {self._buffer}")


class _WatchedReserving(_Watched, ReservingServer):
    pass


class _Grave(Agent):
    """In place of a server that has died: whatever comes is lost."""

    def __init__(self, address: int) -> None:
        self.address = address
        self.handlers = _Swallows()


class _Swallows(dict[type[Message], Callable[[Any], object]]):
    def __missing__(self, kind: type[Message]) -> Callable[[Any], object]:
        return lambda message: None


def _check(policy: type[Policy], parameters: Any, system: System) -> None:
    has_timeout = hasattr(parameters, "timeout")
    if has_timeout and system.timeout is not None:
        parameters = msgspec.structs.replace(parameters, timeout=system.timeout)
    silent = system.silent if has_timeout and parameters.timeout is not None else frozenset()
    first = _run(policy, parameters, system, silent)
    second = _run(policy, parameters, system, silent)
    if first.decisions != second.decisions:
        raise first.broken("makes other decisions when it is run again with the same seed")


def _run(policy: type[Policy], parameters: Any, system: System, silent: frozenset[int]) -> _Trial:
    most = _most_tasks(policy, parameters, system.servers)
    jobs = [job._replace(sizes=job.sizes[:most]) for job in system.jobs]
    repeats = system.dies is not None and system.servers > 1
    trial = _Trial(policy, parameters, system.servers, [len(job.sizes) for job in jobs], repeats)
    records = JobRecords(len(jobs))
    try:
        dispatchers = _simulate(trial, replace(system, jobs=jobs), silent, records)
    except AssertionError:
        raise
    except Exception as error:
        raise trial.broken(f"fails with {error!r}") from error
    for dispatcher in dispatchers:
        if dispatcher.done_twice:
            raise trial.broken("has a task done twice")
        for job, ticket in dispatcher.in_system.items():
            if not ticket.at:
                raise trial.broken(f"never places job {job}")
            if len(ticket.at) < trial.tasks[job]:
                raise trial.broken(f"never places task {len(ticket.at)} of job {job}")
    columns = records.columns()
    if Counter(columns["job"].tolist()) != Counter(range(len(jobs))):
        raise trial.broken("does not have every job end once")
    for number, outcome in zip(columns["job"].tolist(), columns["outcome"].tolist(), strict=True):
        _check_end(trial, number, outcome)
    return trial


def _check_end(trial: _Trial, job: int, outcome: int) -> None:
    tasks = trial.tasks[job]
    times = [trial.taken[job, task] for task in range(tasks)]
    if outcome not in (COMPLETED, DROPPED):
        raise trial.broken("ends a job that is neither completed nor dropped")
    if trial.repeats and outcome == DROPPED:
        return  # a task that was dispatched again may have met a full buffer when others had been served
    if outcome == DROPPED and trial.served[job]:
        raise trial.broken(f"has tasks of job {job} served, which is dropped")
    if outcome == COMPLETED or tasks == 1:
        if set(times) != {1} and not (trial.repeats and min(times) > 0):
            raise trial.broken(f"does not have every task of job {job} come to a server once")
    elif any(times):
        raise trial.broken(f"sends tasks of job {job}, which is dropped")


def _simulate(trial: _Trial, system: System, silent: frozenset[int], records: JobRecords) -> list[_Dispatcher]:
    low, high = system.delay or (0.0, 0.0)

    def delays(rng: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return rng.uniform(low, high, count)

    delay = Delay(delays, generator(system.seed, 0, "message delay")) if system.delay else None
    runtime = VirtualRuntime(system.seed, delay=delay)
    env = _Environment(runtime, trial)
    buffer = None if trial.policy.reserves else system.buffer
    holds = buffer is not None and max(trial.tasks, default=1) > 1
    dispatchers = [
        _Dispatcher(env, system.servers + index, index=index, trial=trial, ledger=records, holds=holds)
        for index in range(system.dispatchers)
    ]
    addresses = [dispatcher.address for dispatcher in dispatchers]
    kind_of_server = _WatchedReserving if trial.policy.reserves else _WatchedHolding if holds else _Watched
    meter = Occupancy()
    servers: list[_Watched] = []
    for address in range(system.servers):
        server = kind_of_server(
            runtime,
            address,
            speeds=SPEEDS,
            meter=meter,
            buffer=buffer,
            idle_report_to=addresses if trial.policy.idle_reports else [],
            dispatchers=addresses if trial.repeats else [],
        )
        server.trial = trial
        server.silent = address in silent
        servers.append(server)
        runtime.add(server)
    for dispatcher in dispatchers:
        runtime.add(dispatcher)
    runtime.start()
    if trial.repeats and system.dies is not None:
        _schedule_death(runtime, system.dies[0], servers, servers[system.dies[1] % system.servers], dispatchers, high)
    when = work = 0.0
    for number, job in enumerate(system.jobs):
        when += job.gap
        work += sum(job.sizes) / SPEEDS[job.kind]
        dispatcher = dispatchers[job.dispatcher % system.dispatchers]
        runtime.call_at(when, partial(dispatcher.arrive, number, job.kind, job.sizes))
    timeout = getattr(trial.parameters, "timeout", None) or 0.0
    runtime.run(when + work + timeout + PATIENCE)
    for server in servers:
        if isinstance(server, HoldingServer) and server.held and not server.dead:
            raise trial.broken("leaves places held in the end")
    return dispatchers


def _schedule_death(
    runtime: VirtualRuntime,
    when: float,
    servers: list[_Watched],
    dying: _Watched,
    dispatchers: list[_Dispatcher],
    longest_delay: float,
) -> None:
    address = dying.address

    def die() -> None:
        dying.dead = True
        runtime.agents[address] = _Grave(address)

    def notice() -> None:
        for agent in (*(server for server in servers if server is not dying), *dispatchers):
            agent.on_lost(address, address)

    runtime.call_at(when, die)
    # On a connection its end comes after all that was sent on it; messages that leave at one time come in any order.
    runtime.call_at(when + longest_delay + 1e-9, notice)
