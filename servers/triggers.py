"""When a server asks: the clocks and the events of work stealing and work sharing.

* *Rate-based* (Van Houdt 2019): a clock that fires after independent Exp(r) gaps, while the server is idle (stealing),
  or while it has waiting tasks (sharing). It starts when the condition begins to hold, with a full gap and not with a
  probe; the next gap runs from the last probe, not from its answer; it stops when the condition ends.
* *Traditional*: at one event, when the server becomes idle (stealing), or when an arrival finds it busy (sharing, about
  the arriving task), up to ``max_probes`` probes one after another until one succeeds.

The two can be combined: a hybrid server has one trigger of each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log

from servers.balancer import Balancer, Trigger
from servers.exchange import Exchange
from testbed.core.agent import Timer


class Clock(Trigger, ABC):
    """A Poisson clock of rate ``rate`` that calls ``fire`` while it runs."""

    def __init__(self, balancer: Balancer, rate: float) -> None:
        self.balancer = balancer
        self._mean_gap = 1.0 / rate
        self._timer: Timer | None = None

    def start(self) -> None:
        """Start, unless it runs."""
        if self._timer is None:
            self._arm()

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _arm(self) -> None:
        env = self.balancer.env
        gap = -log(1.0 - self.balancer.rng.uniform()) * self._mean_gap
        self._timer = env.call_at(env.now + gap, self._fired)

    def _fired(self) -> None:
        self._arm()
        self.fire()

    @abstractmethod
    def fire(self) -> None:
        """Ask."""


class StealingClock(Clock):
    """An idle server asks at rate r."""

    def on_idle(self) -> None:
        """Start the clock."""
        self.start()

    def on_busy(self) -> None:
        """Stop the clock."""
        self.stop()

    def fire(self) -> None:
        """Ask another server for waiting tasks."""
        self.balancer.steal()


class SharingClock(Clock):
    """A server with waiting tasks offers one at rate r."""

    def on_queued(self, job: int, task: int) -> None:
        """Start the clock, if it is the first that waits."""
        self.start()

    def on_none_waiting(self) -> None:
        """Stop the clock."""
        self.stop()

    def fire(self) -> None:
        """Offer a waiting task to another server."""
        self.balancer.offer()


class StealingWhenIdle(Trigger):
    """A server that becomes idle asks up to ``max_probes`` others, one after another, until one has tasks."""

    def __init__(self, balancer: Balancer, max_probes: int) -> None:
        self._balancer = balancer
        self._max_probes = max_probes

    def on_idle(self) -> None:
        """Ask a first time."""
        self._balancer.steal()

    def on_failed(self, exchange: Exchange) -> None:
        """Ask again, if there are probes left and the server is still idle."""
        if exchange.offered is None and exchange.tries < self._max_probes and not self._balancer.server.queue_length:
            self._balancer.steal(exchange.tries + 1)


class SharingOnArrival(Trigger):
    """A task that finds its server busy is offered to up to ``max_probes`` others, one after another."""

    def __init__(self, balancer: Balancer, max_probes: int) -> None:
        self._balancer = balancer
        self._max_probes = max_probes

    def on_queued(self, job: int, task: int) -> None:
        """Offer the task a first time."""
        self._balancer.offer(about=(job, task))

    def on_failed(self, exchange: Exchange) -> None:
        """Offer it again, if there are probes left and it still waits."""
        about = exchange.offered
        if about is not None and exchange.tries < self._max_probes and self._balancer.server.is_waiting(*about):
            self._balancer.offer(exchange.tries + 1, about)
