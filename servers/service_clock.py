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
    """The task in service, and the timer of its end. The attributes describe the latest service.

    A task of size x and type k is served for x / ``speeds[k]`` time units; then ``on_end()`` is called.
    """

    __slots__ = ("_env", "_on_end", "_slownesses", "position", "service", "task", "wait")

    def __init__(self, env: Environment, speeds: Sequence[float], on_end: Callable[[], object]) -> None:
        self._env = env
        self._slownesses = [1.0 / speed for speed in speeds]
        self._on_end = on_end
        self.task: Task
        self.wait: float  # how long the task has waited before
        self.position: int  # its place in the queue when it came; 1 is the head
        self.service: float  # time that its whole service takes

    def start(self, task: Task, wait: float, position: int, now: float) -> Timer:
        """Serve ``task`` from ``now`` on, and return the timer of its end."""
        self.task = task
        self.wait = wait
        self.position = position
        self.service = service = task.size * self._slownesses[task.job_type]
        return self._env.call_at(now + service, self._on_end)
