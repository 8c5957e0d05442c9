"""Checks that a run measured a steady state: that there is one, and that the run was long enough to come to it."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.measure.checks import Check, Columns, Nominal, Window, checked, not_tested
from testbed.measure.statistics import number_over
from testbed.measure.trend import trend

RELAXATION_TIMES: Final = 2  # that warm-up and duration must last
STRETCHES: Final = 40  # of the window, whose arrivals are counted where their dispersion is not known


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
        else f"{load} is not below the policy's stability bound, so that there is no steady state, and what was "
        "measured depends on how long the run was",
        "use a lower load, or servers with finite buffers",
    )


def run_length(nominal: Nominal, reached: float) -> Check:
    """Check that warm-up and duration, until the time that the run ``reached``, are long beside the queues' memory.

    The queues begin empty. A run that is shorter than their relaxation time ends before they have filled up, which its
    own measurements can't show: the number in system looks as steady as a random walk does.
    """
    name = "run length"
    relaxation = nominal.relaxation_time
    if relaxation is None:
        return not_tested(name, "how long such queues remember that they began empty is not known")
    least = RELAXATION_TIMES * relaxation
    share = reached / relaxation if relaxation > 0 else math.inf
    return checked(
        name,
        f"{reached:.4g} time units",
        f"{least:.4g} ({RELAXATION_TIMES} relaxation times)",
        reached >= least,
        f"the run lasted {share:.2g} of the {relaxation:.4g} time units in which such a queue forgets that it began "
        "empty"
        if share < 10
        else "the run was long beside the memory of its queues",
        f"use a longer warmup and duration (at least {math.ceil(least)} time units together)",
    )


def steady(columns: Columns, nominal: Nominal, window: Window) -> Check:
    """Check that the number in system does not grow over the window by more than chance explains."""
    dispersion, scv = nominal.arrival_dispersion, nominal.work_scv
    if dispersion is None:
        arrivals = np.histogram(columns["arrival"], np.linspace(*window, STRETCHES + 1))[0]
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
        f"the number of jobs in the system went by {found.growth:+.1f} over the measured window, its mean is "
        f"{found.mean:.1f}, and chance explains {found.significant:.1f}",
        "the cluster is unstable at this load, or the warm-up is too short",
    )
