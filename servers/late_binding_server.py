"""A server whose queue holds reservations instead of tasks, for policies that bind tasks late.

When a reservation reaches the head of the queue the server asks its dispatcher for a task and waits for the answer: a
task, which it serves, or a cancellation, upon which it asks for the task of the next reservation. Only the task in
service counts as queue length; a server that waits for an answer is idle.
"""

from __future__ import annotations

from collections import deque
from typing import Any, ClassVar

from typing_extensions import override

from servers.task_server import TaskServer
from testbed.core.messages import Assign, Cancel, Fetch, Message, Reserve


class _Reservation:
    __slots__ = ("arrived", "position", "reserve")

    def __init__(self, reserve: Reserve, arrived: float, position: int) -> None:
        self.reserve = reserve
        self.arrived = arrived
        self.position = position

    def is_meant_by(self, cancel: Cancel) -> bool:
        return self.reserve.number == cancel.number and self.reserve.sender == cancel.sender


class LateBindingServer(TaskServer[Assign]):
    """A server with a queue of reservations. A task's waiting time runs from the arrival of its reservation."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **TaskServer.HANDLES,
        Assign: "on_assign",
        Reserve: "on_reserve",
        Cancel: "on_cancel",
    }

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._reservations: deque[_Reservation] = deque()
        self._asked_for: _Reservation | None = None

    def on_reserve(self, reserve: Reserve) -> None:
        """Queue the reservation; ask for its task at once when nothing is before it."""
        before = self.queue_length + (self._asked_for is not None) + len(self._reservations)
        self._reservations.append(_Reservation(reserve, self.env.now, before + 1))
        if not before:
            self._ask()

    def _ask(self) -> None:
        """Ask for the task of the next reservation."""
        if self._reservations:
            reservation = self._asked_for = self._reservations.popleft()
            reserve = reservation.reserve
            self.env.send(Fetch(reserve.sender, self.address, reserve.job, reserve.number))

    def on_assign(self, task: Assign) -> None:
        """Serve the task that was asked for."""
        reservation, self._asked_for = self._asked_for, None
        assert reservation is not None, "a task comes only in answer to a Fetch"
        now = self.env.now
        self._set_queue_length(1)
        self._clock.start(task, now - reservation.arrived, reservation.position, now)

    @override
    def on_finish(self) -> None:
        self._send_done(self._clock.task.task)
        self._set_queue_length(0)
        self._ask()

    def on_cancel(self, cancel: Cancel) -> None:
        """Strike a reservation, which may be the one whose task has just been asked for."""
        asked = self._asked_for
        if asked is not None and asked.is_meant_by(cancel):
            self._asked_for = None
            self._ask()
            return
        for reservation in self._reservations:
            if reservation.is_meant_by(cancel):
                self._reservations.remove(reservation)
                return
