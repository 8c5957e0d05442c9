"""Ctrl-C and its kin, with real signals to a real ``testbed run``: what was measured is saved, nothing is left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.cluster

SCENARIO = """
name = "long"
seed = 2
[run]
time_unit = "10ms"
warmup = 10
duration = {duration}
drain = {drain}
[cluster]
nodes = 1
pools = [{{ name = "main", servers = 10 }}]
[workload]
load = {load}
[dispatch]
policy = "random"
"""


class Run:
    """A ``testbed run`` in its own process group, with its own folder for temporary files."""

    def __init__(self, folder: Path, temporary: Path, processes_in: Callable[[Path], list[int]]) -> None:
        self.output = folder / "runs"
        self.temporary = temporary
        self.children = partial(processes_in, temporary)  # the cluster's
        self._scenario = folder / "long.toml"
        self.process: subprocess.Popen[str]

    def start(
        self,
        *arguments: str,
        duration: float = 5000,
        load: float = 0.6,
        drain: float = 100,
        command: Sequence[str] = ("-m", "testbed"),
    ) -> None:
        self._scenario.write_text(SCENARIO.format(duration=duration, load=load, drain=drain))
        self.process = subprocess.Popen(
            [sys.executable, *command, "run", str(self._scenario), "--output", str(self.output), *arguments],
            env={**os.environ, "TMPDIR": str(self.temporary)},
            cwd=self.output.parent,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            process_group=0,
        )

    def folder(self) -> Path:
        (found,) = self.output.glob("*/")
        return found

    def wait_for(self, condition: Callable[[], bool], seconds: float = 30) -> None:
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self.process.communicate()
            assert time.monotonic() < end
            time.sleep(0.01)

    def is_running(self) -> bool:
        """Whether jobs are arriving: the targets are written with the first look at the running cluster."""
        return any(self.output.glob("targets-*.json"))

    def signal(self, number: signal.Signals = signal.SIGINT) -> None:
        # To the whole group, as a terminal does it.
        os.killpg(self.process.pid, number)

    def end(self, seconds: float = 15) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=seconds)
        return self.process.returncode, out, err

    def assert_nothing_left(self) -> None:
        assert self.children() == []
        assert list(self.temporary.iterdir()) == []

    def kill(self) -> None:
        if hasattr(self, "process"):
            for pid in [self.process.pid, *self.children()]:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.communicate()


@pytest.fixture
def run(tmp_path: Path, processes_in: Callable[[Path], list[int]]) -> Iterator[Run]:
    with tempfile.TemporaryDirectory(prefix="tb") as temporary:
        made = Run(tmp_path, Path(temporary), processes_in)
        try:
            yield made
        finally:
            made.kill()


def test_an_interrupted_run_saves_what_was_measured_and_leaves_nothing(run: Run) -> None:
    run.start()
    run.wait_for(run.is_running)
    time.sleep(0.5)  # not to wait for something, but to have something measured
    run.signal()
    status, out, err = run.end()
    assert status == 130, err
    assert "interrupted: arrivals were stopped early; the measurements until then are saved" in err
    assert "Traceback" not in err
    assert "random" in out
    (summary,) = json.loads((run.folder() / "summary.json").read_text())
    jobs = pq.read_table(run.folder() / "jobs.parquet")
    assert summary["accounting"]["arrived"] == jobs.num_rows > 50
    assert summary["accounting"]["problems"] == []
    assert 10 <= summary["window"][1] < 5000
    assert not list(run.output.glob("targets-*.json"))
    assert json.loads((run.folder() / "environment.json").read_text())["seconds"] > 0
    assert (run.folder() / "scenario.toml").exists()
    run.assert_nothing_left()


def test_a_request_to_terminate_is_an_interrupt_too_and_does_not_wait_for_the_drain(run: Run) -> None:
    run.start(duration=20, drain=5000, load=5.0)
    run.wait_for(run.is_running)
    time.sleep(1.0)  # the arrivals end 0.3 s after time 0
    run.signal(signal.SIGTERM)
    status, _, err = run.end()
    assert status == 130, err
    (summary,) = json.loads((run.folder() / "summary.json").read_text())
    assert summary["window"][1] == 30
    assert summary["accounting"]["in_system"] > 0
    assert summary["accounting"]["problems"] == []
    run.assert_nothing_left()


def test_a_second_interrupt_does_not_wait_for_the_saving(run: Run) -> None:
    run.start()
    run.wait_for(run.is_running)
    # A process that can't report would hold up the first one.
    for pid in run.children():
        os.kill(pid, signal.SIGSTOP)
    run.signal()
    time.sleep(0.3)
    assert run.process.poll() is None
    run.signal()
    status, _, err = run.end()
    assert status == 130, err
    assert "Traceback" not in err
    run.assert_nothing_left()


@pytest.mark.parametrize("children", [1, 2])
def test_an_interrupt_before_the_cluster_is_up_ends_at_once(run: Run, children: int) -> None:
    run.start()
    run.wait_for(lambda: len(run.children()) >= children)
    run.signal()
    status, _, err = run.end(10)
    assert status == 130, err
    assert "Traceback" not in err
    assert not (run.folder() / "jobs.parquet").exists()
    run.assert_nothing_left()


#: The command, with a twin that takes as long as it is let.
LONG_TWIN = """
import pathlib, time
from testbed.runs import experiment
from testbed import cli
simulate = experiment.simulate
def long(scenario, replication, stopped):
    pathlib.Path("twin-has-begun").touch()
    while not stopped():
        time.sleep(0.01)
    return simulate(scenario, replication, stopped)
experiment.simulate = long
cli.main()
"""


def test_an_interrupt_of_the_twin_keeps_the_run_on_the_cluster(run: Run) -> None:
    run.start("--twin", duration=20, command=["-c", LONG_TWIN])
    run.wait_for((run.output.parent / "twin-has-begun").exists)
    run.signal()
    status, _, err = run.end()
    assert status == 130, err
    assert "Traceback" not in err
    (summary,) = json.loads((run.folder() / "summary.json").read_text())
    assert (summary["source"], summary["pathwise"]) == ("cluster", None)
    assert summary["window"] == [10, 30]
    run.assert_nothing_left()


def test_an_interrupted_virtual_run_saves_the_part_that_was_simulated(run: Run) -> None:
    run.start("--virtual", duration=3_000_000)
    run.wait_for(lambda: any(run.output.glob("*/environment.json")))
    time.sleep(0.5)
    run.signal()
    status, _, err = run.end()
    assert status == 130, err
    assert "Traceback" not in err
    (summary,) = json.loads((run.folder() / "summary.json").read_text())
    assert summary["source"] == "twin"
    assert summary["window"][1] < 3_000_000
    assert summary["accounting"]["problems"] == []


def test_the_processes_of_a_controller_that_was_killed_end_by_themselves(run: Run) -> None:
    run.start()
    run.wait_for(run.is_running)
    assert len(run.children()) == 2
    run.process.kill()
    run.process.communicate()
    end = time.monotonic() + 8
    while run.children():
        assert time.monotonic() < end, run.children()
        time.sleep(0.02)
