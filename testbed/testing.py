"""The conformance suite of dispatching policies.

    from testbed.testing import check_policy

    def test_my_policy_keeps_the_rules():
        check_policy(MyPolicy)

``check_policy`` runs a policy in many small random systems on the virtual runtime and checks the rules that every
policy must keep, whatever it decides:

* it places every job, each once, on a server that exists;
* it sends at most the probes that ``probes_per_job`` claims;
* for the same seed it makes the same decisions;
* it reads neither the type nor the sizes of a job, and no other agent;
* it does so with one server, with several dispatchers, with full buffers, when messages are slow, and, if it has a
  ``timeout`` parameter, when every reply is late and when replies never come.

Needs hypothesis (the extra ``test`` of this distribution).
"""

from __future__ import annotations

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
from servers.server import Server
from testbed.agent import Timer
from testbed.measure.records import COMPLETED, DROPPED, JobRecords, Occupancy
from testbed.protocol import Assign, Message, Probe
from testbed.runtime.delay import Delay
from testbed.runtime.virtual import VirtualRuntime
from testbed.streams import Stream, generator

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SPEEDS = (1.0, 0.5)  # by job type
MOST_SERVERS = 8
PATIENCE = 1000.0  # time units after the last service could have ended; a job still not placed then counts as lost


class Job(NamedTuple):
    """A job of a test system: time since the previous one, dispatcher (modulo their number), type and size."""

    gap: float
    dispatcher: int
    kind: int
    size: float


@dataclass(frozen=True)
class System:
    """A small system to try a policy in. Message delays are uniform between the two numbers of ``delay``."""

    servers: int
    jobs: Sequence[Job]
    dispatchers: int = 1
    seed: int = 0
    buffer: int | None = None
    delay: tuple[float, float] | None = None
    timeout: float | None = None  # given to a policy that has this parameter; else nothing below applies
    silent: frozenset[int] = frozenset()  # servers that never reply to a probe


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
    for corner in _corners():
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


def _corners() -> Iterable[System]:
    jobs = [Job(0.3, i, i % 2, 0.1 + i % 3) for i in range(20)]
    together = [job._replace(gap=0.0) for job in jobs]
    yield System(servers=1, jobs=jobs)
    yield System(servers=1, jobs=jobs, dispatchers=3, delay=(0.0, 1.0), buffer=2)
    yield System(servers=8, jobs=jobs, dispatchers=2)
    yield System(servers=4, jobs=together, dispatchers=3, buffer=1)
    yield System(servers=5, jobs=jobs, delay=(2.0, 2.0), timeout=0.5)  # every reply is late
    yield System(servers=5, jobs=together, dispatchers=2, timeout=0.5, silent=frozenset(range(5)))  # no reply comes


def _systems(sizes: list[int]) -> SearchStrategy[System]:
    from hypothesis import strategies as st

    jobs = st.builds(Job, st.floats(0, 2), st.integers(0, 2), st.integers(0, 1), st.floats(0.01, 4))
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
    )


@dataclass
class _Trial:
    """One run of a policy in a system: what is noted while it runs."""

    policy: type[Policy]
    parameters: Any
    servers: int
    decisions: list[tuple[float, Message]] = field(default_factory=list)  # probes and placements, and when
    probes: Counter[int] = field(default_factory=Counter)  # by job
    taken: Counter[int] = field(default_factory=Counter)  # tasks that came to a server, by job
    sealed: bool = True  # whether reading what a policy may not know is an error

    def broken(self, what: str) -> AssertionError:
        return AssertionError(f"{self.policy.name} {what}")

    def note(self, now: float, message: Message) -> None:
        """Check and note a message that a dispatcher sends."""
        what = f"sends a {type(message).__name__} to {message.to!r}"
        if type(message.to) is not int:
            raise self.broken(f"{what}, which is a {type(message.to).__name__}; a server is an int")
        if not 0 <= message.to < self.servers:
            raise self.broken(f"{what}, but the servers are 0..{self.servers - 1}")
        if isinstance(message, Probe):
            self.probes[message.job] += 1
            claim = self.policy.probes_per_job(self.parameters, self.servers)
            if self.probes[message.job] > claim:
                raise self.broken(
                    f"sends more probes for job {message.job} than the {claim} that probes_per_job claims "
                    f"with {self.servers} server(s)"
                )
        if isinstance(message, Probe | Assign):
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


