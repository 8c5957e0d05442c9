"""Commands that compute: what theory says, distributions fitted to recorded sizes, the papers' tables and figures."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Annotated

import typer

from testbed.cli.app import INTERRUPTED, ScenarioArgument, app, fail, read, study_progress
from testbed.scenario import Scenario, ScenarioError, variants


@app.command()
def theory(scenario: ScenarioArgument) -> None:
    """Show the theory's prediction for each variant of a scenario, or why there is none."""
    from testbed.runs.tables import new_table, number, print_line, print_table, standard_output
    from testbed.theory.predict import Prediction, pool_notes, predict, stability_bound

    settings = read(scenario)
    table = new_table(f"{settings.name}: response time in time units")
    for heading in ("variant", "load", "stability\nbound", "mean", "p50", "p99", "kind"):
        table.add_column(heading, justify="left" if heading in ("variant", "kind") else "right")
    notes = []
    for name, variant in _variants(settings):
        stability = stability_bound(variant)
        prediction = predict(variant)
        bound = f"{stability.bound:.4g}"
        if stability.at_most:
            bound = f"≤ {bound}" if math.isfinite(stability.bound) else "-"
        cells = [name, f"{stability.load:.4g}", bound]
        if isinstance(prediction, Prediction):
            p50, p99 = (prediction.quantiles.get(p) for p in (0.5, 0.99))
            cells += [number(prediction.mean_response_time, 4), number(p50), number(p99), prediction.kind]
            notes += [f"{name}: {prediction.name} ({prediction.source})", *(f"    {n}" for n in prediction.notes)]
        else:
            cells += ["-", "-", "-", "none"]
            notes.append(f"{name}: no prediction: {prediction.reason}")
        if stability.at_most:
            what = "the true stability bound may be lower" if math.isfinite(stability.bound) else "no stability bound"
            notes.append(f"    {what}: {stability.reason.removeprefix('at most: ')}")
        notes += [f"    {note}" for note in pool_notes(variant)]
        table.add_row(*cells)
    console = standard_output()
    print_table(console, table)
    for note in notes:
        print_line(console, note)


def _variants(scenario: Scenario) -> list[tuple[str, Scenario]]:
    try:
        return variants(scenario)
    except ScenarioError as error:
        fail(error)


@app.command()
def fit(
    file: Annotated[Path, typer.Argument(help="a CSV or Parquet file with a column of sizes")],
    column: Annotated[str, typer.Option(help="the column")] = "size",
    moments: Annotated[int, typer.Option(help="how many moments to match, 2 or 3")] = 3,
) -> None:
    """Fit a phase-type distribution to recorded sizes by their moments, and print it as a scenario's size."""
    from testbed.workload.fit import fit_sizes
    from testbed.workload.tables import number_column, read_table

    try:
        found = fit_sizes(number_column(read_table(str(file)), str(file), column), moments)
    except ValueError as error:
        fail(error)
    print(f"size = {found.toml()}")
    print(f"{found.matched} moments match" + (f"; {found.remark}" if found.remark else ""), file=sys.stderr)


@app.command()
def reproduce(
    name: Annotated[str | None, typer.Argument(metavar="NAME", help="a study; --list names them")] = None,
    listed: Annotated[bool, typer.Option("--list", help="list the studies")] = False,
    cluster: Annotated[bool, typer.Option("--cluster", help="also on real processes, where it fits")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="few points and short runs: below 20 seconds")] = False,
    output: Annotated[Path, typer.Option(help="create the study folder in this folder")] = Path("runs"),
    processes: Annotated[int | None, typer.Option(min=1, help="processes that simulate; default: one per core")] = None,
) -> None:
    """Compute a figure or table of a paper, on theory and twin: numbers as CSV, plots, and a table.

    Exit status: 0 when it is complete, 1 when a run failed, 2 for bad input, 130 after Ctrl-C, which saves what is
    finished.
    """
    from testbed.cluster.processes import ClusterError
    from testbed.runs.run_folder import OutputError
    from testbed.runs.tables import print_table, standard_output
    from testbed.studies.reproduce import UnknownStudyError, study
    from testbed.studies.reproduce import reproduce as compute
    from testbed.studies.reproduce.study_table import print_study, studies_tables
    from testbed.studies.workers import TwinError

    if listed or name is None:
        for table in studies_tables():
            print_table(standard_output(), table)
        if not listed:
            fail("give the NAME of a study")
        return
    try:
        study(name)
        with study_progress() as progress:
            result = compute(name, quick=quick, cluster=cluster, output=output, processes=processes, progress=progress)
    except (UnknownStudyError, OutputError) as error:
        fail(error)
    except (TwinError, ClusterError) as error:
        fail(error, 1)
    print_study(result, standard_output())
    if result.interrupted:
        print(f"interrupted: {len(result.missing)} points are not complete; see about.md", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
