"""The messages that agents exchange, and their frames on the wire.

A message names its addressee and its sender by *address*, a small integer: servers are 0..N-1, dispatchers N..N+D-1.
Messages carry time units only (DESIGN rule 4). On the wire a frame is four bytes of length, most significant first,
and a MessagePack array of messages; each message is an array that begins with its kind. There is no I/O here: bytes in,
messages out.
"""

from __future__ import annotations

import re
from typing import Annotated, Generic, TypeVar, get_args

import msgspec

VERSION = 1
FRAME_LIMIT = 1 << 20  # bytes of one frame's body; a longer one is refused
BATCH_LIMIT = 4096  # messages in one frame: their longest encodings stay below FRAME_LIMIT


#: Of an agent. A negative one would find the last of a list.
Address = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, array_like=True, gc=False):
    """What every message carries: its addressee's and its sender's address."""

    to: Address
    sender: Address


_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


def kind_name(kind: type[Message]) -> str:
    """Return the name of a kind of message as metrics and traces have it: ``probe_reply``."""
    return _WORDS.sub("_", kind.__name__).lower()


class Probe(Message, tag=1):
    """A dispatcher asks a server for its queue length, on behalf of a job.

    ``question`` numbers the dispatcher's questions: a reply to one that is settled is told from one to a later one.
    """

    job: int
    question: int = 0


class ProbeReply(Message, tag=2):
    """A server answers a probe: tasks at the server, the one in service included."""

    job: int
    queue_length: int
    question: int = 0


class Assign(Message, tag=3):
    """A dispatcher places a task of a job on a server. ``kind`` indexes the job type; ``size`` is in time units.

    ``moves`` is how often the task had moved before, in a life that ended with its server; 0 for most.
    """

    job: int
    task: int
    kind: int
    size: float
    moves: int = 0


class Done(Message, tag=4):
    """A server has finished a task: how long it waited there and how long it was served, in time units.

    ``position`` is the task's place in the server's queue when it came, 1 for one that was served at once;
    ``lateness`` how long after the end of the service its process noticed it, in time units.
    """

    job: int
    task: int
    wait: float
    service: float
    position: int = 1
    lateness: float = 0.0


class Dropped(Message, tag=5):
    """A server's buffer was full; the task was not accepted."""

    job: int
    task: int


class Idle(Message, tag=6):
    """A server reports to a dispatcher that it has become idle."""


class Steal(Message, tag=7):
    """An idle server asks another for waiting tasks. ``exchange`` numbers the asking server's exchanges."""

    exchange: int


class Offer(Message, tag=8):
    """A server with waiting tasks asks another whether it is idle, and if so to keep itself free for one."""

    exchange: int


class Accepted(Message, tag=9):
    """The server that was offered a task is idle, and waits for it."""

    exchange: int


class Refused(Message, tag=10):
    """No: the server has no waiting task to be stolen, or is not idle, or is promised to another."""

    exchange: int


class Withdrawn(Message, tag=11):
    """The offered task has started where it was; the server that waits for it is free again."""

    exchange: int


class MovedTask(msgspec.Struct, array_like=True, gc=False):
    """A waiting task on its way to another server: what its Assign said, and how long it has waited so far.

    ``moves`` is how often it has moved, this time included.
    """

    dispatcher: int
    job: int
    task: int
    kind: int
    size: float
    waited: float
    moves: int


class Transfer(Message, tag=12, gc=True):
    """Waiting tasks move to the addressee, which owns them from its receipt on."""

    exchange: int
    tasks: list[MovedTask]


class Received(Message, tag=13):
    """The tasks of an exchange have arrived; their former server may forget them."""

    exchange: int


class Moved(Message, tag=14):
    """A server tells the dispatcher of a task that the task's move number ``moves`` took it to ``server``.

    The new server says so, and where lost tasks are to be dispatched again its former server as well. Words of several
    servers come in any order; the one with the most moves is the latest.
    """

    job: int
    task: int
    server: int
    moves: int


class Noticed(Message, tag=15):
    """A server tells a dispatcher that it will hear no more from servers ``first`` to ``last``, which have died."""

    first: int
    last: int


class Hold(Message, tag=30):
    """A dispatcher asks a server to hold ``places`` free places of its buffer for tasks of a job."""

    job: int
    places: int


class Held(Message, tag=31):
    """The server holds the places."""

    job: int


class Full(Message, tag=32):
    """The server has fewer free places, and holds none of them."""

    job: int


class Release(Message, tag=33):
    """The tasks will not come: the job is dropped, as another server was full."""

    job: int
    places: int


class Commit(Assign, tag=34):
    """A task comes for a place that is held for it."""


class Reserve(Message, tag=35):
    """A dispatcher puts a reservation for one of a job's tasks, whichever, into a server's queue.

    ``number`` tells the dispatcher's reservations apart: a job may have several at a server, after a death.
    """

    job: int
    number: int


class Fetch(Message, tag=36):
    """A reservation has reached the head of the server's queue: which task is it?"""

    job: int
    number: int


class Cancel(Message, tag=37):
    """No task is left for the reservation: the answer to a Fetch, or ahead of it."""

    job: int
    number: int


