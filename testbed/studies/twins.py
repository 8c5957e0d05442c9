"""Many runs of the twin at once, over all cores.

Each worker is a process of its own with a pipe of its own, and holds one run at a time. A pool that shares its queues
(concurrent.futures, multiprocessing.Pool) can't tell what a worker was at when it was killed, and one that dies with
the lock of a shared queue takes all with it; here a broken pipe names the one run that has to be made again. The
workers are new interpreters: a fork of a process with threads (trio's, rich's) may inherit a lock that nobody will
release. Unlike those that multiprocessing spawns they do not import the caller's main module, so that a script needs no
guard, and a notebook or a script from standard input will do.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import signal
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.runs.probe_rate import calibrated
from testbed.runtime.twin import simulate
from testbed.scenario import ScenarioError

if TYPE_CHECKING:
    from testbed.core.records import Measurements
    from testbed.scenario import Scenario

T = TypeVar("T")

#: So many workers may die over one run, or before their first one, until that counts as a failure of its own.
MOST_DEATHS = 3

#: What a worker runs: its arguments are its end of the pipe, and where modules are found.
WORKER = "import sys; sys.path[:] = sys.argv[2:]; from testbed.studies.twins import work; work(int(sys.argv[1]))"
READY = "ready"  # a worker's first word


class TwinError(Exception):
    """A run of the twin failed, or killed its process again and again."""


@dataclass(frozen=True)
class TwinRun:
    """A run to be made of a scenario, its variants aside; ``key`` is the caller's own, to know it by."""

    scenario: Scenario
    replication: int = 0
    key: Any = None

    def __str__(self) -> str:
        where = self.scenario.name if self.key is None else self.key
        return f"{where}, replication {self.replication + 1}"


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_twins(
    runs: Iterable[TwinRun], measure: Callable[[Scenario, Measurements], T], processes: int | None = None
) -> Generator[tuple[TwinRun, T], None, None]:
    """Run the twin of each of ``runs``, and yield each with ``measure(scenario, measurements)`` as it finishes.

    Args:
        runs: taken one by one, as workers become free. Where a scenario asks for an overall probe rate, the rate of the
            servers' clocks is found first, and ``measure`` is given the scenario with it.
        measure: reduces what was measured to something small. It is called in the worker, which must be able to import
            it: a function of a module other than the main one.
        processes: how many workers; default: one per core. With one the runs are made in this process, in order.

    A worker that dies is replaced, and its run made again; what a run gives depends on its scenario and replication
    alone. Closing the generator ends the workers. Raises TwinError when a run raises an error or has killed three
    workers, and when workers don't start.
    """
    count = cores() if processes is None else processes
    if count < 1:
        raise ValueError(f"processes must be at least 1, not {count}")
    if count == 1:
        for run in runs:
            try:
                value = _measured(run.scenario, run.replication, measure, lambda: False)
            except Exception as error:
                raise TwinError(f"{run}: {_said(error)}") from error
            yield run, value
        return
    with contextlib.closing(_Workers(measure)) as workers:
        yield from workers.run(iter(runs), count)


def _measured(
    scenario: Scenario, replication: int, measure: Callable[[Scenario, Measurements], T], stopped: Callable[[], bool]
) -> T:
    scenario, _ = calibrated(scenario, replication)
    return measure(scenario, simulate(scenario, replication, stopped))


def _said(error: Exception) -> str:
    return str(error) if isinstance(error, ScenarioError) else f"{type(error).__name__}: {error}"


@dataclass
class _Worker:
    process: subprocess.Popen[bytes]
    pipe: Connection
    ready: bool = False
    run: TwinRun | None = None


