"""Validation as a whole: what passes, what fails and why, what is written, and how the command ends."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.cli.app import INTERRUPTED
from testbed.present.live import StudyLines
from testbed.scenario import Expect
from testbed.studies.plan import Run
from testbed.studies.progress import Progress
from testbed.studies.validate import Case, Validation, validate
from testbed.studies.validate.findings import LIMIT, SHAPE, THEORY, WORKLOAD
from testbed.studies.validate.judging import judge
from testbed.studies.validate.twin_reading import TwinReading

SMALL = """
name = "{name}"
[run]
warmup = 20
duration = 30
replications = 14
[[cluster.pools]]
servers = 20
[workload]
load = 0.5
[dispatch]
policy = "random"
[expect]
on = ["twin"]
"""


def readings(mean: float, *, work: float = 1.0, noise: float = 0.01, seed: int = 1) -> list[TwinReading]:
    rng = np.random.default_rng(seed)
    return [TwinReading(mean * (1 + rng.normal(0, noise)), 1.0, work * (1 + rng.normal(0, 1e-3))) for _ in range(24)]


@pytest.fixture
def judged(one_size: Callable[..., Case]) -> Callable[..., list[str]]:
    """The tests that a case fails if its twins had these means, relative to theory."""

    def make(
        name: str, *means: float, servers: tuple[int, ...] = (), work: float = 1.0, noise: float = 0.01
    ) -> list[str]:
        case = one_size(name)
        case = replace(case, servers=servers, expect=Expect(on=["twin"]))
        expected = [case.expected(case.scenario)] * (1 + len(case.twins))
        found = [readings(mean * expected[0].mean, work=work, noise=noise, seed=i) for i, mean in enumerate(means)]
        return [finding.check for finding in judge(case, expected, found, None).failures]

    return make


def test_a_twin_that_is_off_theory_by_more_than_chance_fails(judged: Callable[..., list[str]]) -> None:
    assert judged("random", 1.0) == []
    assert judged("random", 1.005) == []  # the standard error is 0.2 %, of which the level grants six
    assert judged("random", 1.03) == [THEORY]
    assert judged("random", 0.97) == [THEORY]


def test_arrivals_or_sizes_that_are_off_fail_by_themselves(judged: Callable[..., list[str]]) -> None:
    assert WORKLOAD in judged("random", 1.0, work=1.01)


def test_a_limit_is_judged_by_what_the_errors_tend_to(judged: Callable[..., list[str]]) -> None:
    servers = (20, 50, 100, 200)
    assert judged("power-of-d", *(1 + 3 / n for n in servers), servers=servers) == []
    assert judged("power-of-d", *(1.2 + 3 / n for n in servers), servers=servers) == [LIMIT]
    wrong = judged("power-of-d", *(1 + n**-0.5 for n in servers), servers=servers, noise=1e-4)
    assert wrong == [LIMIT, SHAPE]


def test_an_error_that_is_gone_long_before_the_last_n_is_no_one_over_n_and_passes(
    judged: Callable[..., list[str]],
) -> None:
    servers = (20, 50, 100, 200)
    assert judged("jiq", 1.05, 1.0001, 1.0, 1.0, servers=servers, noise=1e-5) == []
    # But what is left at the last N, beyond a quarter of what 1/N would leave, is an error of the theory.
    assert LIMIT in judged("jiq", 1.05, 1.002, 1.002, 1.002, servers=servers, noise=1e-6)


def write(folder: Path, name: str, expect: str) -> Path:
    file = folder / f"{name}.toml"
    file.write_text(SMALL.format(name=name) + expect)
    return file


def test_the_command_passes_and_fails_with_its_exit_status_a_reason_and_a_folder(tmp_path: Path) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    write(cases, "true", "mean_response_time = 2.0")
    good = CliRunner().invoke(app, ["validate", str(cases), "--output", str(tmp_path / "runs"), "--processes", "1"])
    assert good.exit_code == 0, good.output
    assert "1 of 1 cases passed" in good.output
    write(cases, "growing", "finite_n = [10, 15, 20, 30]")
    write(cases, "wrong", "mean_response_time = 4.0\nwithin = 0.05")
    bad = CliRunner().invoke(app, ["validate", str(cases), "--output", str(tmp_path / "bad"), "--processes", "1"])
    assert bad.exit_code == 1
    assert "wrong: twin against theory: the twin's mean" in bad.output
    (folder,) = (tmp_path / "bad").iterdir()
    result = Validation.read(folder)
    assert [(case.name, case.passed) for case in result.cases] == [("growing", True), ("true", True), ("wrong", False)]
    assert result.tests == 7
    assert result.false_alarm == pytest.approx(7 * 2e-6)
    tests = pq.read_table(folder / "tests.parquet").to_pylist()
    assert [(row["case"], row["check"]) for row in tests if not row["passed"]] == [("wrong", THEORY)]
    sizes = pq.read_table(folder / "sizes.parquet").to_pylist()
    assert [row["servers"] for row in sizes if row["case"] == "growing"] == [10, 15, 20, 30]
    assert bad.output.replace("\n", "").endswith(f"validation folder: {folder}report: {folder}/report.html")
    assert "wrong: failed" in (folder / "report.html").read_text()
    assert {"tests.csv", "sizes.csv", "growing.svg", "growing.png", "environment.json"} <= {
        file.name for file in folder.iterdir()
    }
    assert json.loads((folder / "validation.json").read_text())["cases"]


@pytest.mark.parametrize(
    "arguments", [["nowhere"], ["--on", "moon"], ["random", "random"]], ids=["case", "place", "twice"]
)
def test_bad_input_is_one_line_and_exit_status_2(arguments: list[str], tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["validate", *arguments, "--output", str(tmp_path)])
    assert done.exit_code == 2
    assert "error: " in done.stderr
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []


def test_a_case_that_cannot_be_expected_leaves_no_folder(tmp_path: Path) -> None:
    text = SMALL.format(name="unstable").replace("load = 0.5", "load = 1.5")
    (tmp_path / "unstable.toml").write_text(text)
    done = CliRunner().invoke(app, ["validate", str(tmp_path / "unstable.toml"), "--output", str(tmp_path / "runs")])
    assert done.exit_code == 2
    assert "unstable: expect: no theory" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_case_of_which_on_leaves_nothing_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "real.toml"
    file.write_text(SMALL.format(name="real").replace('on = ["twin"]', 'on = ["cluster"]'))
    done = CliRunner().invoke(app, ["validate", str(file), "--on", "twin", "--output", str(tmp_path / "runs")])
    assert done.exit_code == 2
    assert "on: twin leaves nothing to run: real: runs on cluster only; give --on cluster" in done.stderr
    assert not (tmp_path / "runs").exists()


def test_a_window_without_a_job_is_said(tmp_path: Path) -> None:
    text = SMALL.format(name="empty").replace("load = 0.5", "load = 1e-9")
    (tmp_path / "empty.toml").write_text(text)
    arguments = ["validate", str(tmp_path / "empty.toml"), "--output", str(tmp_path), "--processes", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 1
    assert "run.duration: no job that arrived in the measured window was completed; make it longer" in done.stderr


def test_the_list_names_every_case_and_runs_none() -> None:
    done = CliRunner().invoke(app, ["validate", "--list", "--quick"])
    assert done.exit_code == 0
    assert "batch-filling" in done.output
    assert "validation folder" not in done.output


def test_an_interrupted_validation_keeps_what_is_finished_and_names_the_rest(
    one_size: Callable[..., Case], tmp_path: Path
) -> None:
    brief = {"run__duration": 100, "run__warmup": 30}
    cases = [one_size("random", **brief), one_size("round-robin", **brief)]

    class Interrupter(Progress):
        def finished(self, run: Run) -> None:
            super().finished(run)
            if self.runs_done == 13:  # one of the second case's
                raise KeyboardInterrupt

    result = validate(cases, on=["twin"], processes=1, output=tmp_path, progress=Interrupter())
    assert [case.name for case in result.cases] == ["random"]
    assert result.unfinished == ["round-robin"]
    assert not result.passed
    assert result.folder is not None
    assert Validation.read(result.folder).unfinished == ["round-robin"]
    with pytest.raises(KeyError, match="no finished case 'round-robin'"):
        result["round-robin"]


@pytest.mark.parametrize(("runs", "said"), [(15, "first: passed"), (0, "No case was finished")])
def test_an_interrupted_command_names_its_report_which_says_what_is_not_finished(
    runs: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = tmp_path / "cases"
    cases.mkdir()
    for name in ("first", "second"):
        write(cases, name, "within = 0.5")

    def refresh(lines: StudyLines, work_of_present_run: float, state: str) -> None:
        if lines.runs_done == runs:
            raise KeyboardInterrupt

    monkeypatch.setattr(StudyLines, "refresh", refresh)
    arguments = ["validate", str(cases), "--output", str(tmp_path / "runs"), "--processes", "1"]
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == INTERRUPTED
    (folder,) = (tmp_path / "runs").iterdir()
    assert f"report: {folder}/report.html" in done.stdout.replace("\n", "")
    assert "second" in done.stderr
    page = (folder / "report.html").read_text()
    assert said in page
    assert "second: not finished" in page
