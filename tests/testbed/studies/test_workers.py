"""Runs of the twin on several processes: each is made, once, whatever happens to the processes."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.scenario import Scenario, decode
from testbed.studies import workers as workers_module
from testbed.studies.plan import Run
from testbed.studies.workers import TwinError, run_twins

#: Functions that reduce a run; the workers import them.
MEASURES = """
import os, signal, threading
from pathlib import Path

def jobs(scenario, measurements):
    return len(measurements.columns["job"])

def seed_and_jobs(scenario, measurements):
    return scenario.seed, len(measurements.columns["job"])

def probe_rate(scenario, measurements):
    return scenario.balance.probe_rate

def process(scenario, measurements):
    return os.getpid()

def kill_when_seed_is_13(scenario, measurements):
    if scenario.seed == 13:
        os.kill(os.getpid(), signal.SIGKILL)

def fail(scenario, measurements):
    raise LookupError("not to be found")

def unpicklable(scenario, measurements):
    return threading.Lock()
"""

SCRIPT = """
import sys, measures
from testbed.scenario import load
from testbed.studies.plan import Run
from testbed.studies.workers import run_twins
if __name__ == "__main__":
    scenario = load("quickstart").with_settings({{"run.duration": {duration}, "variants": []}})
    try:
        for run, value in run_twins([Run("quickstart", scenario, i) for i in range(6)], measures.process, 2):
            print(value, flush=True)
    except KeyboardInterrupt:
        sys.exit("interrupted")
"""


@pytest.fixture
def measures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "measures.py").write_text(MEASURES)
    monkeypatch.syspath_prepend(tmp_path)  # workers are given the same path
    sys.modules.pop("measures", None)
    return importlib.import_module("measures")


def workers() -> list[int]:
    """The worker processes of this one."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in children if b"popen_loky_posix" in Path(f"/proc/{pid}/cmdline").read_bytes()]


def scenario(seed: int = 1, **settings: Any) -> Scenario:
    tiny = {
        "name": "tiny",
        "seed": seed,
        "run": {"warmup": 0, "duration": 20},
        "cluster": {"pools": [{"servers": 5}]},
        "workload": {"load": 0.6},
        "dispatch": {"policy": "random"},
    }
    return decode({**tiny, **settings})


def runs(count: int) -> list[Run]:
    return [
        Run(f"seed {seed}, replication {replication}", scenario(seed), replication, key=(seed, replication))
        for seed in range(count)
        for replication in (0, 1)
    ]


def outcomes(made: list[Run], measure: Callable[..., Any], processes: int) -> dict[Any, Any]:
    found = [(run.key, value) for run, value in run_twins(made, measure, processes)]
    assert sorted(key for key, _ in found) == sorted(run.key for run in made)
    return dict(found)


def test_several_processes_give_what_one_gives(measures: Any) -> None:
    made = runs(6)
    alone = outcomes(made, measures.seed_and_jobs, 1)
    assert outcomes(made, measures.seed_and_jobs, 2) == alone
    assert all(seed == key[0] for key, (seed, _) in alone.items())
    assert len({jobs for _, jobs in alone.values()}) > 3
    assert workers() == []


def test_the_work_is_done_by_workers_or_here(measures: Any) -> None:
    assert set(outcomes(runs(2), measures.process, 1).values()) == {os.getpid()}
    found = set(outcomes(runs(2), measures.process, 2).values())
    assert os.getpid() not in found
    assert len(found) <= 2


def test_no_runs_are_no_work(measures: Any) -> None:
    assert list(run_twins([], measures.jobs, 2)) == []
    with pytest.raises(ValueError, match="at least 1"):
        list(run_twins([], measures.jobs, 0))


def test_the_rate_of_clocks_is_found_where_a_scenario_leaves_it_open(measures: Any) -> None:
    balance = {"policy": "stealing", "overall_probe_rate": 0.4, "calibration": "mean-field"}
    ((_, rate),) = run_twins([Run("stealing", scenario(balance=balance))], measures.probe_rate, 1)
    assert rate == pytest.approx(1.0)  # stealing: idle servers, a share 1 - 0.6 of all, ask at the rate 1


