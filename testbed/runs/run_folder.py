"""The run folder: the settings and the measurements of a run.

scenario.toml      the resolved scenario
jobs.parquet       a row per job, of all variants and replications, from the cluster
tasks.parquet      a row per finished task, where jobs may have several tasks
copies.parquet     a row per copy, where jobs have copies, or are served in several pools
events.parquet     a row per message of a traced job that was sent or delivered, where jobs are traced
twin.parquet       the same as jobs.parquet from the twin, if it was run; likewise twin_tasks.parquet,
                   twin_copies.parquet, twin_events.parquet
summary.json       statistics and verdicts (testbed.measure.summary)
environment.json   versions, cores, start time and duration

Next to the folder, while the run goes on: targets-<folder>.json with the addresses of the processes' metrics, in
Prometheus' file_sd format. It is not in the folder because Prometheus accepts patterns for file names only.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from testbed.cluster.metrics.discovery import TargetGroup, encode, targets_file_of
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.records import COLUMNS, COPY_COLUMNS, TASK_COLUMNS, Measurements
from testbed.core.trace_recorder import TraceEvent
from testbed.measure import summary as summaries
from testbed.measure.summary import Summary
from testbed.scenario import ScenarioError, load, resolved
from testbed.scenario.policies import packages as packages_with_policies

if TYPE_CHECKING:
    from testbed.scenario import Scenario

BYTES_PER_JOB = 120  # of a row on disk and while it is written, with room to spare
SPARE_BYTES = 20 << 20

#: The names of columns in the files, where they differ from those of the records.
FILE_NAMES = {
    "lag": "dispatch_lag",
    "response": "response_time",
    "inherent": "inherent_delay",
    "wait": "waiting_time",
    "lateness": "timer_lateness",
}


class OutputError(Exception):
    """The output folder can't be used."""


def jobs_table(measurements: Measurements, variant: str, replication: int, type_names: list[str]) -> pa.Table:
    """Return the job records as an Arrow table; times are in time units."""
    columns = measurements.columns
    arrays = _of_run(variant, replication, len(columns["job"]))
    for name, _, _ in COLUMNS:
        column = columns[name]
        if name == "type":
            arrays[name] = pa.DictionaryArray.from_arrays(column.astype(np.int32), type_names)
        elif name == "outcome":
            arrays[name] = pa.DictionaryArray.from_arrays(column.astype(np.int32), JobOutcome.labels())
        else:
            # NaN, for jobs that did not complete, becomes a null, which a mean leaves out.
            arrays[FILE_NAMES.get(name, name)] = pa.array(column, from_pandas=True)
    arrays["queueing_delay"] = pc.subtract(arrays["response_time"], arrays["inherent_delay"])
    return pa.table(arrays)


def tasks_table(measurements: Measurements, variant: str, replication: int) -> pa.Table:
    """Return the records of finished tasks as an Arrow table; times are in time units."""
    arrays = _of_run(variant, replication, len(measurements.tasks["job"]))
    for name, _, _ in TASK_COLUMNS:
        arrays[FILE_NAMES.get(name, name)] = pa.array(measurements.tasks[name])
    return pa.table(arrays)


def copies_table(measurements: Measurements, variant: str, replication: int, pool_names: list[str]) -> pa.Table:
    """Return the records of copies as an Arrow table; times are in time units."""
    copies = measurements.copies
    arrays = _of_run(variant, replication, len(copies["job"]))
    words = {"pool": pool_names, "fate": CopyOutcome.labels(), "met": StateAtCancellation.labels()}
    for name, _, _ in COPY_COLUMNS:
        if name in words:
            arrays[name] = pa.DictionaryArray.from_arrays(copies[name].astype(np.int32), words[name])
        else:
            arrays[FILE_NAMES.get(name, name)] = pa.array(copies[name], from_pandas=True)
    return pa.table(arrays)


def events_table(measurements: Measurements, variant: str, replication: int) -> pa.Table:
    """Return the events of traced jobs as an Arrow table, ordered by time, in time units."""
    events = measurements.events
    arrays = _of_run(variant, replication, len(events))
    for name in TraceEvent.__struct_fields__:
        arrays[name] = pa.array([getattr(event, name) for event in events])
    return pa.table(arrays)


