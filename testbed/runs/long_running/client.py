"""Talking to long-running clusters from other processes."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Any, Self

import msgspec

from testbed.cluster.control import CONTROL_FRAME_LIMIT
from testbed.cluster.snapshot import Snapshot
from testbed.core.messages import Encoder, FrameReader, ProtocolError
from testbed.runs.long_running.control import (
    REPLY,
    Changed,
    Down,
    Follow,
    Refused,
    Reply,
    Saved,
    Set,
    Snapshots,
    Status,
    StatusReply,
)
from testbed.runs.long_running.register import LongRunningError, State, folder_of, running

ANSWER_SECONDS = 30.0  # for every request except Down, which takes the drain time


def clusters() -> list[State]:
    """Return the clusters that run. Raises LongRunningError where the runtime directory can't be used."""
    return running()


def connect(name: str | None = None) -> Client:
    """Return a client of the cluster with that name, or of the only one. Raises LongRunningError when there is none."""
    names = [state.name for state in running()]
    there_are = f"there are: {', '.join(names)}" if names else "none is running; start one with `testbed up`"
    if name is None:
        if len(names) != 1:
            raise LongRunningError(f"name the cluster; {there_are}")
        (name,) = names
    folder = folder_of(name)
    if name not in names:
        raise LongRunningError(f'no cluster called "{name}" is running; {there_are}')
    sock = socket.socket(socket.AF_UNIX)
    try:
        sock.connect(os.fspath(folder / "control"))
    except OSError as error:
        sock.close()
        raise LongRunningError(f'the cluster "{name}" does not answer: {error.strerror}') from None
    return Client(name, sock)


class Client:
    """A connection to a long-running cluster. Close it, or use it in a ``with`` statement.

    All methods raise LongRunningError when the cluster has gone, or does not answer.
    """

    def __init__(self, name: str, sock: socket.socket) -> None:
        self.name = name
        self._sock = sock
        self._encoder = Encoder(CONTROL_FRAME_LIMIT)
        self._reader: FrameReader[Reply] = FrameReader(REPLY, CONTROL_FRAME_LIMIT)
        self._received: list[Reply] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self._sock.close()

    def status(self) -> StatusReply:
        """Return the state of the cluster."""
        reply = self._ask(Status(), ANSWER_SECONDS)
        assert isinstance(reply, StatusReply)
        return reply

    def set(self, settings: dict[str, Any]) -> Changed:
        """Change settings by their dotted keys. Raises LongRunningError when the cluster refuses."""
        reply = self._ask(Set(settings), ANSWER_SECONDS)
        if isinstance(reply, Refused):
            raise LongRunningError(reply.why)
        assert isinstance(reply, Changed)
        return reply

    def down(self) -> Saved:
        """Shut the cluster down, and wait until its measurements are saved."""
        reply = self._ask(Down(), None)
        assert isinstance(reply, Saved)
        return reply

    def snapshots(self) -> Iterator[Snapshot]:
        """Yield snapshots as they are made, about four times a second, until the cluster ends."""
        self._send(Follow())
        while True:
            try:
                reply = self._receive(ANSWER_SECONDS)
            except LongRunningError:
                return
            if isinstance(reply, Snapshots):
                yield reply.snapshot

    def _ask(self, request: msgspec.Struct, seconds: float | None) -> Reply:
        self._send(request)
        return self._receive(seconds)

    def _send(self, request: msgspec.Struct) -> None:
        try:
            self._sock.sendall(self._encoder.frame(request))
        except OSError as error:
            raise LongRunningError(f'the cluster "{self.name}" has gone: {error.strerror}') from None

    def _receive(self, seconds: float | None) -> Reply:
        self._sock.settimeout(seconds)
        try:
            while not self._received:
                data = self._sock.recv(1 << 16)
                if not data:
                    raise LongRunningError(f'the cluster "{self.name}" has gone')
                self._received.extend(self._reader.feed(data))
        except TimeoutError:
            raise LongRunningError(f'the cluster "{self.name}" does not answer') from None
        except (OSError, ProtocolError) as error:
            raise LongRunningError(f'the cluster "{self.name}" has gone: {error}') from None
        return self._received.pop(0)
