"""Frames: what goes in comes out however the stream is cut, and whatever else comes in ends in a ProtocolError."""

from __future__ import annotations

from enum import IntEnum
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.cluster.control import FROM_CONTROLLER, FROM_PROCESS, HELLO
from testbed.core.messages import (
    BATCH,
    BATCH_LIMIT,
    FRAME_LIMIT,
    Address,
    AnyMessage,
    Done,
    Encoder,
    FrameReader,
    Message,
    Probe,
    ProtocolError,
)

integers = st.integers(-(2**63), 2**63 - 1)
addresses = st.integers(0, 2**31)
times = st.floats(allow_nan=False)


def values(kind: Any) -> st.SearchStrategy[Any]:
    if kind == Address:
        return addresses
    if get_origin(kind) is Annotated:
        return values(get_args(kind)[0])
    if get_origin(kind) is list:
        return st.lists(values(get_args(kind)[0]), max_size=8)
    if issubclass(kind, msgspec.Struct):
        return structs(kind)
    if issubclass(kind, IntEnum):
        return st.sampled_from(kind)
    return {bool: st.booleans(), float: times, int: integers}[kind]


def structs(kind: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    return st.builds(kind, **{field.name: values(field.type) for field in msgspec.structs.fields(kind)})


def messages() -> st.SearchStrategy[Message]:
    return st.one_of([structs(kind) for kind in get_args(AnyMessage)])


def cut(stream: bytes, cuts: list[int]) -> list[bytes]:
    """Cut a stream at some places, also into empty pieces."""
    places = sorted(place % (len(stream) + 1) for place in cuts)
    return [stream[i:j] for i, j in zip([0, *places], [*places, len(stream)], strict=True)]


@given(st.lists(st.lists(messages(), max_size=8), max_size=6), st.lists(st.integers(0, 10_000), max_size=30))
def test_every_message_comes_through_however_the_stream_is_cut(batches: list[list[Message]], cuts: list[int]) -> None:
    encoder = Encoder()
    stream = b"".join(encoder.frame(batch) for batch in batches)
    reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
    received = [batch for piece in cut(stream, cuts) for batch in reader.feed(piece)]
    assert received == batches
    assert [[type(m) for m in batch] for batch in received] == [[type(m) for m in batch] for batch in batches]


@given(st.lists(messages(), min_size=1, max_size=8), st.data())
def test_a_truncated_frame_gives_nothing_and_the_rest_completes_it(batch: list[Message], data: st.DataObject) -> None:
    stream = Encoder().frame(batch)
    at = data.draw(st.integers(0, len(stream) - 1))
    reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
    assert reader.feed(stream[:at]) == []
    assert reader.feed(stream[at:]) == [batch]


@given(st.lists(st.binary(max_size=64), max_size=10), st.sampled_from([BATCH, HELLO, FROM_PROCESS, FROM_CONTROLLER]))
def test_whatever_the_bytes_are_bodies_come_out_or_a_protocol_error(
    pieces: list[bytes], decoder: msgspec.msgpack.Decoder[Any]
) -> None:
    reader: FrameReader[Any] = FrameReader(decoder, limit=4096)
    try:
        for piece in pieces:
            reader.feed(piece)
    except ProtocolError:
        pass


@given(st.lists(messages(), min_size=1, max_size=4), st.data())
def test_a_corrupted_frame_gives_well_formed_messages_or_a_protocol_error(
    batch: list[Message], data: st.DataObject
) -> None:
    frame = bytearray(Encoder().frame(batch))
    for _ in range(data.draw(st.integers(1, 3))):
        frame[data.draw(st.integers(4, len(frame) - 1))] = data.draw(st.integers(0, 255))
    try:
        bodies = FrameReader(BATCH).feed(bytes(frame))
    except ProtocolError:
        return
    assert all(isinstance(message, Message) for body in bodies for message in body)


plain = st.recursive(
    st.none() | st.booleans() | integers | st.floats() | st.text(max_size=8) | st.binary(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4),
    max_leaves=12,
)


@given(plain)
def test_msgpack_of_other_types_is_refused(body: object) -> None:
    frame = Encoder().frame(body)
    if body == []:
        assert FrameReader(BATCH).feed(frame) == [[]]
    else:
        with pytest.raises(ProtocolError, match="cannot be decoded"):
            FrameReader(BATCH).feed(frame)


@pytest.mark.parametrize(
    "body",
    [
        [[99, 0, 1, 2]],  # no such kind
        [[1, 0, 1]],  # too short
        [[1, "0", 1, 2]],  # a text where a number should be
        [[1, 0.5, 1, 2]],
        [[1, None, 1, 2]],
        [[1, True, 1, 2]],
        [[3, 0, 1, 2, 3, 4, "x"]],
        [[1, -1, 1, 2]],  # a negative address would find the last agent
        [[1, 1, -1, 2]],
        [["Probe", 0, 1, 2]],
        [{"to": 0, "sender": 1, "job": 2}],
        {},
        None,
    ],
)
def test_a_malformed_message_is_refused(body: object) -> None:
    with pytest.raises(ProtocolError, match="cannot be decoded"):
        FrameReader(BATCH).feed(Encoder().frame(body))


def frame_of(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


@pytest.mark.parametrize("decoder", [BATCH, HELLO, FROM_PROCESS, FROM_CONTROLLER])
@pytest.mark.parametrize("opening", [b"\x91", b"\x81\xa1a", b"\xdd\xff\xff\xff\xff", b"\xdf\xff\xff\xff\xff"])
def test_deep_nesting_and_huge_announced_lengths_are_refused(
    decoder: msgspec.msgpack.Decoder[Any], opening: bytes
) -> None:
    with pytest.raises(ProtocolError):
        FrameReader(decoder).feed(frame_of(opening * 100_000))
    with pytest.raises(ProtocolError):
        FrameReader(decoder).feed(frame_of(b"\x81\xa4type" + opening * 100_000))


def test_deep_nesting_is_refused_where_anything_may_stand() -> None:
    anything: FrameReader[Any] = FrameReader(msgspec.msgpack.Decoder(Any))
    with pytest.raises(ProtocolError):
        anything.feed(frame_of(b"\x91" * 100_000))


def test_an_oversized_frame_is_refused_by_its_header_alone() -> None:
    reader: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
    with pytest.raises(ProtocolError, match=f"announces {FRAME_LIMIT + 1} bytes, over the limit of {FRAME_LIMIT}"):
        reader.feed((FRAME_LIMIT + 1).to_bytes(4, "big"))
    with pytest.raises(ProtocolError, match="announces 1195725856 bytes"):
        FrameReader(BATCH).feed(b"GET / HTTP/1.1\r\n")
    at_the_limit: FrameReader[list[AnyMessage]] = FrameReader(BATCH)
    assert at_the_limit.feed(FRAME_LIMIT.to_bytes(4, "big") + bytes(10)) == []


def test_an_encoder_refuses_what_no_reader_would_take() -> None:
    encoder = Encoder(limit=100)
    with pytest.raises(ProtocolError, match="over the limit of 100"):
        encoder.frame(bytes(101))
    assert FrameReader(BATCH).feed(encoder.frame([Probe(0, 1, 2)])) == [[Probe(0, 1, 2)]]


def test_the_largest_batch_of_the_longest_messages_fits_into_a_frame() -> None:
    longest = 2**63 - 1
    largest = [Done(longest, longest, longest, longest, 1 / 3, 1 / 3)] * BATCH_LIMIT
    assert FrameReader(BATCH).feed(Encoder().frame(largest)) == [largest]
