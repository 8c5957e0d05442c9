"""Where in a cluster the servers of a pool are, as scenarios, agents and runtimes speak of it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlacedPool:
    """A pool, and its place in the cluster."""

    name: str
    index: int  # in the scenario
    first: int  # address of its first server
    servers: int
    central: bool  # whether it has one queue for all its servers
