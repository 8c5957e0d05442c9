"""Frames: four bytes of length, most significant first, and a body in MessagePack."""

from __future__ import annotations

from typing import Generic, TypeVar

import msgspec

FRAME_LIMIT = 1 << 20  # bytes of one frame's body; a longer one is refused

T = TypeVar("T")


class ProtocolError(Exception):
    """The peer has violated the protocol; its connection must be closed."""


class Encoder:
    """Turns objects into frames whose bodies have at most ``limit`` bytes."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray(1 << 16)
        self._limit = limit

    def encode(self, body: object) -> bytes:
        """Return ``body`` encoded, without a frame."""
        return self._encoder.encode(body)

    def frame(self, body: object) -> bytes:
        """Return ``body`` as one frame. Raises ProtocolError when it is too long."""
        buffer = self._buffer
        self._encoder.encode_into(body, buffer, 4)
        length = len(buffer) - 4
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes is over the limit of {self._limit}")
        buffer[:4] = length.to_bytes(4, "big")
        return bytes(buffer)


class FrameReader(Generic[T]):
    """Cuts a byte stream into frames and decodes each.

    Whatever the bytes are, ``feed`` either returns well-formed bodies or raises ProtocolError; after an error the
    reader must not be fed again.
    """

    def __init__(self, decoder: msgspec.msgpack.Decoder[T], limit: int = FRAME_LIMIT) -> None:
        self._decoder = decoder
        self._limit = limit
        self._pending = bytearray()

    @property
    def missing(self) -> int:
        """Bytes that are missing to the end of the next frame, or to the end of its length while that is unknown."""
        pending = self._pending
        return (4 if len(pending) < 4 else 4 + int.from_bytes(pending[:4], "big")) - len(pending)

    def feed(self, data: bytes) -> list[T]:
        """Return the bodies of all frames that ``data`` completes. Raises ProtocolError."""
        pending = self._pending
        pending += data
        bodies = []
        at = 0
        with memoryview(pending) as view:
            while len(pending) - at >= 4:
                length = int.from_bytes(view[at : at + 4], "big")
                if length > self._limit:
                    raise ProtocolError(f"a frame announces {length} bytes, over the limit of {self._limit}")
                if len(pending) - at - 4 < length:
                    break
                try:
                    bodies.append(self._decoder.decode(view[at + 4 : at + 4 + length]))
                except (msgspec.DecodeError, RecursionError) as error:
                    raise ProtocolError(f"a frame cannot be decoded: {error}") from None
                at += 4 + length
        del pending[:at]
        return bodies
