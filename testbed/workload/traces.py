"""Recorded workloads: arrival times, and optionally sizes and types, read from CSV or Parquet files."""

from __future__ import annotations

import dataclasses
import importlib.resources
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.workload.distribution import FloatArray
from testbed.workload.tables import column_of, find_column, integer_column, number_column, read_table

IntArray = npt.NDArray[np.int64]

SAMPLE = "sample"  # the name in a scenario of the recording that is shipped
PER_POOL = "size_"  # and a pool's name: the column of the sizes that jobs have there


@dataclasses.dataclass(frozen=True)
class Recording:
    """The jobs of a recording, in order of arrival; all arrays have shape (jobs,)."""

    file: str
    arrival: FloatArray  # counted from the first arrival
    size: FloatArray | None
    type: tuple[str | int | None, ...] | None  # as in the file: names or indices
    sizes_by_pool: Any  # a pyarrow.Table: the columns whose names begin like those of sizes in pools
    unused: tuple[str, ...] = ()  # the names of columns that are none of these
    _read: dict[tuple[str, ...], FloatArray] = dataclasses.field(default_factory=dict)
    _indices: dict[tuple[str, ...], IntArray | None] = dataclasses.field(default_factory=dict)

    def sizes(self, pools: Sequence[str]) -> FloatArray | None:
        """Return the sizes of the jobs in each of ``pools``, shape (jobs, pools); None if none has a column.

        Raises ValueError, naming column and row, when only some have one, and for what is no size.
        """
        names = tuple(pools)
        if not any(PER_POOL + name in self.sizes_by_pool.column_names for name in names):
            return None
        if names not in self._read:
            columns = [_size_column(self.sizes_by_pool, self.file, PER_POOL + name) for name in names]
            self._read[names] = np.column_stack(columns)
        return self._read[names]

    @property
    def period(self) -> float:
        """Time after which the recording starts over: from first to last arrival, and one mean gap more."""
        jobs = len(self.arrival)
        return float(self.arrival[-1]) * jobs / (jobs - 1)

    def type_indices(self, names: Sequence[str]) -> IntArray | None:
        """Return the index of each job's type among ``names``; None if the recording has no types.

        A value is a name or, if no type is called that, an index. With a single type all jobs are of that type,
        whatever the file says. Raises ValueError, naming the row, for a value that is neither.
        """
        key = tuple(names)
        if key not in self._indices:
            self._indices[key] = self._find_types(key)
        return self._indices[key]

    def type_fractions(self, names: Sequence[str], sizes: FloatArray | None) -> tuple[float, ...] | None:
        """Return the fraction of the work that each type brings; None if the recording has no types.

        ``sizes``: of the jobs, shape (jobs,) or (jobs, pools); None if all types have the same distribution of sizes.
        Raises ValueError like ``type_indices``.
        """
        indices = self.type_indices(names)
        if indices is None:
            return None
        work = None if sizes is None else sizes.reshape(len(sizes), -1).mean(axis=1)
        by_type = np.bincount(indices, weights=work, minlength=len(names))
        return tuple((by_type / by_type.sum()).tolist())

    def _find_types(self, names: tuple[str, ...]) -> IntArray | None:
        if self.type is None:
            return None
        if len(names) == 1:
            return np.zeros(len(self.type), dtype=np.int64)
        index: dict[str | int | None, int] = {}
        for row, value in enumerate(self.type, 1):
            if value in index:
                continue
            if str(value) in names:
                index[value] = names.index(str(value))
            elif isinstance(value, int) and 0 <= value < len(names):
                index[value] = value
            else:
                known = ", ".join(f"'{name}'" for name in names)
                raise ValueError(
                    f"{self.file}: the type in row {row} is {value!r}, but the workload's types are {known}, "
                    f"or 0 to {len(names) - 1}"
                )
        return np.array([index[value] for value in self.type], dtype=np.int64)


def read_recording(file: str, arrival: str, size: str, type_: str, optional: Collection[str]) -> Recording:
    """Read a recording from ``file``, a CSV or Parquet file or "sample", with its columns by name.

    ``optional`` may hold "size" and "type": those columns may then be absent. Rows are counted from 1, a header not
    included. Raises ValueError that names file, column and row when the file can't be read, lacks a column, has fewer
    than two arrivals, times that decrease or are all the same, sizes that are negative, or values that are no numbers.
    """
    if file == SAMPLE:
        with importlib.resources.as_file(
            importlib.resources.files("testbed.workload") / "data/sample_trace.csv"
        ) as path:
            table = read_table(str(path))
    else:
        table = read_table(file)
    # Nanoseconds since 1970 have more digits than a float: subtract the first before the conversion.
    whole = integer_column(table, file, arrival)
    times = number_column(table, file, arrival) if whole is None else (whole - whole[0]).astype(np.float64)
    if len(times) < 2:
        raise ValueError(f"{file} has a single arrival: a recording needs at least two")
    back = np.flatnonzero(np.diff(times) < 0)
    if len(back):
        row = int(back[0]) + 1
        raise ValueError(
            f"{file}: column '{arrival}' must not decrease, but row {row + 1} is {_shown(table, file, arrival, row)} "
            f"after {_shown(table, file, arrival, row - 1)}: "
            "sort the file by arrival"
        )
    if times[-1] == times[0]:
        raise ValueError(f"{file}: all arrivals in column '{arrival}' are at {_shown(table, file, arrival, 0)}")
    sizes = None
    if find_column(table, file, size) is not None or "size" not in optional:
        sizes = _size_column(table, file, size)
    types = None
    if find_column(table, file, type_) is not None or "type" not in optional:
        types = tuple(column_of(table, file, type_).to_pylist())
    by_pool = [index for index, name in enumerate(table.column_names) if name.startswith(PER_POOL)]
    used = {find_column(table, file, name) for name in (arrival, size, type_)}
    unused = [name for index, name in enumerate(table.column_names) if index not in used and index not in by_pool]
    return Recording(file, times - times[0], sizes, types, table.select(by_pool), tuple(unused))


def _shown(table: Any, file: str, name: str, row: int) -> object:
    return column_of(table, file, name)[row].as_py()


def _size_column(table: Any, file: str, name: str) -> FloatArray:
    sizes = number_column(table, file, name)
    negative = np.flatnonzero(sizes < 0)
    if len(negative):
        row = int(negative[0])
        raise ValueError(f"{file}: column '{name}' must be at least 0, but row {row + 1} is {sizes[row]}")
    return sizes
