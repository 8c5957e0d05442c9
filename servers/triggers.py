"""When a server probes others: the clocks and the events of work stealing and work sharing.

* *Rate-based* (Van Houdt 2019): a clock that fires after independent Exp(r) gaps, while the server is idle (stealing)
  or while it has waiting tasks (sharing). It starts when the condition begins to hold, with a full gap and not with a
  probe; the next gap runs from the last probe, not from its answer; it stops when the condition ends.
* *Traditional*: at one event, when the server becomes idle (stealing) or when an arrival finds it busy (sharing, of the
  arriving task), it sends up to ``max_probes`` probes one after another until one succeeds.

The two can be combined: a hybrid server has one trigger for stealing and one for sharing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import log

from typing_extensions import override

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
            self._set_timer()

    def stop(self) -> None:
        """Stop, if it runs."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _set_timer(self) -> None:
        env = self.balancer.env
        gap = -log(1.0 - self.balancer.rng.uniform()) * self._mean_gap
        self._timer = env.call_at(env.now + gap, self._on_timer)

    def _on_timer(self) -> None:
        self._set_timer()
        self.fire()

    @abstractmethod
    def fire(self) -> None:
        """Probe another server."""


class StealingClock(Clock):
    """Probes at rate r while the server is idle."""

    @override
    def on_idle(self) -> None:
        self.start()

    @override
    def on_busy(self) -> None:
        self.stop()

    @override
    def fire(self) -> None:
        self.balancer.steal()


class SharingClock(Clock):
    """Offers a waiting task at rate r while there is one."""

    @override
    def on_queued(self, job: int, task: int) -> None:
        self.start()

    @override
    def on_none_waiting(self) -> None:
        self.stop()

    @override
    def fire(self) -> None:
        self.balancer.offer()


class StealingWhenIdle(Trigger):
    """A server that becomes idle probes up to ``max_probes`` others, one after another, until one has tasks."""

    def __init__(self, balancer: Balancer, max_probes: int) -> None:
        self._balancer = balancer
        self._max_probes = max_probes

    @override
    def on_idle(self) -> None:
        self._balancer.steal()

    @override
    def on_failed(self, exchange: Exchange) -> None:
        if exchange.offered is None and exchange.tries < self._max_probes and not self._balancer.server.queue_length:
            self._balancer.steal(exchange.tries + 1)


class SharingOnArrival(Trigger):
    """A task that finds its server busy is offered to up to ``max_probes`` others, one after another."""

    def __init__(self, balancer: Balancer, max_probes: int) -> None:
        self._balancer = balancer
        self._max_probes = max_probes

    @override
    def on_queued(self, job: int, task: int) -> None:
        self._balancer.offer(certain=(job, task))

    @override
    def on_failed(self, exchange: Exchange) -> None:
        certain = exchange.offered
        if certain is not None and exchange.tries < self._max_probes and self._balancer.server.is_waiting(*certain):
            self._balancer.offer(exchange.tries + 1, certain)
