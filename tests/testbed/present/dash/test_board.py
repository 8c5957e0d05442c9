"""What pages receive: everything at first, then only what is new, and the end."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import trio
import trio.testing

from testbed.cluster.snapshot import Snapshot
from testbed.present.dash import board as boards
from testbed.present.dash.board import STRIP_POINTS, Board, Update

Make = Callable[..., Snapshot]


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boards, "UPDATE_SECONDS", 0.0)


async def test_a_page_gets_everything_and_then_what_is_new(snapshot: Make) -> None:
    board = Board("tiny")
    for time in (1.0, 2.0):
        board.show(snapshot(time=time))
    updates = board.updates()
    first = await anext(updates)
    assert first.title == "tiny"
    (run,) = first.runs
    assert (run.series, [point.time for point in run.strip]) == ([], [1.0, 2.0])
    board.show(snapshot(time=3.0))
    board.show(snapshot(time=1.0, variant="two choices"))
    second = await anext(updates)
    assert [(new.run.name, new.series is None) for new in second.runs] == [("random", True), ("two choices", False)]
    assert [point.time for point in second.runs[0].strip] == [3.0]
    board.show(snapshot(time=2.0, variant="two choices"))
    third = await anext(updates)
    assert [new.run.name for new in third.runs] == ["two choices"]
    board.end("the run has ended")
    last = await anext(updates)
    assert (last.runs, last.ended) == ([], "the run has ended")
    with pytest.raises(StopAsyncIteration):
        await anext(updates)
    assert board.viewers == 0


async def test_a_page_waits_while_there_is_nothing_new(snapshot: Make) -> None:
    board = Board("tiny")
    received: list[Update] = []

    async def listen() -> None:
        async for update in board.updates():
            received.append(update)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(listen)
        await trio.testing.wait_all_tasks_blocked()
        assert len(received) == 1
        assert board.viewers == 1
        board.show(snapshot())
        await trio.testing.wait_all_tasks_blocked()
        assert len(received) == 2
        board.end("over")


async def test_a_page_that_fell_behind_gets_everything_again(snapshot: Make) -> None:
    board = Board("tiny")
    board.show(snapshot(time=0.0))
    updates = board.updates()
    await anext(updates)
    for time in range(1, STRIP_POINTS + 3):
        board.show(snapshot(time=float(time)))
    (run,) = (await anext(updates)).runs
    assert run.series is not None
    assert [point.time for point in [*run.series, *run.strip]] == [float(time) for time in range(STRIP_POINTS + 3)]
    await updates.aclose()


async def test_memory_is_bounded_and_the_series_still_spans_the_whole_run(
    snapshot: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "MOST_POINTS", 100)
    monkeypatch.setattr(boards, "STRIP_POINTS", 20)
    board = Board("tiny")
    moments = 500
    for time in range(moments):
        board.show(snapshot(time=float(time)))
    updates = board.updates()
    (run,) = (await anext(updates)).runs
    assert run.series is not None
    assert 30 <= len(run.series) < 100
    assert len(run.strip) == 20
    times = [point.time for point in [*run.series, *run.strip]]
    assert times == sorted(times)
    assert (times[0], times[-1]) == (0.0, moments - 1.0)
    assert all(point.queues == () for point in run.series)
    await updates.aclose()
