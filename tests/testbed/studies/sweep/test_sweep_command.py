"""``testbed sweep``: what it prints, and with which status it ends."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from testbed.cli import app
from testbed.cli.app import INTERRUPTED
from testbed.scenario import Scenario, resolved
from testbed.studies import workers
from testbed.studies.progress import Progress

Tiny = Callable[..., Scenario]
Command = Callable[..., Result]


@pytest.fixture
def command(tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Runs the command in a folder with ``tiny.toml``; the twin in this process, since starting others takes long."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(workers, "cores", lambda: 1)
    (tmp_path / "tiny.toml").write_text(resolved(tiny()))
    return lambda *arguments: CliRunner().invoke(app, ["sweep", *arguments], env={"COLUMNS": "120"})


def folder(said: str) -> str:
    (found,) = re.findall(r"^sweep folder: (.*)$", said, re.MULTILINE)
    return str(found)


def test_it_shows_points_and_variants_side_by_side(command: Command) -> None:
    done = command("tiny.toml")
    assert done.exit_code == 0, done.output
    for load in ("0.4", "0.6", "0.8"):
        for variant in ("random", "jsq"):
            assert re.search(rf"^ *{load}  {variant} +\d\.\d+ ± \d", done.stdout, re.MULTILINE), done.stdout
    assert "load  variant" in done.stdout
    assert Path(folder(done.stdout), "sweep.csv").exists()


def test_theory_alone_and_quietly(command: Command) -> None:
    done = command("tiny.toml", "--on", "theory", "--quiet")
    assert done.exit_code == 0, done.output
    assert "5.000 exact" in done.stdout  # 1 / (1 - 0.8)
    assert done.stderr == ""


def test_a_target_is_said_to_be_reached_or_not(command: Command) -> None:
    done = command("tiny.toml", "--target", "70%", "--budget", "12")
    assert done.exit_code == 0, done.output
    assert re.search(
        r"workload.load = 0.4: jsq \(twin\): ±\d+.\d+% after 10 replications: target of ±70% reached", done.stdout
    )
    done = command("--resume", folder(done.stdout), "--target", "0.001")
    assert done.exit_code == 0, done.output
    said = r"after 12 replications: budget used up before the target of ±0.1% was reached"
    assert len(re.findall(said, done.stdout)) == 6


def test_unstable_points_are_announced(command: Command, tiny: Tiny) -> None:
    Path("busy.toml").write_text(resolved(tiny({"sweep.grid": {"workload.load": [0.5, 1.5]}})))
    done = command("busy.toml")
    assert done.exit_code == 0, done.output
    assert "workload.load = 1.5: random: unstable: the load is 1.5, the stability bound is 1 (" in done.stderr
    assert "workload.load = 0.5: random: unstable" not in done.stderr


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ([], "scenario: missing; give what to run, or the folder of an interrupted sweep to resume"),
        (["quickstart"], "sweep: missing; give [sweep.grid]"),
        (["tiny.toml", "--on", "twin,moon"], "on: there is no 'moon'; give some of cluster, twin, theory"),
        (["tiny.toml", "--target", "good"], "target: must be a fraction such as 1% or 0.01, not 'good'"),
        (["tiny.toml", "--target", "200%"], "target: must be a fraction between 0 and 1, such as 0.01 for 1 %, not 2"),
        (["tiny.toml", "--budget", "5"], "budget: bounds the replications towards a target; give the target too"),
        (["tiny.toml", "--on", "theory", "--target", "5%"], "target: theory makes no replications"),
        (["--resume", "nowhere", "--output", "runs"], "output: the sweep goes on in its own folder, nowhere; leave it"),
        (["--resume", "nowhere"], "nowhere: not the folder of a sweep (it has no sweep.json)"),
    ],
)
def test_bad_input_is_one_line_and_status_2(command: Command, arguments: list[str], problem: str) -> None:
    done = command(*arguments)
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert problem in done.stderr
    assert done.stderr.count("\n") == 1


def test_an_interrupt_before_the_first_run_shows_no_empty_table(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "expect", interrupt)
    done = command("tiny.toml", "--quiet")
    assert done.exit_code == INTERRUPTED
    assert done.stdout == ""
    (begun,) = Path("runs").iterdir()
    assert done.stderr == f"interrupted before any run had finished; continue with: testbed sweep --resume {begun}\n"


def test_a_changed_scenario_is_not_gone_on_with(command: Command, tiny: Tiny) -> None:
    begun = folder(command("tiny.toml", "--quiet").stdout)
    Path("tiny.toml").write_text(resolved(tiny({"seed": 6})))
    done = command("tiny.toml", "--resume", begun)
    assert done.exit_code == 2
    assert "holds a sweep of another scenario, or of this one before it was changed" in done.stderr


def test_testbed_run_points_at_testbed_sweep(command: Command) -> None:
    done = CliRunner().invoke(app, ["run", "tiny.toml", "--virtual"])
    assert done.exit_code == 2
    assert "run it with `testbed sweep`" in done.stderr