class Enter(Message, tag=40):
    """A dispatcher gives a job to the pool agent: it joins the tail of the queue of pool ``pool``.

    ``sizes`` has the job's size in each pool with a central queue. ``thresholds`` are the received processing times,
    visit by visit, after which this job moves; empty for those of the scenario.
    """

    job: int
    kind: int
    pool: int
    sizes: list[float]
    thresholds: list[float] = []


class Serve(Message, tag=41):
    """The pool agent has an idle server serve a copy of a job, of which ``received`` time units are served already.

    When ``threshold`` is received without an end the server reports Reached; it stops, unless ``goes_on``. ``copy``
    numbers the pool agent's copies. ``job`` is for those who follow it; the server answers for the copy alone.
    ``waited``: the copy waited for this very server, which has just said that its last service is over.
    """

    copy: int
    kind: int
    size: float
    received: float
    threshold: float
    goes_on: bool
    job: int
    waited: bool


class Reached(Message, tag=42):
    """A copy has received its threshold of processing time without an end."""

    copy: int
    received: float


class Served(Message, tag=43):
    """A copy is done; ``received`` is all the processing time that it has got, ``lateness`` as in Done."""

    copy: int
    received: float
    lateness: float = 0.0


class Stop(Message, tag=44):
    """The server is to stop serving a copy; what comes too late is not answered."""

    copy: int


class Stopped(Message, tag=45):
    """A copy's service was stopped after ``received`` time units."""

    copy: int
    received: float


class CopyEnded(Message, tag=46):
    """The pool agent tells a job's dispatcher what has become of a copy (testbed.copy_life).

    ``order`` counts the job's copies, in the order in which they were made; ``fate`` and ``met`` index FATES and MET.
    ``wait`` is its time in queues, ``delay`` the time from the other's completion until its own end was known, or NaN.
    """

    job: int
    order: int
    pool: int
    server: int
    wait: float
    received: float
    preemptions: int
    fate: int
    met: int
    delay: float


class Left(Message, tag=47):
    """A job is done, by the copy that ``server`` served; ``copies`` were made of it in all.

    The CopyEnded of some may be still to come. ``lateness`` is as in Done.
    """

    job: int
    server: int
    copies: int
    wait: float
    service: float
    lateness: float = 0.0


class Peer(msgspec.Struct, array_like=True, gc=False):
    """Another copy of the same job: its server, which of the job's copies it is, and its number there."""

    server: Address
    copy: int
    number: int


class AssignCopy(Message, tag=50, gc=True):
    """A dispatcher places a copy of a job on a server, whose Done says ``copy`` for the task.

    ``copy`` counts the job's copies from 0, ``number`` the copies that this dispatcher has placed on this server, from
    1: a cancellation that some other server sends is thereby told as one of a copy that is yet to come or that has
    gone. ``reports_start`` asks for a Started. When the copy starts its server cancels the ``peers``.
    """

    job: int
    copy: int
    number: int
    kind: int
    size: float
    reports_start: bool = False
    peers: list[Peer] = []


class Started(Message, tag=51):
    """A copy's service has begun."""

    job: int
    copy: int


class CancelCopy(Message, tag=52):
    """A copy of a job of ``dispatcher`` is not wanted any more: the dispatcher says so, or a peer's server.

    ``by`` is the peer, -1 if it is the dispatcher. Of two peers that have both started the one with the lower ``copy``
    goes on. A copy that is done already has nothing to answer; all others answer Cancelled to the dispatcher, once.
    """

    dispatcher: Address
    job: int
    copy: int
    number: int
    by: int = -1


class Cancelled(Message, tag=53):
    """A cancelled copy has ended. ``met`` indexes testbed.copy_life.MET; ``wait`` is its time in the queue."""

    job: int
    copy: int
    met: int
    wait: float
    received: float


AnyMessage = (
    Probe
    | ProbeReply
    | Assign
    | Done
    | Dropped
    | Idle
    | Steal
    | Offer
    | Accepted
    | Refused
    | Withdrawn
    | Transfer
    | Received
    | Moved
    | Noticed
    | Hold
    | Held
    | Full
    | Release
    | Commit
    | Reserve
    | Fetch
    | Cancel
    | Enter
    | Serve
    | Reached
    | Served
    | Stop
    | Stopped
    | CopyEnded
    | Left
    | AssignCopy
    | Started
    | CancelCopy
    | Cancelled
)

#: All kinds of message.
KINDS: tuple[type[Message], ...] = get_args(AnyMessage)

#: Decodes a frame's body.
BATCH: msgspec.msgpack.Decoder[list[AnyMessage]] = msgspec.msgpack.Decoder(list[AnyMessage])

T = TypeVar("T")


class ProtocolError(Exception):
    """The peer sent what the protocol does not allow; its connection must be closed."""


class Encoder:
    """Turns objects into frames whose bodies have at most ``limit`` bytes."""

    def __init__(self, limit: int = FRAME_LIMIT) -> None:
        self._encoder = msgspec.msgpack.Encoder()
        self._buffer = bytearray(1 << 16)
        self._limit = limit

    def encode(self, body: object) -> bytes:
        """Return ``body`` without a frame around it."""
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

    def feed(self, data: bytes) -> list[T]:
        """Return the bodies of all frames that ``data`` completes."""
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
