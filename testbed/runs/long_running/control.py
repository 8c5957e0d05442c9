"""What is said over the control socket of a standing cluster: a request, then its answers.

Status -> StatusReply        how the cluster is doing
Set    -> Changed | Refused  other settings, from a time a little ahead
Down   -> Saved              the cluster has drained, and what it measured is saved
Follow -> Snapshots ...      one after the other, until either side closes the connection

Frames are those of testbed.cluster.control. Whoever can open the socket may give orders: it lies in a folder that only
the user can enter.
"""

from __future__ import annotations

from typing import Any

import msgspec

from testbed.cluster.snapshot import Snapshot
from testbed.runs.long_running.register import State


class Status(msgspec.Struct, tag=True):
    """How is the cluster doing?"""


class StatusReply(msgspec.Struct, tag=True):
    """What is on record of the cluster, and its last snapshot; None before the first."""

    state: State
    snapshot: Snapshot | None


class Set(msgspec.Struct, tag=True):
    """Other values for dotted keys of the scenario."""

    settings: dict[str, Any]


class Changed(msgspec.Struct, tag=True):
    """The settings hold from model time ``at`` on; ``said`` tells what that means."""

    at: float
    said: str


class Refused(msgspec.Struct, tag=True):
    """Nothing was done, and why."""

    why: str


class Down(msgspec.Struct, tag=True):
    """Stop arrivals, let the jobs finish, save, and end."""


class Saved(msgspec.Struct, tag=True):
    """The cluster is gone; ``failure`` says what went wrong, if anything did."""

    run_folder: str
    failure: str | None


class Follow(msgspec.Struct, tag=True):
    """Send every snapshot from now on."""


class Snapshots(msgspec.Struct, tag=True):
    """A snapshot."""

    snapshot: Snapshot


Request = Status | Set | Down | Follow
Reply = StatusReply | Changed | Refused | Saved | Snapshots

REQUEST: msgspec.msgpack.Decoder[Request] = msgspec.msgpack.Decoder(Request)
REPLY: msgspec.msgpack.Decoder[Reply] = msgspec.msgpack.Decoder(Reply)
