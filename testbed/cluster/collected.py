"""What the processes of a cluster have reported, put together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from testbed.cluster.control import Records, Report
from testbed.cluster.members import Member
from testbed.measure.records import COUNTED, TABLES, Measurements
from testbed.runtime.system import has_copies, has_tasks

if TYPE_CHECKING:
    from testbed.scenario import Scenario


def collect(
    members: Sequence[Member], scenario: Scenario, *, strangers: int, failure: str | None, incidents: list[str]
) -> Measurements:
    """Return what the processes of a run have measured; ``strangers``: connections that the controller refused."""
    reports = [member.report for member in members if member.report is not None]
    counters = merge_counters(reports)
    for member in members:
        if member.report is None and member.dispatcher is not None and member.progress is not None:
            counters[f"jobs arrived at {member.name}, whose records died with it"] = member.progress.arrived
    if strangers:
        counters["connections from strangers at the controller"] = strangers
    edges, occupancy = merge_occupancy(reports)
    pieces = [piece for member in members for piece in member.records]
    reached = max((member.progress.time for member in members if member.progress is not None), default=0.0)
    return Measurements(
        source="cluster",
        columns=merge_records(pieces),
        tasks=merge_records(pieces, "tasks") if has_tasks(scenario) else {},
        copies=merge_records(pieces, "copies") if has_copies(scenario) else {},
        occupancy_edges=edges,
        occupancy=occupancy,
        counters=counters,
        events=sorted((event for member in members for event in member.events), key=lambda event: event.time),
        counted=merge_counted(reports),
        processes=[report.process for report in reports],
        stopped_at=min(scenario.horizon, reached),
        failure=failure,
        incidents=incidents,
    )


def merge_records(pieces: Iterable[Records], table: str = "jobs") -> dict[str, npt.NDArray[np.generic]]:
    """Return the records of one table of all pieces as columns, each of shape (records,)."""
    received = [piece for piece in pieces if piece.table == table]
    return {
        name: np.frombuffer(b"".join(piece.columns[name] for piece in received), dtype=typecode)
        for name, typecode, _ in TABLES[table]
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
