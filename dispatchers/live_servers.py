"""Which servers are up, as far as a dispatcher knows, and which of them to use instead of one that is down."""

from __future__ import annotations

from collections.abc import Set

from dispatchers.jobs import Jobs


class LiveServers:
    """The servers with queues of their own that are up.

    Jobs for the servers of a central queue are admitted by the pool agent, which handles their failures itself.
    """

    def __init__(self, jobs: Jobs) -> None:
        own = [pool for pool in jobs.pools if not pool.central]
        self._with_queues = {server for pool in own for server in range(pool.first, pool.first + pool.servers)}
        self._live = sorted(self._with_queues)
        self._rng = jobs.stream("recovery")
        #: Servers that are down, or up again while tasks that died with them are still to be placed again.
        self.down: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._live)

    @property
    def addresses(self) -> frozenset[int]:
        """The servers that are up."""
        return frozenset(self._live)

    def on_down(self, first: int, last: int) -> None:
        """Stop using servers ``first`` to ``last``."""
        down = range(first, last + 1)
        self.down.update(down)
        self._live = [server for server in self._live if server not in down]

    def use_again(self, servers: Set[int]) -> None:
        """Choose these servers again."""
        self._live = sorted({*self._live, *(servers & self._with_queues)})

    def instead_of(self, server: int) -> int:
        """Return the server itself if it is up, else one that is, uniformly chosen."""
        if server not in self.down or not self._live:
            return server
        return self._live[self._rng.integer(len(self._live))]

    def apart_from(self, server: int, taken: Set[int]) -> int | None:
        """Return the server itself if it is up and not ``taken``, else one that is, uniformly chosen, or None.

        With no server up it is the server itself, or none if that is taken.
        """
        while server in taken or server in self.down:
            if len(self._live) <= sum(other not in self.down for other in taken):
                return server if not self._live and server not in taken else None
            server = self._live[self._rng.integer(len(self._live))]
        return server
