"""What all messages have in common."""

from __future__ import annotations

import re
from typing import Annotated

import msgspec

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
