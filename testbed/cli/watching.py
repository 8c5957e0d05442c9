"""Commands that watch: the live page, and the same in a terminal."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import app, fail

if TYPE_CHECKING:
    from testbed.dash.serving import Place
    from testbed.live import Watcher

LOOPBACK = "127.0.0.1"
HostOption = Annotated[str, typer.Option(help="where to serve the page; beyond this machine only with --token")]
PortOption = Annotated[int, typer.Option(min=0, max=65535, help="its port; 0: one that is free")]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="TESTBED_TOKEN", help="the secret that a browser has to give, 16 characters or more"),
]


def open_page(host: str, port: int, token: str | None) -> Place:
    """Return where the page is to be served, or fail with the reason."""
    from testbed.dash.serving import Place, ServingError

    try:
        place = Place.open(host, port, token)
    except ServingError as error:
        fail(error)
    print(f"page: {place.address}", file=sys.stderr, flush=True)
    return place


def reporting_page(watcher: Watcher, title: str, host: str, port: int, token: str | None) -> Watcher:
    """Return a watcher that shows a run on a page beside ``watcher``."""
    from testbed.dash.reporter import PageReporter

    return PageReporter(watcher, open_page(host, port, token), title)


@app.command()
def dash(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run")],
    host: HostOption = LOOPBACK,
    port: PortOption = 0,
    token: TokenOption = None,
) -> None:
    """Show a run on a page in the browser, until Ctrl-C.

    Exit status: 0 after Ctrl-C, 2 for bad input.
    """
    import trio

    from testbed.dash.finished import finished_board
    from testbed.dash.serving import serve
    from testbed.run_folder import OutputError
    from testbed.scenario import ScenarioError

    try:
        board = finished_board(run)
    except (OutputError, ScenarioError) as error:
        fail(error)
    place = open_page(host, port, token)
    try:
        trio.run(lambda: serve(board, place))
    except KeyboardInterrupt:
        return
