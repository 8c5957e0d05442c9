"""All message types, and the batches of messages that travel in frames."""

from __future__ import annotations

from typing import get_args

import msgspec

from testbed.core.messages.central_queues import Admit, CopyEnded, JobDone, Reached, Serve, Served, Stop, Stopped
from testbed.core.messages.copies import AssignCopy, CancelCopy, Cancelled, Started
from testbed.core.messages.message import Message
from testbed.core.messages.moving_tasks import Accepted, Moved, Offer, Received, Refused, Steal, Transfer, Withdrawn
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
from testbed.core.messages.tasks import Assign, Done, Dropped, Idle, PeerDown, Probe, ProbeReply

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
    | PeerDown
    | ReserveSlots
    | SlotsReserved
    | SlotsRefused
    | ReleaseSlots
    | Commit
    | Reserve
    | Fetch
    | Cancel
    | Admit
    | Serve
    | Reached
    | Served
    | Stop
    | Stopped
    | CopyEnded
    | JobDone
    | AssignCopy
    | Started
    | CancelCopy
    | Cancelled
)

#: All message types.
MESSAGE_TYPES: tuple[type[Message], ...] = get_args(AnyMessage)

#: Decodes a frame's body.
BATCH: msgspec.msgpack.Decoder[list[AnyMessage]] = msgspec.msgpack.Decoder(list[AnyMessage])
