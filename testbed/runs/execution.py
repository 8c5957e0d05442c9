"""Running an experiment from any caller: a script's main thread, a notebook's, or another thread.

Trio needs a thread of its own where an asyncio loop runs, and only the main thread receives signals.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Protocol

import trio

from testbed.runs.result import Result

#: Signals that end a run, which is then saved: Ctrl-C, a request to terminate, the end of the terminal.
STOPPING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Stoppable(Protocol):
    """What can be executed: an experiment, or a long-running cluster."""

    result: Result

    async def run(self) -> object:
        """Run to the end."""

    def stop(self) -> None:
        """End now, and save what was measured."""


def execute(experiment: Stoppable) -> None:
    """Run an experiment to its end, or until Ctrl-C; ``experiment.result`` then holds the result so far."""
    if threading.current_thread() is threading.main_thread() and not _in_asyncio():
        with _only_error():
            trio.run(_attended, experiment)
    else:
        _run_in_thread(experiment)


async def _attended(experiment: Stoppable) -> None:
    """Run until the end, or until one of the signals; a second signal does not wait until the result is saved."""
    async with trio.open_nursery() as nursery:

        async def attend() -> None:
            with trio.open_signal_receiver(*STOPPING) as signals:
                nursery.start_soon(work)
                async for _ in signals:
                    if experiment.result.interrupted:
                        nursery.cancel_scope.cancel()
                    experiment.stop()

        async def work() -> None:
            await experiment.run()
            nursery.cancel_scope.cancel()

        nursery.start_soon(attend)


@contextlib.contextmanager
def _only_error() -> Iterator[None]:
    """Raise the only error of a group by itself: the tasks that it has passed through mean nothing to the caller."""
    try:
        yield
    except BaseExceptionGroup as group:
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
            error = error.exceptions[0]
        raise error from None


def _in_asyncio() -> bool:
    """Return whether an asyncio loop runs in this thread, as in a notebook; it then receives the signals."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _run_in_thread(experiment: Stoppable) -> None:
    token: list[trio.lowlevel.TrioToken] = []
    scope = trio.CancelScope()
    outcome: list[BaseException] = []
    # Not thread.join: before Python 3.13 an interrupted join marks the thread as ended (CPython issue 90882).
    ended = threading.Event()

    async def work() -> None:
        token.append(trio.lowlevel.current_trio_token())
        with scope:
            await experiment.run()

    def interrupt() -> None:
        if experiment.result.interrupted:
            scope.cancel()
        experiment.stop()

    def target() -> None:
        try:
            with _only_error():
                trio.run(work)
        except BaseException as error:
            outcome.append(error)
        finally:
            ended.set()

    thread = threading.Thread(target=target, name="testbed run")
    thread.start()
    while not ended.is_set():
        try:
            ended.wait()
        except KeyboardInterrupt:
            if not token:
                experiment.stop()
                continue
            with contextlib.suppress(trio.RunFinishedError):
                token[0].run_sync_soon(interrupt)
    if outcome:
        raise outcome[0]
