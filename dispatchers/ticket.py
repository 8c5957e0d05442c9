"""What a dispatcher knows of a job in the system."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

#: Most jobs never move: their tickets share this.
NOTHING: Final[Mapping[int, int]] = {}


class Ticket:
    """What the dispatcher knows of a job in the system."""

    __slots__ = (
        "again",
        "arrival",
        "at",
        "dropped",
        "every_size",
        "inherent",
        "job_type",
        "lag",
        "moves",
        "position",
        "probes",
        "remaining",
        "signal",
        "sizes",
        "wait",
        "work",
    )

    def __init__(self, arrival: float, lag: float, job_type: int, sizes: Sequence[float]) -> None:
        self.arrival = arrival
        self.lag = lag
        self.job_type = job_type
        self.sizes = sizes
        self.at: list[int] = []  # by task that was placed: the server that has it, or FINISHED
        self.moves: Mapping[int, int] = NOTHING  # by task that has moved: how often
        self.again: Sequence[int] = ()  # tasks to be placed once more
        self.remaining = len(sizes)  # tasks not yet done
        self.probes = 0
        self.inherent = 0.0
        self.wait = 0.0
        self.work = 0.0
        self.position = 0
        self.dropped = False
        self.every_size: Sequence[float]  # of a job that has one for each copy or pool; unset for most
        self.signal: int  # what the policy may know of its type; unset where that is nothing
