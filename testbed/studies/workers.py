"""Runs of the twin, the discrete-event simulation of the same agents, on all cores.

The worker processes are loky's: new interpreters that do not import the caller's main module, so that a script needs no
``if __name__ == "__main__"``, and a notebook or a script from standard input works too. When a worker dies, the pool
can't tell which run killed it and gives up all of them; a run's result depends on its scenario and replication alone,
so these runs are made again by new workers.
"""

from __future__ import annotations

import contextlib
import os
import re
import signal
import threading
import time
from collections import Counter, deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice

from loky import ProcessPoolExecutor

from testbed.runs.probe_rate import calibrated
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, ScenarioError
from testbed.studies.plan import Measure, Run, T

#: When the pool has broken so many times while a run was made, the run is an error. The last time it was made alone.
MOST_DEATHS = 3


class TwinError(Exception):
    """A run of the twin failed, or its process died repeatedly."""


def cores() -> int:
    """Return the number of processor cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def run_twins(
    runs: Sequence[Run], measure: Measure[T], processes: int | None = None
) -> Generator[tuple[Run, T], None, None]:
    """Run the twin of each of ``runs``, and yield each with ``measure(scenario, measurements)`` as it finishes.

    Args:
        runs: started in this order. Where a scenario asks for an overall probe rate, the servers' probe rate is
            calibrated first, and ``measure`` is given the scenario with it.
        measure: reduces what was measured to something small. It is called in the worker.
        processes: how many workers; default: one per core. A single worker is this process.

    Closing the generator ends the workers. Raises TwinError when a run raises an error, or when three workers die in
    the same run.
    """
    count = cores() if processes is None else processes
    if count < 1:
        raise ValueError(f"processes must be at least 1, not {count}")
    if min(count, len(runs)) > 1:
        yield from _in_workers(runs, measure, min(count, len(runs)))
        return
    for run in runs:
        try:
            value = _measured(run.scenario, run.replication, measure)
        except Exception as error:
            raise TwinError(f"{run}: {_message(error)}") from error
        yield run, value


def _in_workers(runs: Sequence[Run], measure: Measure[T], count: int) -> Iterator[tuple[Run, T]]:
    waiting = deque(runs)
    working: dict[Future[T], Run] = {}
    deaths: Counter[int] = Counter()  # by the run's id()
    finished: list[tuple[Run, T]] = []
    pool: ProcessPoolExecutor | None = None
    try:
        while waiting or working:
            # After its second death a run is made alone, so that a third one is surely its own.
            at_once = 1 if any(deaths[id(run)] > 1 for run in (*islice(waiting, 1), *working.values())) else count
            while waiting and len(working) < at_once:
                run = waiting[0]
                pool = pool or ProcessPoolExecutor(count, initializer=_end_with, initargs=(os.getpid(),))
                try:
                    with _without_interrupts():
                        working[pool.submit(_measured, run.scenario, run.replication, measure)] = run
                except BrokenProcessPool:  # since the last look at it
                    _close(pool)
                    pool = None
                    if working:
                        break
                else:
                    waiting.popleft()
            yield from finished  # after the submission, so that no worker waits for the caller
            finished.clear()
            done = wait(working, return_when=FIRST_COMPLETED).done
            if any(isinstance(future.exception(), BrokenProcessPool) for future in done):
                _close(pool)
                pool = None
                done = set(working)  # closing the pool has ended them all
            for future in done:
                run = working.pop(future)
                try:
                    finished.append((run, future.result()))
                except BrokenProcessPool as error:
                    waiting.appendleft(run)
                    deaths[id(run)] += 1
                    if deaths[id(run)] == MOST_DEATHS:
                        raise TwinError(_deaths(run, error)) from error
                except Exception as error:
                    raise TwinError(f"{run}: {_message(error)}") from error
        yield from finished
    finally:
        _close(pool)


def _close(pool: ProcessPoolExecutor | None) -> None:
    """End the workers of a pool, if there is one."""
    if pool is not None:
        pool.shutdown(kill_workers=True)


def _measured(scenario: Scenario, replication: int, measure: Measure[T]) -> T:
    scenario, _ = calibrated(scenario, replication)
    return measure(scenario, simulate(scenario, replication))


def _message(error: Exception) -> str:
    return str(error) if isinstance(error, ScenarioError) else f"{type(error).__name__}: {error}"


def _deaths(run: Run, error: BrokenProcessPool) -> str:
    found = re.search(r"exit codes of the workers are \{(.*)\}", str(error))
    ended = found[1] if found else str(error)
    return (
        f"{run}: {MOST_DEATHS} processes died while they simulated it ({ended}); the usual reason is a run too large "
        "for the machine's memory: make it shorter, or use fewer processes; otherwise see what the processes wrote to "
        "standard error"
    )


@contextlib.contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C: the worker processes that are started now inherit the mask and never see it; this one waits."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _end_with(parent: int) -> None:
    """End this worker soon after its parent, also one that was killed, so that no worker is left behind."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
