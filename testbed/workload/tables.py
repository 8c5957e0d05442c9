"""Columns of CSV and Parquet files, with errors that say what to mend. pyarrow is imported only when a file is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from testbed.workload.distribution import FloatArray


def read_table(file: str) -> Any:
    """Return the file as a ``pyarrow.Table`` with at least one row; CSV unless its name ends in ``.parquet``.

    Raises ValueError when the file is missing, unreadable, malformed or empty.
    """
    import pyarrow
    from pyarrow import csv, parquet

    path = Path(file)
    if not path.is_file():
        raise ValueError(f"there is no file {path.absolute()}: check the name and the folder")
    try:
        if path.suffix == ".parquet":
            table = parquet.read_table(path, use_threads=False)
        else:
            table = csv.read_csv(path, read_options=csv.ReadOptions(use_threads=False))
            _ = table.column_names  # decodes the header
    except UnicodeDecodeError:
        raise ValueError(f"{file}: the names of the columns are not UTF-8; save the file as UTF-8") from None
    except (pyarrow.ArrowInvalid, OSError) as error:
        kind = "Parquet" if path.suffix == ".parquet" else "CSV"
        raise ValueError(f"{file} can't be read as a {kind} file: {error}") from None
    if table.num_rows == 0:
        raise ValueError(f"{file} has no rows")
    return table


def number_column(table: Any, file: str, name: str) -> FloatArray:
    """Return the column as floats, shape (rows,). Rows are counted from 1, a header not included.

    Raises ValueError when it is missing, or naming the first row that is not a finite number.
    """
    import pyarrow

    column = column_of(table, file, name)
    if pyarrow.types.is_temporal(column.type):
        shown = column.cast(pyarrow.string())[0]
        raise ValueError(
            f"{file}: column '{name}' must hold numbers, but holds dates or times: row 1 is {shown}. Write them as "
            "numbers, such as seconds since the first"
        )
    if pyarrow.types.is_integer(column.type) or pyarrow.types.is_floating(column.type):
        values: FloatArray = column.to_numpy().astype(np.float64)
        unfit = np.flatnonzero(~np.isfinite(values))
    else:
        unfit = np.array([i for i, value in enumerate(column.to_pylist()) if not _is_number(value)][:1], dtype=np.int64)
        if not len(unfit):  # each is a number, but the column is of another type: decimals, or text in Parquet
            return np.array([float(value) for value in column.to_pylist()])
    if len(unfit):
        shown = column[int(unfit[0])].as_py()
        raise ValueError(
            f"{file}: column '{name}' must hold finite numbers, but row {unfit[0] + 1} "
            + ("is empty" if shown is None or shown == "" else f"is {shown!r}")
        )
    return values


def integer_column(table: Any, file: str, name: str) -> npt.NDArray[np.int64] | None:
    """Return the column as integers, shape (rows,); None unless the file has 64-bit integers in all of its rows."""
    import pyarrow

    column = column_of(table, file, name)
    whole = pyarrow.types.is_integer(column.type) and not pyarrow.types.is_uint64(column.type)
    return column.to_numpy().astype(np.int64) if whole and not column.null_count else None


def find_column(table: Any, file: str, name: str) -> int | None:
    """Return the index of the column of that name, or else of one that differs in capitals and in spaces around it.

    Return None if there is none. Raises ValueError if there are two.
    """
    names = table.column_names
    for same in (str, _plain):
        found = [index for index, column in enumerate(names) if same(column) == same(name)]
        if len(found) > 1:
            shown = ", ".join(f"'{names[index]}'" for index in found)
            raise ValueError(f"{file} has {len(found)} columns '{name}' ({shown}): keep one, or rename the others")
        if found:
            return found[0]
    return None


def column_of(table: Any, file: str, name: str) -> Any:
    """Return the table's column, found like ``find_column``; ValueError with the columns there are if there is none."""
    index = find_column(table, file, name)
    if index is None:
        there = ", ".join(f"'{column}'" for column in table.column_names)
        raise ValueError(f"{file} has no column '{name}'; its columns are {there}")
    return table.column(index)


def _plain(name: str) -> str:
    return name.strip().casefold()


def _is_number(value: object) -> bool:
    if value is None or isinstance(value, bool):
        return False
    try:
        return bool(np.isfinite(float(value)))  # type: ignore[arg-type]  # whatever float() can't take raises
    except (TypeError, ValueError):
        return False
