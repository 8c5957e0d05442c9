"""The parts of a verdict: the scenario's nominal values, and checks that compare a figure with its limit."""

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
    """The nominal values of a scenario.

    ``rate``: jobs per time unit of the whole cluster. ``load``: expected service time that arrives per server and time
    unit, None where it depends on the policy (speeds differ, jobs move or are copied). ``work_scv``: squared
    coefficient of variation of the service time of all tasks of a job together; it may be infinite, and is where it
    depends on the policy. ``probes_per_task``: the policy's nominal number of probes. ``gap_cdf``: distribution
    function of the gaps between arrivals of the whole cluster, None unless they are independent and continuous.
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
    """One check: its figure, the limit for it, and the finding in a sentence, with a remedy if it failed."""

    name: str
    figure: str
    limit: str
    passed: bool
    explanation: str


def checked(name: str, figure: str, limit: str, passed: bool, finding: str, remedy: str) -> Check:
    """Return a check that was made. Its explanation is the finding, and the remedy if it failed."""
    explanation = finding if passed else f"{finding}: {remedy}"
    return Check(name=name, figure=figure, limit=limit, passed=bool(passed), explanation=explanation)


def deaths(incidents: Sequence[str]) -> Check:
    """Return the check that fails because processes have died, although the run continued."""
    return checked(
        "run ended as planned",
        f"{len(incidents)} {'process' if len(incidents) == 1 else 'processes'} died",
        "yes",
        False,
        "; ".join(incidents),
        "the results are not those of the cluster that the scenario describes, but every job is accounted for",
    )


def not_tested(name: str, why: str) -> Check:
    """Return a check that could not be made, which passes and explains why."""
    return Check(name=name, figure="not tested", limit="", passed=True, explanation=f"not tested: {why}")


def percent(fraction: float) -> str:
    """Write a fraction as a percentage of two digits or more, "0.43 %"; NaN is "unknown"."""
    if math.isnan(fraction):
        return "unknown"
    return f"{100 * fraction:.2g} %" if abs(fraction) < 0.1 else f"{100 * fraction:.0f} %"
