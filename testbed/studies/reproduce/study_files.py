"""The files of a study: its numbers and plots.

numbers.csv        a row per point, quantity and source
<figure>.svg/.png  the plots
about.md           what the study is, how it was made, what the columns mean
environment.json   versions, cores, when, how long
"""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from typing import TYPE_CHECKING

from testbed.studies import plot_style
from testbed.studies.reproduce.reference import numbers
from testbed.studies.reproduce.study import Row, Study
from testbed.studies.store import StudyFolder

if TYPE_CHECKING:
    from testbed.studies.reproduce.reproducing import Reproduction

#: The meaning of the columns of numbers.csv that all studies have, after their own settings.
COLUMNS = {
    "quantity": "what the number is, see below",
    "source": "theory, twin, cluster (real processes), or reference (numbers that others computed or measured)",
    "value": "the number; from the twin and the cluster, the mean over replications",
    "half_width": "half-width of its 95 % confidence interval over replications; for a reference, its stated accuracy",
    "replications": "number of replications behind the value; 0 for theory and reference",
    "verdict": 'for the cluster\'s runs: "valid", or why they are suspect',
}


def save(result: Reproduction, folder: StudyFolder) -> None:
    """Write all files. Raises OutputError."""
    folder.write("numbers.csv", csv_text(result.study, result.rows).encode())
    folder.write("about.md", about(result).encode())
    if result.rows:
        plot_style.save(result.study.figures(result.rows), folder)
    folder.close()


def csv_text(study: Study, rows: Sequence[Row]) -> str:
    """Return the rows as CSV, with the study's settings and then COLUMNS."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*study.columns, *COLUMNS])
    for row in rows:
        width = "" if row.half_width is None else repr(row.half_width)
        settings = [row.settings[name] for name in study.columns]
        writer.writerow([*settings, row.quantity, row.source, repr(row.value), width, row.replications, row.verdict])
    return text.getvalue()


def about(result: Reproduction) -> str:
    """Return a description for readers who did not see the run, as Markdown."""
    study = result.study
    lines = [f"# {study.name}", "", study.shows, "", f"Paper: {study.paper}.", ""]
    lines += [f"Made by `testbed reproduce {study.name}{' --quick' if result.quick else ''}`.", ""]
    for title, meanings in (("Columns", {**study.columns, **COLUMNS}), ("Quantities", study.quantities)):
        lines += [f"{title} of numbers.csv:", "", *(f"* `{name}`: {text}" for name, text in meanings.items()), ""]
    if sources := dict.fromkeys(number.source for number in numbers(study.name)):
        lines += [f"Reference numbers: {'; '.join(sources)}.", ""]
    remarks = study.remarks(result.rows)
    lines += [f"* {remark}" for remark in remarks]
    if result.missing:
        lines += ["", "Interrupted. Missing:", "", *(f"* {missing}" for missing in result.missing)]
    return "\n".join(lines).rstrip() + "\n"
