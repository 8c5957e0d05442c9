"""A study's numbers as the printed table: a row per point, the sources side by side."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from testbed.runs.tables import new_table, number, print_line, print_table
from testbed.studies.reproduce.registry import studies
from testbed.studies.reproduce.study import SOURCES, Row, shown

if TYPE_CHECKING:
    from testbed.studies.reproduce.reproducing import Reproduction


def studies_tables() -> list[Table]:
    """Return the tables of all studies, one for each paper."""
    found: dict[str, Table] = {}
    for name, study in studies().items():
        if study.paper not in found:
            found[study.paper] = new_table(study.paper)
            for heading in ("study", "what it computes", "takes"):
                found[study.paper].add_column(heading, no_wrap=heading == "study")
        found[study.paper].add_row(name, study.shows, study.takes)
    return list(found.values())


def print_study(result: Reproduction, console: Console) -> None:
    """Print a study's table, remarks on it, what is missing, and the folder."""
    print_table(console, study_table(result))
    lines = [*result.study.remarks(result.rows), *(f"missing: {missing}" for missing in result.missing)]
    if result.folder is not None:
        lines.append(f"numbers and plots: {result.folder}")
    for line in lines:
        print_line(console, line)


def study_table(result: Reproduction) -> Table:
    """Return the table of a study: the points' settings, then each quantity from each source that has it."""
    study = result.study
    quantities = study.tabulated or list(study.quantities)
    title = f"{study.name}{' (quick)' if result.quick else ''}: {study.shows}"
    table = new_table(title, caption=_caption(result))
    settings = [name for name in study.columns if name not in study.hidden]
    rows = [row for row in result.rows if not row.line]
    columns = [
        (quantity, source)
        for quantity in quantities
        for source in SOURCES
        if any(row.quantity == quantity and row.source == source for row in rows)
    ]
    for name in settings:
        table.add_column(_heading(name), no_wrap=True)
    for quantity, source in columns:
        heading = source if len(quantities) == 1 else f"{_heading(quantity)}:\n{source}"
        table.add_column(heading, justify="right", no_wrap=True)
    for found in _by_point(rows):
        cells = [shown(found[0].settings[name]) for name in settings]
        for quantity, source in columns:
            cells.append(next((_cell(row) for row in found if (row.quantity, row.source) == (quantity, source)), "-"))
        table.add_row(*cells)
    return table


def _heading(name: str) -> str:
    return "\n".join(textwrap.wrap(name.replace("_", " "), 13))


def _caption(result: Reproduction) -> str:
    caption = "± is a 95 % confidence interval over replications; for a reference, its stated accuracy"
    agreement = _agreement(result.rows)
    return f"{caption}\n{agreement}" if agreement else caption


def _agreement(rows: Sequence[Row]) -> str:
    """Say how many of the twin's numbers agree with a reference within both accuracies."""
    stated = [row for row in rows if row.source == "reference" and row.half_width is not None]
    pairs = [
        (row, twin)
        for row in stated
        for twin in rows
        if twin.source == "twin" and twin.quantity == row.quantity and twin.settings == row.settings
    ]
    if not pairs:
        return ""
    good = sum(abs(t.value - r.value) <= (t.half_width or 0.0) + (r.half_width or 0.0) for r, t in pairs)
    return f"the twin agrees with {good} of {len(pairs)} reference numbers within the two ± together"


def _by_point(rows: Sequence[Row]) -> list[list[Row]]:
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(json.dumps(row.settings), []).append(row)
    return list(found.values())


def _cell(row: Row) -> str:
    if row.source == "reference":  # with the digits of its source
        return f"{row.value:g}" + (f"±{row.half_width:g}" if row.half_width is not None else "")
    if 0 < abs(row.value) < 0.01 and not row.half_width:
        return f"{row.value:.2g}"
    digits = 3 if abs(row.value) < 1000 else 1
    text = number(row.value, digits)
    if row.half_width is not None:
        text += f"±{number(row.half_width, digits)}"
    return f"{text} (suspect)" if row.source == "cluster" and row.verdict != "valid" else text
