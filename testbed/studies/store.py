"""The folder of a study: whole files only, and how the study was made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from testbed.runs.run_folder import OutputError, make_folder, replace_file, write_environment


class StudyFolder:
    """A folder for the results of a study. A reader of its files sees either the old or the new content."""

    #: What to do when the disk is full.
    remedy = "make room"

    def __init__(self, path: Path) -> None:
        self.path = path
        self._started = time.time()

    @classmethod
    def create(cls, parent: Path, name: str) -> Self:
        """Make a new folder in ``parent``. Raises OutputError."""
        return cls(make_folder(parent, name))

    def write(self, name: str, content: bytes) -> None:
        """Write a file. Raises OutputError."""
        with self._writing(name):
            replace_file(self.path / name, content)

    def write_table(self, name: str, table: pa.Table) -> None:
        """Write a table as Parquet and as CSV. Raises OutputError."""
        for file, write in ((f"{name}.parquet", pa.parquet.write_table), (f"{name}.csv", pa.csv.write_csv)):
            temporary = self.path / f"{file}.new"
            with self._writing(file):
                write(table, temporary)
                temporary.replace(self.path / file)

    def close(self) -> None:
        """Write ``environment.json``: versions, machine, when, and how long it took."""
        with self._writing("environment.json"):
            write_environment(self.path, self._started, time.time() - self._started)

    @contextmanager
    def _writing(self, name: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise OutputError(f"{self.path / name}: {error.strerror or error}; {self.remedy}") from None