class _SealedTicket(Ticket):
    """A ticket whose type and sizes can be read by the dispatcher only."""

    def __init__(self, trial: _Trial, ticket: Ticket) -> None:
        super().__init__(ticket.arrival, ticket.lag, ticket.kind, ticket.sizes)
        self.trial = trial
        self.tasks = len(ticket.sizes)

    def __getattribute__(self, name: str) -> Any:
        if name in ("kind", "sizes") and self.trial.sealed:
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

    def __init__(self, env: Any, address: int, *, index: int, trial: _Trial, ledger: JobRecords) -> None:
        self._trial = trial
        super().__init__(
            env,
            address,
            index=index,
            servers=trial.servers,
            policy=trial.policy,
            parameters=trial.parameters,
            ledger=ledger,
        )
        self.in_system: _SealedTickets = _SealedTickets(trial)

    def assign(self, job: int, server: int) -> None:
        ticket = self.in_system.get(job)
        if ticket is None:
            raise self._trial.broken(f"places job {job}, which has ended or is not its dispatcher's")
        if len(ticket.at) == ticket.tasks:
            raise self._trial.broken(f"places job {job} a second time")
        self._unsealed(super().assign, job, server)

    def _end(self, job: int, ticket: Ticket, outcome: int, last_at_server: float = 0.0) -> None:
        self._unsealed(super()._end, job, ticket, outcome, last_at_server)

    def _unsealed(self, action: Callable[..., None], *arguments: object) -> None:
        self._trial.sealed = False
        try:
            action(*arguments)
        finally:
            self._trial.sealed = True


class _Server(Server):
    """A server that counts the tasks that come to it, and may be one that never replies to a probe."""

    trial: _Trial
    silent = False

    def on_assign(self, task: Assign) -> None:
        self.trial.taken[task.job] += 1
        super().on_assign(task)

    def on_probe(self, probe: Probe) -> None:
        if not self.silent:
            super().on_probe(probe)


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
    trial = _Trial(policy, parameters, system.servers)
    records = JobRecords(len(system.jobs))
    try:
        dispatchers = _simulate(trial, system, silent, records)
    except AssertionError:
        raise
    except Exception as error:
        raise trial.broken(f"fails with {error!r}") from error
    for dispatcher in dispatchers:
        for job, ticket in dispatcher.in_system.items():
            if not ticket.at:
                raise trial.broken(f"never places job {job}")
    columns = records.columns()
    ended = Counter(columns["job"].tolist())
    expected = Counter(range(len(system.jobs)))
    if trial.taken != expected or ended != expected:
        raise trial.broken("does not have every job come to a server once and end once")
    if set(columns["outcome"].tolist()) - {COMPLETED, DROPPED}:
        raise trial.broken("ends a job that is neither completed nor dropped")
    return trial


def _simulate(trial: _Trial, system: System, silent: frozenset[int], records: JobRecords) -> list[_Dispatcher]:
    low, high = system.delay or (0.0, 0.0)

    def delays(rng: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return rng.uniform(low, high, count)

    delay = Delay(delays, generator(system.seed, 0, "message delay")) if system.delay else None
    runtime = VirtualRuntime(system.seed, delay=delay)
    env = _Environment(runtime, trial)
    dispatchers = [
        _Dispatcher(env, system.servers + index, index=index, trial=trial, ledger=records)
        for index in range(system.dispatchers)
    ]
    reports = [dispatcher.address for dispatcher in dispatchers] if trial.policy.idle_reports else []
    meter = Occupancy()
    for address in range(system.servers):
        server = _Server(runtime, address, speeds=SPEEDS, meter=meter, buffer=system.buffer, idle_report_to=reports)
        server.trial = trial
        server.silent = address in silent
        runtime.add(server)
    for dispatcher in dispatchers:
        runtime.add(dispatcher)
    runtime.start()
    when = work = 0.0
    for number, job in enumerate(system.jobs):
        when += job.gap
        work += job.size / SPEEDS[job.kind]
        dispatcher = dispatchers[job.dispatcher % system.dispatchers]
        runtime.call_at(when, partial(dispatcher.arrive, number, job.kind, (job.size,)))
    timeout = getattr(trial.parameters, "timeout", None) or 0.0
    runtime.run(when + work + timeout + PATIENCE)
    return dispatchers
