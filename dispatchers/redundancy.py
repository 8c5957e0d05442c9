"""Redundancy-d: copies of each job go to d servers chosen at random, and all but one are cancelled.

``cancel = "on-completion"``: all copies are served as their turn comes, and the first to finish is the job; the others
are cancelled then, wherever they stand. With independent sizes and exponential services the mean response time has a
closed form (Gardner et al. 2017, Theorem 1); with identical sizes much of the work is wasted.

``cancel = "on-start"``: the first copy to start is the job, and the others are cancelled then. With messages that take
no time this is to join the queue with the least work among d, without asking anyone. While messages are on their way
another copy may start too; it is cancelled all the same, unless it is done before: then it is the job.

The servers are distinct, a uniform sample; with fewer than d servers each gets a copy. d = 1 is ``random``.
"""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from typing_extensions import override

from dispatchers.policy import Policy


class RedundancyParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of redundancy-d."""

    d: Annotated[int, msgspec.Meta(ge=1, le=64, description="copies of a job; no more than servers are used")] = 2
    cancel: Annotated[
        Literal["on-start", "on-completion"],
        msgspec.Meta(description="whether the others are cancelled when the first copy starts, or when it is done"),
    ] = "on-completion"


class RedundancyD(Policy):
    """Copies on d servers chosen at random."""

    name = "redundancy-d"
    source = "Gardner, Harchol-Balter, Scheller-Wolf, Velednitsky and Zbarsky 2017"
    theory = "testbed.theory.copies:REDUNDANCY_D"
    Parameters = RedundancyParameters

    @classmethod
    @override
    def copies(cls, parameters: RedundancyParameters) -> int:
        return parameters.d

    @classmethod
    @override
    def cancels_on_start(cls, parameters: RedundancyParameters) -> bool:
        return parameters.cancel == "on-start"

    @override
    def place(self, job: int) -> None:
        dispatcher = self.dispatcher
        for server in dispatcher.rng.sample(dispatcher.servers, min(self.parameters.d, dispatcher.servers)):
            dispatcher.assign(job, server)
