"""How far a sweep is, in a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from testbed.cluster.snapshot import Snapshot
from testbed.present.live import PLAIN_SECONDS, InTerminal
from testbed.runs.display import Silent
from testbed.studies.sweep.plan import Plan, RunKey, Runs


class Progress(Silent):
    """Counts, and shows nothing. Work is in the units of Plan.work."""

    def __init__(self) -> None:
        self._plan: Plan | None = None
        self._present: RunKey | None = None
        self.runs_done = self.runs_expected = 0
        self.work_done = self.work_expected = 0.0

    def expect(self, plan: Plan, runs: Runs, missing: Sequence[RunKey]) -> None:
        """Say which runs were made and which are to be made next."""
        self._plan = plan
        self.runs_done, self.runs_expected = len(runs), len(runs) + len(missing)
        self.work_done = sum(map(plan.work, runs))
        self.work_expected = self.work_done + sum(map(plan.work, missing))
        self.refresh(0.0, "")

    def started(self, key: RunKey) -> None:
        """Say which run on the cluster is being made."""
        self._present = key

    def finished(self, key: RunKey) -> None:
        """Say that a run was made."""
        assert self._plan is not None
        self.runs_done += 1
        self.work_done += self._plan.work(key)
        self.refresh(0.0, "")

    def show(self, snapshot: Snapshot) -> None:
        """Show how the present run on the cluster is doing."""
        assert self._plan is not None
        assert self._present is not None
        self.refresh((snapshot.fraction or 0.0) * self._plan.work(self._present), f"{snapshot.name}: {snapshot}")

    def refresh(self, work_of_present_run: float, state: str) -> None:
        """Show the present state."""


class ProgressLines(Progress):
    """Writes a plain line now and then: for output that is no terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._console = console
        self._next = 0.0
        self._start: tuple[float, float] | None = None

    def announce(self, text: str) -> None:
        """Write a line."""
        self._console.print(text, highlight=False, markup=False, soft_wrap=True)

    def refresh(self, work_of_present_run: float, state: str) -> None:
        """Write how far the sweep is if the last line is old enough."""
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


class ProgressBar(InTerminal, Progress):
    """A bar with the time left, in a terminal."""

    def __init__(self, console: Console) -> None:
        super().__init__()
        self._progress = RichProgress(
            TextColumn("[bold]{task.fields[runs]}"),
            BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            console=console,
            refresh_per_second=4,
        )
        self._bar = self._progress.add_task("sweep", total=None, runs="", state="")

    def refresh(self, work_of_present_run: float, state: str) -> None:
        """Move the bar."""
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
