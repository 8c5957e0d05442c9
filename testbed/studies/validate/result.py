"""The result of a validation, in memory or read from its folder."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import msgspec

from testbed.runs.run_folder import OutputError, require_schema
from testbed.runs.tables import html, plain_text
from testbed.studies.validate.case import Place
from testbed.studies.validate.findings import CLUSTER_LEVEL, EMULATION, LEVEL, VERDICT, VERDICT_LEVEL, CaseResult
from testbed.studies.validate.validation_table import validation_table

#: Of validation.json. Files without a number are older than the first.
SCHEMA: Final = 1


class Validation(msgspec.Struct, kw_only=True):
    """The result of a validation.

    ``asked``: the cases, files and folders that were named, empty for the whole suite; None for cases made in Python.
    ``on``: the places where they were to run. ``unfinished``: the cases that an interruption left without a result.
    """

    quick: bool
    asked: list[str] | None
    on: list[Place]
    cases: list[CaseResult]
    unfinished: list[str] = []
    folder: str | None = None
    schema: int = SCHEMA

    @property
    def passed(self) -> bool:
        """Whether all cases are finished, and passed."""
        return not self.unfinished and all(case.passed for case in self.cases)

    @property
    def tests(self) -> int:
        """How many statistical tests were made."""
        return sum(finding.difference is not None for case in self.cases for finding in case.findings)

    @property
    def false_alarm(self) -> float:
        """A bound on the probability that any test fails by chance, on a machine that is fast enough."""
        clusters = sum(case.finding(VERDICT) is not None for case in self.cases)
        twins = sum(f.difference is not None and f.check != EMULATION for case in self.cases for f in case.findings)
        return LEVEL * twins + (CLUSTER_LEVEL + VERDICT_LEVEL) * clusters

    def __getitem__(self, name: str) -> CaseResult:
        """Return the result of a case. Raises KeyError for one that is not finished."""
        for case in self.cases:
            if case.name == name:
                return case
        raise KeyError(f"no finished case {name!r}; there are: {', '.join(case.name for case in self.cases) or 'none'}")

    @classmethod
    def read(cls, folder: str | Path) -> Validation:
        """Return the validation that a folder holds. Raises OutputError for one that can't be read."""
        path = Path(folder) / "validation.json"
        try:
            text = path.read_bytes()
            require_schema(path, text, SCHEMA, unnumbered=0, remedy="read it with that version, or validate again")
            result = msgspec.json.decode(text, type=cls)
        except OSError as error:
            raise OutputError(f"{path}: {error.strerror}; give the folder of a validation") from None
        except ValueError as error:
            raise OutputError(f"{path}: damaged, or not what a validation writes ({error}); validate again") from None
        result.folder = str(folder)
        return result

    def __str__(self) -> str:
        return plain_text(validation_table(self))

    def _repr_html_(self) -> str:
        return html(validation_table(self))
