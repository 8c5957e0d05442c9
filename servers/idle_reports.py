"""Reports of idleness, for policies whose dispatchers keep lists of idle servers.

A report stands until its dispatcher uses it by placing a task. While one stands the server makes no other, so that at
most one dispatcher knows it as idle (Lu et al. 2011).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from testbed.core.agent import Environment
from testbed.core.messages import Idle


class IdleReports:
    """A server's reports. Each goes to one of its ``dispatchers``, chosen uniformly; with none, nothing is reported."""

    __slots__ = ("_address", "_choose", "_dispatchers", "_env", "standing")

    def __init__(self, env: Environment, address: int, dispatchers: Sequence[int]) -> None:
        self._env = env
        self._address = address
        self._choose: Callable[[int], int]
        self.direct_to(dispatchers)

    def direct_to(self, dispatchers: Sequence[int]) -> None:
        """Report to these dispatchers from now on; forget the report that stands."""
        self._dispatchers = dispatchers
        self.standing: int | None = None  # the dispatcher whose report stands
        if dispatchers:
            self._choose = self._env.stream(f"server/{self._address}/idle reports").integer

    def report(self) -> None:
        """Report that the server is idle, unless a report stands."""
        if self._dispatchers and self.standing is None:
            self.standing = self._dispatchers[self._choose(len(self._dispatchers))]
            self._env.send(Idle(self.standing, self._address))

    def use(self, dispatcher: int) -> None:
        """Note that the dispatcher has used the report that it has, if it has one."""
        if self.standing == dispatcher:
            self.standing = None
