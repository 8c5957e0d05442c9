"""Records of a long-running cluster."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.core.records import COLUMNS, COPY_COLUMNS, TABLES, Measurements, row_type
from testbed.runs.long_running import rolling
from testbed.runs.long_running.rolling import RollingRecords, kept_since


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rolling, "ROWS", 100)
    monkeypatch.setattr(rolling, "KEPT_ROWS", 500)
    monkeypatch.setattr(rolling, "SECONDS", 1e9)


def jobs(first: int, count: int, outcome: int = JobOutcome.COMPLETED) -> np.ndarray:
    rows = np.zeros(count, dtype=row_type(COLUMNS))
    rows["job"] = np.arange(first, first + count)
    rows["arrival"] = rows["job"] / 7
    rows["response"] = np.nan
    rows["outcome"] = outcome
    return rows


def test_few_records_are_all_there(tmp_path: Path) -> None:
    records = RollingRecords(tmp_path / "records")
    assert {table: len(next(iter(records.columns(table).values()))) for table in TABLES} == dict.fromkeys(TABLES, 0)
    for first in range(0, 350, 70):
        records.add("jobs", jobs(first, 70))
    columns = records.columns("jobs")
    assert columns["job"].tolist() == list(range(350))
    for name, typecode, _ in COLUMNS:
        assert columns[name].dtype == np.dtype(typecode)
    assert np.isnan(columns["response"]).all()
    assert records.unrecorded == {}


def test_of_many_the_latest_are_kept_and_the_others_counted_by_outcome(tmp_path: Path) -> None:
    records = RollingRecords(tmp_path / "records")
    for first in range(0, 10_000, 50):
        records.add("jobs", jobs(first, 50, JobOutcome.LOST if first < 1000 else JobOutcome.COMPLETED))
        assert len(list((tmp_path / "records").iterdir())) <= 6
    kept = records.columns("jobs")["job"]
    assert 400 <= len(kept) <= 600
    assert kept.tolist() == list(range(10_000 - len(kept), 10_000))
    assert records.unrecorded == {"lost": 1000, "completed": 9000 - len(kept)}


def test_what_has_waited_for_long_is_written_though_it_is_little(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rolling, "SECONDS", 0.0)
    records = RollingRecords(tmp_path / "records")
    records.add("jobs", jobs(0, 3))
    assert len(list((tmp_path / "records").glob("jobs-*.parquet"))) == 1
    assert records.columns("jobs")["job"].tolist() == [0, 1, 2]


@pytest.mark.parametrize(("count", "copies_per_job"), [(150, 3), (400, 2), (2000, 1), (2000, 2)])
def test_every_job_that_came_since_the_records_are_kept_has_all_its_own(
    tmp_path: Path, count: int, copies_per_job: int
) -> None:
    """Jobs end one by one, each with its copies; the service of each begins with its arrival and lasts 5."""
    records = RollingRecords(tmp_path / "records")
    for first in range(0, count, 50):
        some = jobs(first, 50)
        some["response"] = 5.0
        copies = np.zeros(50 * copies_per_job, dtype=row_type(COPY_COLUMNS))
        copies["job"] = np.repeat(some["job"], copies_per_job)
        copies["end"] = np.repeat(some["arrival"] + some["response"], copies_per_job)
        records.add("jobs", some)
        records.add("copies", copies)
    columns, kept = records.columns("jobs"), records.columns("copies")
    measurements = Measurements(
        source="cluster",
        columns=columns,
        copies=kept,
        occupancy_edges=np.zeros(0),
        occupancy=np.zeros((0, 1)),
        counters={},
        counted=np.zeros((0, 0), dtype=np.int64),
        processes=[],
        stopped_at=count / 7 + 5,
        unrecorded=records.unrecorded,
    )
    since = kept_since(measurements)
    whole = columns["job"][np.isin(columns["job"], kept["job"])]
    assert (since == 0.0) == (len(whole) == count)
    measured = columns["job"][columns["arrival"] >= since]
    assert measured[-1] == count - 1
    assert len(measured) > len(whole) - 5 * 7 - 2
    assert (np.bincount(kept["job"], minlength=count)[measured] == copies_per_job).all()
