"""The page of a finished run, from its folder: figures from the summary, curves from the records.

Queue lengths over time are computed from the records of jobs, tasks and copies: a server's queue length is the number
of these that were at the server. Tasks that moved between servers count at their last server only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
import pyarrow.parquet as pq

from testbed.cluster.observing import BATCHES, theory_of
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.measure.statistics import departures, number_in_system, replication_interval
from testbed.measure.summary import Summary
from testbed.present.dash.board import STRIP_POINTS, Board
from testbed.present.dash.view import Curve, Point, RunView, concluded, rows, run_id, servers_per_row
from testbed.runs.run_folder import read_jobs, read_run
from testbed.scenario import Scenario, variants
from testbed.scenario.modes import has_copies, has_tasks
from testbed.theory.predict import predict

TAIL_POINTS = 200

Floats = npt.NDArray[np.float64]


class Stays(NamedTuple):
    """For each job, task or copy: the server that it was at, from when to when."""

    server: npt.NDArray[np.int64]
    start: Floats
    end: Floats


def finished_board(folder: Path) -> Board:
    """Return the page of a run folder. Raises OutputError or ScenarioError when the folder can't be read."""
    scenario, summaries = read_run(folder)
    settings = dict(variants(scenario))
    board = Board(f"{scenario.name} ({folder.name})")
    for summary in summaries:
        if summary.variant in settings:
            board.add(*_run(folder, settings[summary.variant], summary))
    board.end("the run has ended")
    return board


def _run(folder: Path, scenario: Scenario, summary: Summary) -> tuple[RunView, list[Point]]:
    twin = summary.source == "twin"
    name = summary.variant if not summary.replication else f"{summary.variant} #{summary.replication + 1}"
    types = [job_type.name for job_type in scenario.workload.types]
    columns = read_jobs(
        folder / ("twin.parquet" if twin else "jobs.parquet"), summary.variant, summary.replication, types
    )
    start, stop = summary.window
    inside = (columns["arrival"] >= start) & (columns["arrival"] < stop) & (columns["outcome"] == JobOutcome.COMPLETED)
    view = RunView(
        id=run_id(summary.variant, summary.replication, summary.source),
        name=f"{name} (twin)" if twin else name,
        policy=scenario.dispatch.policy,
        source=summary.source,
        state="finished",
        servers=summary.servers,
        servers_per_row=servers_per_row(summary.servers),
        time_unit_seconds=summary.time_unit_seconds,
        time=stop,
        horizon=scenario.horizon,
        load=scenario.load,
        theory=theory_of(scenario, predict(scenario)),
        response_tail=tail_of(columns["response"][inside]),
    )
    edges = np.linspace(0.0, max(stop, 1e-9), STRIP_POINTS + 1)
    number = number_in_system(columns["arrival"], departures(columns), edges)
    means, half_widths = _so_far(columns, start, edges[1:])
    queues = queue_lengths(_stays(folder, scenario, summary, columns), summary.servers, edges[1:])
    events = _events(folder, scenario, summary, edges)
    points = [
        Point(
            time=float(time),
            in_system=float(number[i]),
            mean=means[i],
            half_width=half_widths[i],
            queues=rows(queues[:, i].tolist()),
            events=events[i],
        )
        for i, time in enumerate(edges[1:])
    ]
    return concluded(view, summary), points


def tail_of(responses: Floats) -> Curve:
    """Return P(response time > t) at TAIL_POINTS of the measured response times, most of them in the tail."""
    ordered = np.sort(responses)
    n = len(ordered)
    if n < 2:
        return []
    ranks = np.unique((n - np.geomspace(1, n, TAIL_POINTS)).astype(int))
    return [(float(ordered[i]), float((n - 1 - i) / n)) for i in ranks if i < n - 1]


