"""The command: what it prints, and with which status it ends. Errors are one line that says what to do."""

from __future__ import annotations

import json
import re
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from typer.testing import CliRunner, Result

from testbed.cli import app
from testbed.runs import run_folder
from testbed.scenario.policies import policies
from testbed.scenario.scenario_files import shipped

SCENARIO = """
name = "tiny"
seed = 4
[run]
time_unit = "10ms"
warmup = 5
duration = 40
[cluster]
nodes = 1
pools = [{ name = "main", servers = 5 }]
[workload]
load = 0.6
[dispatch]
policy = "random"
[[variants]]
name = "two choices"
set = { "dispatch.policy" = "power-of-d" }
"""

Command = Callable[..., Result]


@pytest.fixture
def command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """Call ``testbed`` in a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: object) -> Result:
        result = CliRunner().invoke(app, [str(argument) for argument in arguments])
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        assert "Traceback" not in result.output
        return result

    return call


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "tiny.toml"
    path.write_text(SCENARIO)
    return path


@pytest.fixture
def finished(command: Command, scenario: Path) -> Path:
    """The folder of a finished run on the cluster."""
    result = command("run", scenario, "--quiet")
    assert result.exit_code == 0, result.output
    (folder,) = Path("runs").iterdir()
    return folder.absolute()


def assert_error(result: Result, *parts: str, status: int = 2) -> None:
    """Check that there is exactly one line, on standard error, with these parts in this order."""
    assert result.exit_code == status, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1, result.stderr
    assert result.stderr.endswith("\n")
    assert re.search(".*".join(re.escape(part) for part in parts), result.stderr), result.stderr


# --- what can be wrong with what is asked for


@pytest.mark.parametrize("name", ["run", "theory"])
@pytest.mark.parametrize(
    ("old", "new", "parts"),
    [
        ("load = 0.6", "laod = 0.6", ["tiny.toml", "workload.laod", "unknown key", 'did you mean "load"']),
        ("load = 0.6", "load = -1", ["tiny.toml", "workload.load"]),
        ('policy = "random"', 'policy = "ramdom"', ["tiny.toml", "dispatch.policy", "unknown policy", '"random"']),
        ("seed = 4", "seed = ", ["tiny.toml", "line 3"]),
        ('time_unit = "10ms"', 'time_unit = "10"', ["tiny.toml", "run.time_unit", '"50ms"']),
        (
            "load = 0.6",
            'load = 0.6\narrivals = { kind = "trace", file = "missing.csv" }',
            ["tiny.toml", "workload.arrivals", "missing.csv"],
        ),
        ('"dispatch.policy" = "power', '"dispatch.polcy" = "power', ["tiny.toml", "variants", "dispatch.polcy"]),
    ],
)
def test_a_bad_scenario_is_one_line(
    command: Command, scenario: Path, name: str, old: str, new: str, parts: list[str]
) -> None:
    assert old in SCENARIO
    scenario.write_text(SCENARIO.replace(old, new))
    assert_error(command(name, scenario), *parts)
    assert not Path("runs").exists()


@pytest.mark.parametrize("name", ["run", "theory"])
def test_a_missing_scenario_is_one_line(command: Command, name: str) -> None:
    assert_error(command(name, "quickstrat"), "quickstrat", "no such file", "quickstart")


def test_virtual_and_twin_exclude_each_other(command: Command, scenario: Path) -> None:
    assert_error(command("run", scenario, "--virtual", "--twin"), "--virtual", "--twin", "one of them")


def test_an_output_path_that_is_a_file_is_refused_before_anything_starts(command: Command, scenario: Path) -> None:
    Path("taken").write_text("mine")
    assert_error(command("run", scenario, "--output", "taken"), "taken", "--output")
    assert_error(command("run", scenario, "--output", "taken/deeper"), "taken/deeper", "--output")
    assert Path("taken").read_text() == "mine"


def test_an_output_folder_that_can_not_be_written_is_refused(
    command: Command, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path, *arguments: object, **options: object) -> None:
        raise PermissionError(13, "Permission denied", str(path))  # whoever runs the tests may be allowed everything

    monkeypatch.setattr(Path, "mkdir", refuse)
    assert_error(command("run", scenario, "--output", "locked"), "locked", "Permission denied", "--output")


def test_a_full_disk_is_noticed_before_anything_starts(
    command: Command, scenario: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_folder.shutil, "disk_usage", lambda path: SimpleNamespace(free=1000))
    assert_error(command("run", scenario), "runs", "0 MB are free", "--output", "run.duration")
    assert list(Path("runs").iterdir()) == []


@pytest.mark.cluster
@pytest.mark.parametrize("length", [78, 80, 200])
def test_a_temporary_folder_with_a_long_path_is_one_line(
    command: Command, scenario: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    """A Unix socket's path has at most 107 bytes; the longest, the controller's, is 28 longer than the folder's."""
    base = Path(tempfile.mkdtemp(prefix="tb"))
    deep = base / ("x" * (length - len(str(base)) - 1))
    try:
        deep.mkdir()
        monkeypatch.setattr("tempfile.tempdir", str(deep))
        result = command("run", scenario, "--quiet")
        if length == 78:
            assert result.exit_code == 0, result.output
        else:
            assert_error(result, "cannot listen", str(deep), "TMPDIR", 'transport = "tcp"', status=1)
        assert list(deep.iterdir()) == []
    finally:
        shutil.rmtree(base)