@dataclass
class _Workers:
    measure: Callable[[Scenario, Measurements], Any]
    workers: list[_Worker] = field(default_factory=list)
    again: deque[TwinRun] = field(default_factory=deque)  # runs whose worker died
    deaths: dict[int, int] = field(default_factory=dict)  # workers lost over a run, by its id()
    failed_starts: int = 0

    def run(self, runs: Iterator[TwinRun], count: int) -> Iterator[tuple[TwinRun, Any]]:
        while True:
            # No more processes than runs: starting one takes a second of a core.
            while len(self.workers) < count and (run := self._next(runs)) is not None:
                self._start(run)
            if not self.workers:
                return
            for pipe in wait([worker.pipe for worker in self.workers]):
                worker = next(worker for worker in self.workers if worker.pipe is pipe)
                finished = self._hear(worker)
                if finished is not None:
                    following = self._next(runs)
                    if following is None:
                        self._end(worker)
                    else:
                        self._give(worker, following)
                    yield finished

    def _next(self, runs: Iterator[TwinRun]) -> TwinRun | None:
        return self.again.popleft() if self.again else next(runs, None)

    def _start(self, run: TwinRun) -> None:
        ours, theirs = Pipe()
        handle = theirs.fileno()
        with theirs, _without_interrupts():
            process = subprocess.Popen(
                [sys.executable, "-c", WORKER, str(handle), *sys.path], stdin=subprocess.DEVNULL, pass_fds=[handle]
            )
        worker = _Worker(process, ours)
        self.workers.append(worker)
        with contextlib.suppress(OSError):  # it has died, and the next reading says so
            ours.send(self.measure)
        self._give(worker, run)

    def _give(self, worker: _Worker, run: TwinRun) -> None:
        worker.run = run
        with contextlib.suppress(OSError):
            worker.pipe.send((run.scenario, run.replication))

    def _hear(self, worker: _Worker) -> tuple[TwinRun, Any] | None:
        """Return a run that is finished; or take note of a worker's beginning or end."""
        assert worker.run is not None
        try:
            word = worker.pipe.recv()
        except (EOFError, OSError):
            self._bury(worker)
            return None
        if word == READY:
            worker.ready, self.failed_starts = True, 0
            return None
        value, problem, trace = word
        if problem is not None:
            raise TwinError(f"{worker.run}: {problem}") from _WorkerError(trace)
        self.deaths.pop(id(worker.run), None)
        return worker.run, value

    def _bury(self, worker: _Worker) -> None:
        run = worker.run
        assert run is not None
        with contextlib.suppress(subprocess.TimeoutExpired):
            worker.process.wait(1)  # its pipe is closed a moment before it can tell how it ended
        self._end(worker)
        status = worker.process.returncode
        how = f"signal {-status}" if status < 0 else f"exit status {status}"
        if worker.ready:
            deaths = self.deaths[id(run)] = self.deaths.get(id(run), 0) + 1
            if deaths == MOST_DEATHS:
                raise TwinError(
                    f"{run}: {deaths} processes died while they simulated it, the last by {how}; a run too large for "
                    "the machine's memory is the usual reason: make it shorter, or use fewer processes"
                )
        else:
            self.failed_starts += 1
            if self.failed_starts == MOST_DEATHS:
                raise TwinError(
                    f"worker processes don't start: {MOST_DEATHS} in a row died, the last by {how}; what they wrote "
                    "to standard error says why"
                )
        self.again.append(run)

    def _end(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        worker.process.wait()

    def close(self) -> None:
        for worker in list(self.workers):
            self._end(worker)


class _WorkerError(Exception):
    """An error in a worker, and where it was raised, as text: the frames themselves stay there."""

    def __str__(self) -> str:
        return f"\n{self.args[0]}"


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Hold back Ctrl-C: a process started meanwhile never sees it, since it inherits the mask; ours arrives after."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def work(handle: int) -> None:
    """Make runs until the pipe is closed, which it also is when the process at its other end has died."""
    pipe = Connection(handle)
    parent = os.getppid()

    def orphaned() -> bool:
        return os.getppid() != parent

    with contextlib.suppress(EOFError, OSError):
        pipe.send(READY)
        measure = pipe.recv_bytes()
        while True:
            task = pipe.recv_bytes()
            try:
                scenario, replication = pickle.loads(task)
                value = _measured(scenario, replication, pickle.loads(measure), orphaned)
                answer = pickle.dumps((value, None, None))
            except Exception as error:
                answer = pickle.dumps((None, _said(error), traceback.format_exc()))
            pipe.send_bytes(answer)
