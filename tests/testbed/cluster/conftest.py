"""Short runs on real processes, and what must not be left of them."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import trio

from testbed.cluster.controller import Controller
from testbed.core.records import Measurements
from testbed.scenario import Scenario, decode

ProcessesIn = Callable[[Path], list[int]]


def scenario(**settings: Any) -> Scenario:
    """A second on twenty servers, unless ``settings`` (dotted keys) say something else."""
    small = decode(
        {
            "name": "small",
            "seed": 5,
            "run": {"time_unit": "10ms", "warmup": 10, "duration": 40, "drain": 1000},
            "cluster": {"dispatchers": 1, "nodes": 2, "pools": [{"name": "main", "servers": 20}]},
            "workload": {"load": 0.6},
            "dispatch": {"policy": "random"},
        }
    )
    return small.with_settings(settings)


@pytest.fixture(scope="session")
def make_scenario() -> Callable[..., Scenario]:
    return scenario


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch, processes_in: ProcessesIn) -> Iterator[Path]:
    """The folder for temporary files of this test. At its end nothing is left in it, and no process that knows it."""
    with tempfile.TemporaryDirectory(prefix="tb") as name:
        monkeypatch.setenv("TMPDIR", name)
        monkeypatch.setattr(tempfile, "tempdir", name)
        try:
            yield Path(name)
            assert processes_in(Path(name)) == []
            assert list(Path(name).iterdir()) == []
        finally:
            for pid in processes_in(Path(name)):
                os.kill(pid, signal.SIGKILL)


@pytest.fixture
def wait_for_no_process(temporary: Path, processes_in: ProcessesIn) -> Callable[[float], None]:
    """Wait until the processes of this test have ended, but not longer than some seconds."""

    def wait(seconds: float) -> None:
        end = time.monotonic() + seconds
        while processes_in(temporary):
            assert time.monotonic() < end, f"still there after {seconds} s: {processes_in(temporary)}"
            time.sleep(0.02)

    return wait


RunCluster = Callable[..., Measurements]


@pytest.fixture
def run_cluster(temporary: Path) -> RunCluster:
    """Run a scenario on a cluster; ``during`` is called again and again while it goes on."""

    def run(
        what: Scenario, during: Callable[[Controller], object] = lambda controller: None, replication: int = 0
    ) -> Measurements:
        controller = Controller(what, replication, labels={"run": "test", "variant": "v"}, observe=during)

        async def main() -> Measurements:
            with trio.fail_after(50):
                return await controller.run()

        return trio.run(main)

    return run


@pytest.fixture
def at_time() -> Callable[..., Callable[[Controller], None]]:
    """Make a ``during`` that does something once, when the run has come to a certain time."""

    def make(when: float, act: Callable[[Controller], object]) -> Callable[[Controller], None]:
        done = False

        def during(controller: Controller) -> None:
            nonlocal done
            if not done and controller.progress and max(word.time for word in controller.progress) >= when:
                done = True
                act(controller)

        return during

    return make


class DeathWhilePaused:
    """Kills node 2 at a time of the run while node 0 is paused, which goes on when the death has been noticed."""

    def __init__(self, when: float) -> None:
        self._when = when
        self.paused = self.resumed = False

    def __call__(self, controller: Controller) -> None:
        pids = {member.name: member.process.pid for member in controller.members}
        if controller.incidents and not self.resumed:
            self.resumed = True
            os.kill(pids["node-0"], signal.SIGCONT)
        if not self.paused and max((word.time for word in controller.progress), default=0.0) >= self._when:
            self.paused = True
            os.kill(pids["node-0"], signal.SIGSTOP)  # is only slow, until it goes on
            os.kill(pids["node-2"], signal.SIGKILL)


@pytest.fixture
def death_while_paused() -> type[DeathWhilePaused]:
    return DeathWhilePaused
