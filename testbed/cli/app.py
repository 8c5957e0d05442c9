"""What the commands share: the application, its errors, and the display of results."""

from __future__ import annotations

import sys
from importlib.metadata import version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console

from testbed.scenario import Scenario, ScenarioError, load, variants

if TYPE_CHECKING:
    from testbed.runs.display import Display
    from testbed.runs.result import Result
    from testbed.studies.progress import Progress

app = typer.Typer(
    help="A load-balancing testbed: real dispatcher and server processes, compared with queueing theory.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

ScenarioArgument = Annotated[
    str, typer.Argument(help="a scenario file, or the name of a shipped scenario, such as quickstart")
]

INTERRUPTED = 130


def fail(message: object, status: int = 2) -> NoReturn:
    """Print an error in one line, and exit with a status."""
    print(f"error: {message}", file=sys.stderr)
    raise typer.Exit(status)


def read(scenario: str) -> Scenario:
    """Return a scenario, or fail with its error."""
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
    """A load-balancing testbed: real dispatcher and server processes, compared with queueing theory."""


def announce_unstable(scenario: Scenario, display: Display, place: str = "") -> None:
    """Announce the variants whose load is not below their stability bound; ``place`` is the start of each line."""
    from testbed.theory.predict import stability_bound

    for name, variant in variants(scenario):
        stability = stability_bound(variant)
        if stability.load >= stability.bound:
            display.announce(
                f"{place}{name}: unstable: the load is {stability.load:.3g}, the stability bound is "
                f"{stability.bound:.3g} ({stability.reason}); the queues will grow as long as it runs"
            )


def study_progress(quiet: bool = False) -> Progress:
    """Return what shows in a terminal, or elsewhere, how far a study is."""
    from testbed.present.live import StudyBar, StudyLines
    from testbed.studies.progress import Progress

    console = Console(stderr=True)
    return Progress() if quiet else StudyBar(console) if console.is_terminal else StudyLines(console)


def finish(result: Result) -> None:
    """Show the results, and exit with the status that fits them."""
    from testbed.runs.tables import print_line, print_table, remarks, results_table, standard_output

    console = standard_output()
    if result.runs:
        print_table(console, results_table(result))
        for remark in remarks(result):
            print_line(console, remark)
    if result.folder is not None:
        print_line(console, f"\nrun folder: {result.folder}")
    for failure in result.failures:
        print(f"error: {failure}", file=sys.stderr)
    if result.not_run:
        print(f"not run: {', '.join(result.not_run)}", file=sys.stderr)
    if result.interrupted:
        saved = "the measurements until then are saved" if result.runs else "there are no measurements yet"
        print(f"interrupted: arrivals were stopped early; {saved}", file=sys.stderr)
        raise typer.Exit(INTERRUPTED)
    if result.failures or not all(run.summary.accounting.balanced for run in result.runs):
        raise typer.Exit(1)
