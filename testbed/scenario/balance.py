"""The table ``[balance]``: how servers move waiting tasks among themselves."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta


class Balance(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How servers move waiting tasks among themselves: at a rate, or (``max_probes``) the traditional way."""

    policy: Annotated[
        Literal["stealing", "sharing", "hybrid"],
        Meta(
            description='"stealing": idle servers ask others for waiting tasks; "sharing": servers with waiting tasks '
            'ask for idle ones; "hybrid": both'
        ),
    ]
    probe_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="probes per time unit of a server while it is idle (sharing: while tasks wait)"),
    ] = None
    sharing_probe_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(description="of a hybrid: its rate of sharing; probe_rate is that of stealing"),
    ] = None
    overall_probe_rate: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="probes per server and time unit, averaged over time: probe_rate is computed from it, unless "
            "both are given"
        ),
    ] = None
    calibration: Annotated[
        Literal["twin", "mean-field"],
        Meta(description="how overall_probe_rate becomes probe_rate: by runs of the twin, or in the mean field limit"),
    ] = "twin"
    max_probes: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(
            description="traditional: at most this many probes, one after another, when a server becomes idle "
            "(sharing: when a task finds its server busy)"
        ),
    ] = None
    moves: Annotated[Literal["newest", "oldest"], Meta(description="which waiting task moves first")] = "newest"
    steal: Annotated[
        Literal["one", "half"], Meta(description="how many waiting tasks a thief gets; half is rounded up")
    ] = "one"
    victim_choices: Annotated[
        int,
        Meta(
            ge=1, description="a thief asks this many servers for their queue length and steals from the longest queue"
        ),
    ] = 1
