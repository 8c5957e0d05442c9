"""What the processes report, put together."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from testbed.cluster.collected import RecordsInMemory, merge_counted, merge_counters, merge_occupancy
from testbed.cluster.control import Report
from testbed.cluster.members import node_ranges
from testbed.core.records import COLUMNS, COUNTED, ProcessReport, row_type


def report(
    edges: list[float], occupancy: list[list[float]], counted: list[list[int]] | None = None, **counters: int
) -> Report:
    silent = {"name": "node", "exact_timers": True}
    numbers = {field.name: 0 for field in msgspec.structs.fields(ProcessReport) if field.name not in silent}
    return Report(
        process=ProcessReport(**silent, **numbers),
        counters=counters,
        occupancy_edges=edges,
        occupancy=occupancy,
        counted=counted or [],
    )


def test_records_of_all_processes_follow_one_another() -> None:
    records = RecordsInMemory()
    assert all(len(column) == 0 for column in records.columns("jobs").values())
    for first, count in ((0, 3), (3, 0), (3, 5)):
        rows = np.zeros(count, dtype=row_type(COLUMNS))
        for name, _, _ in COLUMNS:
            rows[name] = np.arange(first, first + count)
        records.add("jobs", rows)
    columns = records.columns("jobs")
    assert list(columns) == [name for name, _, _ in COLUMNS]
    for name, code, _ in COLUMNS:
        assert columns[name].tolist() == list(range(8))
        assert columns[name].dtype.char == code
    assert all(len(column) == 0 for column in records.columns("tasks").values())


def test_counters_add_up_by_name() -> None:
    assert merge_counters([report([], [], a=1, b=2), report([], [], b=3, c=4)]) == {"a": 1, "b": 5, "c": 4}


def test_occupancy_adds_up_over_the_slices_that_all_nodes_have() -> None:
    first = report([0.0, 1.0, 2.0], [[1.0, 2.0], [3.0, 0.0]])
    second = report([0.0, 1.0, 2.0, 3.0], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0], [9.0, 9.0, 9.0]])
    dispatcher = report([0.0], [])
    edges, total = merge_occupancy([dispatcher, first, second])
    assert edges.tolist() == [0.0, 1.0, 2.0]
    assert total.tolist() == [[1.5, 2.0, 0.5], [3.0, 1.0, 0.0]]
    edges, total = merge_occupancy([dispatcher])
    assert (edges.tolist(), total.shape) == ([], (0, 1))


def test_a_node_that_was_started_later_counts_from_its_first_edge() -> None:
    width = len(COUNTED)
    first = report([0.0, 1.0, 2.0], [[1.0, 2.0], [3.0, 0.0]], [[1] * width, [2] * width, [3] * width])
    second = report([1.0, 2.0, 3.0], [[0.5, 0.0, 0.5], [0.0, 1.0, 0.0]], [[10] * width, [20] * width, [30] * width])
    edges, total = merge_occupancy([first, second])
    assert edges.tolist() == [1.0, 2.0]
    assert total.tolist() == [[3.5, 0.0, 0.5]]
    assert merge_counted([first, second]).tolist() == [[12] * width, [23] * width]
    third = report([5.0, 6.0], [[1.0]], [[0] * width, [0] * width])
    edges, total = merge_occupancy([first, third])
    assert (edges.tolist(), len(total)) == ([], 0)
    assert len(merge_counted([first, third])) == 0


def test_what_balancers_counted_adds_up_over_the_edges_that_all_nodes_have() -> None:
    width = len(COUNTED)
    first = report([0.0, 1.0], [], counted=[[0] * width, [1] * width])
    second = report([0.0, 1.0, 2.0], [], counted=[[0] * width, [*range(width)], [9] * width])
    counted = merge_counted([report([], []), first, second])
    assert counted.tolist() == [[0] * width, [1 + i for i in range(width)]]
    assert merge_counted([report([], [])]).shape == (0, width)


@pytest.mark.parametrize(("servers", "nodes"), [(1, 1), (7, 3), (20, 20), (1000, 7)])
def test_servers_are_spread_over_nodes_evenly_and_completely(servers: int, nodes: int) -> None:
    ranges = node_ranges(servers, nodes)
    assert [server for first, end in ranges for server in range(first, end)] == list(range(servers))
    sizes = [end - first for first, end in ranges]
    assert max(sizes) - min(sizes) <= 1
