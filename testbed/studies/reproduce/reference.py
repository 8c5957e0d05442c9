"""Numbers that others computed or measured, for comparison: one CSV file per study in the folder ``reference``.

Each file has the study's settings that distinguish its points, then quantity, value, half_width (the stated accuracy,
may be empty) and source (where the number comes from). A number belongs to every point with the same settings.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from testbed.studies.reproduce.study import Row, Settings

ENDING = ("quantity", "value", "half_width", "source")


@dataclass(frozen=True)
class Number:
    """A number of a reference file; ``settings`` as strings."""

    settings: dict[str, str]
    quantity: str
    value: float
    half_width: float | None
    source: str


@cache
def numbers(study: str) -> Sequence[Number]:
    """Return the reference numbers of a study; none where it has no file."""
    file = files("testbed.studies.reproduce") / "reference" / f"{study}.csv"
    if not file.is_file():
        return ()
    found = []
    for row in csv.DictReader(file.read_text(encoding="utf-8").splitlines()):
        settings = {name: text for name, text in row.items() if name not in ENDING}
        width = float(row["half_width"]) if row["half_width"] else None
        found.append(Number(settings, row["quantity"], float(row["value"]), width, row["source"]))
    return found


def reference(study: str, settings: Settings) -> list[Row]:
    """Return the reference numbers of a point."""
    return [
        Row(settings, number.quantity, "reference", number.value, number.half_width)
        for number in numbers(study)
        if all(_same(settings[name], text) for name, text in number.settings.items())
    ]


def _same(value: str | int | float, text: str) -> bool:
    return value == text if isinstance(value, str) else math.isclose(value, float(text), rel_tol=1e-9)