# --- what it shows


def test_an_unstable_scenario_is_announced_before_it_starts(command: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("load = 0.6", "load = 1.1"))
    result = command("run", scenario, "--virtual")
    assert result.exit_code == 0
    first, second = result.stderr.splitlines()
    assert first.startswith("random: unstable: the load is 1.1, the stability bound is 1 (")
    assert second.startswith("two choices: unstable: the load is 1.1, the stability bound is 1 (")


def test_a_virtual_run_shows_results_and_makes_its_folder(command: Command, scenario: Path) -> None:
    result = command("run", scenario, "--virtual", "--output", "elsewhere")
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "time (twin)" in result.stdout
    assert "two choices" in result.stdout
    (folder,) = Path("elsewhere").iterdir()
    assert f"run folder: elsewhere/{folder.name}" in result.stdout
    assert {path.name for path in folder.iterdir()} >= {"scenario.toml", "summary.json", "twin.parquet"}
    assert not (folder / "jobs.parquet").exists()


@pytest.mark.cluster
def test_quiet_shows_only_the_results_and_the_twin_can_follow_later(command: Command, finished: Path) -> None:
    before = json.loads((finished / "summary.json").read_text())
    assert [(run["variant"], run["source"], run["pathwise"]) for run in before] == [
        ("random", "cluster", None),
        ("two choices", "cluster", None),
    ]
    for _ in range(2):  # replaying again replaces what the first replay wrote
        result = command("twin", finished)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert "two choices" in result.stdout
        after = json.loads((finished / "summary.json").read_text())
        assert [(run["variant"], run["source"]) for run in after] == [
            ("random", "cluster"),
            ("random", "twin"),
            ("two choices", "cluster"),
            ("two choices", "twin"),
        ]
        assert after[0]["pathwise"]["same_server"] == 1.0
        assert after[0]["pathwise"]["unmatched"] == 0
        assert {**after[0], "pathwise": None, "verdict": None} == {**before[0], "verdict": None}


@pytest.mark.cluster
def test_output_that_is_no_terminal_gets_plain_lines(command: Command, scenario: Path) -> None:
    result = command("run", scenario, "--twin")
    assert result.exit_code == 0
    assert "\x1b" not in result.output
    assert "\r" not in result.output
    assert re.match(r"random +\d+% ", result.stderr)
    assert "emulation" in result.stdout


# --- folders that are none


