"""The common part of all servers on which dispatchers place tasks, whatever their queue."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar, Generic, Protocol

from typing_extensions import override

from servers.idle_reports import IdleReports
from servers.service_clock import ServiceClock, Task
from testbed.core.agent import Agent, Environment
from testbed.core.messages import Done, Message, PeerDown, Probe, ProbeReply


class QueueLengthMeter(Protocol):
    """Where a server reports changes of its queue length (testbed.core.records.Occupancy)."""

    def change(self, old: int, new: int, now: float, /) -> None:
        """Note that a queue length goes from ``old`` to ``new`` at time ``now``."""


class TaskServer(Agent, Generic[Task]):
    """Has a service clock, answers probes, reports idleness, and notifies dispatchers of servers that are down.

    ``speeds[k]`` is the speed for type-k tasks. ``idle_report_to`` lists the dispatchers that idleness is reported to;
    empty where the policy needs no reports. ``dispatchers`` are notified when the server finds others down.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {Probe: "on_probe"}

    def __init__(
        self,
        env: Environment,
        address: int,
        *,
        speeds: Sequence[float],
        meter: QueueLengthMeter,
        idle_report_to: Sequence[int] = (),
        dispatchers: Sequence[int] = (),
    ) -> None:
        super().__init__(env, address)
        self.queue_length = 0  # tasks at the server, the one in service included
        self.probes_idle = 0  # probes answered that found the server idle
        self.probes_busy = 0
        self._clock: ServiceClock[Task] = ServiceClock(env, speeds, self.on_finish)
        self._idle_reports = IdleReports(env, address, idle_report_to)
        self._meter = meter
        self._dispatchers = dispatchers

    @override
    def start(self) -> None:
        self._idle_reports.report()

    @override
    def on_down(self, first: int, last: int) -> None:
        for dispatcher in self._dispatchers:
            self.env.send(PeerDown(dispatcher, self.address, first, last))

    def report_idle_to(self, dispatchers: Sequence[int]) -> None:
        """Report idleness to these dispatchers from now on; to none if there are none."""
        self._idle_reports.direct_to(dispatchers)
        if not self.queue_length:
            self._idle_reports.report()

    def on_probe(self, probe: Probe) -> None:
        """Answer with the queue length."""
        if self.queue_length:
            self.probes_busy += 1
        else:
            self.probes_idle += 1
        self.env.send(ProbeReply(probe.sender, self.address, probe.job, self.queue_length, probe.round))

    def _set_queue_length(self, length: int) -> None:
        self._meter.change(self.queue_length, length, self.env.now)
        self.queue_length = length

    def _send_done(self, number: int) -> None:
        """Report the task whose service ends, which is number ``number`` of its job."""
        clock, lateness = self._clock, self.env.lateness
        task = clock.task
        self.env.send(
            Done(task.sender, self.address, task.job, number, clock.wait, clock.service, clock.position, lateness)
        )

    @abstractmethod
    def on_finish(self) -> None:
        """Report the task whose service ends, and serve the next one from this instant on."""
