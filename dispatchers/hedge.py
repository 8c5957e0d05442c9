"""Hedged requests: a job that is not done after a while gets a copy on another server; the first to finish is the job.

The job goes to a server chosen at random. If it is not done ``delay`` time units after it was placed, a second copy
goes to another server, chosen at random as well, and when one of the two is done the other is cancelled, wherever it
stands. Dean and Barroso wait for about the 95th percentile of the response time, so that few jobs are copied.

With a delay of 0 every job is copied at once, with "inf" none is: then the choices are those of ``random``, from the
same stream (the second servers have a stream of their own). With one server there is no other, and no copy. Where a
death takes all copies of a job it is placed once more, and its delay begins anew.
"""

from __future__ import annotations

from functools import partial
from math import inf
from typing import Annotated, Literal

import msgspec
from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.view import DispatcherView
from testbed.core.agent import Timer
from testbed.core.messages import Done


class HedgeParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of hedged requests."""

    delay: Annotated[
        Annotated[float, msgspec.Meta(ge=0)] | Literal["inf"],
        msgspec.Meta(
            description='time units that a job has before it gets a second copy; "inf": none gets one; default: the '
            "95th percentile of exponential sizes"
        ),
    ] = 3.0


class Hedge(Policy):
    """A server chosen at random, and another one after a delay."""

    name = "hedge"
    source = "Dean and Barroso 2013 (The Tail at Scale)"
    theory = "testbed.theory.copies:HEDGE"
    Parameters = HedgeParameters

    def __init__(self, parameters: HedgeParameters, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._delay = float(parameters.delay)
        self._uniform = dispatcher.stream("hedges").uniform
        self._timers: dict[int, Timer] = {}  # by job that may still get a copy

    @classmethod
    @override
    def copies(cls, parameters: HedgeParameters) -> int:
        return 2

    @override
    def place(self, job: int) -> None:
        """Place the first copy, and choose where and when the second one will go."""
        dispatcher = self.dispatcher
        first = dispatcher.rng.integer(dispatcher.servers)
        dispatcher.assign(job, first)
        if self._delay < inf and dispatcher.servers > 1:
            second = int(self._uniform() * (dispatcher.servers - 1))
            second += second >= first
            self._forget(job)
            when = dispatcher.env.now + self._delay
            self._timers[job] = dispatcher.env.call_at(when, partial(self._hedge, job, second))

    def _hedge(self, job: int, server: int) -> None:
        del self._timers[job]
        self.dispatcher.assign(job, server)

    @override
    def on_done(self, done: Done) -> None:
        """Take the hedge back."""
        self._forget(done.job)

    def _forget(self, job: int) -> None:
        timer = self._timers.pop(job, None)
        if timer is not None:
            timer.cancel()
