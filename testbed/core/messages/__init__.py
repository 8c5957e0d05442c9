"""The messages that agents exchange, and their frames on the wire.

A message names its addressee and its sender by *address*, a small integer: servers are 0..N-1, dispatchers N..N+D-1.
Messages carry time units only (testbed/docs/architecture.md, rule 4). On the wire a frame is four bytes of length, most
significant first, and a MessagePack array of messages; each message is an array that begins with the tag of its type.
There is no I/O here: bytes in, messages out. Import all of it from here:

message.py         what all messages have in common
tasks.py           a task's way to a server and through its queue, probes and their replies
moving_tasks.py    waiting tasks that move between servers
reservations.py    reservations of slots in buffers and of turns in queues
central_queues.py  jobs of pools with central queues
copies.py          copies of a job on several servers
batches.py         all message types, and how a batch of messages is decoded
frames.py          frames, cut from a stream of bytes
"""

from testbed.core.messages.batches import BATCH, BATCH_LIMIT, MESSAGE_TYPES, VERSION, AnyMessage
from testbed.core.messages.central_queues import Admit, CopyEnded, JobDone, Reached, Serve, Served, Stop, Stopped
from testbed.core.messages.copies import AssignCopy, CancelCopy, Cancelled, Peer, Started
from testbed.core.messages.frames import FRAME_LIMIT, Encoder, FrameReader, ProtocolError
from testbed.core.messages.message import Address, Message, message_name
from testbed.core.messages.moving_tasks import (
    Accepted,
    Moved,
    MovedTask,
    Offer,
    Received,
    Refused,
    Steal,
    Transfer,
    Withdrawn,
)
from testbed.core.messages.reservations import (
    Cancel,
    Commit,
    Fetch,
    ReleaseSlots,
    Reserve,
    ReserveSlots,
    SlotsRefused,
    SlotsReserved,
)
from testbed.core.messages.tasks import NO_JOB, Assign, Done, Dropped, Idle, PeerDown, Probe, ProbeReply

__all__ = [
    "BATCH",
    "BATCH_LIMIT",
    "FRAME_LIMIT",
    "MESSAGE_TYPES",
    "NO_JOB",
    "VERSION",
    "Accepted",
    "Address",
    "Admit",
    "AnyMessage",
    "Assign",
    "AssignCopy",
    "Cancel",
    "CancelCopy",
    "Cancelled",
    "Commit",
    "CopyEnded",
    "Done",
    "Dropped",
    "Encoder",
    "Fetch",
    "FrameReader",
    "Idle",
    "JobDone",
    "Message",
    "Moved",
    "MovedTask",
    "Offer",
    "Peer",
    "PeerDown",
    "Probe",
    "ProbeReply",
    "ProtocolError",
    "Reached",
    "Received",
    "Refused",
    "ReleaseSlots",
    "Reserve",
    "ReserveSlots",
    "Serve",
    "Served",
    "SlotsRefused",
    "SlotsReserved",
    "Started",
    "Steal",
    "Stop",
    "Stopped",
    "Transfer",
    "Withdrawn",
    "message_name",
]
