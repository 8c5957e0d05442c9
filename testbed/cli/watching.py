"""The commands ``testbed dash`` and ``testbed top``, and the options of commands that serve a page."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from testbed.cli.app import app, fail
from testbed.scenario import ScenarioError

if TYPE_CHECKING:
    from testbed.present.dash.serving import Place
    from testbed.runs.display import Display

LOOPBACK = "127.0.0.1"
HostOption = Annotated[
    str, typer.Option(help="the address to serve the page at; with --token, other machines may reach it")
]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="the port of the page; 0: any free port")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="TESTBED_TOKEN", help="a secret of at least 16 characters that browsers must give"),
]


def require_page(dash: bool, host: str, port: int, token: str | None) -> None:
    """Fail if options for serving a page are given without --dash."""
    if not dash and (host != LOOPBACK or port or token is not None):
        fail("--host, --port and --token serve a page: add --dash, or remove them")


def open_page(host: str, port: int, token: str | None) -> Place:
    """Return the listening socket of a page, or fail."""
    from testbed.present.dash.serving import Place, ServingError

    try:
        return Place.open(host, port, token)
    except ServingError as error:
        fail(error)


def print_page(address: str) -> None:
    """Print the address of the page."""
    print(f"page: {address}", file=sys.stderr, flush=True)


def reporting_page(display: Display, title: str, host: str, port: int, token: str | None) -> Display:
    """Return a display that shows a run on a page and on ``display``."""
    from testbed.present.dash.reporter import PageReporter

    place = open_page(host, port, token)
    print_page(place.address)
    return PageReporter(display, place, title)


@app.command()
def dash(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|RUN]",
            help=r"a long-running cluster, or the folder of a run \[default: the only running cluster]",
        ),
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Show a long-running cluster or a finished run on a page in the browser, until Ctrl-C.

    On the page of a long-running cluster you can change its load and policy, as with `testbed set`. Exit status: 0
    after Ctrl-C, 2 for bad input.
    """
    import trio

    from testbed.present.dash.finished import finished_board
    from testbed.present.dash.long_running import serve_cluster
    from testbed.present.dash.serving import serve
    from testbed.runs.long_running import LongRunningError
    from testbed.runs.run_folder import OutputError

    try:
        board = finished_board(Path(name)) if name is not None and Path(name).is_dir() else None
        cluster = "" if board is not None else _cluster_name(name)
        place = open_page(host, port, token)
        print_page(place.address)
        trio.run(lambda: serve(board, place) if board is not None else serve_cluster(cluster, place, stay=True))
    except (OutputError, ScenarioError, LongRunningError) as error:
        fail(error)
    except KeyboardInterrupt:
        return


def _cluster_name(name: str | None) -> str:
    """Return the name of the running cluster of that name, or of the only one; or fail."""
    from testbed.runs.long_running import LongRunningError, connect

    try:
        with connect(name) as client:
            return client.name
    except LongRunningError as error:
        fail(f"{error}" if name is None else f"{name} is not a folder of a run, and {error}")


@app.command()
def top(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help=r"a long-running cluster \[default: the only running one]")
    ] = None,
) -> None:
    """Show the state of a long-running cluster in the terminal, updated every second, until it ends or Ctrl-C."""
    from testbed.present.top import watch
    from testbed.runs.long_running import LongRunningError, connect

    try:
        with connect(name) as client, watch(Console()) as display:
            for snapshot in client.snapshots():
                display.show(snapshot)
    except LongRunningError as error:
        fail(error)
    except KeyboardInterrupt:
        return
    print(f"the cluster {client.name} has ended")
