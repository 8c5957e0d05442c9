"""Displays of the progress of a run, or of a study, in a terminal."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TaskID, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bars
from typing_extensions import override

from testbed.cluster.snapshot import Snapshot
from testbed.runs.display import Silent
from testbed.runs.tables import print_line
from testbed.studies.progress import Progress

PLAIN_SECONDS = 5.0  # between two lines when the output is no terminal


class Lines(Silent):
    """Writes a plain line every few seconds: for output that is no terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._next = 0.0

    @override
    def announce(self, text: str) -> None:
        print_line(self._console, text)

    @override
    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + PLAIN_SECONDS
            done = "" if snapshot.fraction is None else f" {snapshot.fraction:4.0%}"
            self.announce(f"{snapshot.name}{done}  {snapshot}")


class InTerminal:
    """Shows the progress bars of ``_progress`` in a terminal, within a ``with`` statement."""

    _progress: Bars

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def announce(self, text: str) -> None:
        """Write a line above the bars."""
        print_line(self._progress.console, text)


class Bar(InTerminal, Silent):
    """A progress bar for each variant with the time left, in a terminal."""

    def __init__(self, console: Console) -> None:
        self._progress = Bars(
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


class StudyLines(Progress):
    """Writes a plain line about a study every few seconds: for output that is no terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._next = 0.0
        self._start: tuple[float, float] | None = None

    @override
    def announce(self, text: str) -> None:
        print_line(self._console, text)

    @override
    def refresh(self, work_of_present_run: float, state: str) -> None:
        now = time.monotonic()
        if self._start is None:
            self._start = now, self.work_done
            self._next = now + PLAIN_SECONDS
        if now < self._next:
            return
        self._next = now + PLAIN_SECONDS
        work = self.work_done + work_of_present_run
        speed = (work - self._start[1]) / (now - self._start[0])
        left = f", {_duration((self.work_expected - work) / speed)} left" if speed > 0 else ""
        self.announce(f"{self.runs_done} of {self.runs_expected} runs{left}  {state}".rstrip())


class StudyBar(InTerminal, Progress):
    """A progress bar for all runs of a study, with the time left, in a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._progress = Bars(
            TextColumn("[bold]{task.fields[runs]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=console,
            refresh_per_second=4,
        )
        self._bar = self._progress.add_task("study", total=None, runs="", state="")

    @override
    def refresh(self, work_of_present_run: float, state: str) -> None:
        self._progress.update(
            self._bar,
            total=self.work_expected,
            completed=self.work_done + work_of_present_run,
            runs=f"{self.runs_done} of {self.runs_expected} runs",
            state=state,
        )


def _duration(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