def test_the_runs_of_killed_workers_are_made_again_and_none_twice(measures: Any) -> None:
    made = runs(8)
    found = {}
    killed = 0
    for run, value in run_twins(made, measures.seed_and_jobs, 2):
        assert run.key not in found
        found[run.key] = value
        if len(found) in (1, 9):
            for worker in workers():
                os.kill(worker, signal.SIGKILL)
                killed += 1
    assert killed >= 2
    assert found == outcomes(made, measures.seed_and_jobs, 1)
    assert workers() == []


def test_a_run_that_kills_its_workers_again_and_again_is_named(measures: Any) -> None:
    made = [Run(f"seed {seed}", scenario(seed)) for seed in (1, 13, 2)]
    with pytest.raises(TwinError, match=r"seed 13: 3 processes died .*SIGKILL"):
        list(run_twins(made, measures.kill_when_seed_is_13, 2))
    assert workers() == []


@pytest.mark.parametrize("processes", [1, 2])
def test_an_error_in_a_run_comes_out_with_the_run_s_name(measures: Any, processes: int) -> None:
    with pytest.raises(TwinError, match="the second: LookupError: not to be found") as raised:
        list(run_twins([Run("the second", scenario(), 1)] * processes, measures.fail, processes))
    assert 'raise LookupError("not to be found")' in str(raised.getrepr(chain=True))
    assert workers() == []


def test_a_result_that_can_t_be_sent_is_an_error_and_not_a_death(measures: Any) -> None:
    with pytest.raises(TwinError, match=r"TypeError.*pickle"):
        list(run_twins(runs(1), measures.unpicklable, 2))


def test_leaving_the_loop_ends_the_workers(measures: Any) -> None:
    made = run_twins(runs(20), measures.jobs, 2)
    next(made)
    assert workers() != []
    made.close()
    assert workers() == []


def script(tmp_path: Path, text: str) -> subprocess.Popen[str]:
    (tmp_path / "script.py").write_text(text)
    return subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_an_interrupted_or_a_killed_script(measures: Any, tmp_path: Path, number: int) -> None:
    process = script(tmp_path, SCRIPT.format(duration=1000))
    assert process.stdout is not None
    made = {int(process.stdout.readline()), int(process.stdout.readline())}
    if number == signal.SIGINT:
        os.killpg(process.pid, number)  # to all of them, as a terminal does it
    else:
        process.kill()
    _, err = process.communicate(timeout=20)
    if number == signal.SIGINT:
        assert err == "interrupted\n"
    else:
        assert "Traceback" not in err  # loky's tracker says that it removes the semaphores of the killed process
    end = time.monotonic() + 20
    while any(map(alive, made)):
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("arguments", [["script.py"], ["-"]])
def test_a_script_needs_no_guard_and_may_come_from_standard_input(
    measures: Any, tmp_path: Path, arguments: list[str]
) -> None:
    text = SCRIPT.format(duration=10).replace('__name__ == "__main__"', "True")
    (tmp_path / "script.py").write_text(text)
    done = subprocess.run(
        [sys.executable, *arguments], input=text, cwd=tmp_path, capture_output=True, text=True, timeout=100, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == 6


def test_workers_that_do_not_start_are_an_error(measures: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers_module, "_end_with", lambda parent: os._exit(3))
    with pytest.raises(
        TwinError, match=r"3 processes died .*EXIT\(3\).* see what the processes wrote to standard error"
    ):
        list(run_twins(runs(2), measures.jobs, 2))
    assert workers() == []


def test_without_tools_to_look_for_their_children_workers_end_without_a_word(
    measures: Any, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setenv("PATH", "")  # no pgrep
    made = run_twins(runs(20), measures.jobs, 2)
    next(made)
    made.close()
    assert workers() == []
    assert list(recwarn) == []
