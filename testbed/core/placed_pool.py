"""Where the servers of a pool are in the cluster."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedPool:
    """A pool and the addresses of its servers."""

    name: str
    index: int  # in the scenario
    first: int  # address of its first server
    servers: int
    central: bool  # whether it has one queue for all its servers
