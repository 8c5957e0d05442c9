"""A process that serves the page of a command that is busy otherwise.

Standard input is a socket on which frames come as on a control connection. The first one is Serve: of a run, which the
others tell how it goes, or of a standing cluster, which is followed over its control socket. The page of a run ends
with what feeds it: when the socket is closed without an Ended, the page says that the command has gone away.
"""

from __future__ import annotations

import contextlib
import os
import socket

import msgspec
import trio

from testbed.cluster.control import Channel
from testbed.cluster.snapshot import Snapshot
from testbed.core.messages import ProtocolError
from testbed.measure.summary import Summary
from testbed.present.dash.board import Board
from testbed.present.dash.serving import Place, serve

NICENESS = 10  # the agents come first


class Serve(msgspec.Struct, tag=True):
    """Where to serve: a listening socket's file descriptor, and what Place knows of it.

    ``cluster`` is the name of a standing cluster; None for a run.
    """

    title: str
    descriptor: int
    host: str
    token: str | None
    cluster: str | None = None


class Show(msgspec.Struct, tag=True):
    """How a run stands."""

    snapshot: Snapshot


class Conclude(msgspec.Struct, tag=True):
    """What a run came to."""

    summary: Summary


class Ended(msgspec.Struct, tag=True):
    """There will be no more, and why."""

    why: str


Told = Serve | Show | Conclude | Ended
TOLD: msgspec.msgpack.Decoder[Told] = msgspec.msgpack.Decoder(Told)


async def main() -> None:
    """Be told where to serve, and show what comes."""
    os.nice(NICENESS)
    channel: Channel[Told] = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=0))), TOLD)
    first = await channel.receive()
    if not isinstance(first, Serve):
        return
    place = Place(socket.socket(fileno=first.descriptor), first.host, first.token)
    if first.cluster is not None:
        from testbed.present.dash.long_running import serve_cluster

        await serve_cluster(first.cluster, place, stay=False)
        return
    board = Board(first.title)

    async def listen_to_command() -> None:
        with contextlib.suppress(ProtocolError):
            while (told := await channel.receive()) is not None:
                if isinstance(told, Show):
                    board.show(told.snapshot)
                elif isinstance(told, Conclude):
                    board.conclude(told.summary)
                elif isinstance(told, Ended):
                    board.end(told.why)
                    return
        board.end("the command that this page belongs to has gone away")

    await serve(board, place, until=listen_to_command)


if __name__ == "__main__":
    trio.run(main)
