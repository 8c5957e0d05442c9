"""The folder of a sweep: what is in it is finished, and a sweep goes on from it only if it is the same sweep."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from testbed.runs.run_folder import OutputError
from testbed.scenario import Scenario
from testbed.studies.sweep.plan import FinishedRun, Goal
from testbed.studies.sweep.sweep_folder import SweepFolder, read_sweep

Tiny = Callable[..., Scenario]
Finished = Callable[..., FinishedRun]


def folder_of(tmp_path: Path, tiny: Tiny, finished: Finished, runs: int) -> tuple[Path, list[FinishedRun]]:
    folder = SweepFolder.begin(tiny(), Goal(), tmp_path)
    made = [finished(i, "random", 0, 1.0 + i) for i in range(runs)]
    for run in made:
        folder.add(run)
    folder.close()
    return folder.path, made


def test_what_was_saved_is_there_on_resuming(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    path, made = folder_of(tmp_path, tiny, finished, 3)
    folder = SweepFolder.resume(path, tiny())
    folder.add(finished(1, "jsq", 0, 9.0))
    folder.close()
    scenario, goal, runs = read_sweep(path)
    assert scenario == tiny()
    assert goal == Goal()
    assert list(runs.values()) == [*made, finished(1, "jsq", 0, 9.0)]


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 1.0])
def test_a_line_that_was_cut_off_is_taken_away_and_no_other(
    tmp_path: Path, tiny: Tiny, finished: Finished, share: float
) -> None:
    path, made = folder_of(tmp_path, tiny, finished, 2)
    log = path / "runs.jsonl"
    first, second = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(first + second[: int(share * (len(second) - 1))])  # at most all but the end of the line
    assert list(read_sweep(path)[2].values()) == made[:1]
    folder = SweepFolder.resume(path)
    assert list(folder.runs.values()) == made[:1]
    folder.add(made[1])
    folder.close()
    assert log.read_bytes() == first + second


def test_two_can_t_work_on_one_sweep(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    path, _ = folder_of(tmp_path, tiny, finished, 1)
    folder = SweepFolder.resume(path)
    with pytest.raises(OutputError, match="another process is running this sweep"):
        SweepFolder.resume(path)
    folder.close()
    SweepFolder.resume(path).close()


def test_a_changed_scenario_is_refused(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    path, _ = folder_of(tmp_path, tiny, finished, 1)
    with pytest.raises(OutputError, match="holds a sweep of another scenario, or of this one before it was changed"):
        SweepFolder.resume(path, tiny({"workload.load": 0.51}))
    file = path / "scenario.toml"
    file.write_text(file.read_text().replace("0.8", "0.81"))
    with pytest.raises(OutputError, match=r"scenario.toml: was changed since the sweep began"):
        SweepFolder.resume(path)


def test_an_untouched_folder_is_resumed_whatever_its_defaults_look_like(
    tmp_path: Path, tiny: Tiny, finished: Finished
) -> None:
    scenario = tiny({"dispatch": {"policy": "power-of-d"}})  # d is a fraction, and its default a whole number
    folder = SweepFolder.begin(scenario, Goal(), tmp_path)
    folder.change_goal(Goal(target=0.02))
    folder.close()
    SweepFolder.resume(folder.path).close()
    SweepFolder.resume(folder.path, scenario).close()


def test_the_folder_of_a_version_that_wrote_other_defaults_is_resumed(
    tmp_path: Path, tiny: Tiny, finished: Finished
) -> None:
    scenario = tiny({"dispatch": {"policy": "power-of-d"}})
    folder = SweepFolder.begin(scenario, Goal(), tmp_path)
    folder.close()
    text = (folder.path / "scenario.toml").read_bytes()
    old = text.replace(b"d = 2.0\n", b"d = 2\n")
    assert old != text
    (folder.path / "scenario.toml").write_bytes(old)
    header = (folder.path / "sweep.json").read_text()
    digests = [hashlib.sha256(content).hexdigest() for content in (text, old)]
    (folder.path / "sweep.json").write_text(header.replace(*digests))
    SweepFolder.resume(folder.path, scenario).close()


def test_target_and_budget_may_change_and_places_may_not(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    path, _ = folder_of(tmp_path, tiny, finished, 1)
    folder = SweepFolder.resume(path)
    folder.change_goal(Goal(target=0.02, budget=7))
    with pytest.raises(OutputError, match="runs on twin,theory, not on cluster"):
        folder.change_goal(Goal(on=("cluster",)))
    folder.close()
    assert read_sweep(path)[1] == Goal(target=0.02, budget=7)


def test_what_is_no_sweep_is_said(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    with pytest.raises(OutputError, match="not the folder of a sweep"):
        SweepFolder.resume(tmp_path)
    with pytest.raises(OutputError, match="not the folder of a sweep"):
        SweepFolder.resume(tmp_path / "nowhere")
    path, _ = folder_of(tmp_path, tiny, finished, 2)
    log = path / "runs.jsonl"
    log.write_bytes(b'{"point": 1}\n' + log.read_bytes())
    with pytest.raises(OutputError, match="line 1 is not a finished run"):
        SweepFolder.resume(path)
    (path / "sweep.json").write_text("[]")
    with pytest.raises(OutputError, match="not what a sweep writes"):
        SweepFolder.resume(path)


@pytest.mark.parametrize(
    ("point", "variant", "replication", "named"),
    [
        (3, "random", 0, "point 3, random, replication 1"),
        (-1, "random", 0, "point -1, random, replication 1"),
        (0, "sq", 0, "point 0, sq, replication 1"),
        (0, "random", 2, "point 0, random, replication 3"),
        (0, "random", -1, "point 0, random, replication 0"),
    ],
)
def test_a_line_of_no_run_of_the_sweep_is_refused(
    tmp_path: Path, tiny: Tiny, finished: Finished, point: int, variant: str, replication: int, named: str
) -> None:
    path, _ = folder_of(tmp_path, tiny, finished, 1)
    with (path / "runs.jsonl").open("ab") as log:
        log.write(msgspec.json.encode(finished(point, variant, replication, 1.0)) + b"\n")
    said = rf"runs.jsonl: line 2 is not of a run of this sweep \({named}\); remove the line"
    with pytest.raises(OutputError, match=said):
        SweepFolder.resume(path)
    with pytest.raises(OutputError, match=said):
        read_sweep(path)


def test_with_a_target_more_replications_than_the_budget_may_be_there(
    tmp_path: Path, tiny: Tiny, finished: Finished
) -> None:
    folder = SweepFolder.begin(tiny(), Goal(target=0.02, budget=20), tmp_path)
    folder.add(finished(0, "random", 19, 1.0))
    folder.change_goal(Goal(target=0.02, budget=12))
    folder.close()
    again = SweepFolder.resume(folder.path)
    again.close()
    assert [key.replication for key in again.runs] == [19]


def test_a_folder_of_a_newer_version_is_refused(tmp_path: Path, tiny: Tiny, finished: Finished) -> None:
    path, _ = folder_of(tmp_path, tiny, finished, 1)
    (path / "sweep.json").write_text('{"schema": 2, "what": "else"}')
    with pytest.raises(
        OutputError, match=r"newer version of the testbed \(schema 2, and this version reads schema 1\)"
    ):
        SweepFolder.resume(path)
    with pytest.raises(OutputError, match="newer version of the testbed"):
        read_sweep(path)
