"""The command testbed trace, and its diagram."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from typer.testing import CliRunner

import testbed
from testbed.cli import app
from testbed.present.sequence_diagram import draw
from testbed.runs.job_history import Step
from testbed.scenario import load

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    settings = {"run.traced": 0.2, "run.duration": 20, "run.warmup": 0}
    result = testbed.run(
        load("replication").with_settings(settings), where="twin", output=tmp_path_factory.mktemp("runs")
    )
    assert result.folder is not None
    return result.folder


def command(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["trace", *map(str, arguments)], env={"COLUMNS": "120"})
    return result.exit_code, result.output + (result.stderr if result.stderr_bytes else "")


def traced_jobs(folder: Path) -> list[str]:
    status, text = command(folder)
    assert status == 0
    return [line.split()[0] for line in text.splitlines() if line.strip()[:1].isdigit()]


def texts(svg: str) -> list[str]:
    return ["".join(element.itertext()).strip() for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_a_traced_job_is_shown_as_a_table_and_as_a_diagram(folder: Path, tmp_path: Path) -> None:
    slowest = traced_jobs(folder)[0]
    status, text = command(folder, slowest)
    assert status == 0
    for word in ("arrives", "enter", "serve", "in service", "served", "left", "response time"):
        assert word in text
    drawn = folder / f"trace-{slowest}.svg"
    assert f"sequence diagram: {drawn}" in text
    shown = texts(drawn.read_text())
    assert {"dispatcher 0", "pools"} <= set(shown)
    assert any(line.startswith("server") for line in shown)
    assert any("response time" in line for line in shown)
    assert command(folder, slowest, "--svg", tmp_path / "elsewhere.svg")[0] == 0
    assert (tmp_path / "elsewhere.svg").read_text() == drawn.read_text()


def test_what_cannot_be_shown_is_refused_with_what_can(folder: Path, tmp_path: Path) -> None:
    status, text = command(folder, 10**9)
    assert status == 2
    assert "was not traced" in text
    assert traced_jobs(folder)[-1].isdigit()
    status, text = command(folder, "--variant", "nothing")
    assert status == 2
    assert "there are variants" in text
    assert command(folder, "--twin")[0] == 0
    assert command(tmp_path)[0] == 2
    status, text = command(folder, traced_jobs(folder)[0], "--svg", tmp_path / "no" / "folder.svg")
    assert status == 2
    assert "--svg" in text


def test_a_run_without_traced_jobs_says_how_to_trace(tmp_path: Path) -> None:
    result = testbed.run(
        load("quickstart").with_settings({"run.duration": 5, "run.warmup": 0, "variants": []}),
        where="twin",
        output=tmp_path,
    )
    status, text = command(result.folder)
    assert status == 2
    assert "run.traced" in text


def test_the_diagram_shows_what_was_never_delivered_and_is_the_same_every_time() -> None:
    steps = [
        Step(0.0, "dispatcher 0", "job 1 arrives"),
        Step(0.0, "dispatcher 0", "assign", "server 3", 0.5),
        Step(0.2, "dispatcher 0", "probe", "server 4", None),
        Step(0.5, "server 3", "in service for 1", until=1.5),
        Step(1.5, "server 3", "done", "dispatcher 0", 1.6),
    ]
    svg = draw(steps, "Job 1")
    assert svg == draw(steps, "Job 1")
    shown = texts(svg)
    assert "probe (never delivered)" in shown
    assert [line for line in shown if line.startswith(("dispatcher", "server"))] == [
        "dispatcher 0",
        "server 3",
        "server 4",
    ]