def _so_far(
    columns: dict[str, npt.NDArray[Any]], start: float, times: Floats
) -> tuple[list[float | None], list[float | None]]:
    """Return the mean response time of the jobs completed by each time, and its half-width.

    Only jobs that arrived after ``start`` count. The half-width is computed as for live snapshots: from the means of
    BATCHES intervals of equal length since ``start``.
    """
    done = (columns["outcome"] == JobOutcome.COMPLETED) & (columns["arrival"] >= start)
    ends = columns["arrival"][done] + columns["response"][done]
    order = np.argsort(ends)
    ends, sums = ends[order], np.concatenate(([0.0], np.cumsum(columns["response"][done][order])))
    means: list[float | None] = []
    half_widths: list[float | None] = []
    for time in times:
        at = np.searchsorted(ends, np.linspace(start, max(time, start), BATCHES + 1), side="right")
        total = int(at[-1])
        means.append(float(sums[total] / total) if total else None)
        counts = np.diff(at)
        enough = bool(np.all(counts > 0))
        half_widths.append(replication_interval((np.diff(sums[at]) / counts).tolist()).half_width if enough else None)
    return means, half_widths


def queue_lengths(stays: Stays, servers: int, times: Floats) -> npt.NDArray[np.int64]:
    """Return the number at each server at each time, (servers, len(times))."""
    change = np.zeros((servers, len(times) + 1), dtype=np.int64)
    np.add.at(change, (stays.server, np.searchsorted(times, stays.start)), 1)
    np.add.at(change, (stays.server, np.searchsorted(times, stays.end)), -1)
    return np.cumsum(change, axis=1)[:, :-1]


def _stays(folder: Path, scenario: Scenario, summary: Summary, columns: dict[str, npt.NDArray[Any]]) -> Stays:
    if has_copies(scenario):
        copies = _table(folder, "copies", summary)
        # A copy that waits in a central queue is at a server only during its service.
        waiting_here = np.isin(
            copies["pool"], [pool.name for pool in scenario.cluster.pools if pool.queue == "per-server"]
        )
        time = np.nan_to_num(copies["received"]) + np.where(waiting_here, copies["waiting_time"], 0.0)
        return _at_servers(copies["server"], copies["end"] - time, copies["end"])
    if has_tasks(scenario):
        tasks = _table(folder, "tasks", summary)
        return _at_servers(tasks["server"], tasks["end"] - tasks["waiting_time"] - tasks["service"], tasks["end"])
    kept = columns["outcome"] != JobOutcome.LOST
    return _at_servers(columns["server"][kept], columns["arrival"][kept], departures(columns)[kept])


def _at_servers(server: npt.NDArray[Any], start: Floats, end: Floats) -> Stays:
    placed = server >= 0
    return Stays(server[placed].astype(np.int64), start[placed], end[placed])


def _events(folder: Path, scenario: Scenario, summary: Summary, edges: Floats) -> list[dict[str, int]]:
    """Return the numbers of events of copies between successive edges."""
    found: list[dict[str, int]] = [{} for _ in edges[1:]]
    if not has_copies(scenario):
        return found
    copies = _table(folder, "copies", summary)
    later = copies["copy"] > 0
    began = copies["end"] - copies["waiting_time"] - np.nan_to_num(copies["received"])
    for event, at in (
        ("replicated", began[later]),
        ("rerouted", copies["end"][copies["fate"] == CopyOutcome.REROUTED.label]),
        ("cancelled", copies["end"][copies["met"] != StateAtCancellation.NOT_CANCELLED.label]),
    ):
        for i, count in enumerate(np.histogram(at, edges)[0]):
            if count:
                found[i][event] = int(count)
    return found


def _table(folder: Path, name: str, summary: Summary) -> dict[str, npt.NDArray[Any]]:
    """Return one run's columns of a table in the folder."""
    path = folder / (f"twin_{name}.parquet" if summary.source == "twin" else f"{name}.parquet")
    table = pq.read_table(path)
    mine = pc.and_(pc.equal(table["variant"], summary.variant), pc.equal(table["replication"], summary.replication))
    return {
        column: table.filter(mine)[column].to_numpy()
        for column in table.column_names
        if column not in ("variant", "replication")
    }
