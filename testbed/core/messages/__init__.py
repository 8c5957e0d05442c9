"""The messages that agents exchange, and their frames on the wire.

A message names its addressee and its sender by *address*, a small integer: servers are 0..N-1, dispatchers N..N+D-1.
Messages carry time units only (DESIGN rule 4). On the wire a frame is four bytes of length, most significant first,
and a MessagePack array of messages; each message is an array that begins with its kind. There is no I/O here: bytes in,
messages out. All of it is imported from here:

message.py    what all messages have in common
queueing.py   a task's way to a server and through its queue, and what dispatchers ask and hear of servers
balancing.py  waiting tasks that move between servers
promising.py  places held in buffers, and reservations in queues
pooling.py    jobs of pools with central queues
copying.py    copies of a job on several servers
batches.py    all kinds of message, and how a batch of them is decoded
frames.py     frames, cut from a stream of bytes
"""

from testbed.core.messages.batches import BATCH, BATCH_LIMIT, KINDS, VERSION, AnyMessage
from testbed.core.messages.central_queues import CopyEnded, Enter, Left, Reached, Serve, Served, Stop, Stopped
from testbed.core.messages.copies import AssignCopy, CancelCopy, Cancelled, Peer, Started
from testbed.core.messages.frames import FRAME_LIMIT, Encoder, FrameReader, ProtocolError
from testbed.core.messages.message import Address, Message, kind_name
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
from testbed.core.messages.reservations import Cancel, Commit, Fetch, Full, Held, Hold, Release, Reserve
from testbed.core.messages.tasks import Assign, Done, Dropped, Idle, Noticed, Probe, ProbeReply

__all__ = [
    "BATCH",
    "BATCH_LIMIT",
    "FRAME_LIMIT",
    "KINDS",
    "VERSION",
    "Accepted",
    "Address",
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
    "Enter",
    "Fetch",
    "FrameReader",
    "Full",
    "Held",
    "Hold",
    "Idle",
    "Left",
    "Message",
    "Moved",
    "MovedTask",
    "Noticed",
    "Offer",
    "Peer",
    "Probe",
    "ProbeReply",
    "ProtocolError",
    "Reached",
    "Received",
    "Refused",
    "Release",
    "Reserve",
    "Serve",
    "Served",
    "Started",
    "Steal",
    "Stop",
    "Stopped",
    "Transfer",
    "Withdrawn",
    "kind_name",
]
