"""The reports of a cluster's processes, merged."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from testbed.cluster.control import Report
from testbed.cluster.members import Member
from testbed.core.records import COUNTED, TABLES, Measurements
from testbed.scenario.modes import has_copies, has_tasks

if TYPE_CHECKING:
    from testbed.scenario import Scenario


class Records(Protocol):
    """Keeps the records of a run."""

    def add(self, table: str, rows: npt.NDArray[np.void]) -> None:
        """Keep rows of a table (testbed.core.records.TABLES)."""

    def columns(self, table: str) -> dict[str, npt.NDArray[np.generic]]:
        """Return the records of a table that are kept as columns, each of shape (records,)."""

    @property
    def unrecorded(self) -> dict[str, int]:
        """Jobs whose records are no longer kept, by outcome."""


class RecordsInMemory:
    """Keeps all records of a run."""

    unrecorded: ClassVar[dict[str, int]] = {}

    def __init__(self) -> None:
        self._pieces: dict[str, list[npt.NDArray[np.void]]] = {table: [] for table in TABLES}

    def add(self, table: str, rows: npt.NDArray[np.void]) -> None:
        """Keep rows of a table."""
        self._pieces[table].append(rows)

    def columns(self, table: str) -> dict[str, npt.NDArray[np.generic]]:
        """Return the records of a table as columns, each of shape (records,)."""
        pieces = self._pieces[table]
        return {
            name: np.concatenate([rows[name] for rows in pieces]) if pieces else np.empty(0, dtype=typecode)
            for name, typecode, _ in TABLES[table]
        }


def collect(
    members: Sequence[Member],
    scenario: Scenario,
    records: Records,
    *,
    until: float,
    rejected: int,
    failure: str | None,
    incidents: list[str],
) -> Measurements:
    """Return the measurements of a run's processes.

    ``until``: when arrivals stopped, unless the run was over before; ``rejected``: connections of unauthenticated peers
    that the controller closed.
    """
    reports = [member.report for member in members if member.report is not None]
    counters = merge_counters(reports)
    columns = records.columns("jobs")
    unrecorded = dict(records.unrecorded)
    for member in members:
        if member.report is None and member.dispatcher is not None:
            member.end_life()
        if member.earlier is not None:
            for name, value in member.earlier.counters.items():
                counters[name] = counters.get(name, 0) + value
        if member.lost:
            counters[f"jobs lost with {member.name}"] = member.lost
            unrecorded["lost"] = unrecorded.get("lost", 0) + member.lost
    if rejected:
        counters["connections from strangers at the controller"] = rejected
    edges, occupancy = merge_occupancy(reports)
    reached = max((member.progress.time for member in members if member.progress is not None), default=0.0)
    return Measurements(
        source="cluster",
        columns=columns,
        tasks=records.columns("tasks") if has_tasks(scenario) else {},
        copies=records.columns("copies") if has_copies(scenario) else {},
        occupancy_edges=edges,
        occupancy=occupancy,
        counters=counters,
        events=sorted((event for member in members for event in member.events), key=lambda event: event.time),
        counted=merge_counted(reports),
        processes=[report.process for report in reports],
        stopped_at=min(until, reached),
        failure=failure,
        incidents=incidents,
        unrecorded=unrecorded,
    )


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
    edges = common_edges(tables)
    levels = max((len(report.occupancy[0]) for report in tables), default=1)
    total = np.zeros((max(0, len(edges) - 1), levels))
    for report in tables:
        first = report.occupancy_edges.index(edges[0]) if edges else 0
        table = np.array(report.occupancy)[first : first + len(total)]
        total[:, : table.shape[1]] += table
    return np.array(edges), total


def common_edges(reports: Sequence[Report]) -> list[float]:
    """Return the edges of slices that all nodes have: a node that started later, or stopped earlier, has fewer."""
    starts = [report.occupancy_edges[0] for report in reports]
    ends = [report.occupancy_edges[-1] for report in reports]
    return [edge for edge in reports[0].occupancy_edges if max(starts) <= edge <= min(ends)] if reports else []


def merge_counted(reports: Iterable[Report]) -> npt.NDArray[np.int64]:
    """Add up the counts of the nodes' balancers at each edge: shape (slices + 1, len(COUNTED))."""
    tables = [report for report in reports if report.counted]
    edges = common_edges(tables)
    total = np.zeros((len(edges), len(COUNTED)), dtype=np.int64)
    for report in tables:
        first = report.occupancy_edges.index(edges[0]) if edges else 0
        total += np.array(report.counted)[first : first + len(edges)]
    return total
