"""The clock that serves tasks, one at a time.

Deadlines chain: the environment's ``now`` is the time at which the service that ends was due, so that the next service,
which starts from ``now``, loses nothing when the process wakes up late.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from testbed.core.agent import Environment, Timer
from testbed.core.messages import Assign, AssignCopy

Task = TypeVar("Task", Assign, AssignCopy)


class ServiceClock(Generic[Task]):
    """The task in service, and the timer of its end. Attributes other than the methods describe the latest service.

    A task of size x and type k is served for x / ``speeds[k]`` time units; then ``on_end()`` is called.
    """

    __slots__ = ("_env", "_on_end", "_slownesses", "_timer", "position", "service", "started", "task", "wait")

    def __init__(self, env: Environment, speeds: Sequence[float], on_end: Callable[[], object]) -> None:
        self._env = env
        self._slownesses = [1.0 / speed for speed in speeds]
        self._on_end = on_end
        self._timer: Timer
        self.task: Task
        self.wait: float  # how long the task has waited before
        self.position: int  # its place in the queue when it came; 1 is the head
        self.started: float
        self.service: float  # time that its whole service takes

    def start(self, task: Task, wait: float, position: int, now: float) -> None:
        """Serve ``task`` from ``now`` on."""
        self.task = task
        self.wait = wait
        self.position = position
        self.started = now
        self.service = service = task.size * self._slownesses[task.job_type]
        self._timer = self._env.call_at(now + service, self._on_end)

    def stop(self) -> float:
        """Break the service off, and return how long it has lasted."""
        self._timer.cancel()
        return self._env.now - self.started
