"""What can be said of a run while it goes on, and how it is shown in a terminal."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from testbed.measure.histogram import LogHistogram
from testbed.measure.records import RESPONSE_BUCKETS
from testbed.measure.verdict import LATENESS_LIMIT

if TYPE_CHECKING:
    from testbed.cluster.controller import Controller

PLAIN_SECONDS = 5.0  # between lines when the output is no terminal


@dataclass(frozen=True)
class Snapshot:
    """How a run is doing. Times are in time units unless they say otherwise."""

    variant: str
    replication: int
    time: float
    horizon: float
    arrived: int
    ended: int
    in_system: int
    mean_response_time: float
    p99: float
    jobs_per_second: float
    late_share: float  # the worse of mean dispatch lag and mean timer lateness, as a share of the mean response time

    @classmethod
    def of(cls, controller: Controller, variant: str, replication: int) -> Snapshot:
        """Sum up what the processes of a cluster last said."""
        scenario = controller.scenario
        unit = scenario.run.time_unit_seconds
        words = controller.progress
        moment = max((word.time for word in words), default=0.0)
        responses = LogHistogram(*RESPONSE_BUCKETS)
        for word in words:
            if word.responses:
                responses.counts = [a + b for a, b in zip(responses.counts, word.responses, strict=True)]
                responses.sum += word.response_sum
        responses.max = math.inf
        arrived = sum(word.arrived for word in words)
        mean = responses.mean
        lag = sum(word.lag_sum for word in words) / arrived if arrived else 0.0
        late = max([lag, *(word.lateness_mean / unit for word in words)])
        return cls(
            variant=variant,
            replication=replication,
            time=max(0.0, moment),
            horizon=scenario.horizon,
            arrived=arrived,
            ended=sum(word.ended for word in words),
            in_system=sum(word.in_system for word in words),
            mean_response_time=mean,
            p99=responses.quantile(0.99),
            jobs_per_second=arrived / (moment * unit) if moment > 0 else 0.0,
            late_share=late / mean if mean > 0 else 0.0,
        )

    @property
    def name(self) -> str:
        """The variant, with the number of the replication from the second on."""
        return f"{self.variant} #{self.replication + 1}" if self.replication else self.variant

    def __str__(self) -> str:
        if not self.ended:
            return f"{self.arrived} jobs have arrived"
        verdict = "valid so far" if self.late_share <= LATENESS_LIMIT else f"suspect: {self.late_share:.1%} late"
        return (
            f"{self.jobs_per_second:,.0f} jobs/s  mean {self.mean_response_time:.3f}  p99 {self.p99:.2f}  "
            f"in system {self.in_system}  {verdict}"
        )


class Watcher(Protocol):
    """Something that is shown how a run is doing."""

    def announce(self, text: str) -> None:
        """Show a line of text."""

    def show(self, snapshot: Snapshot) -> None:
        """Show the present state."""

    def __enter__(self) -> Watcher: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class Silent:
    """Shows nothing."""

    def announce(self, text: str) -> None:
        """Show nothing."""

    def show(self, snapshot: Snapshot) -> None:
        """Show nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        pass


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
            done = min(1.0, snapshot.time / snapshot.horizon)
            self.announce(f"{snapshot.name} {done:4.0%}  {snapshot}")


class Bar(Silent):
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

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def announce(self, text: str) -> None:
        """Write a line above the bars."""
        self._progress.console.print(text, highlight=False, markup=False, soft_wrap=True)

    def show(self, snapshot: Snapshot) -> None:
        """Move the bar."""
        key = (snapshot.variant, snapshot.replication)
        if key not in self._tasks:
            self._tasks[key] = self._progress.add_task(snapshot.name, total=snapshot.horizon, state="")
        self._progress.update(
            self._tasks[key],  # type: ignore[arg-type]  # rich's TaskID is an int
            completed=min(snapshot.time, snapshot.horizon),
            state=str(snapshot),
        )


class RunsBar:
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

    def __enter__(self) -> RunsBar:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def show(self, done: int, total: int, doing: str) -> None:
        """Move the bar, and say what is done now."""
        self._progress.update(self._task, completed=done, total=total, description=doing)
