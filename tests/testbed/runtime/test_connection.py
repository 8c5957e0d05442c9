"""One connection: what the kernel does not take at once waits, in order, and a peer that goes away harms nobody."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
import trio
import trio.testing

from testbed.core.messages import (
    BATCH,
    BATCH_LIMIT,
    FRAME_LIMIT,
    AnyMessage,
    Assign,
    Encoder,
    FrameReader,
    Probe,
    ProtocolError,
)
from testbed.runtime.connection import SAMPLE_EVERY, Connection


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    yield ours, theirs
    ours.close()
    theirs.close()


def fill(connection: Connection, first: int, count: int) -> None:
    connection.outbox.extend(Probe(0, 1, job) for job in range(first, first + count))
    connection.flush()


async def read_jobs(sock: socket.socket, count: int) -> list[int]:
    """Read ``count`` messages and return their jobs."""
    reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
    sock.setblocking(False)
    jobs: list[int] = []
    with trio.fail_after(10):
        while len(jobs) < count:
            await trio.lowlevel.wait_readable(sock)
            for batch in reader.feed(sock.recv(1 << 16)):
                jobs.extend(message.job for message in batch if isinstance(message, Probe))
    return jobs


async def test_a_flush_reaches_the_peer_as_one_frame_without_a_writer(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = Connection(pair[0])
    fill(connection, 0, 10)
    assert connection.outbox == []
    data = pair[1].recv(1 << 16)
    assert len(data) == 4 + int.from_bytes(data[:4], "big") == connection.bytes_sent
    assert [m.job for m in FrameReader(BATCH).feed(data)[0] if isinstance(m, Probe)] == list(range(10))
    assert (connection.messages_sent, connection.peak_unsent) == (10, 0)


async def test_messages_and_their_bytes_are_counted_by_type(pair: tuple[socket.socket, socket.socket]) -> None:
    connection = Connection(pair[0])
    frames = 10 * SAMPLE_EVERY
    for i in range(frames):
        connection.outbox.extend([Probe(0, 1, 100), Probe(0, 1, 100), Assign(0, 1, 100, 0, 0, 0.25 + i)])
        connection.flush()
        pair[1].recv(1 << 16)
    assert connection.sent == {Probe: 2 * frames, Assign: frames}
    # All frames are alike, so that the estimate is exact but for rounding.
    assert sum(connection.estimated_bytes.values()) == pytest.approx(connection.bytes_sent, rel=0.02)
    assert connection.estimated_bytes[Assign] / frames == pytest.approx(1 + 7 + 9 + 5 / 3, rel=0.02)


async def test_what_a_slow_peer_does_not_read_waits_and_arrives_in_order_once_it_reads(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = Connection(pair[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        count = 0
        while connection.peak_unsent < 200_000:  # the peer does not read
            fill(connection, count, 500)
            count += 500
        await trio.testing.wait_all_tasks_blocked()
        assert connection.peak_unsent >= 200_000
        assert connection.messages_sent == count
        assert await read_jobs(pair[1], count) == list(range(count))
        # Once empty it sends directly again, and a second jam clears as well.
        fill(connection, count, 3)
        assert await read_jobs(pair[1], 3) == [count, count + 1, count + 2]
        for i in range(400):
            fill(connection, 500 * i, 500)
        assert await read_jobs(pair[1], 200_000) == list(range(200_000))
        nursery.cancel_scope.cancel()


async def test_very_many_messages_go_in_frames_that_a_reader_takes(pair: tuple[socket.socket, socket.socket]) -> None:
    connection = Connection(pair[0])
    count = 3 * BATCH_LIMIT + 1
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        fill(connection, 0, count)
        assert await read_jobs(pair[1], count) == list(range(count))
        nursery.cancel_scope.cancel()


async def test_receive_returns_the_batches_that_have_come_and_then_none(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = Connection(pair[0])
    encoder = Encoder()
    first, second = encoder.frame([Probe(0, 1, 2)]), encoder.frame([Probe(0, 1, 3), Probe(0, 1, 4)])
    pair[1].sendall(first + second[:5])
    assert await connection.receive() == [[Probe(0, 1, 2)]]
    pair[1].sendall(second[5:])
    assert await connection.receive() == [[Probe(0, 1, 3), Probe(0, 1, 4)]]
    pair[1].sendall(first[:6])  # the peer dies in the middle of a frame
    assert await connection.receive() == []
    pair[1].close()
    assert await connection.receive() is None


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\x00\x00\x00\x03abc", (FRAME_LIMIT + 1).to_bytes(4, "big")])
async def test_garbage_is_a_protocol_error(pair: tuple[socket.socket, socket.socket], data: bytes) -> None:
    connection = Connection(pair[0])
    pair[1].sendall(data)
    with pytest.raises(ProtocolError):
        await connection.receive()


async def test_a_vanished_peer_is_noticed_by_the_reader_and_harmless_to_the_sender(
    pair: tuple[socket.socket, socket.socket],
) -> None:
    connection = Connection(pair[0])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(connection.run_writer)
        while not connection.peak_unsent:
            fill(connection, 0, 500)
        pair[1].close()  # with bytes unread and more waiting
        for _ in range(5):
            fill(connection, 0, 500)
            await trio.testing.wait_all_tasks_blocked()
        with trio.fail_after(10):
            assert await connection.receive() is None
        connection.close()
        fill(connection, 0, 500)
        connection.close()


async def test_two_connections_do_not_hold_up_each_other(pair: tuple[socket.socket, socket.socket]) -> None:
    jammed = Connection(pair[0])
    ours, theirs = socket.socketpair()
    with ours, theirs:
        free = Connection(ours)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(jammed.run_writer)
            nursery.start_soon(free.run_writer)
            while not jammed.peak_unsent:
                fill(jammed, 0, 500)
            fill(free, 0, 7)
            assert await read_jobs(theirs, 7) == list(range(7))
            assert jammed.peak_unsent > 0
            assert free.peak_unsent == 0
            nursery.cancel_scope.cancel()


async def test_tcp_sends_without_waiting_for_more() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        ours = socket.create_connection(listener.getsockname())
        theirs, _ = listener.accept()
        with ours, theirs:
            connection = Connection(ours)
            assert ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            fill(connection, 0, 3)
            assert await read_jobs(theirs, 3) == [0, 1, 2]
