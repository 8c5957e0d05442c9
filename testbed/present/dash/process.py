"""A process that serves the page of a command that is busy with other work.

Standard input is a socket that carries frames, as a control connection does. The first message is Serve. For a run, the
messages after it are its progress and results; a long-running cluster is followed over its control socket. If a
run's socket is closed without an Ended, the page reports that the command has stopped.
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
from testbed.present.dash.long_running import serve_cluster
from testbed.present.dash.serving import Place, serve

NICENESS = 10  # the agents have priority


class Serve(msgspec.Struct, tag=True):
    """Where to serve the page: the file descriptor of a listening socket, and the other fields of its Place.

    ``cluster`` is the name of a long-running cluster; None for a run.
    """

    title: str
    descriptor: int
    host: str
    token: str | None
    cluster: str | None = None


class Show(msgspec.Struct, tag=True):
    """The present state of a run."""

    snapshot: Snapshot


class Conclude(msgspec.Struct, tag=True):
    """The results of a run."""

    summary: Summary


class Ended(msgspec.Struct, tag=True):
    """No more messages will come, and why."""

    why: str


Message = Serve | Show | Conclude | Ended
DECODER: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(Message)


async def main() -> None:
    """Serve the page where the first message says, and show the messages after it."""
    os.nice(NICENESS)
    stream = trio.SocketStream(trio.socket.from_stdlib_socket(socket.socket(fileno=0)))
    channel: Channel[Message] = Channel(stream, DECODER)
    first = await channel.receive()
    if not isinstance(first, Serve):
        return
    place = Place(socket.socket(fileno=first.descriptor), first.host, first.token)
    if first.cluster is not None:
        await serve_cluster(first.cluster, place, stay=False)
        return
    board = Board(first.title)

    async def follow_command() -> None:
        with contextlib.suppress(ProtocolError):
            while (message := await channel.receive()) is not None:
                if isinstance(message, Show):
                    board.show(message.snapshot)
                elif isinstance(message, Conclude):
                    board.conclude(message.summary)
                elif isinstance(message, Ended):
                    board.end(message.why)
                    return
        board.end("the command that this page belongs to has stopped")

    await serve(board, place, until=follow_command)


if __name__ == "__main__":
    trio.run(main)
