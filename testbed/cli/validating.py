"""The command that compares the twin with theory, and the cluster with its twin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.app import INTERRUPTED, app, fail, study_progress
from testbed.cli.reporting import write_report
from testbed.scenario import ScenarioError


@app.command()
def validate(
    case: Annotated[
        list[str] | None,
        typer.Argument(metavar="CASE", help=r"built-in cases, scenario files with \[expect], or folders of them"),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="the built-in suite in a short form: 3 minutes")] = False,
    listed: Annotated[bool, typer.Option("--list", help="list the cases, and how long they take")] = False,
    on: Annotated[str, typer.Option(help="where to run: twin and cluster, separated by a comma")] = "twin,cluster",
    output: Annotated[Path, typer.Option(help="create the validation folder in this folder")] = Path("runs"),
    processes: Annotated[int | None, typer.Option(min=1, help="processes that simulate; default: one per core")] = None,
) -> None:
    """Compare the twin with theory, and the cluster with its twin; without CASE the built-in suite (half an hour).

    Exit status: 0 when all cases pass, 1 when one fails, 2 for bad input, 130 after Ctrl-C, which saves what is
    finished.
    """
    from testbed.cluster.processes import ClusterError
    from testbed.runs.run_folder import OutputError
    from testbed.runs.tables import print_line, print_table, standard_output
    from testbed.studies.validate import chosen
    from testbed.studies.validate import validate as run_cases
    from testbed.studies.validate.case import places
    from testbed.studies.validate.validation_table import cases_table, validation_remarks, validation_table
    from testbed.studies.workers import TwinError

    console = standard_output()
    try:
        cases = chosen(case or [], quick)  # names are checked before a bar is shown
        where = places(on)
        if listed:
            print_table(console, cases_table(cases))
            return
        with study_progress() as progress:
            result = run_cases(case or [], quick=quick, on=where, output=output, processes=processes, progress=progress)
        assert result.folder is not None
        path = write_report(Path(result.folder))
    except (OutputError, ScenarioError, ValueError) as error:
        fail(error)
    except (ClusterError, TwinError) as error:
        fail(error, 1)
    print_table(console, validation_table(result))
    for remark in validation_remarks(result):
        print_line(console, remark)
    print_line(console, f"\nvalidation folder: {result.folder}\nreport: {path}")
    if result.unfinished:
        print(f"interrupted: not finished: {', '.join(result.unfinished)}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if not result.passed:
        raise typer.Exit(1)
