"""Many runs of the twin at once, over all cores.

Each worker is a process of its own with a pipe of its own, and holds one run at a time. A pool that shares its queues
(concurrent.futures, multiprocessing.Pool) can't tell what a worker was at when it was killed, and one that dies with
the lock of a shared queue takes all with it; here a broken pipe names the one run that has to be made again. The
processes are spawned: a fork of a process with threads (trio's, rich's) may inherit a lock that nobody will release.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import pickle
import signal
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from typing import TYPE_CHECKING, Any, TypeVar

from testbed.balancing import calibrated
from testbed.runtime.twin import simulate
from testbed.scenario import ScenarioError

if TYPE_CHECKING:
    from testbed.measure.records import Measurements
    from testbed.scenario import Scenario

T = TypeVar("T")

#: So many workers may die over one run, or before their first one, until that counts as a failure of its own.
MOST_DEATHS = 3

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
        measure: reduces what was measured to something small. It is called in the worker, and must be importable there:
            a function of a module.
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
    process: BaseProcess
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
        # A daemon: it ends with this process, whatever happens here.
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(target=_work, args=(theirs, self.measure), daemon=True, name="testbed twin")
        resource_tracker.ensure_running()  # process.start() would, and leave Ctrl-C unblocked (CPython 3.11)
        with theirs, _without_interrupts():
            process.start()
        worker = _Worker(process, ours)
        self.workers.append(worker)
        self._give(worker, run)

    def _give(self, worker: _Worker, run: TwinRun) -> None:
        worker.run = run
        with contextlib.suppress(OSError):  # it has died, and the next reading says so
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
        worker.process.join(1)  # its pipe is closed a moment before it can tell how it ended
        self._end(worker)
        status = worker.process.exitcode
        how = f"signal {-status}" if status is not None and status < 0 else f"exit status {status}"
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
                    f"worker processes don't start: {MOST_DEATHS} in a row died, the last by {how}; a script that "
                    'simulates on several processes must do so under if __name__ == "__main__":, since they import it'
                )
        self.again.append(run)

    def _end(self, worker: _Worker) -> None:
        self.workers.remove(worker)
        worker.pipe.close()
        worker.process.kill()
        worker.process.join()

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


def _work(pipe: Connection, measure: Callable[[Scenario, Measurements], Any]) -> None:
    """Make runs until the pipe is closed, which it also is when the process at its other end has died."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def orphaned() -> bool:
        return not parent.is_alive()

    with contextlib.suppress(EOFError, OSError):
        pipe.send(READY)
        while True:
            task = pipe.recv_bytes()
            try:
                scenario, replication = pickle.loads(task)
                answer = pickle.dumps((_measured(scenario, replication, measure, orphaned), None, None))
            except Exception as error:
                answer = pickle.dumps((None, _said(error), traceback.format_exc()))
            pipe.send_bytes(answer)
