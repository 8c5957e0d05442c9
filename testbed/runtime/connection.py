"""One connection to a peer process: frames of messages out, batches of messages in."""

from __future__ import annotations

import socket
from collections import defaultdict

import trio

from testbed.core.messages import BATCH, BATCH_LIMIT, AnyMessage, Encoder, FrameReader, Message, ProtocolError

RECEIVE_BYTES = 1 << 18
SAMPLE_EVERY = 64  # frames: the messages of one in this many are measured
FRAME_OVERHEAD = 5  # bytes: for the length of a frame, and for the array in it
POLLS = 4  # times that a receiver reads without waiting, after it has waited


class Connection:
    """A non-blocking stream socket to a peer process.

    Agents' messages collect in ``outbox``. ``flush`` encodes them as one frame and hands it to the kernel at once; what
    the kernel does not take stays in ``_unsent`` for ``run_writer``, which is then the only writer (two tasks that
    write to one full socket would collide).
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self.outbox: list[Message] = []
        self.sent: defaultdict[type[Message], int] = defaultdict(int)  # messages by type
        #: Bytes by type of message, an estimate from one frame in SAMPLE_EVERY.
        self.estimated_bytes: defaultdict[type[Message], int] = defaultdict(int)
        self._flushes = 0
        self.bytes_sent = 0
        self.peak_unsent = 0
        self._encoder = Encoder()
        self._reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
        self._unsent = bytearray()
        self._has_unsent = trio.Event()
        self._closed = False
        self._polls_left = 0

    @property
    def messages_sent(self) -> int:
        """How many messages were sent."""
        return sum(self.sent.values())

    def flush(self) -> None:
        """Send all messages of the outbox, as one frame, or more if there are more than BATCH_LIMIT."""
        outbox = self.outbox
        sent = self.sent
        for message in outbox:
            sent[type(message)] += 1
        self._flushes += 1
        if self._flushes % SAMPLE_EVERY == SAMPLE_EVERY // 2:
            self._estimate(outbox)
        if len(outbox) <= BATCH_LIMIT:
            self._write_frames(outbox)
        else:
            for i in range(0, len(outbox), BATCH_LIMIT):
                self._write_frames(outbox[i : i + BATCH_LIMIT])
        outbox.clear()

    def _estimate(self, messages: list[Message]) -> None:
        encode = self._encoder.encode
        overhead = FRAME_OVERHEAD / len(messages)
        for message in messages:
            self.estimated_bytes[type(message)] += round(SAMPLE_EVERY * (len(encode(message)) + overhead))

    def _write_frames(self, messages: list[Message]) -> None:
        try:
            frame = self._encoder.frame(messages)
        except ProtocolError:  # too long: only Transfers, which hold many tasks, have no fixed length
            half = len(messages) // 2
            if not half:
                raise
            self._write_frames(messages[:half])
            self._write_frames(messages[half:])
        else:
            self._write(frame)

    def _write(self, frame: bytes) -> None:
        if self._closed:
            return
        self.bytes_sent += len(frame)
        sent = 0
        if not self._unsent:
            try:
                sent = self._socket.send(frame)
            except BlockingIOError:
                pass
            except OSError:  # the peer is gone; the reader notices it as well, and ends
                return
            if sent == len(frame):
                return
        self._unsent += frame[sent:]
        self.peak_unsent = max(self.peak_unsent, len(self._unsent))
        self._has_unsent.set()

    async def run_writer(self) -> None:
        """Send what ``flush`` could not, as fast as the peer reads, until the connection is closed."""
        while not self._closed:
            await self._has_unsent.wait()
            while self._unsent:
                await trio.lowlevel.wait_writable(self._socket)
                try:
                    sent = self._socket.send(self._unsent)
                except BlockingIOError:
                    continue
                except OSError:
                    self._unsent.clear()
                    return
                del self._unsent[:sent]
            self._has_unsent = trio.Event()

    async def receive(self) -> list[list[AnyMessage]] | None:
        """Wait for bytes and return the batches that they complete, perhaps none; None when the peer has closed.

        Raises ProtocolError when the bytes are not frames of messages.
        """
        if self._polls_left:
            # To read what has arrived in the meantime takes one system call; to wait for it takes several, and trio's
            # scheduler. But the other tasks of the process must run as well.
            self._polls_left -= 1
        else:
            await trio.lowlevel.wait_readable(self._socket)
            self._polls_left = POLLS
        while True:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
                self._polls_left = POLLS
                continue
            except OSError:
                return None
            if not data:
                return None
            return self._reader.feed(data)

    def close(self) -> None:
        """Close the socket; do nothing if it is closed already."""
        if not self._closed:
            self._closed = True
            self._has_unsent.set()
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
