"""Records of a long-running cluster: the latest ones are kept, in bounded memory and on bounded disk space."""

from __future__ import annotations

import time
from collections import deque
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from testbed.core.outcomes import JobOutcome
from testbed.core.records import TABLES, Measurements

ROWS = 1 << 16  # of a segment
SECONDS = 30.0  # after which a smaller one is written
KEPT_ROWS = 1_000_000
KEPT_SEGMENTS = 1000
ROUNDING = 1e-6  # of times, in time units


class Segment(NamedTuple):
    """A file of records."""

    path: Path
    rows: int
    outcomes: list[int]  # of jobs


class _Table:
    """The segments of one table, and the rows that are not yet written."""

    def __init__(self) -> None:
        self.waiting: list[npt.NDArray[np.void]] = []
        self.count = 0  # of the waiting rows
        self.due = 0.0
        self.segments: deque[Segment] = deque()
        self.kept = 0
        self.written = 0


class RollingRecords:
    """Keeps records in Parquet files ``<table>-<number>.parquet`` in a new ``folder``, with the records' own columns.

    A file is written for every ROWS records, and after SECONDS. The latest KEPT_ROWS records of each table are kept, or
    somewhat fewer; of older jobs only the counts by outcome (``unrecorded``).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir()
        self._tables = {table: _Table() for table in TABLES}
        self._forgotten = [0] * len(JobOutcome)

    def add(self, table: str, rows: npt.NDArray[np.void]) -> None:
        """Keep rows of a table."""
        found = self._tables[table]
        now = time.monotonic()
        if not found.waiting:
            found.due = now + SECONDS
        found.waiting.append(rows)
        found.count += len(rows)
        if found.count >= ROWS or now >= found.due:
            self._write(table, found)

    def _write(self, table: str, found: _Table) -> None:
        rows = np.concatenate(found.waiting)
        found.waiting, found.count = [], 0
        path = self._folder / f"{table}-{found.written:06d}.parquet"
        found.written += 1
        columns = {name: pa.array(np.ascontiguousarray(rows[name])) for name, _, _ in TABLES[table]}
        pq.write_table(pa.table(columns), path, compression="zstd")
        outcomes = np.bincount(rows["outcome"], minlength=len(JobOutcome)).tolist() if table == "jobs" else []
        found.segments.append(Segment(path, len(rows), outcomes))
        found.kept += len(rows)
        while len(found.segments) > KEPT_SEGMENTS or found.kept - found.segments[0].rows >= KEPT_ROWS:
            oldest = found.segments.popleft()
            found.kept -= oldest.rows
            oldest.path.unlink(missing_ok=True)
            for code, count in enumerate(oldest.outcomes):
                self._forgotten[code] += count

    def columns(self, table: str) -> dict[str, npt.NDArray[np.generic]]:
        """Return the records of a table that are kept as columns, each of shape (records,)."""
        found = self._tables[table]
        if found.waiting:
            self._write(table, found)
        parts = [pq.read_table(segment.path) for segment in found.segments]
        whole = pa.concat_tables(parts) if parts else None
        return {
            name: whole[name].to_numpy().astype(typecode, copy=False) if whole is not None else np.empty(0, typecode)
            for name, typecode, _ in TABLES[table]
        }

    @property
    def unrecorded(self) -> dict[str, int]:
        """Jobs whose records are no longer kept, by outcome."""
        return {name: count for name, count in zip(JobOutcome.labels(), self._forgotten, strict=True) if count}


def kept_since(measurements: Measurements) -> float:
    """Return a time, in time units, from which on every job that arrives has all its records; 0 if all are kept.

    A job that arrived after the first kept job had ended has ended later, and is kept. There are more tasks and copies
    than jobs, so that the first of them that are kept may belong to later jobs; then the same argument holds for them.
    """
    columns: dict[str, Any] = measurements.columns
    ends = columns["arrival"] + columns["response"]
    first = float(ends[ends == ends].min(initial=measurements.stopped_at))
    since = first if measurements.unrecorded else 0.0
    for table in (measurements.tasks, measurements.copies):
        kept: Any = table.get("end", ())
        if len(kept) and kept.min() > first + ROUNDING:
            since = max(since, float(kept.min()))
    return since
