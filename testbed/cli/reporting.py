"""The commands ``testbed report`` and ``testbed compare``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import app, fail

if TYPE_CHECKING:
    from testbed.present.reports.page import Page


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="of a run, a sweep or a validation")],
    output: Annotated[
        Path | None, typer.Option(help=r"the file to write \[default: report.html in the folder]")
    ] = None,
) -> None:
    """Write everything about a run, a sweep or a validation into one HTML file: verdicts, results, plots, provenance.

    The file needs no network and nothing else. Exit status: 0 when it is written, 2 for bad input.
    """
    from testbed.runs.run_folder import OutputError
    from testbed.scenario import ScenarioError

    try:
        path = write_report(folder, output)
    except (OutputError, ScenarioError) as error:
        fail(error)
    print(f"report: {path}")


def write_report(folder: Path, output: Path | None = None) -> Path:
    """Write the report of a folder, and return its path. Raises OutputError or ScenarioError."""
    from testbed.runs.run_folder import OutputError, replace_file

    path = output or folder / "report.html"
    if path.is_dir():
        raise OutputError(f"{path}: is a folder; name the file to write with --output")
    html = _page(folder).html()
    try:
        replace_file(path, html.encode())
    except OSError as error:
        raise OutputError(f"{path}: {error.strerror}; choose a file that you may write with --output") from None
    return path


def _page(folder: Path) -> Page:
    from testbed.present.reports.run import run_page
    from testbed.present.reports.sweep import sweep_page
    from testbed.present.reports.validation import validation_page
    from testbed.runs.run_folder import OutputError

    for file, page in (("sweep.json", sweep_page), ("validation.json", validation_page), ("summary.json", run_page)):
        if (folder / file).exists():
            return page(folder)
    takes = "`testbed report` takes the folder of a finished run, of a sweep or of a validation"
    if (folder / "about.md").exists() and (folder / "numbers.csv").exists():
        raise OutputError(f"{folder}: the folder of a study is a report itself: see about.md in it; {takes}")
    raise OutputError(f"{folder}: not a folder of a finished run, nor of a sweep or a validation; give one from runs/")


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="folders of runs, each alone or as FOLDER:VARIANT")
    ],
) -> None:
    """Show by how much mean response times differ from that of the first, with 95 % intervals of the differences.

    A folder alone stands for all its variants. Exit status: 0 when they were compared, 2 for bad input.
    """
    from testbed.present.reports.comparison import compare_runs, comparison_table, contenders
    from testbed.runs.run_folder import OutputError
    from testbed.runs.tables import print_table, standard_output

    try:
        comparisons = compare_runs(contenders(runs))
    except OutputError as error:
        fail(error)
    print_table(standard_output(), comparison_table(comparisons))