def _of_run(variant: str, replication: int, rows: int) -> dict[str, Any]:
    """Return the columns that name the run of a row."""
    return {
        "variant": pa.DictionaryArray.from_arrays(np.zeros(rows, dtype=np.int32), [variant]),
        "replication": pa.array(np.full(rows, replication, dtype=np.int32)),
    }


def read_jobs(path: Path, variant: str, replication: int, type_names: list[str]) -> dict[str, np.ndarray]:
    """Return the records of one run from ``jobs.parquet``, as ``Measurements.columns`` holds them.

    Raises OutputError for a file that is missing, damaged or of another version.
    """
    try:
        table = pq.read_table(
            path, columns=["variant", "replication", *(FILE_NAMES.get(name, name) for name, _, _ in COLUMNS)]
        )
    except (OSError, ValueError) as error:  # pyarrow's own errors about files are ValueErrors
        raise OutputError(f"{path}: does not hold the jobs of a run ({str(error).splitlines()[0]})") from None
    mine = pc.and_(pc.equal(table["variant"], variant), pc.equal(table["replication"], replication))
    table = table.filter(mine)
    columns = {}
    for name, typecode, _ in COLUMNS:
        column = table[FILE_NAMES.get(name, name)]
        if name in ("type", "outcome"):
            names = type_names if name == "type" else JobOutcome.labels()
            column = pc.index_in(column.cast(pa.string()), pa.array(names))
        columns[name] = column.to_numpy().astype(typecode)
    return columns


def make_folder(parent: Path, name: str) -> Path:
    """Make a new folder ``<name>-<time>`` in ``parent``, which is made too if need be. Raises OutputError."""
    stem = f"{name.replace(' ', '-')}-{time.strftime('%Y%m%d-%H%M%S')}"
    try:
        parent.mkdir(parents=True, exist_ok=True)
        for suffix in ["", *(f"-{i}" for i in range(2, 100))]:
            path = parent / (stem + suffix)
            with contextlib.suppress(FileExistsError):
                path.mkdir()
                return path
    except OSError as error:
        raise OutputError(
            f"output folder {parent}: {error.strerror}; choose a folder that you may write to with --output"
        ) from None
    raise OutputError(f"output folder {parent}: too many runs started within one second; wait, or remove some")


