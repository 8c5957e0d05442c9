"""A server with a buffer whose slots can be reserved for the tasks of a job that is placed whole."""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from servers.server import Server
from testbed.core.messages import (
    Assign,
    Commit,
    Dropped,
    Message,
    ReleaseSlots,
    ReserveSlots,
    SlotsRefused,
    SlotsReserved,
)


class SlotReservingServer(Server):
    """A server with slots that can be reserved. Only the task for which a slot is reserved can take it."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **Server.HANDLES,
        ReserveSlots: "on_reserve_slots",
        ReleaseSlots: "on_release_slots",
        Commit: "on_commit",
    }

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.reserved = 0  # slots

    def on_reserve_slots(self, request: ReserveSlots) -> None:
        """Reserve the slots if that many are free."""
        self._idle_reports.use(request.sender)
        if self.queue_length + self.reserved + request.slots <= self._buffer:
            self.reserved += request.slots
            self.env.send(SlotsReserved(request.sender, self.address, request.job))
        else:
            self.env.send(SlotsRefused(request.sender, self.address, request.job))
            self._report_if_idle()

    def on_release_slots(self, release: ReleaseSlots) -> None:
        """Free the slots."""
        self.reserved -= release.slots
        self._report_if_idle()

    def on_commit(self, task: Commit) -> None:
        """Take a task for which a slot is reserved."""
        self.reserved -= 1
        super().on_assign(task)

    @override
    def on_assign(self, task: Assign) -> None:
        if self.queue_length + self.reserved >= self._buffer:
            self._idle_reports.use(task.sender)
            self.env.send(Dropped(task.sender, self.address, task.job, task.task))
            self._report_if_idle()
        else:
            super().on_assign(task)

    def _report_if_idle(self) -> None:
        """Report again where the dispatcher that knew the server as idle could not use it."""
        if not self.queue_length:
            self._idle_reports.report()
