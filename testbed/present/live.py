"""How a run is shown in a terminal while it goes on."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from testbed.cluster.snapshot import Snapshot
from testbed.runs.display import Silent

PLAIN_SECONDS = 5.0  # between lines when the output is no terminal


class Lines(Silent):
    """Writes a plain line now and then: for output that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    def announce(self, text: str) -> None:
        """Write a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """Write the state if the last line is old enough."""
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PLAIN_SECONDS
            done = "" if snapshot.fraction is None else f" {snapshot.fraction:4.0%}"
            self.announce(f"{snapshot.name}{done}  {snapshot}")


class InTerminal:
    """Mixed into what moves bars in a terminal, those of ``_progress``: they are there within a ``with``."""

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
    """A bar for each variant with the time left, in a terminal."""

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
        self._tasks: dict[tuple[str, int], int] = {}

    def show(self, snapshot: Snapshot) -> None:
        """Move the bar."""
        key = (snapshot.variant, snapshot.replication)
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(snapshot.name, total=snapshot.horizon, state="")
        self._progress.update(
            self._tasks[key],  # type: ignore[arg-type]  # rich's TaskID is an int
            completed=snapshot.time if snapshot.horizon is None else min(snapshot.time, snapshot.horizon),
            state=str(snapshot),
        )


class RunsBar(InTerminal):
    """One bar over many runs, with the time left, in a terminal; elsewhere only its end is shown."""

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

    def show(self, done: int, total: int, doing: str) -> None:
        """Move the bar, and say what is done now."""
        self._progress.update(self._task, completed=done, total=total, description=doing)
