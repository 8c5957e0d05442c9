"""The first word on a connection."""

from __future__ import annotations

import socket

import pytest
import trio
import trio.testing

from testbed.cluster.connecting import HELLO_LIMIT, read_hello
from testbed.cluster.control import Hello
from testbed.core.messages import VERSION, Encoder

HELLO = Hello(VERSION, "secret", 3)


def test_what_comes_with_the_first_word_is_left_in_the_socket() -> None:
    """A process that has been started again greets, and servers may send their messages in the same moment."""
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        encoder = Encoder()
        more = encoder.frame(["messages"]) + b"and the beginning of a frame"

        async def hear() -> Hello | None:
            far.sendall(encoder.frame(HELLO) + more)
            with trio.fail_after(10):
                return await read_hello(near)

        assert trio.run(hear) == HELLO
        assert near.recv(1000) == more


@pytest.mark.parametrize("piece", [1, 3, 7])
def test_the_first_word_may_come_in_pieces(piece: int) -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        frame = Encoder().frame(HELLO)

        async def speak() -> None:
            for at in range(0, len(frame), piece):
                far.sendall(frame[at : at + piece])
                await trio.testing.wait_all_tasks_blocked()

        async def hear() -> Hello | None:
            with trio.fail_after(10):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(speak)
                    return await read_hello(near)

        assert trio.run(hear) == HELLO


@pytest.mark.parametrize("words", [b"", (HELLO_LIMIT + 1).to_bytes(4, "big"), b"\0\0\0\1\xc1", b"\0\0\0\0"])
def test_what_is_no_first_word_is_none(words: bytes) -> None:
    near, far = socket.socketpair()
    with near, far:
        near.setblocking(False)
        far.sendall(words)
        far.close()

        async def hear() -> Hello | None:
            with trio.fail_after(10):
                return await read_hello(near)

        assert trio.run(hear) is None
