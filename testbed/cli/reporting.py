"""The commands ``testbed report`` and ``testbed compare``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from testbed.cli.app import app, fail


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(metavar="RUN-OR-SWEEP", help="the folder of a run or of a sweep")],
    output: Annotated[Path | None, typer.Option(help="the file to write [default: report.html in the folder]")] = None,
) -> None:
    """Write all of a run or a sweep into one HTML file: question, verdicts, results, error budget, plots, provenance.

    The file needs no network and nothing else. Exit status: 0 when it is written, 2 for bad input.
    """
    from testbed.reports.run import run_page
    from testbed.reports.sweep import sweep_page
    from testbed.run_folder import OutputError, replace_file
    from testbed.scenario import ScenarioError

    path = output or folder / "report.html"
    if path.is_dir():
        fail(f"{path}: is a folder; name the file to write with --output")
    try:
        page = sweep_page(folder) if (folder / "sweep.json").exists() else run_page(folder)
        html = page.html()
    except (OutputError, ScenarioError) as error:
        fail(error)
    try:
        replace_file(path, html.encode())
    except OSError as error:
        fail(f"{path}: {error.strerror}; choose a file that you may write with --output")
    print(f"report: {path}")


@app.command()
def compare(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="folders of runs, each alone or as FOLDER:VARIANT")
    ],
) -> None:
    """Show by how much mean response times differ from that of the first, with 95 % intervals of the differences.

    A folder alone stands for all its variants. Exit status: 0 when they were compared, 2 for bad input.
    """
    from testbed.reports.comparison import compare_runs, comparison_table, contenders
    from testbed.run_folder import OutputError

    try:
        comparisons = compare_runs(contenders(runs))
    except OutputError as error:
        fail(error)
    Console().print(comparison_table(comparisons))
