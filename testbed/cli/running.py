"""Commands that run a scenario: on the cluster, on the twin, at the points of a sweep."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from testbed.cli.app import INTERRUPTED, ScenarioArgument, announce_unstable, app, fail, finish, read, study_progress
from testbed.cli.watching import LOOPBACK, HostOption, PortOption, TokenOption, reporting_page, require_page
from testbed.scenario import ScenarioError

if TYPE_CHECKING:
    from testbed.runs.display import Display
    from testbed.runs.experiment import Where
    from testbed.studies.sweep.result import SweepResult


@app.command()
def run(
    scenario: ScenarioArgument,
    virtual: Annotated[bool, typer.Option("--virtual", help="run only the twin: no processes, virtual time")] = False,
    twin: Annotated[bool, typer.Option("--twin", help="also replay the workload on the twin and compare")] = False,
    output: Annotated[Path, typer.Option(help="where to make the run folder")] = Path("runs"),
    hold: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="wait so long for Prometheus to read each variant's last metrics "
            r"\[default: a minute if it has read them before, else not at all]",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
    dash: Annotated[bool, typer.Option("--dash", help="show it on a page in the browser meanwhile")] = False,
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Run a scenario and show what it measured beside the theory.

    Exit status: 0 when it ran (also if a verdict is "suspect"), 1 when a process died or jobs could not be accounted
    for, 2 for bad input, 130 after Ctrl-C.
    """
    from testbed.cluster.processes import ClusterError
    from testbed.runs.execution import execute
    from testbed.runs.experiment import Experiment
    from testbed.runs.run_folder import OutputError

    if virtual and twin:
        fail("--virtual runs only the twin, so there is nothing for --twin to compare; give one of them")
    require_page(dash, host, port, token)
    if virtual and dash:
        fail("--virtual has no cluster to watch; leave out --dash, and see it afterwards: testbed dash RUN")
    settings = read(scenario)
    where: Where = "twin" if virtual else "cluster and twin" if twin else "cluster"
    console = Console(stderr=True)
    display = display_for(console, quiet, live=not virtual)
    if dash:
        display = reporting_page(display, settings.name, host, port, token)
    try:
        experiment = Experiment(settings, where, output, display, hold)
        announce_unstable(settings, display)
        with display:
            execute(experiment)
    except (OutputError, ScenarioError) as error:
        fail(error)
    except ClusterError as error:
        fail(error, 1)
    finish(experiment.result)


def display_for(console: Console, quiet: bool, live: bool) -> Display:
    """Return what shows in a terminal, or elsewhere, how it is going."""
    from testbed.present.live import Bar, Lines
    from testbed.runs.display import Silent

    if quiet:
        return Silent()
    return Bar(console) if live and console.is_terminal else Lines(console)


@app.command()
def twin(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run on the cluster")],
) -> None:
    """Replay a run's workload on the twin and compare job by job: the emulation's error without sampling noise."""
    from testbed.runs.replay import replay
    from testbed.runs.run_folder import OutputError

    try:
        result = replay(run_folder)
    except OutputError as error:
        fail(error)
    finish(result)


@app.command()
def sweep(
    scenario: Annotated[
        str | None, typer.Argument(help=r"a scenario file with \[sweep], or the name of a shipped one (load-sweep)")
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help=r"where, of cluster, twin and theory, with commas between \[default: twin,theory]"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="go on with replications until each mean response time is known so well, such as 1%"),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help=r"most replications of a point to reach the target \[default: 100]")
    ] = None,
    output: Annotated[Path | None, typer.Option(help=r"where to make the sweep's folder \[default: runs]")] = None,
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
    from testbed.cluster.processes import ClusterError
    from testbed.runs.run_folder import OutputError
    from testbed.studies.sweep.sweeping import Request, SweepError, SweepRun
    from testbed.studies.workers import TwinError

    settings = None if scenario is None else read(scenario)
    progress = study_progress(quiet)
    try:
        request = Request.read(on, target, budget)
        place = Path("runs") if output is None and resume is None else output
        run = SweepRun.begin(settings, request, place, resume, progress)
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
    from testbed.studies.sweep.sweep_table import sweep_remarks, sweep_table

    if result.interrupted and not result.runs:
        print(
            f"interrupted before any run was finished; begin again with: testbed sweep --resume {result.folder}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
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
