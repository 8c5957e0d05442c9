"""What is said of a run while it goes on."""

from __future__ import annotations

import io
import math
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from testbed import live
from testbed.cluster.control import Progress
from testbed.live import Bar, Lines, Silent, Snapshot
from testbed.measure.histogram import LogHistogram
from testbed.measure.records import RESPONSE_BUCKETS

UNIT = 0.05  # seconds


def controller(*words: Progress) -> Any:
    scenario = SimpleNamespace(horizon=100.0, run=SimpleNamespace(time_unit_seconds=UNIT))
    return SimpleNamespace(scenario=scenario, progress=list(words))


def dispatcher(time: float, responses: list[float], arrived: int, lag: float = 0.0, **more: Any) -> Progress:
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    for response in responses:
        histogram.add(response)
    return Progress(
        time=time,
        arrived=arrived,
        ended=len(responses),
        in_system=arrived - len(responses),
        responses=histogram.counts,
        response_sum=histogram.sum,
        lag_sum=lag * arrived,
        **more,
    )


def test_a_snapshot_sums_up_the_processes() -> None:
    words = [
        dispatcher(10.0, [1.0] * 60 + [3.0] * 2, 70, lag=0.01),
        dispatcher(9.5, [2.0] * 38, 50),
        Progress(time=9.9),
    ]
    snapshot = Snapshot.of(controller(*words), "random", 1)
    assert (snapshot.variant, snapshot.replication, snapshot.time, snapshot.horizon) == ("random", 1, 10.0, 100.0)
    assert (snapshot.arrived, snapshot.ended, snapshot.in_system) == (120, 100, 20)
    assert snapshot.mean_response_time == pytest.approx((60 + 6 + 76) / 100)
    # The 99th of 100 values is a 3; the histogram knows it up to its bucket, 15 % wide.
    assert snapshot.p99 == pytest.approx(3.0, rel=0.15)
    assert snapshot.jobs_per_second == pytest.approx(120 / (10.0 * UNIT))
    assert snapshot.late_share == pytest.approx(0.01 * 70 / 120 / 1.42)


def test_the_worst_lateness_counts_whosever_it_is() -> None:
    words = [dispatcher(10.0, [1.0] * 10, 10, lag=0.01), Progress(time=10.0, lateness_mean=0.1 * UNIT)]
    snapshot = Snapshot.of(controller(*words), "random", 0)
    assert snapshot.late_share == pytest.approx(0.1)
    assert "suspect: 10.0% late" in str(snapshot)
    assert "valid so far" in str(Snapshot.of(controller(words[0]), "random", 0))


@pytest.mark.parametrize("words", [[], [Progress(time=-0.5)], [dispatcher(0.0, [], 0)], [dispatcher(1.0, [], 4)]])
def test_before_the_first_job_has_ended_there_is_no_number_to_show(words: list[Progress]) -> None:
    snapshot = Snapshot.of(controller(*words), "random", 0)
    assert snapshot.time >= 0.0
    assert "nan" not in str(snapshot)
    assert str(snapshot) == f"{snapshot.arrived} jobs have arrived"


def test_response_times_beyond_the_histogram_do_not_disturb() -> None:
    snapshot = Snapshot.of(controller(dispatcher(10.0, [1e9] * 5, 5)), "random", 0)
    assert snapshot.mean_response_time == pytest.approx(1e9)
    assert not math.isnan(snapshot.p99)
    assert str(snapshot)


def test_lines_are_written_now_and_then_and_announcements_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now))
    out = io.StringIO()
    lines = Lines(Console(file=out, width=40))
    with lines:
        for i in range(121):  # 12 seconds
            now = 1000.0 + i / 10
            lines.show(Snapshot.of(controller(dispatcher(i, [1.0], 2)), "[odd] name", 0))
        lines.announce("a [bold]text[/bold] that is longer than the forty columns of this console")
    written = out.getvalue().splitlines()
    assert [line.partition("%")[0] for line in written[:3]] == ["[odd] name   0", "[odd] name  50", "[odd] name 100"]
    assert written[3:] == ["a [bold]text[/bold] that is longer than the forty columns of this console"]


def test_a_bar_for_each_variant_and_replication() -> None:
    out = io.StringIO()
    console = Console(file=out, width=150, force_terminal=True)
    with Bar(console) as bar:
        bar.announce("beware [1]")
        for replication in range(2):
            for variant in ("random", "two choices"):
                for time in (10.0, 250.0):
                    bar.show(Snapshot.of(controller(dispatcher(time, [1.0], 2)), variant, replication))
    shown = out.getvalue()
    for text in ("beware [1]", "random", "two choices", "random #2", "two choices #2", "100%", "valid so far"):
        assert text in shown


def test_silence() -> None:
    with Silent() as silent:
        silent.announce("x")
        silent.show(Snapshot.of(controller(), "random", 0))
