"""The queues in which tasks wait at servers."""

from __future__ import annotations

from collections import deque

from testbed.core.messages import Assign

#: A task that waits: when it came here, how long it had waited elsewhere before, the task, its position when it came.
Waiting = tuple[float, float, Assign, int]


class FirstComeFirstServed(deque[Waiting]):
    """Tasks are served in the order of their arrival at the server. The task in service is not in the queue.

    The ``pop`` methods raise IndexError when no task waits.
    """

    __slots__ = ()

    push = deque.append
    pop_next = deque.popleft
    pop_newest = deque.pop

    def find(self, job: int, task: int) -> Waiting | None:
        """Return the entry of a certain task, or None when it does not wait here."""
        return next((entry for entry in self if entry[2].job == job and entry[2].task == task), None)
