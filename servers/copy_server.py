"""A server of copies: tasks of which others are on other servers, and which are cancelled when they are not needed.

Each copy that comes ends in exactly one message to its dispatcher, Done or Cancelled, whatever cancels it and however
often. That is all a dispatcher needs to know when it may forget a copy (dispatchers.copying).

A cancellation may come from the dispatcher, or directly from the server where a tied peer has started (Dean and Barroso
2013). It finds the copy in one of three states:

* queued or in service: the copy leaves at once, and if it was in service the next one starts;
* gone: there is nothing left to report;
* not yet here: the message of a peer's server has overtaken the dispatcher's. A dispatcher numbers its copies for a
  server, and they come in that order: a number above that of the last copy means "not yet here", any other number of a
  copy that is not here means "gone". The server keeps a note of the cancellation until the copy comes.

Two peers may start at the same time, each before the other's cancellation has come. Then the one with the lower number
among the job's copies goes on, and the other stops. (If the lower one had not started it would have been cancelled in
its queue; so of all peers that start, none stops the lowest.) When one is *done* its dispatcher cancels whatever is
left, and every copy obeys.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, ClassVar, NamedTuple

from typing_extensions import override

from servers.task_server import TaskServer
from testbed.core.agent import Timer
from testbed.core.messages import AssignCopy, CancelCopy, Cancelled, Message, Started
from testbed.core.outcomes import StateAtCancellation


class _Copy(NamedTuple):
    task: AssignCopy
    arrived: float
    position: int


class CopyServer(TaskServer[AssignCopy]):
    """Serves copies in the order of their arrival; the module's docstring explains cancellations."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **TaskServer.HANDLES,
        AssignCopy: "on_assign_copy",
        CancelCopy: "on_cancel_copy",
    }

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        #: Copies here by dispatcher and number, in the order of their arrival: the first is in service.
        self._copies: OrderedDict[tuple[int, int], _Copy] = OrderedDict()
        self._last_number: dict[int, int] = {}  # by dispatcher: of the last copy that has come from it
        self.cancelled_ahead: set[tuple[int, int]] = set()  # dispatcher and number of copies that are yet to come
        self._timer: Timer  # of the end of the service
        self._started: float  # when the service began

    def has(self, dispatcher: int, number: int) -> bool:
        """Return whether a copy is here, queued or in service."""
        return (dispatcher, number) in self._copies

    def on_assign_copy(self, task: AssignCopy) -> None:
        """Serve the copy now, queue it, or end it at once if it is cancelled already."""
        key = task.sender, task.number
        self._last_number[task.sender] = task.number
        self._idle_reports.use(task.sender)
        length = self.queue_length
        if key in self.cancelled_ahead:
            self.cancelled_ahead.remove(key)
            self._send_cancelled(task, StateAtCancellation.NOT_YET_ARRIVED, 0.0, 0.0)
            if not length:
                self._idle_reports.report()
            return
        self._copies[key] = _Copy(task, self.env.now, length + 1)
        self._set_queue_length(length + 1)
        if not length:
            self._serve_first()

    def _serve_first(self) -> None:
        """Begin to serve the copy that came first, report its start where asked for, and cancel its peers."""
        task, arrived, position = next(iter(self._copies.values()))
        now = self.env.now
        self._timer = self._clock.start(task, now - arrived, position, now)
        self._started = now
        send = self.env.send
        if task.reports_start:
            send(Started(task.sender, self.address, task.job, task.copy))
        for peer in task.peers:
            send(CancelCopy(peer.server, self.address, task.sender, task.job, peer.copy, peer.number, task.copy))

    @override
    def on_finish(self) -> None:
        _, copy = self._copies.popitem(last=False)
        self._send_done(copy.task.copy)
        self._lose_one(in_service=True)

    def on_cancel_copy(self, cancel: CancelCopy) -> None:
        """End a copy, unless it has gone, or has started and has a lower number than the peer that cancels it."""
        key = cancel.dispatcher, cancel.number
        if cancel.number > self._last_number.get(cancel.dispatcher, 0):
            self.cancelled_ahead.add(key)
            return
        copy = self._copies.get(key)
        if copy is None:
            return
        in_service = copy.task is self._clock.task
        if not in_service:
            self._send_cancelled(copy.task, StateAtCancellation.QUEUED, self.env.now - copy.arrived, 0.0)
        elif cancel.by > cancel.copy:
            return
        else:
            self._timer.cancel()
            received = self.env.now - self._started
            self._send_cancelled(copy.task, StateAtCancellation.IN_SERVICE, self._clock.wait, received)
        del self._copies[key]
        self._lose_one(in_service)

    def _send_cancelled(self, task: AssignCopy, state: StateAtCancellation, wait: float, received: float) -> None:
        self.env.send(Cancelled(task.sender, self.address, task.job, task.copy, state, wait, received))

    def _lose_one(self, in_service: bool) -> None:
        """Note that a copy has left; serve the next one if it was in service."""
        self._set_queue_length(self.queue_length - 1)
        if not self.queue_length:
            self._idle_reports.report()
        elif in_service:
            self._serve_first()
