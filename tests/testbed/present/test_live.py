"""What is said of a run while it goes on."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from testbed.cluster.snapshot import Responses, Snapshot
from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.present import live
from testbed.present.live import Bar, Lines, StudyBar, StudyLines
from testbed.runs.display import Silent
from testbed.scenario import load
from testbed.studies.plan import Run


def snapshot(variant: str, replication: int = 0, time: float = 10.0, **more: Any) -> Snapshot:
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    histogram.add(1.0)
    return Snapshot(
        clock=0.0,
        scenario="s",
        variant=variant,
        replication=replication,
        policy="random",
        load=0.5,
        servers=1,
        time_unit_seconds=0.05,
        time=time,
        responses=Responses(counts=histogram.counts, sum=histogram.sum),
        **{"horizon": 100.0, **more},
    )


def test_lines_are_written_now_and_then_and_announcements_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1000.0
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: now))
    out = io.StringIO()
    lines = Lines(Console(file=out, width=40))
    with lines:
        for i in range(121):  # 12 seconds
            now = 1000.0 + i / 10
            lines.show(snapshot("[odd] name", time=i))
        lines.announce("a [bold]text[/bold] that is longer than the forty columns of this console")
    written = out.getvalue().splitlines()
    assert [line.partition("%")[0] for line in written[:3]] == ["[odd] name   0", "[odd] name  50", "[odd] name 100"]
    assert written[3:] == ["a [bold]text[/bold] that is longer than the forty columns of this console"]


def test_a_line_about_a_standing_cluster_has_no_share_of_the_way() -> None:
    out = io.StringIO()
    Lines(Console(file=out, width=40)).show(snapshot("random", horizon=None))
    assert out.getvalue().startswith("random  0 jobs/s  mean 1.000")


def test_a_bar_for_each_variant_and_replication() -> None:
    out = io.StringIO()
    console = Console(file=out, width=150, force_terminal=True)
    with Bar(console) as bar:
        bar.announce("beware [1]")
        for replication in range(2):
            for variant in ("random", "two choices"):
                for time in (10.0, 250.0):
                    bar.show(snapshot(variant, replication, time))
    shown = out.getvalue()
    for text in ("beware [1]", "random", "two choices", "random #2", "two choices #2", "100%", "valid so far"):
        assert text in shown


def test_silence() -> None:
    with Silent() as silent:
        silent.announce("x")
        silent.show(snapshot("random"))


def runs() -> list[Run]:
    return [Run(f"run {i}", load("quickstart"), i) for i in range(12)]


def test_lines_about_a_study_count_runs_and_tell_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [100.0]
    monkeypatch.setattr(live, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    said = io.StringIO()
    lines = StudyLines(Console(file=said, width=200))
    lines.expect(runs())
    for run in runs()[:6]:  # a half of the work, at 2 s a run
        clock[0] += 2.0
        lines.finished(run)
    assert said.getvalue().splitlines()[-1] == "6 of 12 runs, 0:00:12 left"


def test_the_bar_of_a_study_shows_the_same() -> None:
    said = io.StringIO()
    with StudyBar(Console(file=said, width=100, force_terminal=True)) as bar:
        bar.expect(runs())
        for run in runs()[:6]:
            bar.finished(run)
        bar.announce("by the way")
    assert "6 of 12 runs" in said.getvalue()
    assert "50%" in said.getvalue()
    assert "by the way" in said.getvalue()


def test_what_a_resumed_study_had_finished_counts() -> None:
    said = io.StringIO()
    with StudyBar(Console(file=said, width=100, force_terminal=True)) as bar:
        bar.resume(3, 4.0)
        bar.expect(runs())
    assert "3 of 15 runs" in said.getvalue()
    assert "25%" in said.getvalue()
