"""Which clusters stand is known by their locks."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from testbed.runs.long_running.register import Claim, LongRunningError, State, clean, directory, folder_of, running


@pytest.fixture(autouse=True)
def runtime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))


def state(name: str, pid: int = 1) -> State:
    return State(
        name=name,
        pid=pid,
        started=time.time() - 600,
        scenario="s",
        variant="random",
        time_unit_seconds=0.05,
        run_folder="runs/s-1",
    )


def test_a_cluster_with_a_claimed_name_runs_once_its_state_is_written_until_it_is_released() -> None:
    claim = Claim.take("a")
    assert running() == []
    claim.write(state("a"))
    assert [found.name for found in running()] == ["a"]
    assert clean() == []
    with pytest.raises(LongRunningError, match='"a" is already running: choose another --name, or `testbed down a`'):
        Claim.take("a")
    other = Claim.take("b")
    other.write(state("b"))
    assert [found.name for found in running()] == ["a", "b"]
    claim.release()
    assert [found.name for found in running()] == ["b"]
    other.release()
    assert list(directory().iterdir()) == []


def test_what_a_killed_owner_leaves_is_recognised_though_its_process_id_is_another_ones_now() -> None:
    claim = f"""
from testbed.runs.long_running.register import Claim, State
Claim.take("gone").write(State(name="gone", pid={os.getpid()}, started=0.0, scenario="s", variant="v",
    time_unit_seconds=1.0, run_folder="runs/x"))
Claim.take("unborn")
import os
os.kill(os.getpid(), 9)
"""
    assert subprocess.run([sys.executable, "-c", claim], timeout=60, check=False).returncode == -9
    assert running() == []
    said = clean()
    assert len(said) == 2
    assert said[0].startswith("gone: was killed")
    assert "runs/x/records" in said[0]
    assert said[1] == "unborn: did not come up; cleaned up"
    assert clean() == []
    assert list(directory().iterdir()) == []


def test_a_name_is_free_again_after_its_owner_was_killed() -> None:
    taken = Claim.take("a")
    taken.write(state("a"))
    (taken.folder / "logs" / "old.log").write_text("old")
    taken.release(remove=False)
    claim = Claim.take("a")
    assert sorted(path.name for path in claim.folder.iterdir()) == ["lock", "logs"]
    assert list((claim.folder / "logs").iterdir()) == []
    claim.release()


def test_a_cluster_that_broke_says_why() -> None:
    claim = Claim.take("a")
    broken = state("a")
    broken.ended = "process node-0 was ended by signal SIGKILL"
    claim.write(broken)
    assert running() == []
    claim.release(remove=False)
    assert clean() == ["a: process node-0 was ended by signal SIGKILL; its measurements are in runs/s-1"]


@pytest.mark.parametrize("name", ["", "../x", "a/b", ".", "-x", "a b", "x" * 65])
def test_names_are_names_of_files(name: str) -> None:
    with pytest.raises(LongRunningError, match="can't be a cluster's name: use letters"):
        folder_of(name)


def test_a_directory_that_others_can_enter_is_refused() -> None:
    directory().chmod(0o755)
    with pytest.raises(LongRunningError, match="is not a folder that only you can enter"):
        running()
