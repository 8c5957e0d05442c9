"""The table ``[expect]``: what a scenario that is a validation case must give."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

Share = Annotated[float, Meta(gt=-1)]


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What `testbed validate` holds the scenario to."""

    mean_response_time: Annotated[
        Annotated[float, Meta(gt=0)] | Literal["theory"],
        Meta(description='the true mean response time, in time units, or "theory": what the testbed predicts'),
    ] = "theory"
    within: Annotated[
        # A list: msgspec 0.23 crashes on a union of a bounded number and a pair.
        Annotated[float, Meta(ge=0)] | Annotated[list[Share], Meta(min_length=2, max_length=2)],
        Meta(
            description="how far the truth may be from that mean, as a fraction of it, beyond what chance explains: "
            "0.02, or from and to: [-0.05, 0.0] where the mean is known to be up to 5 % too high"
        ),
    ] = 0.0
    finite_n: Annotated[
        bool | Annotated[list[Annotated[int, Meta(ge=1)]], Meta(min_length=4)],
        Meta(
            description="whether that mean is a limit of many servers: the twin is run at several numbers of servers, "
            "and its limit is compared with the mean; or these numbers, at least four"
        ),
    ] = False
    verdict: Annotated[
        Literal["valid", "suspect", "any"], Meta(description="what the run on the cluster must say of itself")
    ] = "valid"
    on: Annotated[list[Literal["twin", "cluster"]], Meta(min_length=1, description="where the case is looked at")] = (
        msgspec.field(default_factory=lambda: ["twin", "cluster"])
    )

    @property
    def allowance(self) -> tuple[float, float]:
        """How far below and above its mean the truth may be, as fractions of it: (low, high), low <= high."""
        low, high = self.within if isinstance(self.within, list) else (-self.within, self.within)
        return low, high

    def problem(self) -> tuple[str, str] | None:
        """Return the key that is at fault beyond its own type, and what is wrong; None if none is."""
        low, high = self.allowance
        if low > high:
            return "within", f"must be from low to high, not from {low:g} to {high:g}"
        if len(set(self.on)) < len(self.on):
            return "on", "must name each place once"
        if not isinstance(self.finite_n, bool) and sorted(set(self.finite_n)) != self.finite_n:
            return "finite_n", "must be numbers of servers in increasing order"
        if self.finite_n and "twin" not in self.on:
            return "finite_n", 'needs the twin, which expect.on leaves out; add "twin" there'
        return None
