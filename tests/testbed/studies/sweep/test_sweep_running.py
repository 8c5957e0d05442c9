"""Making a sweep: no run is lost or made twice, whatever is killed, interrupted or fails meanwhile."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest

import testbed
from testbed.core.records import Measurements
from testbed.runs.run_folder import OutputError
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, ScenarioError, resolved
from testbed.studies import engine
from testbed.studies.plan import Run
from testbed.studies.progress import Progress
from testbed.studies.sweep import sweeping
from testbed.studies.sweep.plan import RunKey
from testbed.studies.sweep.result import SweepResult
from testbed.studies.sweep.sweep_folder import read_sweep
from testbed.studies.sweep.sweeping import SweepError

Tiny = Callable[..., Scenario]


class Interrupter(Progress):
    """Does something when so many runs are finished."""

    def __init__(self, at: int, action: Callable[[], object]) -> None:
        super().__init__()
        self._at, self._action = at, action
        self.order: list[RunKey] = []

    def finished(self, run: Run) -> None:
        super().finished(run)
        self.order.append(run.key)
        if len(self.order) == self._at:
            self._action()


def interrupt() -> None:
    raise KeyboardInterrupt


def lines(folder: Path) -> list[bytes]:
    return (folder / "runs.jsonl").read_bytes().splitlines()


def only(folder: Path) -> Path:
    (found,) = folder.iterdir()
    return found


@pytest.mark.parametrize("processes", [1, 2])
def test_an_interrupted_sweep_goes_on_where_it_stopped(tiny: Tiny, tmp_path: Path, processes: int) -> None:
    first, second = Interrupter(5, interrupt), Interrupter(0, interrupt)
    with pytest.raises(KeyboardInterrupt):
        testbed.sweep(tiny(), output=tmp_path, processes=processes, progress=first)
    folder = only(tmp_path)
    assert len(lines(folder)) == 5
    assert pyarrow.parquet.read_table(folder / "sweep.parquet").num_rows > 0
    result = testbed.sweep(tiny(), resume=folder, processes=1, progress=second)
    assert len(first.order) + len(second.order) == 12
    assert {*first.order, *second.order} == set(result.plan.missing({}))
    assert result.complete
    assert len(lines(folder)) == 12
    assert result.table().equals(testbed.sweep(tiny(), processes=1).table())
    # Once more: nothing is left to do.
    testbed.sweep(resume=folder, progress=Interrupter(1, lambda: pytest.fail("made a run again")))


def test_a_hundred_points_of_ten_replications_survive_the_death_of_workers(tiny: Tiny, tmp_path: Path) -> None:
    scenario = tiny(
        {
            "run.duration": 2,
            "run.replications": 10,
            "variants": [],
            "sweep.grid": {"workload.load": [i / 125 for i in range(1, 101)]},
        }
    )
    killed: list[int] = []

    def kill() -> None:
        children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
        worker = next(int(pid) for pid in children if b"popen_loky_posix" in Path(f"/proc/{pid}/cmdline").read_bytes())
        killed.append(worker)
        os.kill(worker, signal.SIGKILL)

    result = testbed.sweep(scenario, output=tmp_path, processes=2, progress=Interrupter(300, kill))
    assert len(killed) == 1
    assert result.complete
    assert len(result.runs) == len(lines(only(tmp_path))) == 1000


SETTINGS = {"run.duration": 40, "run.replications": 5}


def command(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "testbed", "sweep", *arguments],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
    )


def interrupted_at(process: subprocess.Popen[str], output: Path, runs: int, number: signal.Signals) -> tuple[int, str]:
    """Send a signal once so many runs are finished, and wait for the end."""
    end = time.monotonic() + 60
    while not output.exists() or sum(log.read_bytes().count(b"\n") for log in output.glob("*/runs.jsonl")) < runs:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.001)
    if number == signal.SIGKILL:
        process.kill()
    else:
        os.killpg(process.pid, number)
    _, err = process.communicate(timeout=60)
    return process.returncode, err


@pytest.fixture
def workplace(tiny: Tiny, tmp_path: Path) -> Path:
    (tmp_path / "tiny.toml").write_text(resolved(tiny(SETTINGS)))
    return tmp_path


def test_a_sweep_that_is_killed_at_random_moments_loses_and_repeats_no_run(tiny: Tiny, workplace: Path) -> None:
    rng = random.Random(8)
    output = workplace / "runs"
    arguments = ["tiny.toml", "--output", "runs"]
    for number, runs in ((signal.SIGKILL, rng.randint(1, 9)), (signal.SIGINT, rng.randint(10, 20))):
        status, err = interrupted_at(command(workplace, *arguments), output, runs, number)
        assert status == (-signal.SIGKILL if number == signal.SIGKILL else 130), err
        assert "Traceback" not in err
        folder = only(output)
        assert runs <= len(read_sweep(folder)[2]) < 30
        arguments = ["tiny.toml", "--resume", str(folder)]
    assert f"continue with: testbed sweep --resume {folder}" in err
    assert testbed.sweep(resume=folder, processes=1).complete
    keys = [(run.point, run.variant, run.replication) for run in read_sweep(folder)[2].values()]
    assert len(lines(folder)) == len(set(keys)) == 30
    assert SweepResult.read(folder).table().equals(testbed.sweep(tiny(SETTINGS), processes=1).table())


def test_a_run_that_can_t_account_for_its_jobs_ends_the_sweep(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_a_job_too_many(scenario: Any, measurements: Any) -> Any:
        measurements.counters["jobs arrived"] += 1
        return SUMMARY(scenario, measurements)

    monkeypatch.setattr(sweeping, "twin_summary", with_a_job_too_many)
    with pytest.raises(SweepError, match=r"point 0, random, replication 1, twin: .*arrived"):
        testbed.sweep(tiny(), output=tmp_path, processes=1)
    assert lines(only(tmp_path)) == []


SUMMARY = sweeping.twin_summary


def test_a_full_disk_is_said_and_leaves_whole_lines(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OutputError, match=r"runs.jsonl: No space left on device; make room and go on with --resume"):
        testbed.sweep(tiny(), output=tmp_path, processes=1)
    monkeypatch.undo()
    result = testbed.sweep(resume=only(tmp_path), processes=1)
    assert len(lines(only(tmp_path))) == len(result.runs) == 12


def test_a_target_can_be_set_on_resuming(tiny: Tiny, tmp_path: Path) -> None:
    settings = {"sweep.grid": {"workload.load": [0.5]}, "run.duration": 50}
    result = testbed.sweep(tiny(settings), output=tmp_path, processes=1)
    assert len(result.runs) == 4
    assert result.precisions == []
    result = testbed.sweep(resume=result.folder, target=0.2, budget=40, processes=1)
    assert all(precision.reached for precision in result.precisions)
    assert 20 <= len(result.runs) <= 80


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"scenario": None}, "scenario: missing; give what to run"),
        ({"budget": 5}, "budget: bounds the replications towards a target"),
        ({"on": ["moon"]}, "on: there is no 'moon'"),
    ],
)
def test_arguments_that_can_t_be_are_refused(tiny: Tiny, arguments: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        testbed.sweep(**{"scenario": tiny(), **arguments})


def test_a_run_refuses_a_sweep_and_a_sweep_a_scenario_without_points(tiny: Tiny) -> None:
    with pytest.raises(ScenarioError, match="run it with `testbed sweep`"):
        testbed.run(tiny(), where="twin")
    with pytest.raises(ScenarioError, match="sweep: missing"):
        testbed.sweep("quickstart")


def test_a_failure_on_the_cluster_ends_the_sweep_and_its_run_is_made_again(
    tiny: Tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    died = RunKey(1, "random", 0)

    async def on_cluster(runs: Any, run: Any) -> Measurements:
        measurements = simulate(run.scenario, run.replication)
        if broken and len(progress.order) == 2:
            measurements.failure = "node-1 died"
        return measurements

    monkeypatch.setattr(engine.Experiment, "_on_cluster", on_cluster)
    broken, progress = True, Interrupter(0, interrupt)
    with pytest.raises(SweepError, match=f"{died}: node-1 died"):
        testbed.sweep(tiny(), on=["cluster"], output=tmp_path, progress=progress)
    assert len(lines(only(tmp_path))) == 2
    broken, progress = False, Interrupter(0, interrupt)
    assert testbed.sweep(resume=only(tmp_path), progress=progress).complete
    assert progress.order[0] == died
    assert len(lines(only(tmp_path))) == 12


@pytest.mark.cluster
def test_on_the_cluster_variants_take_turns_beside_their_twins_and_an_interrupt_costs_one_run(
    tiny: Tiny, tmp_path: Path
) -> None:
    scenario = tiny({"run.duration": 20, "sweep.grid": {"workload.load": [0.3, 0.6]}})
    first = Interrupter(3, lambda: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        testbed.sweep(scenario, on=["cluster", "twin"], output=tmp_path, progress=first)
    folder = only(tmp_path)
    assert len(lines(folder)) == 3
    second = Interrupter(0, interrupt)
    result = testbed.sweep(resume=folder, progress=second)
    assert [*first.order, *second.order] == [(p, v, r) for r in range(2) for p in range(2) for v in ("random", "jsq")]
    for run in result.runs.values():
        assert run.cluster is not None
        assert run.twin is not None
        assert (run.cluster.variant, run.cluster.replication) == (run.twin.variant, run.twin.replication)
        assert run.cluster.pathwise is not None
    table = result.table().to_pylist()
    assert {row["source"] for row in table} == {"cluster", "twin"}
    errors = [row for row in table if row["quantity"] == "emulation_error" and row["replication"] is not None]
    assert len(errors) == 8
    assert "emulation" in str(result)
