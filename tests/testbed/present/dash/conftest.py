"""Snapshots to show, and a server of the page."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import trio

from testbed.cluster.snapshot import ProcessState, Responses, Snapshot, Theory
from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.measure.verdict_checks import checked
from testbed.present.dash.board import Board
from testbed.present.dash.serving import Place, serve


def responses(times: list[float], half_width: float | None = None) -> Responses:
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    for time in times:
        histogram.add(time)
    return Responses(counts=histogram.counts, sum=histogram.sum, half_width=half_width)


@pytest.fixture
def snapshot() -> Callable[..., Snapshot]:
    """Make a snapshot of four servers at time 10 of 100, with the settings given."""

    def make(**settings: Any) -> Snapshot:
        return Snapshot(
            **{
                "clock": 1e9,
                "scenario": "tiny",
                "variant": "random",
                "replication": 0,
                "policy": "random",
                "load": 0.5,
                "servers": 4,
                "time_unit_seconds": 0.02,
                "time": 10.0,
                "horizon": 100.0,
                "arrived": 20,
                "in_system": 3,
                "queue_lengths": [2, 0, 1, 0],
                "responses": responses([1.0, 3.0], half_width=0.25),
                "jobs_per_second": 100.0,
                "theory": Theory(
                    load=0.5,
                    stability_bound=1.0,
                    stability_reason="each server",
                    name="M/M/1",
                    kind="exact",
                    mean=2.0,
                    quantiles={0.5: 1.4},
                    response_tail=[(0.5, 0.78), (5.0, 0.08)],
                ),
                "checks": [checked("timer lateness", "1 %", "2 %", True, "timers were on time", "")],
                "processes": [ProcessState(name="node-0", pid=4, alive=True, cpu_share=0.25)],
                **settings,
            }
        )

    return make


class Served:
    """A page that is served by a thread; ``tell`` calls something there."""

    def __init__(self, board: Board, place: Place, **settings: Any) -> None:
        self.board = board
        self.address = place.address
        self.port = place.port
        self._place = place
        self._settings = settings
        self._stop: trio.Event | None = None
        self._token: trio.lowlevel.TrioToken | None = None
        self._ready = threading.Event()
        self._thread = threading.Thread(target=trio.run, args=[self._serve])

    async def _serve(self) -> None:
        self._stop, self._token = trio.Event(), trio.lowlevel.current_trio_token()
        self._ready.set()
        await serve(self.board, self._place, until=self._stop.wait, **self._settings)

    def tell(self, function: Callable[..., object], *arguments: object) -> None:
        assert self._token is not None
        trio.from_thread.run_sync(function, *arguments, trio_token=self._token)

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(30)

    def stop(self) -> None:
        if self._thread.is_alive():
            assert self._stop is not None
            self.tell(self._stop.set)
            self._thread.join(30)


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Serve the page of a board until the test ends."""
    running: list[Served] = []

    def start(board: Board, place: Place | None = None, **settings: Any) -> Served:
        running.append(Served(board, place or Place.open(), **settings))
        running[-1].start()
        return running[-1]

    yield start
    for page in running:
        page.stop()
