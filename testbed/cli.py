"""The command ``testbed``."""

from __future__ import annotations

import json
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import msgspec
import typer
from rich.console import Console

from testbed.scenario import Scenario, ScenarioError, load, variants

if TYPE_CHECKING:
    from testbed.experiment import Result, Where
    from testbed.live import Watcher
    from testbed.sweeps.result import SweepResult

app = typer.Typer(
    help="A load-balancing testbed: real dispatcher and server processes beside queueing theory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ScenarioArgument = Annotated[str, typer.Argument(help="a scenario file, or the name of a shipped one (quickstart)")]

INTERRUPTED = 130


def fail(message: object, status: int = 2) -> NoReturn:
    """Say what is wrong, in one line, and end with an exit status."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(status)


def read(scenario: str) -> Scenario:
    """Read a scenario, or fail with its error."""
    try:
        return load(scenario)
    except ScenarioError as error:
        fail(error)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(version("loadbalance-testbed"))
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="print the version")
    ] = False,
) -> None:
    """A load-balancing testbed: real dispatcher and server processes beside queueing theory."""


@app.command()
def run(
    scenario: ScenarioArgument,
    virtual: Annotated[bool, typer.Option("--virtual", help="run only the twin: no processes, virtual time")] = False,
    twin: Annotated[bool, typer.Option("--twin", help="also replay the workload on the twin and compare")] = False,
    output: Annotated[Path, typer.Option(help="where to make the run folder")] = Path("runs"),
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
) -> None:
    """Run a scenario and show what it measured beside the theory.

    Exit status: 0 when it ran (also if a verdict is "suspect"), 1 when a process died or jobs could not be accounted
    for, 2 for bad input, 130 after Ctrl-C.
    """
    from testbed.cluster.controller import ClusterError
    from testbed.execution import execute
    from testbed.experiment import Experiment
    from testbed.run_folder import OutputError

    if virtual and twin:
        fail("--virtual runs only the twin, so there is nothing for --twin to compare; give one of them")
    settings = read(scenario)
    where: Where = "twin" if virtual else "cluster and twin" if twin else "cluster"
    console = Console(stderr=True)
    watcher = _watcher(console, quiet, live=not virtual)
    try:
        experiment = Experiment(settings, where, output, watcher)
        announce_unstable(settings, watcher)
        with watcher:
            execute(experiment)
    except (OutputError, ScenarioError) as error:
        fail(error)
    except ClusterError as error:
        fail(error, 1)
    finish(experiment.result)


def _watcher(console: Console, quiet: bool, live: bool) -> Watcher:
    from testbed.live import Bar, Lines, Silent

    if quiet:
        return Silent()
    return Bar(console) if live and console.is_terminal else Lines(console)


def announce_unstable(scenario: Scenario, watcher: Watcher, place: str = "") -> None:
    """Say which variants have a load at or above their stability bound; ``place`` begins the line."""
    from testbed.theory.predict import stability_bound

    for name, variant in variants(scenario):
        stability = stability_bound(variant)
        if stability.load >= stability.bound:
            watcher.announce(
                f"{place}{name}: unstable: the load is {stability.load:.3g} and the stability bound "
                f"{stability.bound:.3g} ({stability.reason}); the queues will grow for as long as it runs"
            )


def finish(result: Result) -> None:
    """Show the results, and end with the exit status that they call for."""
    from testbed.tables import remarks, results_table

    console = Console()
    if result.runs:
        console.print(results_table(result))
        for remark in remarks(result):
            console.print(remark, highlight=False, markup=False, soft_wrap=True)
    if result.folder is not None:
        console.print(f"\nrun folder: {result.folder}", highlight=False, markup=False, soft_wrap=True)
    for failure in result.failures:
        print(f"error: {failure}", file=sys.stderr)
    if result.not_run:
        print(f"not run: {', '.join(result.not_run)}", file=sys.stderr)
    if result.interrupted:
        saved = "what was measured until then is saved" if result.runs else "nothing had been measured yet"
        print(f"interrupted: arrivals were stopped early; {saved}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if result.failures or not all(run.summary.accounting.balanced for run in result.runs):
        raise typer.Exit(1)


@app.command()
def sweep(
    scenario: Annotated[
        str | None, typer.Argument(help="a scenario file with [sweep], or the name of a shipped one (load-sweep)")
    ] = None,
    on: Annotated[
        str | None, typer.Option(help="where, of cluster, twin and theory, with commas between [default: twin,theory]")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="go on with replications until each mean response time is known so well, such as 1%"),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help="most replications of a point to reach the target [default: 100]")
    ] = None,
    output: Annotated[Path, typer.Option(help="where to make the sweep's folder")] = Path("runs"),
    resume: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="go on with the interrupted sweep in this folder")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
) -> None:
    """Run a scenario at all points of its sweep, and show the variants side by side, beside the theory.

    Each finished run is saved at once: an interrupted sweep goes on with --resume, and makes no run twice. Exit status:
    0 when all runs were made (also if a target was not reached within the budget), 1 when a run failed, 2 for bad
    input, 130 after Ctrl-C.
    """
    from testbed.cluster.controller import ClusterError
    from testbed.run_folder import OutputError
    from testbed.sweeps.progress import Progress, ProgressBar, ProgressLines
    from testbed.sweeps.running import Request, SweepError, SweepRun
    from testbed.twins import TwinError

    settings = None if scenario is None else read(scenario)
    console = Console(stderr=True)
    progress = Progress() if quiet else ProgressBar(console) if console.is_terminal else ProgressLines(console)
    try:
        request = Request.read(on, target, budget)
        run = SweepRun.begin(settings, request, output, resume, progress)
    except (OutputError, ScenarioError, ValueError) as error:
        fail(error)
    folder = run.result.folder
    try:
        for point in run.result.plan.points:
            announce_unstable(point.scenario, progress, f"{point}: ")
        with progress:
            run.run()
    except (ClusterError, OutputError, SweepError, TwinError) as error:
        fail(f"{error}; what is finished is saved: testbed sweep --resume {folder}", 1)
    show_sweep(run.result)


def show_sweep(result: SweepResult) -> None:
    """Show the results of a sweep, and end with the exit status that they call for."""
    from testbed.sweeps.shown import sweep_remarks, sweep_table

    console = Console()
    console.print(sweep_table(result))
    for remark in sweep_remarks(result):
        console.print(remark, highlight=False, markup=False, soft_wrap=True)
    console.print(f"\nsweep folder: {result.folder}", highlight=False, markup=False, soft_wrap=True)
    if result.interrupted:
        print(
            f"interrupted after {len(result.runs)} runs, which are saved; go on with: "
            f"testbed sweep --resume {result.folder}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)


@app.command()
def twin(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run on the cluster")],
) -> None:
    """Replay a run's workload on the twin and compare job by job: the emulation's error without sampling noise."""
    from testbed.replay import replay
    from testbed.run_folder import OutputError

    try:
        result = replay(run_folder)
    except OutputError as error:
        fail(error)
    finish(result)


@app.command()
def theory(scenario: ScenarioArgument) -> None:
    """Show what the theory says of each variant of a scenario, or why it says nothing."""
    from testbed.tables import new_table, number
    from testbed.theory.predict import Prediction, pool_notes, predict, stability_bound

    settings = read(scenario)
    table = new_table(f"{settings.name}: response time in time units")
    for heading in ("variant", "load", "stability\nbound", "mean", "p50", "p99", "kind"):
        table.add_column(heading, justify="left" if heading in ("variant", "kind") else "right")
    notes = []
    for name, variant in _variants(settings):
        stability = stability_bound(variant)
        prediction = predict(variant)
        cells = [name, f"{stability.load:.4g}", f"{stability.bound:.4g}"]
        if isinstance(prediction, Prediction):
            p50, p99 = (prediction.quantiles.get(p) for p in (0.5, 0.99))
            cells += [number(prediction.mean_response_time, 4), number(p50), number(p99), prediction.kind]
            notes += [f"{name}: {prediction.name} ({prediction.source})", *(f"    {n}" for n in prediction.notes)]
        else:
            cells += ["-", "-", "-", "none"]
            notes.append(f"{name}: no prediction: {prediction.reason}")
        notes += [f"    {note}" for note in pool_notes(variant)]
        table.add_row(*cells)
    console = Console()
    console.print(table)
    for note in notes:
        console.print(note, highlight=False, markup=False, soft_wrap=True)


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
    """Fit a phase-type law to recorded sizes by their moments, and print it as a scenario's size."""
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
    output: Annotated[Path, typer.Option(help="where to make the study's folder")] = Path("runs"),
    processes: Annotated[int | None, typer.Option(min=1, help="processes that simulate; default: one per core")] = None,
) -> None:
    """Compute a figure or table of a paper, on theory and twin: numbers as CSV, plots, and a table.

    Exit status: 0 when it is complete, 1 when a run failed, 2 for bad input, 130 after Ctrl-C, which saves what is
    finished.
    """
    from testbed.cluster.controller import ClusterError
    from testbed.live import RunsBar
    from testbed.reproduce import UnknownStudyError, study
    from testbed.reproduce import reproduce as compute
    from testbed.reproduce.table import print_study, studies_table
    from testbed.run_folder import OutputError
    from testbed.twins import TwinError

    if listed or name is None:
        Console().print(studies_table())
        if not listed:
            fail("give the NAME of a study")
        return
    try:
        study(name)
        with RunsBar(Console(stderr=True)) as bar:
            result = compute(name, quick=quick, cluster=cluster, output=output, processes=processes, progress=bar.show)
    except (UnknownStudyError, OutputError) as error:
        fail(error)
    except (TwinError, ClusterError) as error:
        fail(error, 1)
    print_study(result, Console())
    if result.interrupted:
        print(f"interrupted: {len(result.missing)} points are not complete; see about.md", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)


@app.command()
def schema() -> None:
    """Print the JSON Schema of scenario files."""
    from testbed.scenario import json_schema

    print(json.dumps(json_schema(), indent=2))


@app.command()
def policies() -> None:
    """List the dispatching policies with their parameters."""
    from dispatchers.registry import policies as registered
    from testbed.tables import new_table

    table = new_table("dispatching policies; a parameter's default is in brackets")
    for heading in ("policy", "what it does", "parameters", "source"):
        table.add_column(heading)
    for name, policy in sorted(registered().items()):
        parameters = "\n".join(_parameter(field) for field in msgspec.structs.fields(policy.Parameters))
        table.add_row(name, (policy.__doc__ or "").strip().splitlines()[0], parameters or "-", policy.source)
    Console().print(table)


def _parameter(field: msgspec.structs.FieldInfo) -> str:
    default = "required" if field.required else "none" if field.default is None else str(field.default)
    return f"{field.encode_name} ({default.lower()})"


def main() -> None:
    """Run the command."""
    warnings.showwarning = lambda message, *_: print(f"warning: {message}", file=sys.stderr)
    app()
