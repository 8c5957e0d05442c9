"""A cluster that does not come up says why, also where its supervisor has gone into the background by then."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.cli.app import INTERRUPTED
from testbed.runs.long_running import clusters

pytestmark = pytest.mark.cluster

#: Faults in the supervisor and in the cluster's processes, which import this as they start: TESTBED_PLANTED says which.
PLANTED = """
import os, sys, time

name, fault = sys.orig_argv[-1], os.environ.get("TESTBED_PLANTED", "")
if "testbed.cluster.process" in sys.orig_argv and fault.startswith(name):
    if "dies at once" in fault:
        print("there is no room in here", file=sys.stderr)
        sys.stderr.flush()
        os._exit(3)
    if "dies when it begins" in fault:
        from testbed.runtime.realtime import RealTimeRuntime

        RealTimeRuntime.start = lambda self, at, since: os._exit(4)
    if "says nothing" in fault:
        time.sleep(600)
if "testbed.cli.detached" in sys.orig_argv:
    if "says nothing" in fault:
        from testbed.cluster import processes

        processes.READY_SECONDS, processes.PER_PROCESS_SECONDS = 1.0, 0.25
    if "dies when it begins" in fault:
        from testbed.runs.long_running.register import Claim

        # It ends between two looks of the command that waits for it to stand.
        Claim.write = lambda self, state: None
    if fault == "no process can start":
        sys.executable = "/nowhere/python"
    if fault == "no process can start again":
        from testbed.cluster import processes

        async def refuse(*_):
            raise OSError(11, "Resource temporarily unavailable")

        processes.open_process = refuse
    if fault == "a fault in the supervisor":
        from importlib import import_module

        import_module("testbed.theory.predict").predict = lambda scenario: 1 / 0
    if fault == "the supervisor is killed":
        os.kill(os.getpid(), 9)
"""

POOLS = """
name = "small"
[run]
time_unit = "10ms"
warmup = 10
duration = 100
[cluster]
nodes = 1
[[cluster.pools]]
servers = 5
queue = "central"
[workload]
load = 0.5
[dispatch]
policy = "static"
"""


@pytest.fixture
def planted(place: Any, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plant a fault in all processes that are started from now on."""

    def plant(fault: str) -> None:
        folder: Path = place.folder / "planted"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(PLANTED)
        path = [str(folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
        monkeypatch.setenv("TESTBED_PLANTED", fault)

    return plant


FAULTS = {
    "no process can start": [
        "error: process dispatcher-0 cannot be started: [Errno 2] No such file or directory: '/nowhere/python'; look at"
        " the limits of this shell (`ulimit -a`)"
    ],
    "pools dies when it begins": [
        "error: static: process pools ended with exit status 4: the jobs in central queues are lost with it. Its last "
        "lines: It wrote nothing."
    ],
    "the supervisor is killed": ["error: the supervisor was ended by signal SIGKILL without any output"],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_detached_cluster_that_does_not_come_up_says_why(place: Any, planted: Any, fault: str) -> None:
    (place.folder / "small.toml").write_text(POOLS)
    planted(fault)
    failed = place.up()
    assert failed.returncode == 1
    assert failed.stdout == ""
    assert failed.stderr.splitlines() == FAULTS[fault]
    assert clusters() == []


def test_a_fault_in_the_supervisor_is_shown_as_it_is(place: Any, planted: Any) -> None:
    planted("a fault in the supervisor")
    failed = place.up()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-1] == "ZeroDivisionError: division by zero"


def test_a_process_that_is_never_ready_is_named(place: Any, planted: Any) -> None:
    planted("node-1 says nothing")
    failed = place.up()
    assert failed.returncode == 1
    # On a slow machine others may not be ready either when the time is up.
    assert re.fullmatch(
        r"error: not ready after 2 s: .*\bnode-1; is this machine overloaded\?", failed.stderr.splitlines()[-1]
    )
    assert clusters() == []


def test_the_last_lines_of_a_process_that_died_are_shown_and_its_logs_kept(place: Any, planted: Any) -> None:
    planted("node-1 dies at once")
    failed = place.up()
    assert failed.returncode == 1
    assert failed.stderr.splitlines()[-2:] == [
        "error: process node-1 ended with exit status 3. Its last lines:",
        "    there is no room in here",
    ]
    said = CliRunner().invoke(app, ["ps"]).output.replace("\n", " ")
    assert "small: did not come up; its logs are in " in said
    (folder,) = (path for path in place.runs.iterdir() if path.is_dir())
    assert "there is no room in here" in (folder / "logs" / "node-1.log").read_text()
    assert "small" not in CliRunner().invoke(app, ["ps"]).output


def test_a_process_that_cannot_be_started_again_ends_the_cluster_which_says_so(place: Any, planted: Any) -> None:
    planted("no process can start again")
    assert place.up().returncode == 0
    (state,) = clusters()
    os.kill(next(process.pid for process in state.processes if process.name == "node-1"), signal.SIGKILL)
    place.wait_for(lambda: not clusters())
    said = " ".join(CliRunner().invoke(app, ["ps"]).output.split())
    assert "small: process node-1 cannot be started: [Errno 11] Resource temporarily unavailable;" in said
    assert "its measurements are in" in said


def test_ctrl_c_while_it_comes_up_leaves_nothing_behind(place: Any, planted: Any) -> None:
    planted("node-1 says nothing")
    command = [sys.executable, "-m", "testbed", "up", "small.toml", "--detach"]
    process = subprocess.Popen(command, cwd=place.folder, stderr=subprocess.PIPE, text=True)
    try:
        place.wait_for(lambda: len(place.processes()) >= 5)  # the command, the supervisor and the cluster's
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == INTERRUPTED
    assert said.splitlines()[-1] == "interrupted: the cluster was starting, and was shut down"
    assert clusters() == []
