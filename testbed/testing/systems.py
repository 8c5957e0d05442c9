"""The small systems in which a policy is tried: some fixed ones, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from dispatchers.policy import Policy

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

SPEEDS = (1.0, 0.5)  # by job type
MOST_SERVERS = 8
MOST_TASKS = 5


class Job(NamedTuple):
    """A job of a test system: time since the previous one, dispatcher (modulo their number), type and tasks' sizes.

    A policy that takes fewer tasks with so many servers gets the first of them.
    """

    gap: float
    dispatcher: int
    job_type: int
    sizes: tuple[float, ...]


@dataclass(frozen=True)
class System:
    """A small system to try a policy in. Message delays are uniform between the two numbers of ``delay``.

    ``dies``: when a server dies, and which (modulo their number), if there are at least two. What the others had sent
    to it is lost; they learn of its death when all that it had sent has arrived.
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


def fitting(policy: type[Policy], parameters: Any) -> list[int]:
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


def most_tasks(policy: type[Policy], parameters: Any, servers: int) -> int:
    """Return the largest number of tasks, up to MOST_TASKS, that the policy takes with so many servers.

    A job that is copied has one.
    """
    if policy.copies(parameters) > 1:
        return 1
    for tasks in range(MOST_TASKS, 1, -1):
        try:
            policy.check_tasks(parameters, servers, tasks)
        except ValueError:
            continue
        return tasks
    return 1


def corners() -> Iterable[System]:
    """Return systems that every policy is tried in: the rare cases, which random systems may miss."""
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


def random_systems(sizes: list[int]) -> SearchStrategy[System]:
    """Return the random systems, with one of ``sizes`` numbers of servers."""
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