def write_environment(folder: Path, started: float, seconds: float | None) -> None:
    """Write ``environment.json``: versions, machine, start time (seconds since the epoch) and duration."""
    packages = (
        "loadbalance-testbed",
        "trio",
        "numpy",
        "scipy",
        "msgspec",
        "prometheus-client",
        "pyarrow",
        "matplotlib",
    )
    environment = {
        "python": sys.version,
        "platform": platform.platform(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "packages": {package: version(package) for package in packages} | packages_with_policies(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z", time.localtime(started)),
        "seconds": seconds,
    }
    replace_file(folder / "environment.json", json.dumps(environment, indent=2).encode())


class RunFolder:
    """A new run folder, written while the run goes on: everything finished is on disk."""

    def __init__(self, scenario: Scenario, parent: Path, jobs: int) -> None:
        """Make a folder for ``scenario`` in ``parent``, with room for ``jobs`` rows. Raises OutputError."""
        self.path = make_folder(parent, scenario.name)
        needed = jobs * BYTES_PER_JOB + SPARE_BYTES
        free = shutil.disk_usage(self.path).free
        if free < needed:
            self.path.rmdir()
            raise OutputError(
                f"output folder {parent}: {free / 1e6:.0f} MB are free and the run may need {needed / 1e6:.0f} MB; "
                "make room, choose another folder with --output, or shorten run.duration"
            )
        self.targets_file = targets_file_of(self.path)
        self._writers: dict[str, pq.ParquetWriter] = {}
        self._started = time.time()
        (self.path / "scenario.toml").write_text(resolved(scenario), encoding="utf-8")
        self._write_environment()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close_records()
        self.targets_file.unlink(missing_ok=True)
        self._write_environment(seconds=time.time() - self._started)

    def add_jobs(self, measurements: Measurements, variant: str, replication: int, type_names: list[str]) -> None:
        """Append the job records of one run to ``jobs.parquet`` or, if they are the twin's, ``twin.parquet``."""
        name = "jobs.parquet" if measurements.source == "cluster" else "twin.parquet"
        self._append(name, jobs_table(measurements, variant, replication, type_names))

    def add_tasks(self, measurements: Measurements, variant: str, replication: int) -> None:
        """Append the task records of one run, if it has any, to ``tasks.parquet`` or ``twin_tasks.parquet``."""
        if measurements.tasks:
            name = "tasks.parquet" if measurements.source == "cluster" else "twin_tasks.parquet"
            self._append(name, tasks_table(measurements, variant, replication))

    def add_copies(self, measurements: Measurements, variant: str, replication: int, pool_names: list[str]) -> None:
        """Append the copy records of one run, if it has any, to ``copies.parquet`` or ``twin_copies.parquet``."""
        if measurements.copies:
            name = "copies.parquet" if measurements.source == "cluster" else "twin_copies.parquet"
            self._append(name, copies_table(measurements, variant, replication, pool_names))

    def add_events(self, measurements: Measurements, variant: str, replication: int) -> None:
        """Append the events of one run's traced jobs to ``events.parquet`` or ``twin_events.parquet``."""
        if measurements.events:
            name = "events.parquet" if measurements.source == "cluster" else "twin_events.parquet"
            self._append(name, events_table(measurements, variant, replication))

    def _append(self, name: str, table: pa.Table) -> None:
        if name not in self._writers:
            self._writers[name] = pq.ParquetWriter(self.path / name, table.schema, compression="zstd")
        self._writers[name].write_table(table)

    def close_records(self) -> None:
        """Complete the files of records, which can't be read before; nothing is added afterwards."""
        for writer in self._writers.values():
            writer.close()

    def write_summaries(self, runs: list[Summary]) -> None:
        """Replace ``summary.json``."""
        replace_file(self.path / "summary.json", summaries.encode(runs))

    def write_targets(self, groups: Sequence[TargetGroup]) -> None:
        """Write the addresses of the processes' metrics for Prometheus."""
        replace_file(self.targets_file, encode(groups))

    def _write_environment(self, seconds: float | None = None) -> None:
        write_environment(self.path, self._started, seconds)


class _Versioned(msgspec.Struct):
    schema: int | None = None


def require_schema(file: Path, text: bytes, known: int, *, unnumbered: int, remedy: str) -> None:
    """Check that ``text``, the JSON of ``file``, has the schema that this version reads, before the rest is decoded.

    ``unnumbered``: the schema of files without a number. Raises OutputError, which ends with the ``remedy``, for
    another schema, and ValueError if the text is no JSON object.
    """
    found = msgspec.json.decode(text, type=_Versioned).schema
    found = unnumbered if found is None else found
    if found != known:
        age = "an older" if found < known else "a newer"
        raise OutputError(
            f"{file}: is of {age} version of the testbed (schema {found}, and this version reads schema {known}); "
            f"{remedy}"
        )


def replace_file(path: Path, content: bytes) -> None:
    """Write a file so that a reader sees either the old or the new content."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_bytes(content)
    temporary.replace(path)


def read_run(path: Path) -> tuple[Scenario, list[Summary]]:
    """Return the scenario and the summaries of a run folder. Raises OutputError when there is no such run."""
    summary = path / "summary.json"
    if not summary.exists():
        raise OutputError(f"{path}: not a folder of a finished run (it has no summary.json); give one from runs/")
    try:
        return load(path / "scenario.toml"), summaries.decode(summary.read_bytes())
    except msgspec.DecodeError as error:
        raise OutputError(f"{summary}: damaged ({error}); copy the folder again, or run again") from None
    except ValueError as error:
        raise OutputError(f"{summary}: {error}") from None
    except ScenarioError as error:
        raise OutputError(str(error)) from None
