"""What the processes of a cluster have reported, put together."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from testbed.cluster.control import Records, Report
from testbed.measure.records import COLUMNS, COUNTED, TASK_COLUMNS


def merge_records(pieces: Iterable[Records], of_tasks: bool = False) -> dict[str, npt.NDArray[np.generic]]:
    """Return the job records of all pieces as columns, each of shape (jobs,), or the task records: (tasks,)."""
    received = [piece for piece in pieces if piece.of_tasks == of_tasks]
    return {
        name: np.frombuffer(b"".join(piece.columns[name] for piece in received), dtype=typecode)
        for name, typecode, _ in (TASK_COLUMNS if of_tasks else COLUMNS)
    }


def merge_counters(reports: Iterable[Report]) -> dict[str, int]:
    """Add up the counters of all processes by name."""
    counters: dict[str, int] = {}
    for report in reports:
        for name, value in report.counters.items():
            counters[name] = counters.get(name, 0) + value
    return counters


def merge_occupancy(reports: Iterable[Report]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Add up the nodes' occupancy tables: common edges (slices + 1,), server-time (slices, levels)."""
    tables = [report for report in reports if report.occupancy]
    slices = min((len(report.occupancy) for report in tables), default=0)
    levels = max((len(report.occupancy[0]) for report in tables), default=1)
    total = np.zeros((slices, levels))
    for report in tables:
        table = np.array(report.occupancy[:slices])
        total[:, : table.shape[1]] += table
    edges = np.array(tables[0].occupancy_edges[: slices + 1] if tables else [])
    return edges, total


def merge_counted(reports: Iterable[Report]) -> npt.NDArray[np.int64]:
    """Add up what the nodes' balancers had counted at each edge, (slices + 1, len(COUNTED))."""
    tables = [report.counted for report in reports if report.counted]
    edges = min((len(table) for table in tables), default=0)
    return sum((np.array(table[:edges]) for table in tables), np.zeros((edges, len(COUNTED)), dtype=np.int64))
