"""The state of all runs that one page shows, and the browsers that wait for updates.

Memory is bounded for however long a cluster runs: for each run the board keeps a series of points, from which every
second one is dropped when there are MOST_POINTS, and the rows of the heat strip for the last STRIP_POINTS only.
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
UPDATE_SECONDS = 1.0  # between two updates of a page


class Controls(msgspec.Struct, frozen=True, kw_only=True):
    """The policies to which the page can change that of a long-running cluster; it can change the load too."""

    policies: list[str]


class RunUpdate(msgspec.Struct, frozen=True, kw_only=True):
    """The present state of a run, with its new points.

    ``series``: the points of the whole run, without the heat strip, or None if the page has them; ``strip``: the new
    points, with the heat strip, which the page appends to both.
    """

    run: RunView
    series: list[Point] | None
    strip: list[Point]


class Update(msgspec.Struct, frozen=True, kw_only=True):
    """A message to the page. ``ended`` is the reason why it is the last one."""

    title: str
    runs: list[RunUpdate]
    controls: Controls | None = None
    ended: str | None = None


class _Run:
    """The state of one run, and its points; ``added`` counts these, ``version`` all changes."""

    def __init__(self, view: RunView) -> None:
        self.view = view
        self.series: list[Point] = []
        self.strip: list[Point] = []
        self.added = 0
        self.version = 0
        self.last: Snapshot | None = None

    def add(self, point: Point) -> None:
        self.added += 1
        self.strip.append(point)
        del self.strip[:-STRIP_POINTS]
        self.series.append(msgspec.structs.replace(point, queues=(), events={}))
        if len(self.series) >= MOST_POINTS:
            del self.series[1::2]

    def update(self, seen: int | None) -> RunUpdate:
        """Return the update for a page that has ``seen`` as many points; None: for a page that has nothing yet."""
        missed = self.added - (seen or 0)
        if seen is None or missed > len(self.strip):
            # The page appends the strip's points to the series itself.
            begin = self.strip[0].time if self.strip else 0.0
            before = [point for point in self.series if point.time < begin]
            return RunUpdate(run=self.view, series=before, strip=self.strip)
        return RunUpdate(run=self.view, series=None, strip=self.strip[-missed:] if missed else [])


class Board:
    """The runs of one command, in the order in which they began.

    ``viewers`` counts the pages that follow it.
    """

    def __init__(self, title: str, controls: Controls | None = None) -> None:
        self.title = title
        self.controls = controls
        self.ended: str | None = None
        self.viewers = 0
        self._runs: dict[str, _Run] = {}
        self._changed = trio.Event()

    def show(self, snapshot: Snapshot) -> None:
        """Show the present state of a run."""
        view = view_of(snapshot)
        run = self._runs.setdefault(view.id, _Run(view))
        run.view = view
        run.add(point_of(snapshot, run.last))
        run.last = snapshot
        self._notify(run)

    def conclude(self, summary: Summary) -> None:
        """Show the results of a run, unless none of its snapshots was shown."""
        run = self._runs.get(run_id(summary.variant, summary.replication, summary.source))
        if run is not None:
            run.view = concluded(run.view, summary)
            self._notify(run)

    def add(self, view: RunView, points: list[Point]) -> None:
        """Show a finished run, with at most STRIP_POINTS points, spread over all of it."""
        run = self._runs[view.id] = _Run(view)
        for point in points:
            run.add(point)
        self._notify(run)

    def end(self, why: str) -> None:
        """Announce that there will be no more updates, and why."""
        self.ended = why
        self._notify()

    def _notify(self, run: _Run | None = None) -> None:
        if run is not None:
            run.version += 1
        self._changed.set()
        self._changed = trio.Event()

    async def updates(self) -> AsyncIterator[Update]:
        """Yield the updates for a page that has nothing yet, at most one in UPDATE_SECONDS, until the end."""
        seen: dict[str, tuple[int, int]] = {}  # points and version, by run
        with self._viewed():
            while True:
                changed, ended = self._changed, self.ended
                runs = []
                for key, run in self._runs.items():
                    points, version = seen.get(key, (None, -1))
                    if run.version != version:
                        runs.append(run.update(points))
                        seen[key] = run.added, run.version
                yield Update(title=self.title, runs=runs, controls=self.controls, ended=ended)
                if ended is not None:
                    return
                await changed.wait()
                await trio.sleep(UPDATE_SECONDS)

    @contextmanager
    def _viewed(self) -> Iterator[None]:
        self.viewers += 1
        try:
            yield
        finally:
            self.viewers -= 1
