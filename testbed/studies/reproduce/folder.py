"""The folder in which a study leaves its numbers and plots.

numbers.csv        a row per point, quantity and source
<figure>.svg/.png  the plots
about.md           what it is, how it was made, what the columns mean
environment.json   versions, cores, when, how long
"""

from __future__ import annotations

import csv
import io
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from testbed.runs.run_folder import make_folder, replace_file, write_environment
from testbed.studies.reproduce import plots
from testbed.studies.reproduce.study import Row, Study

if TYPE_CHECKING:
    from testbed.studies.reproduce.computing import Reproduction

#: What the columns of numbers.csv mean that all studies have, after their own settings.
COLUMNS = {
    "quantity": "what the number is, see below",
    "source": "theory, twin, cluster (real processes), or reference (numbers that others computed or measured)",
    "value": "the number; of the twin and the cluster the mean over replications",
    "half_width": "of its 95 % confidence interval over replications; of a reference its stated accuracy",
    "replications": "how many the value is the mean of; 0 for theory and reference",
    "verdict": 'of the cluster\'s runs: "valid", or why they are suspect',
}


class StudyFolder:
    """A new folder for a study. It is made before anything is computed, so that a bad place is found at once."""

    def __init__(self, parent: Path, study: Study) -> None:
        """Make it in ``parent``. Raises OutputError."""
        self._started = time.time()
        self.path = make_folder(parent, study.name)

    def save(self, result: Reproduction) -> None:
        """Write all files."""
        replace_file(self.path / "numbers.csv", csv_text(result.study, result.rows).encode())
        replace_file(self.path / "about.md", about(result).encode())
        if result.rows:
            plots.save(result.study.figures(result.rows), self.path)
        write_environment(self.path, self._started, time.time() - self._started)
        result.folder = self.path


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
    """Return what a person who was not there needs to know, as Markdown."""
    from testbed.studies.reproduce.reference import numbers

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
