"""All kinds of message, and the batches of them that travel in frames."""

from __future__ import annotations

from typing import get_args

import msgspec

from testbed.core.messages.central_queues import CopyEnded, Enter, Left, Reached, Serve, Served, Stop, Stopped
from testbed.core.messages.copies import AssignCopy, CancelCopy, Cancelled, Started
from testbed.core.messages.message import Message
from testbed.core.messages.moving_tasks import Accepted, Moved, Offer, Received, Refused, Steal, Transfer, Withdrawn
from testbed.core.messages.reservations import Cancel, Commit, Fetch, Full, Held, Hold, Release, Reserve
from testbed.core.messages.tasks import Assign, Done, Dropped, Idle, Noticed, Probe, ProbeReply

VERSION = 1
BATCH_LIMIT = 4096  # messages in one frame: their longest encodings stay below FRAME_LIMIT

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
