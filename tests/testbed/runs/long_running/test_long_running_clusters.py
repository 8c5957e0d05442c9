"""Clusters that stand, on real processes: started, looked at, changed, broken and ended."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.runs.long_running import LongRunningError, clusters, connect

pytestmark = pytest.mark.cluster


def command(*arguments: str) -> str:
    """Run a command in this process and return what it printed. It must succeed."""
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def summary(place: Any) -> dict[str, Any]:
    """Return the summary of the only run folder."""
    (folder,) = (path for path in place.runs.iterdir() if path.is_dir())
    (found,) = json.loads((folder / "summary.json").read_text())
    assert found["accounting"]["problems"] == []
    return found


def jobs_in(place: Any) -> dict[str, np.ndarray]:
    """Return some columns of the jobs that were saved."""
    (file,) = place.runs.glob("*/jobs.parquet")
    table = pq.read_table(file)
    return {name: table[name].to_numpy() for name in ("job", "arrival", "dispatcher")}


def test_a_cluster_is_started_watched_changed_and_shut_down(place: Any) -> None:
    started = place.up("--name", "first")
    assert started.returncode == 0, started.stderr
    assert started.stdout.startswith("first is running")
    assert 'the cluster runs random only; choose another variant with --variant: "two choices"' in started.stderr

    (state,) = clusters()
    assert (state.name, state.scenario, state.variant, state.ended) == ("first", "small", "random", None)
    assert [process.name for process in state.processes] == ["dispatcher-0", "dispatcher-1", "node-0", "node-1"]
    with connect("first") as client:
        snapshots = list(islice(client.snapshots(), 8))
    assert snapshots[-1].arrived > snapshots[0].arrived
    assert snapshots[-1].horizon is None
    assert len(snapshots[-1].queue_lengths) == 10

    shown = command("ps")
    for text in ("first", "small", "random", "dispatcher-1", "node-1"):
        assert text in shown
    assert "supervisor" not in command("logs", "--process", "node-0")

    answer = command("set", "first", "workload.load=0.9")
    match = re.fullmatch(r"first: load 0\.9, policy random from time (.*) on\n", answer)
    assert match, answer
    changed_at = float(match[1])
    with connect("first") as client:
        for snapshot in client.snapshots():
            assert snapshot.load == (0.9 if snapshot.since >= changed_at - 0.1 else 0.5)
            if snapshot.time > changed_at + 150:
                break
    assert "run folder:" in command("down", "first")
    assert clusters() == []

    found = summary(place)
    assert found["accounting"]["in_system"] == 0
    jobs = jobs_in(place)
    order = np.argsort(jobs["job"])
    # None is missing and none twice; the dispatchers did not stop at the same instant, though.
    both = min(jobs["job"][jobs["dispatcher"] == index].max() for index in range(2)) + 1
    assert len(order) - both < 200
    assert jobs["job"][order][:both].tolist() == list(range(both))
    assert np.all(np.diff(jobs["arrival"][order]) >= 0)
    start, stop = found["window"]
    assert start > changed_at + 9  # and the warm-up is over
    rate = np.count_nonzero((jobs["arrival"] >= start) & (jobs["arrival"] < stop)) / (stop - start)
    # Poisson: of 300 jobs and more a quarter more or less has a probability below 1e-4.
    assert rate * (stop - start) > 300
    assert rate == pytest.approx(9.0, rel=0.25)
    (folder,) = (path for path in place.runs.iterdir() if path.is_dir())
    assert "load = 0.9" in (folder / "scenario.toml").read_text()
    assert (folder / "logs" / "node-0.log").exists()
    assert not (folder / "records").exists()


def test_two_clusters_side_by_side_and_a_name_that_is_taken(place: Any) -> None:
    assert place.up("--name", "a").returncode == 0
    assert place.up("--name", "b", "--variant", "two choices").returncode == 0
    again = place.up("--name", "a", "--dash")
    assert again.returncode == 2
    assert again.stderr.splitlines()[-1].startswith('error: a cluster called "a" is already running')
    assert "page:" not in again.stderr
    assert [(state.name, state.variant) for state in clusters()] == [("a", "random"), ("b", "two choices")]
    with pytest.raises(LongRunningError, match="name the cluster; there are: a, b"):
        connect()
    with pytest.raises(LongRunningError, match='no cluster called "c" is running; there are: a, b'):
        connect("c")
    command("down", "a")
    with connect() as client:
        assert client.name == "b"
    command("down")
    assert clusters() == []


def test_ctrl_c_ends_a_cluster_in_the_foreground_and_saves(place: Any) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "up", "small.toml"], cwd=place.folder, stdout=subprocess.PIPE, text=True
    )
    try:
        place.wait_for(clusters)
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    assert "run folder:" in output
    assert clusters() == []
    assert summary(place)["accounting"]["in_system"] == 0


def test_a_cluster_that_is_killed_while_its_last_metrics_wait_for_prometheus_has_been_saved(place: Any) -> None:
    """As happens in a container that is given less time to end than that takes."""
    process = subprocess.Popen(
        [sys.executable, "-m", "testbed", "up", "small.toml"], cwd=place.folder, stderr=subprocess.PIPE, text=True
    )
    try:
        place.wait_for(lambda: any(state.processes for state in clusters()))
        (state,) = clusters()
        with connect() as client:
            next(snapshot for snapshot in client.snapshots() if snapshot.outcomes["completed"])
        for entry in state.processes:
            headers = {"X-Prometheus-Scrape-Timeout-Seconds": "10"}
            with urllib.request.urlopen(urllib.request.Request(f"http://{entry.metrics}/metrics", headers=headers)):
                pass
        process.send_signal(signal.SIGTERM)
        assert process.stderr is not None
        with process.stderr as lines:
            assert any("the last metrics wait" in line for line in lines)
    finally:
        process.kill()
        process.wait()
    arrived = summary(place)["accounting"]["arrived"]
    assert arrived > 0
    assert pq.read_table(Path(state.run_folder) / "jobs.parquet").num_rows == arrived


def test_a_killed_supervisor_leaves_no_process_and_is_cleaned_up_after(place: Any) -> None:
    assert place.up().returncode == 0
    (state,) = clusters()
    assert len(list(place.runs.glob("targets-*.json"))) == 1
    os.kill(state.pid, signal.SIGKILL)
    place.wait_for(lambda: not place.processes())
    assert clusters() == []
    said = command("ps")
    assert "no cluster is running" in said
    assert "small: was killed" in said
    # Nobody looks for its processes' metrics any more, and its logs are kept.
    assert list(place.runs.glob("targets-*.json")) == []
    assert (Path(state.run_folder) / "logs" / "node-0.log").exists()
    assert place.up().returncode == 0
    command("down")


def test_the_policy_changes_and_no_job_is_lost(place: Any) -> None:
    assert place.up().returncode == 0
    assert "policy jiq" in command("set", "dispatch.policy=jiq", "workload.load=0.6")
    with connect() as client:
        for snapshot in client.snapshots():
            if snapshot.policy == "jiq" and snapshot.counters["idle reports"] > 100:
                break
    assert "policy power-of-d with d = 3" in command("set", "dispatch.policy=power-of-d", "dispatch.d=3")
    with connect() as client:
        probes = client.status().snapshot.counters["probes"]
        for snapshot in client.snapshots():
            if snapshot.counters["probes"] > probes + 300:
                break
    command("down")
    found = summary(place)
    assert found["accounting"]["completed"] == found["accounting"]["arrived"] > 100
    probes_of_jobs = pq.read_table(next(place.runs.glob("*/jobs.parquet")))["probes"].to_numpy()
    assert set(probes_of_jobs.tolist()) == {0, 3}


def test_processes_that_are_killed_are_started_again_and_used_again(place: Any) -> None:
    # So many jobs are in the system that the dispatcher which is killed has some, but with probability 1e-6.
    scenario = place.folder / "small.toml"
    scenario.write_text(scenario.read_text().replace("load = 0.5", "load = 0.9"))
    assert place.up().returncode == 0
    (state,) = clusters()
    pids = {process.name: process.pid for process in state.processes}
    # The second node's servers have the addresses 5 to 9.
    os.kill(pids["node-1"], signal.SIGKILL)
    with connect() as client:
        for snapshot in client.snapshots():
            if snapshot.processes[3].restarts == 1 and any(snapshot.queue_lengths[5:]):
                break
        os.kill(pids["dispatcher-0"], signal.SIGKILL)
        for snapshot in client.snapshots():
            again = snapshot.processes[0]
            if again.restarts == 1 and again.lateness_p50 > 0 and snapshot.outcomes["lost"]:
                break
        until = snapshot.time + 100  # 900 jobs
        for snapshot in client.snapshots():
            if snapshot.time > until:
                break
    assert not snapshot.valid
    said = command("logs", "--process", "supervisor")
    assert "process node-1 was ended by signal SIGKILL" in said
    assert "process dispatcher-0 was ended by signal SIGKILL" in said
    shown = command("ps")
    assert "restarts" in shown
    (state,) = clusters()
    assert {process.name: process.restarts for process in state.processes} == {
        "dispatcher-0": 1,
        "dispatcher-1": 0,
        "node-0": 0,
        "node-1": 1,
    }
    for process in state.processes:
        assert process.metrics is not None
        with urllib.request.urlopen(f"http://{process.metrics}/metrics", timeout=10) as answer:
            metrics = answer.read().decode().splitlines()
        assert f"testbed_process_restarts_total {process.restarts}.0" in metrics
        if process.name == "dispatcher-0":
            assert f'testbed_jobs_total{{outcome="lost"}} {snapshot.outcomes["lost"]}.0' in metrics
    command("down")
    found = summary(place)
    accounting = found["accounting"]
    assert accounting["arrived"] == accounting["completed"] + accounting["lost"]
    assert accounting["lost"] == found["counters"]["jobs lost with dispatcher-0"] > 0
    # Both kinds are used again: servers of the second node, and the dispatcher that was away.
    (file,) = place.runs.glob("*/jobs.parquet")
    table = pq.read_table(file)
    last = np.argsort(table["arrival"].to_numpy())[-200:]
    assert set(table["server"].to_numpy()[last].tolist()) & set(range(5, 10))
    assert set(table["dispatcher"].to_numpy()[last].tolist()) == {0, 1}


MECHANISMS = {
    "sharing": {"[dispatch]": '[balance]\npolicy = "sharing"\nprobe_rate = 2.0\n[dispatch]'},
    "tied": {'policy = "random"': 'policy = "tied"'},
    "replicate": {
        "servers = 10": 'name = "one"\nservers = 5\nqueue = "central"\n'
        '[[cluster.pools]]\nname = "two"\nservers = 5\nqueue = "central"',
        'policy = "random"\n[[variants]]': 'policy = "static"\n[threshold]\naction = "replicate"\ntau = 1.5\n'
        "[[variants]]",
        '"dispatch.policy" = "power-of-d"': '"threshold.tau" = 0',
    },
}


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_node_that_was_killed_is_used_again_whatever_moves_and_copies_tasks(place: Any, mechanism: str) -> None:
    scenario = place.folder / "small.toml"
    text = scenario.read_text()
    for old, new in MECHANISMS[mechanism].items():
        assert old in text
        text = text.replace(old, new)
    scenario.write_text(text)
    up = place.up()
    assert up.returncode == 0, up.stderr
    (state,) = clusters()
    (node,) = (process.pid for process in state.processes if process.name == "node-1")
    with connect() as client:
        next(snapshot for snapshot in client.snapshots() if snapshot.outcomes["completed"] > 100)
        os.kill(node, signal.SIGKILL)
        again = next(
            snapshot.time
            for snapshot in client.snapshots()
            if any(process.restarts == 1 for process in snapshot.processes) and any(snapshot.queue_lengths[5:])
        )
        next(snapshot for snapshot in client.snapshots() if snapshot.time > again + 100)
    command("down")
    summary(place)
    (file,) = place.runs.glob("*/jobs.parquet")
    table = pq.read_table(file)
    assert set(table["outcome"].to_pylist()) == {"completed"}  # no job is stuck since the death
    last = np.argsort(table["arrival"].to_numpy())[-200:]
    assert set(table["server"].to_numpy()[last].tolist()) & set(range(5, 10))


def test_what_cannot_be_changed_is_refused(place: Any) -> None:
    assert place.up().returncode == 0
    for setting, why in (
        ("run.duration=5", "run.duration can't be changed while the cluster runs"),
        ("workload.load=-1", "workload.load"),
        ("workload.load", "is not KEY=VALUE"),
        ("=0.5", "is not KEY=VALUE"),
        ("dispatch.policy=late-binding", "it puts reservations into queues"),
        ("dispatch.policy=nobody", "dispatch.policy"),
    ):
        refused = CliRunner().invoke(app, ["set", "small", setting])
        assert refused.exit_code == 2
        assert why in refused.output
    with connect("small") as client:
        assert client.status().state.name == "small"
    assert "unstable: the stability bound is 1" in command("set", "workload.load=1.2")
    assert "unstable" not in command("set", "workload.load=0.2")
    command("down", "small")


def test_an_output_folder_that_cannot_be_used_is_reported_and_nothing_runs(place: Any) -> None:
    (place.folder / "file").write_text("")
    failed = place.up("--output", "file/runs")
    assert failed.returncode == 2
    assert "error: output folder" in failed.stderr
    assert "Traceback" not in failed.stderr
    assert clusters() == []


@pytest.mark.parametrize("command", ["up", "run"])
def test_how_to_serve_a_page_that_is_not_asked_for_is_refused(place: Any, command: str) -> None:
    refused = CliRunner().invoke(app, [command, "small.toml", "--host", "0.0.0.0"])
    assert refused.exit_code == 2
    assert "add --dash" in refused.output


def test_a_variant_that_is_not_there_is_said(place: Any) -> None:
    failed = place.up("--variant", "three choices")
    assert failed.returncode == 2
    assert failed.stderr == 'error: there is no variant "three choices"; the variants are: random, two choices\n'
