"""Checks that a run measured a steady state: that there is one, and that the run was long enough to reach it."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.measure.statistics import number_over
from testbed.measure.trend import trend
from testbed.measure.verdict_checks import Check, Columns, Nominal, Window, checked, not_tested

RELAXATION_TIMES: Final = 2  # that warm-up and duration must last
INTERVALS: Final = 40  # of the window, which give the dispersion of the arrivals where it is not known


def below_bound(nominal: Nominal) -> Check:
    """Check that the scenario has a steady state at all."""
    load = "the load" if nominal.load is None else f"the load {nominal.load:.4g}"
    return checked(
        "load below the stability bound",
        "yes" if nominal.stable else "no",
        "yes",
        nominal.stable,
        f"{load} is below the policy's stability bound"
        if nominal.stable
        else f"{load} is not below the policy's stability bound: there is no steady state, and the results depend on "
        "the length of the run",
        "use a lower load, or servers with finite buffers",
    )


def run_length(nominal: Nominal, reached: float) -> Check:
    """Check that warm-up and duration, until the time ``reached``, are long compared with the queues' memory.

    The queues begin empty. A run that is shorter than their relaxation time ends before they have filled up. Its own
    measurements can't show that: the number in system looks as steady as a random walk does.
    """
    name = "run length"
    relaxation = nominal.relaxation_time
    if relaxation is None:
        return not_tested(name, "the relaxation time of such queues is not known")
    least = RELAXATION_TIMES * relaxation
    ratio = reached / relaxation if relaxation > 0 else math.inf
    return checked(
        name,
        f"{reached:.4g} time units",
        f"{least:.4g} ({RELAXATION_TIMES} relaxation times)",
        reached >= least,
        f"the run lasted {ratio:.2g} relaxation times of {relaxation:.4g} time units, the time in which such "
        "queues forget that they began empty"
        if ratio < 10
        else "the run was long compared with the memory of its queues",
        f"use a longer warmup and duration (at least {math.ceil(least)} time units together)",
    )


def steady(columns: Columns, nominal: Nominal, window: Window) -> Check:
    """Check that the number in system does not grow over the window by more than chance explains."""
    dispersion, scv = nominal.arrival_dispersion, nominal.work_scv
    if dispersion is None:
        arrivals = np.histogram(columns["arrival"], np.linspace(*window, INTERVALS + 1))[0]
        dispersion = float(arrivals.var(ddof=1) / arrivals.mean())
    if not math.isfinite(scv):
        work = columns["work"][columns["outcome"] == JobOutcome.COMPLETED]
        scv = float(work.var() / work.mean() ** 2)
    noise = math.sqrt(nominal.rate * (window[1] - window[0]) * (dispersion + scv))
    found = trend(number_over(columns, window), noise)
    return checked(
        "trend of the number in system",
        f"{found.growth:+.1f} over the window, mean {found.mean:.1f}",
        f"{found.significant:.1f}",
        not found.growing,
        f"the number of jobs in the system {'grew' if found.growth > 0 else 'fell'} by {abs(found.growth):.1f} over "
        f"the measured window; its mean is {found.mean:.1f}, and chance explains growth by {found.significant:.1f}",
        "the cluster is unstable at this load, or the warm-up is too short",
    )
