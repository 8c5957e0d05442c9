"""The page of a long-running cluster: it follows the control socket, and its controls do what `testbed set` does."""

from __future__ import annotations

from typing import Any

import trio

from testbed.present.dash.board import Board, Controls
from testbed.present.dash.serving import Place, serve
from testbed.runs.long_running import Client, LongRunningError, connect
from testbed.scenario.policies import policies


async def serve_cluster(name: str, place: Place, *, stay: bool) -> None:
    """Serve the page of a long-running cluster. Raises LongRunningError when there is none of that name.

    It is served until the cluster has ended and the page has shown that; with ``stay`` until cancelled.
    """
    client = connect(name)
    board = Board(client.name, Controls(policies=sorted(policies())))

    async def change(key: str, value: Any) -> str:
        def send() -> str:
            with connect(client.name) as sending:
                changed = sending.set({key: value})
                return f"{changed.said} from time {changed.at:.1f} on"

        try:
            return await trio.to_thread.run_sync(send)
        except LongRunningError as error:
            raise ValueError(str(error)) from None

    async def until() -> None:
        await follow(client, board)
        if stay:
            await trio.sleep_forever()

    await serve(board, place, change=change, until=until)


async def follow(client: Client, board: Board) -> None:
    """Show a cluster's snapshots on a board until it ends."""

    def read() -> None:
        with client:
            for snapshot in client.snapshots():
                trio.from_thread.run_sync(board.show, snapshot)

    await trio.to_thread.run_sync(read, abandon_on_cancel=True)
    board.end(f"the cluster {client.name} has ended")
