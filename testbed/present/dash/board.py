"""What is known of all runs that one page shows, and who waits for news of them.

Memory is bounded however long a cluster stands: of each run the board keeps the series of its moments, from which every
second one is dropped when there are MOST_POINTS, and the rows of the heat strip of the last STRIP_POINTS only.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

import msgspec
import trio

from testbed.cluster.snapshot import Snapshot
from testbed.measure.summary import Summary
from testbed.present.dash.view import Point, RunView, concluded, point_of, run_id, view_of

MOST_POINTS = 1200
STRIP_POINTS = 240
NEWS_SECONDS = 1.0  # between two messages to a page


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """What can be changed on a standing cluster: the policies there are, and the present one and load of the run."""

    policies: list[str]


class RunNews(msgspec.Struct, frozen=True, kw_only=True):
    """A run as it stands, with what is new of its moments.

    ``series``: the whole run's moments, without the heat strip, or None where the page has them; ``strip``: those that
    are new, with the heat strip, to be added to both.
    """

    run: RunView
    series: list[Point] | None
    strip: list[Point]


class News(msgspec.Struct, frozen=True, kw_only=True):
    """A message to the page. ``ended`` says why no more will come."""

    title: str
    runs: list[RunNews]
    controls: Controls | None = None
    ended: str | None = None


class _Run:
    """One run as it stands, with its moments; ``noted`` counts these, ``version`` all changes."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.series: list[Point] = []
        self.strip: list[Point] = []
        self.noted = 0
        self.version = 0
        self.last: Snapshot | None = None

    def note(self, point: Point) -> None:
        self.noted += 1
        self.strip.append(point)
        del self.strip[:-STRIP_POINTS]
        self.series.append(msgspec.structs.replace(point, queues=(), events={}))
        if len(self.series) >= MOST_POINTS:
            del self.series[1::2]

    def news(self, seen: int | None) -> RunNews:
        """Return what is new for a page that has seen so many moments; None: for one that has seen nothing."""
        missed = self.noted - (seen or 0)
        if seen is None or missed > len(self.strip):
            # The page adds the strip's moments to the series itself.
            begin = self.strip[0].time if self.strip else 0.0
            before = [point for point in self.series if point.time < begin]
            return RunNews(run=self.view, series=before, strip=self.strip)
        return RunNews(run=self.view, series=None, strip=self.strip[-missed:] if missed else [])


class Board:
    """The runs of one command, in the order in which they began."""

    def __init__(self, title: str, controls: Controls | None = None) -> None:
        self.title = title
        self.controls = controls
        self.ended: str | None = None
        self.watching = 0
        self._runs: dict[str, _Run] = {}
        self._changed = trio.Event()

    def show(self, snapshot: Snapshot) -> None:
        """Take in how a run stands."""
        view = view_of(snapshot)
        run = self._runs.setdefault(view.id, _Run(view))
        run.view = view
        run.note(point_of(snapshot, run.last))
        run.last = snapshot
        self._tell(run)

    def conclude(self, summary: Summary) -> None:
        """Take in what a run came to; one that was never shown is left out."""
        run = self._runs.get(run_id(summary.variant, summary.replication, summary.source))
        if run is not None:
            run.view = concluded(run.view, summary)
            self._tell(run)

    def add(self, view: RunView, points: list[Point]) -> None:
        """Take in a run that is over, with at most STRIP_POINTS moments of the whole of it."""
        run = self._runs[view.id] = _Run(view)
        for point in points:
            run.note(point)
        self._tell(run)

    def end(self, why: str) -> None:
        """Say that nothing more will come, and why."""
        self.ended = why
        self._notify()

    def _tell(self, run: _Run) -> None:
        run.version += 1
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    async def news(self) -> AsyncIterator[News]:
        """Yield what a page has to know, from nothing on, not more often than every NEWS_SECONDS, until the end."""
        seen: dict[str, tuple[int, int]] = {}  # moments and version, by run
        with self._watched():
            while True:
                changed, ended = self._changed, self.ended
                runs = []
                for key, run in self._runs.items():
                    moments, version = seen.get(key, (None, -1))
                    if run.version != version:
                        runs.append(run.news(moments))
                        seen[key] = run.noted, run.version
                yield News(title=self.title, runs=runs, controls=self.controls, ended=ended)
                if ended is not None:
                    return
                await changed.wait()
                await trio.sleep(NEWS_SECONDS)

    @contextmanager
    def _watched(self) -> Iterator[None]:
        self.watching += 1
        try:
            yield
        finally:
            self.watching -= 1
