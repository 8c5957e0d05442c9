"""A set of servers from which one is chosen uniformly at random, each operation in constant time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class ServerSet:
    """A list without gaps, and each member's position in it; removing moves the last member into the gap."""

    __slots__ = ("_members", "_positions")

    def __init__(self, servers: Iterable[int] = ()) -> None:
        self._members = list(servers)
        self._positions = {server: position for position, server in enumerate(self._members)}

    def __len__(self) -> int:
        return len(self._members)

    def __iter__(self) -> Iterator[int]:
        return iter(self._members)

    def add(self, server: int) -> None:
        """Add a server; does nothing when it is a member."""
        if server not in self._positions:
            self._positions[server] = len(self._members)
            self._members.append(server)

    def remove(self, server: int) -> None:
        """Remove a member; raises KeyError when it is none."""
        position = self._positions.pop(server)
        last = self._members.pop()
        if last != server:
            self._members[position] = last
            self._positions[last] = position

    def pick(self, draw: float) -> int:
        """Return a member, uniformly chosen when ``draw`` is uniform on [0, 1); raises IndexError when empty."""
        return self._members[int(draw * len(self._members))]
