"""The page of a run folder: the summary's figures, and curves that are what the records say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import trio

import testbed
from testbed.present.dash.board import Board, RunUpdate
from testbed.present.dash.finished import Stays, finished_board, queue_lengths, tail_of
from testbed.runs.run_folder import OutputError, read_run
from testbed.scenario import decode

BASE: dict[str, Any] = {
    "name": "over",
    "run": {"time_unit": "10ms", "warmup": 10, "duration": 60},
    "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
    "workload": {"load": 0.7},
    "dispatch": {"policy": "random"},
}


def run(tmp_path: Path, **settings: Any) -> Path:
    folder = testbed.run(decode({**BASE, **settings}), where="twin", output=tmp_path).folder
    assert folder is not None
    return folder


def shown(board: Board) -> list[RunUpdate]:
    async def receive() -> list[RunUpdate]:
        (update,) = [update async for update in board.updates()]
        assert update.ended == "the run has ended"
        return update.runs

    return trio.run(receive)


def test_the_figures_are_the_summarys(tmp_path: Path) -> None:
    folder = run(tmp_path, variants=[{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}])
    runs = [update.run for update in shown(finished_board(folder))]
    _, summaries = read_run(folder)
    assert [view.name for view in runs] == ["random (twin)", "two choices (twin)"]
    for view, summary in zip(runs, summaries, strict=True):
        assert (view.mean, view.half_width) == (summary.response.mean, summary.response.half_width)
        assert view.quantiles["0.99"] == summary.response_quantiles[-2].value
        assert (view.probes_per_job, view.messages_per_job) == (summary.probes_per_job, summary.messages_per_job)
        assert view.in_system == summary.number_in_system_mean
        assert (view.valid, view.checks, view.so_far) == (summary.verdict.valid, summary.verdict.checks, False)
        assert view.theory is not None
        assert summary.prediction is not None
        assert view.theory.mean == summary.prediction["mean_response_time"]


def test_the_curves_are_what_the_records_say(tmp_path: Path) -> None:
    folder = run(tmp_path)
    (update,) = shown(finished_board(folder))
    table = pq.read_table(folder / "twin.parquet")
    jobs = {name: table[name].to_numpy() for name in ("arrival", "response_time", "server")}
    ends = jobs["arrival"] + jobs["response_time"]
    for point in update.strip[::40]:
        present = (jobs["arrival"] <= point.time) & (ends > point.time)
        assert point.queues == tuple((present & (jobs["server"] == server)).sum() for server in range(5))
        done = jobs["response_time"][(jobs["arrival"] >= 10) & (ends <= point.time)]
        assert point.mean == (pytest.approx(done.mean()) if len(done) else None)
    assert update.strip[-1].half_width is not None


@pytest.mark.parametrize(
    ("settings", "event"),
    [
        (
            {
                "cluster": {"nodes": 1, "pools": [{"name": "a", "servers": 3}, {"name": "b", "servers": 2}]},
                "dispatch": {"policy": "redundancy-d", "d": 2},
                "workload": {"load": 0.3},
            },
            "cancelled",
        ),
        ({"workload": {"load": 0.5, "tasks": 2}, "dispatch": {"policy": "batch-sampling"}}, None),
    ],
)
def test_queues_of_copies_and_tasks_agree_with_the_servers_own_books(
    tmp_path: Path, settings: dict[str, Any], event: str | None
) -> None:
    folder = run(tmp_path, **settings)
    (update,) = shown(finished_board(folder))
    _, (summary,) = read_run(folder)
    inside = [sum(point.queues) for point in update.strip if point.time >= 10]
    mean = summary.queue_length.mean
    assert mean is not None
    # 206 moments of the same path: far closer than two independent paths would be.
    assert np.mean(inside) == pytest.approx(mean * summary.servers, rel=0.05)
    assert event is None or sum(point.events.get(event, 0) for point in update.strip) > 10


def test_queue_lengths_are_those_of_a_count_by_hand() -> None:
    rng = np.random.default_rng(5)
    server, start = rng.integers(0, 4, 200), rng.uniform(0, 10, 200)
    end = start + rng.exponential(2, 200)
    end[:5] = np.inf  # still there
    times = np.linspace(1, 10, 13)
    found = queue_lengths(Stays(server, start, end), 4, times)
    for i in range(4):
        for j, time in enumerate(times):
            assert found[i, j] == sum((server == i) & (start <= time) & (end > time))


def test_the_measured_curve_is_the_share_of_jobs_beyond() -> None:
    times = np.random.default_rng(6).exponential(1, 3000)
    curve = tail_of(times)
    assert curve == sorted(curve)
    assert min(share for _, share in curve) == 1 / 3000
    for t, share in curve[::20]:
        assert share == np.mean(times > t)
    assert tail_of(times[:1]) == []


def test_what_is_no_run_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="not a folder of a finished run"):
        finished_board(tmp_path)
