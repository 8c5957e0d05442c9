"""Plots: well-formed, the same for the same numbers, and readable without colour."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

from testbed.studies.plot_style import COLOURS, LINES, MARKS, save
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.study import Row
from testbed.studies.store import StudyFolder

ROWS = [
    Row({"x": x, "kind": kind, "d": d}, "delay", source, value, half_width=0.1 if source != "theory" else None)
    for kind in ("first", "second")
    for d in (1, 2)
    for x, value in ((10, 1.0), (100, 2.0), (1000, 4.0))
    for source in ("theory", "twin", "cluster", "reference")
]


def drawn(folder: Path) -> Path:
    folder.mkdir()
    figure = curves(
        ROWS,
        "delay",
        x="x",
        by=("kind",),
        panel="d",
        x_label="servers",
        y_label="delay (time units)",
        caption="What it is. " * 20,
        log_x=True,
    )
    save({"delay": figure}, StudyFolder(folder))
    return folder


def test_the_same_numbers_give_the_same_files(tmp_path: Path) -> None:
    first, second = drawn(tmp_path / "a"), drawn(tmp_path / "b")
    for name in ("delay.svg", "delay.png"):
        assert (first / name).read_bytes() == (second / name).read_bytes()


def test_the_svg_is_well_formed_and_has_no_date(tmp_path: Path) -> None:
    text = (drawn(tmp_path / "a") / "delay.svg").read_text(encoding="utf-8")
    assert ElementTree.fromstring(text).tag.endswith("svg")
    assert "<dc:date>" not in text
    # The glyphs are drawn as paths, with what they say in comments.
    for words in ("servers", "delay (time units)", "first", "second", "d = 1", "line: theory"):
        assert words in text


def test_series_differ_without_colour() -> None:
    figure = curves(ROWS, "delay", x="x", by=("kind",), x_label="x", y_label="y", caption="")
    handles = figure.legends[0].legend_handles
    assert [handle.get_marker() for handle in handles] == ["o", "s"]  # type: ignore[union-attr]
    assert [handle.get_linestyle() for handle in handles] == ["-", "--"]  # type: ignore[union-attr]
    assert len(set(MARKS)) == len(set(map(str, LINES))) == len(set(COLOURS)) == 8


def test_rows_are_drawn_at_their_values_with_their_intervals() -> None:
    figure = curves(ROWS[:12], "delay", x="x", by=("kind",), x_label="x", y_label="y", caption="")
    axes = figure.axes[0]
    theory, *others = axes.containers
    assert theory[0].get_ydata().tolist() == [1.0, 2.0, 4.0]
    assert not theory[2]
    assert len(others) == 3
    for line, _, bars in others:
        assert line.get_ydata().tolist() == [1.0, 2.0, 4.0]
        assert bars[0].get_segments()[1][:, 1].tolist() == [1.9, 2.1]
