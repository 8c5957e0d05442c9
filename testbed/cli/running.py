"""The commands that run a scenario: ``testbed run``, ``twin`` and ``sweep``."""

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
    virtual: Annotated[bool, typer.Option("--virtual", help="run only the twin, without real processes")] = False,
    twin: Annotated[bool, typer.Option("--twin", help="also replay the workload on the twin and compare")] = False,
    output: Annotated[Path, typer.Option(help="create the run folder in this folder")] = Path("runs"),
    hold: Annotated[
        float | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="longest wait for Prometheus to read the final metrics of each variant "
            r"\[default: 60 if it has read metrics during the run, otherwise 0]",
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
    dash: Annotated[
        bool, typer.Option("--dash", help="serve a page in the browser that shows the run (live dashboard)")
    ] = False,
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Run a scenario and compare the measurements with theory.

    The twin (--virtual, --twin) is a discrete-event simulation of the same dispatchers and servers. Exit status: 0 when
    the scenario ran (also if a verdict is "suspect"), 1 when a process died or jobs are not accounted for, 2 for bad
    input, 130 after Ctrl-C.
    """
    from testbed.cluster.processes import ClusterError
    from testbed.runs.execution import execute
    from testbed.runs.experiment import Experiment
    from testbed.runs.run_folder import OutputError

    if virtual and twin:
        fail("--virtual runs only the twin, so that --twin has nothing to compare; give one of them")
    require_page(dash, host, port, token)
    if virtual and dash:
        fail("--virtual has no cluster to watch; remove --dash, and show the run when it has ended: testbed dash RUN")
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
    """Return a display of progress: bars in a terminal, otherwise lines."""
    from testbed.present.live import Bar, Lines
    from testbed.runs.display import Silent

    if quiet:
        return Silent()
    return Bar(console) if live and console.is_terminal else Lines(console)


@app.command()
def twin(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run on the cluster")],
) -> None:
    """Replay a run's workload on the twin, and compare job by job: the emulation error without sampling noise.

    The twin is a discrete-event simulation of the same dispatchers and servers.
    """
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
        str | None,
        typer.Argument(help=r"a scenario file with \[sweep], or the name of a shipped one, such as load-sweep"),
    ] = None,
    on: Annotated[
        str | None,
        typer.Option(help=r"where to run: cluster, twin and theory, separated by commas \[default: twin,theory]"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            help="add replications until the half-width of each mean's interval is at most this fraction of the mean, "
            "such as 1%"
        ),
    ] = None,
    budget: Annotated[
        int | None, typer.Option(help=r"maximum number of replications of a point, with --target \[default: 100]")
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help=r"create the sweep folder in this folder \[default: runs]")
    ] = None,
    resume: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="continue the interrupted sweep in this folder")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="show only the results")] = False,
) -> None:
    """Run a scenario at all points of its sweep, and compare its variants with each other and with theory.

    Each finished run is saved at once: --resume continues an interrupted sweep without repeating a run. Exit status: 0
    when all runs have finished (also if a target was not reached within the budget), 1 when a run failed, 2 for bad
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
        fail(f"{error}; finished runs are saved, continue with: testbed sweep --resume {folder}", 1)
    show_sweep(run.result)


def show_sweep(result: SweepResult) -> None:
    """Show the results of a sweep, and exit with status 130 if it was interrupted."""
    from testbed.runs.tables import print_line, print_table, standard_output
    from testbed.studies.sweep.sweep_table import sweep_remarks, sweep_table

    if result.interrupted and not result.runs:
        print(
            f"interrupted before any run had finished; continue with: testbed sweep --resume {result.folder}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
    console = standard_output()
    print_table(console, sweep_table(result))
    for remark in sweep_remarks(result):
        print_line(console, remark)
    print_line(console, f"\nsweep folder: {result.folder}")
    if result.interrupted:
        print(
            f"interrupted after {len(result.runs)} runs, which are saved; continue with: "
            f"testbed sweep --resume {result.folder}",
            file=sys.stderr,
        )
        raise typer.Exit(INTERRUPTED)
