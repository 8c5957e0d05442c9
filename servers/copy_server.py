"""A server of copies: tasks of which others are on other servers, and which are cancelled when they are not wanted.

Each copy that comes ends in one word to its dispatcher, Done or Cancelled, whatever cancels it and however often. That
is all a dispatcher needs to know when it may forget a copy (dispatchers.copying).

A cancellation may come from the dispatcher, or directly from the server where a tied peer has started (Dean and Barroso
2013), and finds the copy

* queued or in service: it leaves at once, and if it was in service the next one starts;
* gone: nothing is left to say;
* not yet here: what a peer's server says has overtaken what the dispatcher says. The dispatcher's copies for a server
  are numbered and come in that order, so that this is told from "gone" by the number of the last one. A note is kept
  until the copy comes.

Two peers may start at the same time, each before the other's cancellation has come. Then the one with the lower number
among the job's copies goes on, and the other obeys. (If the lower had not started it would have been cancelled in its
queue: so of all peers that start, the lowest is stopped by none of them.) When one is *done* its dispatcher cancels
whatever is left, which every copy obeys.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar

from servers.server import Server
from testbed.core.agent import Timer
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Done, Message, Probe, Started
from testbed.core.outcomes import StateAtCancellation


class _Copy:
    """A copy at this server."""

    __slots__ = ("arrived", "position", "started", "task")

    def __init__(self, task: AssignCopy, arrived: float, position: int) -> None:
        self.task = task
        self.arrived = arrived
        self.position = position
        self.started: float | None = None


class CopyServer(Server):
    """Serves copies in the order of their arrival; see the module's text for cancellations."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        AssignCopy: "on_assign_copy",
        CancelCopy: "on_cancel_copy",
        Probe: "on_probe",
    }

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        #: Copies here by dispatcher and number, in the order of their arrival: the first is in service.
        self._copies: OrderedDict[tuple[int, int], _Copy] = OrderedDict()
        self._last_number: dict[int, int] = {}  # by dispatcher: of the last copy that has come from it
        self.cancelled_ahead: set[tuple[int, int]] = set()  # dispatcher and number of copies that are yet to come
        self._timer: Timer

    def has(self, dispatcher: int, number: int) -> bool:
        """Whether a copy is here, queued or in service."""
        return (dispatcher, number) in self._copies

    def on_assign_copy(self, task: AssignCopy) -> None:
        """Serve the copy now, queue it, or let it end at once if it is cancelled already."""
        now = self.env.now
        key = task.sender, task.number
        self._last_number[task.sender] = task.number
        if task.sender == self._reported_to:
            self._reported_to = None
        length = self.queue_length
        if key in self.cancelled_ahead:
            self.cancelled_ahead.remove(key)
            self.env.send(
                Cancelled(task.sender, self.address, task.job, task.copy, StateAtCancellation.NOT_YET_ARRIVED, 0.0, 0.0)
            )
            if not length:
                self._report_idle()
            return
        self._copies[key] = _Copy(task, now, length + 1)
        self.queue_length = length + 1
        self._meter.change(length, length + 1, now)
        if not length:
            self._serve_first(now)

    def _serve_first(self, now: float) -> None:
        """Begin to serve the copy that came first, and tell whoever must know."""
        copy = next(iter(self._copies.values()))
        copy.started = now
        task = copy.task
        self._service = task.size * self._slownesses[task.job_type]
        self._timer = self.env.call_at(now + self._service, self._finish)
        send = self.env.send
        if task.reports_start:
            send(Started(task.sender, self.address, task.job, task.copy))
        for peer in task.peers:
            send(CancelCopy(peer.server, self.address, task.sender, task.job, peer.copy, peer.number, task.copy))

    def on_finish(self) -> None:
        """Report the finished copy and serve the next one from this instant on."""
        _, copy = self._copies.popitem(last=False)
        assert copy.started is not None
        task = copy.task
        wait = copy.started - copy.arrived
        env = self.env
        env.send(Done(task.sender, self.address, task.job, task.copy, wait, self._service, copy.position, env.lateness))
        self._left(serve_next=True)

    def on_cancel_copy(self, cancel: CancelCopy) -> None:
        """End a copy, unless it has gone, or has started and comes before the peer that says so."""
        key = cancel.dispatcher, cancel.number
        if cancel.number > self._last_number.get(cancel.dispatcher, 0):
            self.cancelled_ahead.add(key)
            return
        copy = self._copies.get(key)
        if copy is None:
            return
        now = self.env.now
        started = copy.started
        if started is None:
            state, wait, received = StateAtCancellation.QUEUED, now - copy.arrived, 0.0
        elif cancel.by > cancel.copy:
            return
        else:
            state, wait, received = StateAtCancellation.IN_SERVICE, started - copy.arrived, now - started
            self._timer.cancel()
        del self._copies[key]
        self.env.send(Cancelled(cancel.dispatcher, self.address, cancel.job, cancel.copy, state, wait, received))
        self._left(serve_next=started is not None)

    def _left(self, serve_next: bool) -> None:
        """Note that a copy has left; the next one is to be served if it was in service."""
        now = self.env.now
        length = self.queue_length
        self.queue_length = length - 1
        self._meter.change(length, length - 1, now)
        if length == 1:
            self._become_idle()
        elif serve_next:
            self._serve_first(now)
