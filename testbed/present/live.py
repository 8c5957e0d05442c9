"""Displays of a run's progress in a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn
from typing_extensions import override

from testbed.cluster.snapshot import Snapshot
from testbed.runs.display import Silent

PLAIN_SECONDS = 5.0  # between two lines when the output is no terminal


class Lines(Silent):
    """Writes a plain line every few seconds: for output that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    @override
    def announce(self, text: str) -> None:
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    @override
    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PLAIN_SECONDS
            done = "" if snapshot.fraction is None else f" {snapshot.fraction:4.0%}"
            self.announce(f"{snapshot.name}{done}  {snapshot}")


class InTerminal:
    """Shows the progress bars of ``_progress`` in a terminal, within a ``with`` statement."""

    _progress: Progress

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def announce(self, text: str) -> None:
        """Write a line above the bars."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)


class Bar(InTerminal, Silent):
    """A progress bar for each variant with the time left, in a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[bold]{task.description}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}"),
            console=console,
            refresh_per_second=4,
        )
        self._tasks: dict[tuple[str, int], TaskID] = {}

    @override
    def show(self, snapshot: Snapshot) -> None:
        key = (snapshot.variant, snapshot.replication)
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(snapshot.name, total=snapshot.horizon, state="")
        self._progress.update(
            self._tasks[key],
            completed=snapshot.time if snapshot.horizon is None else min(snapshot.time, snapshot.horizon),
            state=str(snapshot),
        )


class RunsBar(InTerminal):
    """One progress bar for many runs, with the time left. Output that is no terminal shows only its final state."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("{task.completed:.0f} of {task.total:.0f} runs"),
            BarColumn(bar_width=24),
            TimeRemainingColumn(),
            TextColumn("{task.description}", markup=False),
            console=console,
            refresh_per_second=4,
        )
        self._task = self._progress.add_task("", total=0)

    def show(self, done: int, total: int, activity: str) -> None:
        """Move the bar, and show the present activity."""
        self._progress.update(self._task, completed=done, total=total, description=activity)
