"""What the checks of a verdict are made of: the scenario's own numbers, and a finding with its limit."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.measure.copies import NominalPool

Array = npt.NDArray[np.float64]
Columns = Mapping[str, npt.NDArray[Any]]
Window = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Nominal:
    """What the scenario asked for.

    ``rate``: jobs per time unit of the whole cluster. ``load``: expected service time that arrives per server and time
    unit, None where it depends on the policy (speeds differ, jobs move or are copied). ``work_scv``: squared
    coefficient of variation of the service time of all tasks of a job together; it may be infinite, and is where it
    depends on the policy. ``probes_per_task``: what the policy means to send. ``gap_cdf``: distribution function of the
    gaps between arrivals of the whole cluster, None unless they are independent with a continuous law.
    ``arrival_dispersion``: limit of the variance over the mean of the number of arrivals in a long time (the gaps' SCV
    if they are independent), None if unknown. ``message_delay``: mean delay that the scenario itself adds to each
    message. ``stable``: whether the load is below the policy's stability bound (testbed.theory.stable_load).
    ``relaxation_time``: time units in which the queues forget how they began (testbed.theory.relaxation), None if
    unknown. ``pools``: only where jobs have records of copies.
    """

    servers: int
    rate: float
    load: float | None
    work_scv: float
    gap_cdf: Callable[[Array], Array] | None
    arrival_dispersion: float | None
    message_delay: float
    stable: bool
    relaxation_time: float | None
    probes_per_task: float | None = None
    pools: Sequence[NominalPool] = ()


class Check(msgspec.Struct, frozen=True, kw_only=True):
    """One check: its figure, the limit it was held to, and a sentence that says what was found, and if it failed, what
    would help.
    """

    name: str
    figure: str
    limit: str
    passed: bool
    explanation: str


def checked(name: str, figure: str, limit: str, passed: bool, finding: str, remedy: str) -> Check:
    """Return a check that was made; its explanation is the finding, and the remedy if it failed."""
    explanation = finding if passed else f"{finding}: {remedy}"
    return Check(name=name, figure=figure, limit=limit, passed=bool(passed), explanation=explanation)


def deaths(incidents: Sequence[str]) -> Check:
    """Return the check that fails since processes have died, after which the run went on."""
    return checked(
        "run ended as planned",
        f"{len(incidents)} {'process' if len(incidents) == 1 else 'processes'} died",
        "yes",
        False,
        "; ".join(incidents),
        "what is shown is not of the cluster that the scenario describes, but every job is accounted for",
    )


def not_tested(name: str, why: str) -> Check:
    """Return a check that could not be made, which passes and says why."""
    return Check(name=name, figure="not tested", limit="", passed=True, explanation=f"not tested: {why}")


def percent(share: float) -> str:
    """Write a share as a percentage of two digits or more, "0.43 %"; NaN is "unknown"."""
    if math.isnan(share):
        return "unknown"
    return f"{100 * share:.2g} %" if abs(share) < 0.1 else f"{100 * share:.0f} %"
