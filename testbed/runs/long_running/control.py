"""The messages on the control socket of a long-running cluster: a request, then its answers.

Status -> StatusReply        the state of the cluster
Set    -> Changed | Refused  other settings, from a time a little ahead
Down   -> Saved              the cluster has drained, and its measurements are saved
Follow -> Snapshots ...      one after the other, until either side closes the connection

Frames are those of testbed.cluster.control. Whoever can open the socket may send requests: it lies in a folder that
only the user can enter.
"""

from __future__ import annotations

from typing import Any

import msgspec

from testbed.cluster.snapshot import Snapshot
from testbed.runs.long_running.register import State


class Status(msgspec.Struct, tag=True):
    """Ask for the state of the cluster."""


class StatusReply(msgspec.Struct, tag=True):
    """The cluster's entry in the register, and its latest snapshot; None before the first."""

    state: State
    snapshot: Snapshot | None


class Set(msgspec.Struct, tag=True):
    """Other values for dotted keys of the scenario."""

    settings: dict[str, Any]


class Changed(msgspec.Struct, tag=True):
    """The settings hold from model time ``at`` on; ``said`` describes them."""

    at: float
    said: str


class Refused(msgspec.Struct, tag=True):
    """The request was refused, and why."""

    why: str


class Down(msgspec.Struct, tag=True):
    """Stop arrivals, let the jobs finish, save, and end."""


class Saved(msgspec.Struct, tag=True):
    """The cluster has ended; ``failure`` says what went wrong, if anything did."""

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
