"""A server of a pool with a central queue: it has no queue of its own and serves what the pool agent sends."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import ClassVar

from servers.task_server import QueueLengthMeter
from testbed.core.agent import Agent, Environment, Timer
from testbed.core.messages import Message, Reached, Serve, Served, Stop, Stopped


class PoolServer(Agent):
    """Serves one copy of a job at a time, from where it was interrupted to its end, to its threshold, or to a Stop.

    ``speeds[k]`` is the speed for type-k jobs; 0 where they can't be served here. ``queue_length`` is 1 while it
    serves, else 0. Deadlines chain: threshold and completion are both counted from the start of the service. Where
    messages take no time in the model (``chains``), a service whose job waited for this server starts at the instant
    at which the service before it was due to end, so that neither a late timer nor message latency adds to the load.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {Serve: "on_serve", Stop: "on_stop"}

    def __init__(
        self, env: Environment, address: int, *, speeds: Sequence[float], meter: QueueLengthMeter, chains: bool = True
    ) -> None:
        super().__init__(env, address)
        self.queue_length = 0
        self._speeds = speeds
        self._meter = meter
        self._chains = chains
        self._serving: Serve
        self._started = 0.0
        self._ended = 0.0  # when the last service was due to end, or was stopped
        self._whole = 0.0  # processing time that the copy in service needs from its beginning
        self._crossed = False
        self._timer: Timer | None = None

    def on_serve(self, serve: Serve) -> None:
        """Start a service, or continue an interrupted one."""
        self._serving = serve
        now = self.env.now
        self._started = self._ended if serve.waited and self._chains else now
        speed = self._speeds[serve.job_type]
        # A quotient, to the last bit: a threshold may be the very time that a size takes, and is then not crossed.
        self._whole = whole = serve.size / speed if speed else inf if serve.size else 0.0
        self.queue_length = 1
        self._meter.change(0, 1, now)
        self._crossed = False
        self._timer = None
        if whole <= serve.threshold:  # completion wins ties
            self._finish_after(whole)
        else:
            self._timer = self.env.call_at(self._due(serve.threshold), self._on_threshold)

    def _due(self, received: float) -> float:
        """Return when the copy in service will have received this much."""
        return self._started + (received - self._serving.received)

    def _finish_after(self, received: float) -> None:
        if received < inf:
            self._timer = self.env.call_at(self._due(received), self._on_finish)

    def _on_threshold(self) -> None:
        serve = self._serving
        if self._timer is not None:
            self._timer.cancel()  # still pending when a Stop has come first
        if serve.goes_on:
            self._crossed = True
            self._finish_after(self._whole)
        else:
            self._end(self._due(serve.threshold))
        self.env.send(Reached(serve.sender, self.address, serve.copy, serve.threshold))

    def _on_finish(self) -> None:
        self._end(self._due(self._whole))
        self.env.send(Served(self._serving.sender, self.address, self._serving.copy, self._whole, self.env.lateness))

    def on_stop(self, stop: Stop) -> None:
        """Stop the service of a copy, if it is still in service."""
        serve = self._serving
        if not self.queue_length or serve.copy != stop.copy:
            return
        received = serve.received + (self.env.now - self._started)
        if received >= self._whole:  # the timer is late: the service has ended before
            self._on_finish()
        elif received >= serve.threshold and not self._crossed:
            self._on_threshold()
            if serve.goes_on:
                self._stopped(received)
        else:
            self._stopped(received)

    def _stopped(self, received: float) -> None:
        self._end(self.env.now)
        self.env.send(Stopped(self._serving.sender, self.address, self._serving.copy, received))

    def _end(self, when: float) -> None:
        self._ended = when
        if self._timer is not None:
            self._timer.cancel()
        self.queue_length = 0
        self._meter.change(1, 0, self.env.now)