def test_the_twin_of_a_folder_that_is_no_run_is_one_line(command: Command, tmp_path: Path) -> None:
    assert_error(command("twin", tmp_path / "nowhere"), "nowhere", "summary.json")
    assert_error(command("twin", tmp_path), str(tmp_path), "summary.json")


def test_the_twin_of_a_virtual_run_is_one_line(command: Command, scenario: Path) -> None:
    assert command("run", scenario, "--virtual").exit_code == 0
    (folder,) = Path("runs").iterdir()
    assert_error(command("twin", folder), folder.name, "no run on the cluster")


@pytest.mark.cluster
def test_a_damaged_run_folder_is_one_line_that_names_the_file(command: Command, finished: Path) -> None:
    summary = (finished / "summary.json").read_bytes()
    jobs = (finished / "jobs.parquet").read_bytes()
    for damaged in (b"", b"nonsense", summary[: len(summary) // 2], b"{}", b"[1]", b'[{"schema": "x"}]', b"\xff\xfe"):
        (finished / "summary.json").write_bytes(damaged)
        assert_error(command("twin", finished), "summary.json")
    (finished / "summary.json").write_bytes(summary.replace(b'"schema": 1', b'"schema": 99'))
    assert_error(command("twin", finished), "summary.json", "schema 99", "schema 1")
    (finished / "summary.json").write_bytes(summary.replace(b'"two choices"', b'"three choices"'))
    assert_error(command("twin", finished), "summary.json", "three choices", "scenario.toml")
    (finished / "summary.json").write_bytes(summary)

    for damaged in (b"", b"PAR1 and no more", jobs[: len(jobs) // 2]):
        (finished / "jobs.parquet").write_bytes(damaged)
        assert_error(command("twin", finished), "jobs.parquet")
    (finished / "jobs.parquet").unlink()
    assert_error(command("twin", finished), "jobs.parquet")
    (finished / "jobs.parquet").write_bytes(jobs)

    text = (finished / "scenario.toml").read_text()
    (finished / "scenario.toml").write_text(text.replace("load", "laod"))
    assert_error(command("twin", finished), "scenario.toml", "laod")
    (finished / "scenario.toml").unlink()
    assert_error(command("twin", finished), "scenario.toml")
    (finished / "scenario.toml").write_text(text)
    assert command("twin", finished).exit_code == 0


# --- the other commands


def test_theory_shows_a_line_for_each_variant(command: Command, scenario: Path) -> None:
    result = command("theory", scenario)
    assert result.exit_code == 0
    assert result.stderr == ""
    assert "2.500" in result.stdout  # M/M/1 at load 0.6: 1 / (1 - 0.6)
    assert "two choices" in result.stdout


def test_theory_of_pools_shows_their_effective_loads_and_the_best_bound_and_a_run_above_it_is_announced(
    command: Command,
) -> None:
    """Two pools of five, a slow speed of 0.2, rerouting at 3.8: the bound is 0.4 (formula sheet, section 13, row 8)."""
    result = command("theory", "rerouting")
    assert result.exit_code == 0
    assert "effective load per server: one 0.6249, two 0.6249" in result.stdout
    assert "the best stability bound is a load of 0.4001" in result.stdout
    short = shipped()["rerouting"].replace("duration = 300", "duration = 20").replace("warmup = 100", "warmup = 5")
    Path("above.toml").write_text(short.replace("load = 0.25", "load = 0.5"), encoding="utf-8")
    above = command("run", "above.toml", "--virtual")
    assert "static+reroute: unstable: the load is 0.5, the stability bound is 0.4 (with this rerouting" in above.stderr
    assert "servers of pool one" in above.stderr


def test_theory_marks_a_bound_that_may_be_lower_and_says_why(command: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace('policy = "random"', 'policy = "hedge"\ndelay = 1.0'))
    shown = command("theory", scenario).stdout
    assert re.search(r"hedge +0\.6 +≤ 1 ", shown)
    assert "the true stability bound may be lower: identical servers, all busy" in shown
    hedged = 'policy = "hedge"\ndelay = 1.0'
    uneven = 'load = 0.6\nsize = { kind = "hyperexponential", scv = 4.0 }\ndependence = "independent"'
    scenario.write_text(SCENARIO.replace('policy = "random"', hedged).replace("load = 0.6", uneven))
    shown = command("theory", scenario).stdout
    assert re.search(r"hedge +0\.6 +- ", shown)
    assert "no stability bound: none is known" in shown


def test_theory_of_an_unstable_scenario_has_no_mean(command: Command, scenario: Path) -> None:
    scenario.write_text(SCENARIO.replace("load = 0.6", "load = 1.1"))
    result = command("theory", scenario)
    assert result.exit_code == 0
    assert "1.1" in result.stdout
    assert re.search("unstable|stability", result.stdout)


def test_schema_is_json(command: Command) -> None:
    result = command("schema")
    assert result.exit_code == 0
    schema = json.loads(result.stdout)
    assert "dispatch" in json.dumps(schema)


def test_policies_lists_every_policy_with_its_parameters(command: Command) -> None:
    result = command("policies")
    assert result.exit_code == 0
    for name, policy in policies().items():
        assert name in result.stdout
        assert policy.__doc__
    assert "timeout (none)" in result.stdout


def test_shipped_scenarios_are_listed_shown_and_copied(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    listed = command("scenarios").stdout
    for name, text in shipped().items():
        assert name in listed
        assert command("show", name).stdout == text
    assert command("init").exit_code == 0
    assert Path("scenario.toml").read_text() == shipped()["quickstart"]
    assert command("init", "own.toml", "--like", "stealing").exit_code == 0
    assert Path("own.toml").read_text() == shipped()["stealing"]


def test_nothing_is_overwritten_and_unknown_scenarios_are_refused(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.toml").write_text("mine")
    for arguments, message in (
        (("init", "mine.toml"), "mine.toml: is there already; give another name"),
        (("init", "none/x.toml"), "none/x.toml: No such file or directory; choose a file that you may write"),
        (("init", "x.toml", "--like", "quikstart"), 'did you mean "quickstart"?'),
        (("show", "quikstart"), "testbed scenarios lists them"),
    ):
        refused = command(*arguments)
        assert refused.exit_code == 2
        assert message in refused.stderr
        assert len(refused.stderr.splitlines()) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["mine.toml"]
    assert Path("mine.toml").read_text() == "mine"


def test_without_a_command_it_says_what_there_is(command: Command) -> None:
    result = command()
    for name in ("run", "twin", "theory", "schema", "policies"):
        assert name in result.output


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("run", ["[default: 60 if it has read metrics"]),
        ("sweep", ["with [sweep], or", "[default: twin,theory]", "[default: 100]", "[default: runs]"]),
        ("validate", ["[CASE]...", "with [expect], or"]),
        ("report", ["[default: report.html in the folder]"]),
        ("dash", ["[default: the only running cluster]"]),
        ("top", ["[default: the only running one]"]),
        ("trace", ["[default: the first]", "[default: trace-JOB.svg in the folder]"]),
    ],
)
def test_help_keeps_its_words_in_brackets(name: str, words: list[str]) -> None:
    shown = CliRunner().invoke(app, [name, "--help"], env={"COLUMNS": "300"}).output
    text = " ".join(shown.replace("│", " ").split())
    for word in words:
        assert word in text, text
    assert "\\[" not in text


def test_reproduce_lists_the_studies(command: Command) -> None:
    result = command("reproduce", "--list")
    assert result.exit_code == 0
    assert "zero-queueing-delay" in result.output


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["zero-queuing-delay"], 'did you mean "zero-queueing-delay"'),
        ([], "give the NAME of a study"),
        (["zero-queueing-delay", "--output", "/dev/null/x"], "output folder /dev/null/x"),
    ],
)
def test_reproduce_refuses_what_it_can_not_do(command: Command, arguments: list[str], words: str) -> None:
    result = command("reproduce", *arguments)
    assert result.exit_code == 2
    assert words in result.output
