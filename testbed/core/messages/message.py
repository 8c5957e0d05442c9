"""The common part of all messages."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

#: The address of an agent. A negative one would index a list from its end.
Address = Annotated[int, msgspec.Meta(ge=0)]


class Message(msgspec.Struct, array_like=True, gc=False):
    """Every message carries the addresses of its addressee and its sender."""

    to: Address
    sender: Address


_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")
#: Names in metrics and recorded traces that differ from the class's: they are an interface and stay when a class is
#: renamed.
_KEPT_NAMES = {
    "ReserveSlots": "hold",
    "SlotsReserved": "held",
    "SlotsRefused": "full",
    "ReleaseSlots": "release",
    "Admit": "enter",
    "JobDone": "left",
    "PeerDown": "noticed",
}


def message_name(message_type: type[Message]) -> str:
    """Return the name of a message type in metrics and traces, such as ``probe_reply``."""
    name = message_type.__name__
    return _KEPT_NAMES.get(name) or _WORDS.sub("_", name).lower()
