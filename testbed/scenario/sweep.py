"""The table ``[sweep]`` of a scenario."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta


class Sweep(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The points of ``testbed sweep``: the scenario and its variants under each combination of the settings below."""

    grid: Annotated[
        dict[str, Annotated[list[Any], Meta(min_length=1)]],
        Meta(
            description="dotted keys in quotes, each with the values that it takes; every combination is a point: "
            '{ "workload.load" = [0.5, 0.9], "cluster.pools.main.servers" = [10, 100] }'
        ),
    ] = {}
    points: Annotated[
        list[dict[str, Any]],
        Meta(
            description="settings that belong together, as dotted keys in quotes and their values; with a grid, each "
            "is combined with every point of the grid"
        ),
    ] = []
