"""A server with a buffer whose slots can be reserved for the tasks of a job that is placed whole."""

from __future__ import annotations

from typing import Any, ClassVar

from servers.server import Server
from testbed.core.messages import Assign, Commit, Dropped, Full, Held, Hold, Message, Release


class HoldingServer(Server):
    """A server that holds places. A held place counts as taken for everyone but the task that it is held for."""

    HANDLES: ClassVar[dict[type[Message], str]] = {
        **Server.HANDLES,
        Hold: "on_hold",
        Release: "on_release",
        Commit: "on_commit",
    }

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.held = 0  # places

    def on_hold(self, hold: Hold) -> None:
        """Hold the places if there are that many."""
        self._use_report(hold.sender)
        if self.queue_length + self.held + hold.places <= self._buffer:
            self.held += hold.places
            self.env.send(Held(hold.sender, self.address, hold.job))
        else:
            self.env.send(Full(hold.sender, self.address, hold.job))
            self._report_if_idle()

    def on_release(self, release: Release) -> None:
        """Free the places."""
        self.held -= release.places
        self._report_if_idle()

    def on_commit(self, task: Commit) -> None:
        """Take a task for which a place is held."""
        self.held -= 1
        super().on_assign(task)

    def on_assign(self, task: Assign) -> None:
        """Take a task that comes by itself, or drop it when all places are taken or held."""
        if self.queue_length + self.held >= self._buffer:
            self._use_report(task.sender)
            self.env.send(Dropped(task.sender, self.address, task.job, task.task))
            self._report_if_idle()
        else:
            super().on_assign(task)

    def _use_report(self, dispatcher: int) -> None:
        if self._reported_to == dispatcher:
            self._reported_to = None

    def _report_if_idle(self) -> None:
        """Report again where the dispatcher that knew the server as idle could not use it."""
        if not self.queue_length:
            self._report_idle()
