"""The run folder: what is written can be read, by whom it is meant for, while the run goes on and afterwards."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

import testbed
from testbed.cluster.metrics.discovery import TargetGroup
from testbed.core.outcomes import JobOutcome
from testbed.core.records import COLUMNS
from testbed.measure.summary import encode
from testbed.runs import run_folder
from testbed.runs.run_folder import FILE_NAMES, OutputError, RunFolder, read_jobs, read_run, replace_file
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode, load


def scenario(**settings: Any) -> Scenario:
    small = decode(
        {
            "name": "a folder",
            "run": {"warmup": 5, "duration": 30},
            "cluster": {"pools": [{"servers": 5, "buffer": 2}]},
            "workload": {
                "load": 0.9,
                "types": [{"name": "short", "probability": 0.5}, {"name": "long", "probability": 0.5}],
            },
            "dispatch": {"policy": "random"},
            "variants": [{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}],
        }
    )
    return small.with_settings(settings)


def test_a_run_leaves_all_that_is_needed_to_understand_and_repeat_it(tmp_path: Path) -> None:
    what = scenario()
    result = testbed.run(what, where="twin", output=tmp_path / "new" / "runs")
    folder = result.folder
    assert folder is not None
    assert folder.parent == tmp_path / "new" / "runs"
    assert folder.name.startswith("a-folder-")
    assert sorted(path.name for path in folder.iterdir()) == [
        "environment.json",
        "scenario.toml",
        "summary.json",
        "twin.parquet",
    ]
    assert load(folder / "scenario.toml") == what
    environment = json.loads((folder / "environment.json").read_text())
    assert environment["cores"] >= 1
    assert environment["seconds"] > 0
    assert set(environment["packages"]) >= {"trio", "numpy", "msgspec", "pyarrow"}
    read, summaries = read_run(folder)
    assert read == what
    assert encode(summaries) == encode([run.summary for run in result.runs])
    assert [summary.response for summary in summaries] == [run.summary.response for run in result.runs]


def test_jobs_come_back_from_the_file_as_they_were_measured(tmp_path: Path) -> None:
    what = scenario(**{"run.replications": 2})
    result = testbed.run(what, where="twin", output=tmp_path)
    assert result.folder is not None
    for run in result.runs:
        assert run.twin_measurements is not None
        read = read_jobs(result.folder / "twin.parquet", run.variant, run.replication, ["short", "long"])
        assert list(read) == [name for name, _, _ in COLUMNS]
        for name, typecode, _ in COLUMNS:
            np.testing.assert_array_equal(read[name], run.twin_measurements.columns[name])
            assert read[name].dtype.char == typecode


def test_the_file_of_jobs_speaks_for_itself(tmp_path: Path) -> None:
    result = testbed.run(scenario(), where="twin", output=tmp_path)
    assert result.folder is not None
    table = pq.read_table(result.folder / "twin.parquet")
    assert table.column_names == [
        "variant",
        "replication",
        *(FILE_NAMES.get(name, name) for name, _, _ in COLUMNS),
        "queueing_delay",
    ]
    frame = table.to_pydict()
    assert set(frame["variant"]) == {"random", "two choices"}
    assert set(frame["type"]) == {"short", "long"}
    assert set(frame["outcome"]) == {"completed", "dropped"} <= set(JobOutcome.labels())
    done = [i for i, outcome in enumerate(frame["outcome"]) if outcome == "completed"]
    for i in done:
        assert frame["queueing_delay"][i] == frame["response_time"][i] - frame["inherent_delay"][i]
        assert frame["response_time"][i] == pytest.approx(frame["waiting_time"][i] + frame["inherent_delay"][i])


def test_runs_of_the_same_second_get_folders_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_folder.time, "strftime", lambda *arguments: "now")
    folders = [RunFolder(scenario(), tmp_path, 1).path.name for _ in range(3)]
    assert folders == ["a-folder-now", "a-folder-now-2", "a-folder-now-3"]
    for i in range(4, 100):
        (tmp_path / f"a-folder-now-{i}").mkdir()
    with pytest.raises(OutputError, match="too many runs started within one second"):
        RunFolder(scenario(), tmp_path, 1)


def test_a_reader_of_a_file_that_is_replaced_sees_the_old_or_the_new(tmp_path: Path) -> None:
    path = tmp_path / "summary.json"
    contents = [b"a" * 100_000, b"b" * 100_000]
    replace_file(path, contents[0])
    stop = threading.Event()
    seen: set[bytes] = set()

    def read() -> None:
        while not stop.is_set():
            seen.add(path.read_bytes())

    reader = threading.Thread(target=read)
    reader.start()
    end = time.monotonic() + 0.2
    while time.monotonic() < end:
        for content in contents:
            replace_file(path, content)
    stop.set()
    reader.join()
    assert seen <= set(contents)
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_fails_leaves_readable_files(tmp_path: Path) -> None:
    what = scenario()
    folder = RunFolder(what, tmp_path, 1000)
    measured = simulate(what)

    def write_and_fail() -> None:
        with folder:
            folder.write_targets([TargetGroup(["127.0.0.1:9000"], {"job": "testbed"})])
            assert json.loads(folder.targets_file.read_text()) == [
                {"targets": ["127.0.0.1:9000"], "labels": {"job": "testbed"}}
            ]
            folder.add_jobs(measured, "random", 0, ["short", "long"])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_and_fail()
    assert pq.read_table(folder.path / "twin.parquet").num_rows == len(measured.columns["job"])
    assert not folder.targets_file.exists()


def test_the_file_of_an_older_version_is_refused_with_its_name(tmp_path: Path) -> None:
    result = testbed.run(scenario(), where="twin", output=tmp_path)
    assert result.folder is not None
    table = pq.read_table(result.folder / "twin.parquet")
    pq.write_table(table.drop_columns(["response_time"]), tmp_path / "old.parquet")
    with pytest.raises(OutputError, match=r"old\.parquet: does not hold the jobs of a run"):
        read_jobs(tmp_path / "old.parquet", "random", 0, ["short", "long"])


def test_the_file_of_copies_speaks_for_itself(tmp_path: Path) -> None:
    what = decode(
        {
            "name": "copies",
            "run": {"warmup": 5, "duration": 30},
            "cluster": {"pools": [{"name": name, "servers": 2, "queue": "central"} for name in ("fast", "slow")]},
            "workload": {"load": 0.4},
            "dispatch": {"policy": "static"},
            "threshold": {"action": "replicate", "tau": 0.5},
        }
    )
    result = testbed.run(what, where="twin", output=tmp_path)
    assert result.folder is not None
    rows = pq.read_table(result.folder / "twin_copies.parquet").to_pylist()
    assert {row["pool"] for row in rows} == {"fast", "slow"}
    assert {row["fate"] for row in rows} == {"won", "lost"}
    assert {row["met"] for row in rows} == {"not cancelled", "in service"}
    assert all((row["delay"] is None) == (row["fate"] == "won") for row in rows)
    jobs = pq.read_table(result.folder / "twin.parquet").to_pylist()
    assert {row["job"] for row in rows if row["fate"] == "won"} == {row["job"] for row in jobs}
