"""Connections between the processes of a cluster: listen, connect, accept, and receive the Hello of the peer."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path

import trio

from testbed.cluster.control import HELLO, Hello
from testbed.core.messages import FrameReader, ProtocolError

#: An address that a process listens at: a Unix socket's path, or host and TCP port.
Address = str | tuple[str, int]

HELLO_LIMIT = 4096  # bytes of the first frame on a connection
HELLO_SECONDS = 10  # until a new peer must have sent its Hello

#: A Unix socket refuses connections when this many wait, and all processes of a cluster connect at once.
BACKLOG = 4096


def listen(transport: str, folder: Path, name: str) -> tuple[socket.socket, Address]:
    """Open a listening socket: a Unix socket in ``folder``, or a TCP port on loopback that the system chooses."""
    if transport == "unix":
        path = str(folder / name)
        sock = socket.socket(socket.AF_UNIX)
        try:
            with contextlib.suppress(FileNotFoundError):  # left by the killed process that this one replaces
                os.unlink(path)
            sock.bind(path)
        except OSError:
            sock.close()
            raise
        address: Address = path
    else:
        sock = socket.socket(socket.AF_INET)
        sock.bind(("127.0.0.1", 0))
        host, port = sock.getsockname()
        address = (host, port)
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock, address


async def connect(address: Address) -> socket.socket:
    """Return a non-blocking socket that is connected to ``address``. Raises OSError."""
    if isinstance(address, str):
        sock = socket.socket(socket.AF_UNIX)
        target: str | tuple[str, int] = address
    else:
        sock = socket.socket(socket.AF_INET)
        target = (address[0], address[1])
    trio_sock = trio.socket.from_stdlib_socket(sock)
    try:
        await trio_sock.connect(target)
    except BaseException:
        trio_sock.close()
        raise
    return sock


async def accept_connections(
    listener: socket.socket, nursery: trio.Nursery, serve: Callable[[socket.socket], Awaitable[object]]
) -> None:
    """Accept connections for ever, and serve each one, a non-blocking socket, in a task of its own."""
    while True:
        await trio.lowlevel.wait_readable(listener)
        try:
            sock, _ = listener.accept()
        except OSError:
            continue
        sock.setblocking(False)
        nursery.start_soon(serve, sock)


async def receive_hello(sock: socket.socket) -> Hello | None:
    """Return the first message on a connection; None if it is no Hello or does not arrive in time."""
    with trio.move_on_after(HELLO_SECONDS):
        return await read_hello(sock)
    return None


async def read_hello(sock: socket.socket) -> Hello | None:
    """Return the first message on a connection, or None if it is no Hello; waits until it arrives or the peer closes.

    Bytes after it stay in the socket: a peer may send messages directly after its Hello.
    """
    reader: FrameReader[Hello] = FrameReader(HELLO, HELLO_LIMIT)
    while True:
        await trio.lowlevel.wait_readable(sock)
        try:
            data = sock.recv(reader.missing)
        except BlockingIOError:
            continue
        except OSError:
            return None
        if not data:
            return None
        try:
            hellos = reader.feed(data)
        except ProtocolError:
            return None
        if hellos:
            return hellos[0]
