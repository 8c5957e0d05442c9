"""Buffers of records."""

from __future__ import annotations

import numpy as np

from testbed.core.records import TASK_COLUMNS, TaskRecords, row_type
from testbed.core.rows import TaskRecord


def record(i: int) -> TaskRecord:
    return TaskRecord(i, 1, 2, 3, 0.5, 1.5, float(i))


def test_records_are_taken_in_pieces_and_the_buffer_is_used_again() -> None:
    records = TaskRecords(1)
    taken: list[np.ndarray] = []
    written = 0
    for count in (10, 0, 2500, 7):  # beyond the room that is there at first, 1024
        for _ in range(count):
            records.write(record(written))
            written += 1
        assert records.taken + records.count == written
        pieces = [np.frombuffer(rows, dtype=row_type(TASK_COLUMNS)) for rows in records.take(1000)]
        assert [len(piece) for piece in pieces] == [min(1000, count - i) for i in range(0, count, 1000)]
        taken.extend(pieces)
        assert (records.count, records.taken) == (0, written)
    rows = np.concatenate(taken)
    assert rows["job"].tolist() == list(range(2517))
    assert rows["end"].tolist() == list(range(2517))
    assert set(rows["service"].tolist()) == {1.5}
