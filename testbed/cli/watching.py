"""Commands that watch: the live page, and the same in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import app, fail

if TYPE_CHECKING:
    from testbed.present.dash.serving import Place
    from testbed.runs.display import Display

LOOPBACK = "127.0.0.1"
HostOption = Annotated[str, typer.Option(help="where to serve the page; beyond this machine only with --token")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="its port; 0: one that is free")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="TESTBED_TOKEN", help="the secret that a browser has to give, 16 characters or more"),
]


def require_page(dash: bool, host: str, port: int, token: str | None) -> None:
    """Fail where options are given that say how to serve a page, and no page is asked for."""
    if not dash and (host != LOOPBACK or port or token is not None):
        fail("--host, --port and --token say how to serve the page: add --dash, or leave them out")


def open_page(host: str, port: int, token: str | None) -> Place:
    """Return where the page is to be served, or fail with the reason."""
    from testbed.present.dash.serving import Place, ServingError

    try:
        return Place.open(host, port, token)
    except ServingError as error:
        fail(error)


def print_page(address: str) -> None:
    """Tell where the page is."""
    print(f"page: {address}", file=sys.stderr, flush=True)


def reporting_page(display: Display, title: str, host: str, port: int, token: str | None) -> Display:
    """Return a display that shows a run on a page beside ``display``."""
    from testbed.present.dash.reporter import PageReporter

    place = open_page(host, port, token)
    print_page(place.address)
    return PageReporter(display, place, title)


@app.command()
def dash(
    what: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME|RUN]", help=r"a standing cluster, or the folder of a run \[default: the only cluster]"
        ),
    ] = None,
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Show a standing cluster, or a run that is over, on a page in the browser, until Ctrl-C.

    On the page of a standing cluster its load and policy can be changed, as with `testbed set`. Exit status: 0 after
    Ctrl-C, 2 for bad input.
    """
    import trio

    from testbed.present.dash.finished import finished_board
    from testbed.present.dash.serving import serve
    from testbed.runs.long_running import LongRunningError
    from testbed.runs.run_folder import OutputError
    from testbed.scenario import ScenarioError

    try:
        if what is not None and Path(what).is_dir():
            board = finished_board(Path(what))
            place = open_page(host, port, token)
            print_page(place.address)
            trio.run(lambda: serve(board, place))
        else:
            from testbed.present.dash.long_running import serve_cluster

            name = _standing_name(what)
            place = open_page(host, port, token)
            print_page(place.address)
            trio.run(lambda: serve_cluster(name, place, stay=True))
    except (OutputError, ScenarioError, LongRunningError) as error:
        fail(error)
    except KeyboardInterrupt:
        return


def _standing_name(name: str | None) -> str:
    """Return the name of the cluster that is meant, or fail."""
    from testbed.runs.long_running import LongRunningError, connect

    try:
        with connect(name) as client:
            return client.name
    except LongRunningError as error:
        fail(f"{error}" if name is None else f"{name} is no folder of a run, and {error}")


@app.command()
def top(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help=r"a standing cluster \[default: the only one]")
    ] = None,
) -> None:
    """Show in the terminal how a standing cluster is doing, again and again, until it ends or Ctrl-C."""
    from rich.console import Console

    from testbed.present.top import watch
    from testbed.runs.long_running import LongRunningError, connect

    try:
        with connect(name) as client, watch(Console()) as shown:
            for snapshot in client.snapshots():
                shown.show(snapshot)
    except LongRunningError as error:
        fail(error)
    except KeyboardInterrupt:
        return
    print(f"the cluster {client.name} has ended")
