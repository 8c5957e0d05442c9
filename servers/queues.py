"""Queue disciplines: the order in which a server takes its waiting tasks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Discipline(Protocol[T]):
    """A server's waiting line. The task in service is not in it."""

    def push(self, task: T, /) -> None:
        """Add a task that must wait."""

    def pop(self) -> T:
        """Remove and return the task to serve next; raises IndexError when the line is empty."""

    def pop_newest(self) -> T:
        """Remove and return the task that came last; raises IndexError when the line is empty."""

    def remove(self, task: T, /) -> None:
        """Remove a task; raises ValueError when it does not wait here."""

    def __iter__(self) -> Iterator[T]: ...

    def __len__(self) -> int: ...


class FirstComeFirstServed(deque[T]):
    """Tasks are served in the order of their arrival at the server."""

    __slots__ = ()

    push = deque.append
    pop = deque.popleft
    pop_newest = deque.pop
