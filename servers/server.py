"""The server agent: one queue, first come first served, and one task in service at a time.

With a buffer of b tasks, the one in service included, the server drops a task that finds b tasks.
"""

from __future__ import annotations

from typing import Any, ClassVar

from typing_extensions import override

from servers.balancer import Balancer
from servers.queues import FirstComeFirstServed, Waiting
from servers.task_server import TaskServer
from testbed.core.messages import Assign, Done, Dropped, Message, MovedTask


class Server(TaskServer[Assign]):
    """Serves tasks in the order of their arrival; a balancer may move tasks that wait from and to it."""

    HANDLES: ClassVar[dict[type[Message], str]] = {**TaskServer.HANDLES, Assign: "on_assign"}

    def __init__(self, *arguments: Any, buffer: int | None = None, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self._waiting = FirstComeFirstServed()
        self._buffer = buffer if buffer is not None else float("inf")
        self._balancer: Balancer | None = None

    @override
    def start(self) -> None:
        self._become_idle()

    def attach(self, balancer: Balancer) -> None:
        """Let ``balancer`` move waiting tasks from and to this server."""
        self._balancer = balancer

    @override
    def on_down(self, first: int, last: int) -> None:
        if self._balancer is not None:
            self._balancer.on_down(first, last)
        super().on_down(first, last)

    @override
    def on_up(self, first: int, last: int) -> None:
        if self._balancer is not None:
            self._balancer.on_up(first, last)

    def on_assign(self, task: Assign) -> None:
        """Serve the task now, queue it, or drop it when the buffer is full."""
        env = self.env
        now = env.now
        length = self.queue_length
        reports = self._idle_reports
        if reports.standing == task.sender:
            reports.standing = None
        if length == 0:
            self._clock.start(task, 0.0, 1, now)
        elif length >= self._buffer and type(task) is Assign:  # a Commit has a slot reserved
            env.send(Dropped(task.sender, self.address, task.job, task.task))
            return
        else:
            self._waiting.push((now, 0.0, task, length + 1))
        self.queue_length = length + 1
        self._meter.change(length, length + 1, now)
        if self._balancer is not None:
            self._balancer.on_arrival(length, task.job, task.task)

    @override
    def on_finish(self) -> None:
        env = self.env
        now = env.now
        clock = self._clock
        task = clock.task
        address = self.address
        env.send(
            Done(task.sender, address, task.job, task.task, clock.wait, clock.service, clock.position, env.lateness)
        )
        length = self.queue_length
        self.queue_length = length - 1
        self._meter.change(length, length - 1, now)
        if length > 1:
            arrived, waited, task, position = self._waiting.pop_next()
            clock.start(task, now - arrived + waited, position, now)
            if length == 2 and self._balancer is not None:
                self._balancer.on_none_waiting()
        else:
            self._become_idle()

    def _become_idle(self) -> None:
        self._idle_reports.report()
        if self._balancer is not None:
            self._balancer.on_idle()

    # --- moving waiting tasks ---

    def release(self, newest: bool) -> MovedTask:
        """Give up a waiting task, the newest or the oldest. Raises IndexError when none waits."""
        return self._released(self._waiting.pop_newest() if newest else self._waiting.pop_next())

    def release_task(self, job: int, task: int) -> MovedTask | None:
        """Give up a certain task, or return None when it does not wait here any more."""
        entry = self._waiting.find(job, task)
        if entry is None:
            return None
        self._waiting.remove(entry)
        return self._released(entry)

    def is_waiting(self, job: int, task: int) -> bool:
        """Return whether a certain task waits here."""
        return self._waiting.find(job, task) is not None

    def _released(self, entry: Waiting) -> MovedTask:
        now = self.env.now
        arrived, waited, task, _ = entry
        length = self.queue_length
        self.queue_length = length - 1
        self._meter.change(length, length - 1, now)
        moves = task.moves + 1
        return MovedTask(task.sender, task.job, task.task, task.job_type, task.size, now - arrived + waited, moves)

    def take(self, moved: MovedTask) -> None:
        """Own a task that has come from another server, where it waited ``moved.waited``; also above the buffer."""
        now = self.env.now
        task = Assign(self.address, moved.dispatcher, moved.job, moved.task, moved.job_type, moved.size, moved.moves)
        length = self.queue_length
        if length == 0:
            self._clock.start(task, moved.waited, 1, now)
        else:
            self._waiting.push((now, moved.waited, task, length + 1))
        self.queue_length = length + 1
        self._meter.change(length, length + 1, now)
        if self._balancer is not None:
            self._balancer.on_arrival(length, task.job, task.task)
