"""One connection to a peer process: frames of messages out, batches of messages in."""

from __future__ import annotations

import socket
from collections import defaultdict

import trio

from testbed.core.messages import BATCH, BATCH_LIMIT, AnyMessage, Encoder, FrameReader, Message, ProtocolError

RECEIVE_BYTES = 1 << 18
WEIGH_EVERY = 64  # frames: of one in so many the messages are weighed
FRAME_OVERHEAD = 5  # bytes: of the length of a frame, and of the array in it
LOOKS = 4  # times that a receiver looks for more bytes without waiting


class Connection:
    """A non-blocking stream socket to a peer process.

    Agents' messages collect in ``outbox``. ``flush`` encodes them as one frame and hands it to the kernel at once; what
    the kernel does not take waits in ``_unsent`` for ``run_writer``, which is then the only writer (two tasks that
    write to one full socket would collide).
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        if sock.family != getattr(socket, "AF_UNIX", None):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = sock
        self.outbox: list[Message] = []
        self.sent: defaultdict[type[Message], int] = defaultdict(int)  # messages by kind
        #: Bytes by kind, an estimate: the messages of one frame in WEIGH_EVERY are weighed, and count so many times.
        self.weighed: defaultdict[type[Message], int] = defaultdict(int)
        self._flushes = 0
        self.bytes_sent = 0
        self.peak_unsent = 0
        self._encoder = Encoder()
        self._reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
        self._unsent = bytearray()
        self._has_unsent = trio.Event()
        self._closed = False
        self._looks_left = 0

    @property
    def messages_sent(self) -> int:
        """How many messages were sent."""
        return sum(self.sent.values())

    def flush(self) -> None:
        """Send all messages of the outbox, as one frame unless there are very many."""
        outbox = self.outbox
        sent = self.sent
        for message in outbox:
            sent[type(message)] += 1
        self._flushes += 1
        if self._flushes % WEIGH_EVERY == WEIGH_EVERY // 2:
            self._weigh(outbox)
        if len(outbox) <= BATCH_LIMIT:
            self._write_frames(outbox)
        else:
            for i in range(0, len(outbox), BATCH_LIMIT):
                self._write_frames(outbox[i : i + BATCH_LIMIT])
        outbox.clear()

    def _weigh(self, messages: list[Message]) -> None:
        encode = self._encoder.encode
        share = FRAME_OVERHEAD / len(messages)
        for message in messages:
            self.weighed[type(message)] += round(WEIGH_EVERY * (len(encode(message)) + share))

    def _write_frames(self, messages: list[Message]) -> None:
        try:
            frame = self._encoder.frame(messages)
        except ProtocolError:  # Transfers of many tasks: only these have no fixed length
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
            except OSError:  # the peer is gone; the reader finds out as well and says so
                return
            if sent == len(frame):
                return
        self._unsent += frame[sent:]
        self.peak_unsent = max(self.peak_unsent, len(self._unsent))
        self._has_unsent.set()

    async def run_writer(self) -> None:
        """Send what ``flush`` could not, as the peer reads; until the connection is closed."""
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
        """Wait for bytes and return the batches they complete, perhaps none; None when the peer has closed.

        Raises ProtocolError when the bytes are not frames of messages.
        """
        if self._looks_left:
            # To look whether more has come meanwhile is one system call; to wait for it takes several, and trio's
            # scheduler. But the other tasks of the process must have their turn.
            self._looks_left -= 1
        else:
            await trio.lowlevel.wait_readable(self._socket)
            self._looks_left = LOOKS
        while True:
            try:
                data = self._socket.recv(RECEIVE_BYTES)
            except BlockingIOError:
                await trio.lowlevel.wait_readable(self._socket)
                self._looks_left = LOOKS
                continue
            except OSError:
                return None
            if not data:
                return None
            return self._reader.feed(data)

    def close(self) -> None:
        """Close the socket; harmless when it is closed already."""
        if not self._closed:
            self._closed = True
            self._has_unsent.set()
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
