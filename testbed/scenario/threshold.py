"""The table ``[threshold]``: when a job in a pool's central queue leaves for another pool, or is replicated there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

MOST_POOLS = 8  # with central queues: a job has a size in each of them
MOST_HOPS = 8

# TOML's own inf would be refused, like everywhere in a scenario.
Tau = Annotated[float, Meta(ge=0)] | Literal["inf"]


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """When a job leaves its pool for another, or is replicated there; all pools have central queues."""

    action: Annotated[
        Literal["reroute", "replicate"],
        Meta(
            description='at the threshold "reroute": service stops and the job starts afresh in another pool; '
            '"replicate": it goes on, and a copy starts in another pool at the same time; the first to finish cancels '
            "the other"
        ),
    ]
    tau: Annotated[
        Tau | Literal["rational"] | dict[str, Tau | Annotated[list[Tau], Meta(min_length=1)]],
        Meta(
            description='received processing time at which a job moves; "inf": never; a table: one for each pool; or '
            'for each pool a list for the jobs that started there, visit by visit; "rational": right after a possible '
            'completion time, for two pools and knows = "sizes"'
        ),
    ]
    hops: Annotated[int, Meta(ge=1, le=MOST_HOPS, description="most reroutings of a job")] = 1
    target: Annotated[
        Literal["cyclic", "random"],
        Meta(description='where to: the next pool, or a "random" one that the job has not been in'),
    ] = "cyclic"
    carry_over: Annotated[
        bool, Meta(description="whether the work done in the first pool counts in the second; one hop only")
    ] = False

    @property
    def rational(self) -> bool:
        """Whether each job brings thresholds of its own, computed from its known sizes."""
        return self.tau == "rational"

    def by_pool(self, pools: Sequence[str]) -> list[float]:
        """Return the threshold of a job in each of ``pools``, on whichever visit, in time units of processing.

        ``inf`` where it stays. Empty where thresholds are given by visit; all ``inf`` where they are rational, for jobs
        that bring none. Raises ValueError, saying what would be right, when ``tau`` lacks a threshold.
        """
        by_name = self._by_name(pools)
        return [float(tau) for tau in by_name if not isinstance(tau, list)]

    def by_visit(self, pools: Sequence[str]) -> list[list[float]]:
        """Return the thresholds of a job that started in each of ``pools``, ``hops`` of them; empty if by pool alone.

        Raises ValueError like ``by_pool``.
        """
        return [[float(visit) for visit in tau] for tau in self._by_name(pools) if isinstance(tau, list)]

    def _by_name(self, pools: Sequence[str]) -> Sequence[Tau | list[Tau]]:
        """Return ``tau`` for each pool: all numbers, or all lists."""
        tau = self.tau
        if not isinstance(tau, Mapping):
            return [math.inf if tau == "rational" else tau] * len(pools)
        if set(tau) != set(pools):
            raise ValueError(f"must have a threshold for each pool, {', '.join(pools)}, and has {', '.join(tau)}")
        lists = [visits for visits in tau.values() if isinstance(visits, list)]
        if lists and len(lists) < len(tau):
            raise ValueError("must have a threshold for each pool, or a list for each, not both")
        if any(len(visits) != self.hops for visits in lists):
            raise ValueError(f'a list must have threshold.hops = {self.hops} thresholds; fill up with "inf"')
        return [tau[pool] for pool in pools]
