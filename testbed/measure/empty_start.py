"""Queues begin empty: where an automatic warm-up ends, and whether a window is far enough from the empty start."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
from scipy import stats

from testbed.measure.statistics import SLICES, autocorrelation_time, number_over
from testbed.measure.verdict_checks import Check, Columns, Nominal, Window, checked, not_tested, percent
from testbed.theory.relaxation import mean_missing_fraction

Array = npt.NDArray[np.float64]

WARMUP: Final = 2.0  # relaxation times of an automatic warm-up
MISSING_LIMIT: Final = 0.02  # of the mean number in system
GROWTH_LIMIT: Final = 0.02  # of the mean number in system, from the window's first quarter to the whole
GROWTH_LEVEL: Final = 1e-5  # of the test over replications
FEWEST: Final = 5  # replications of that test


def automatic_start(columns: Columns, window: Window, least: float, relaxation: float | None) -> float:
    """Return where the measured window begins with an automatic warm-up.

    ``window``: [start, stop) from the time at which the queues began to fill to the end of the run. The warm-up lasts
    for two relaxation times, after which the mean number in system is 1.2 % below that of the steady state, and for at
    least ``least``, but never for more than half of the window: a shorter rest would have too few data.

    Where the ``relaxation`` time is not known, it is estimated from the number in system over all of the window, the
    transient included, which can only make it longer. So the choice looks at how fast the number changes, and not at
    how large it is: a rule that compares values, such as MSER-5, cuts off large early values sooner than small ones,
    and the means that are left are too low.
    """
    began, stop = window
    if relaxation is None:
        relaxation = estimated_relaxation_time(columns, window)
    return began + min(max(least, WARMUP * relaxation), (stop - began) / 2)


def estimated_relaxation_time(columns: Columns, window: Window) -> float:
    """Return an estimate of the queues' relaxation time that is rather too long, in time units.

    It is the autocorrelation time t of the number in system, which is the relaxation time of M/M/1 queues near
    saturation. From a series of length T the estimate is too short by a fraction of about 2 t / T (for a process with
    exponential autocorrelation: Kendall, Biometrika 41 (1954), 403-404). Twice that is added, to be on the safe side:
    t / (1 - 4 t / T). A series of four such times or less does not show its memory, and the estimate is infinite.
    """
    duration = window[1] - window[0]
    times = SLICES / autocorrelation_time(number_over(columns, window))  # in the window
    return duration / (times - 4) if times > 4 else math.inf


def distance(columns: Columns, nominal: Nominal, window: Window, began: float) -> Check:
    """Check that the window's mean misses little because the queues began empty, at the time ``began``."""
    name = "distance from the empty start"
    start, stop = window
    if not began <= start < stop:
        return not_tested(name, "the window is empty")
    known = nominal.relaxation_time
    if known is None:
        # Of a long-running cluster only the latest jobs have records.
        first = max(began, float(columns["arrival"].min(initial=start)))
        relaxation = estimated_relaxation_time(columns, (min(first, start), stop))
    else:
        relaxation = known
    if relaxation == 0:
        return not_tested(name, "such queues remember nothing: their relaxation time is 0")
    if not math.isfinite(relaxation):
        return checked(
            name,
            "not known",
            percent(MISSING_LIMIT),
            False,
            "the number in system changes too slowly to see how long such queues remember that they began empty",
            "use a longer warmup and duration",
        )
    missing = mean_missing_fraction((start - began) / relaxation, (stop - began) / relaxation)
    source = "the relaxation time" if known is not None else "the estimated relaxation time"
    return checked(
        name,
        f"{percent(missing)} missing",
        percent(MISSING_LIMIT),
        missing <= MISSING_LIMIT,
        f"the window begins {(start - began) / relaxation:.2g} times {source} of {relaxation:.4g} time units after an "
        f"empty start, and its mean number in system is about {percent(missing)} too low for that",
        f"use a longer warmup and duration (at least {math.ceil(WARMUP * relaxation)} time units each)",
    )


def first_quarter(columns: Columns, window: Window) -> float:
    """Return the time average of the number in system over the first quarter of a window."""
    return float(number_over(columns, window)[: SLICES // 4].mean())


def growth_over_replications(early: Sequence[float], whole: Sequence[float]) -> Check:
    """Check that the number in system does not grow over the window, from the mean of all replications.

    Replications show a smaller growth together than each alone does. ``early`` and ``whole``: the mean number in the
    first quarter of each replication's window, and in all of it. In a steady state the two have the same mean; their
    difference is tested with Student's distribution, on one side.
    """
    name = "growth over replications"
    count = len(whole)
    if count < FEWEST:
        return not_tested(name, f"it takes {FEWEST} replications")
    growth = np.asarray(whole) - np.asarray(early)
    mean = float(np.mean(whole))
    chance = float(stats.t.isf(GROWTH_LEVEL, count - 1) * growth.std(ddof=1)) / math.sqrt(count)
    limit = max(chance, GROWTH_LIMIT * mean)
    found = float(growth.mean())
    return checked(
        name,
        f"{found:+.3g} from the first quarter of the window to all of it, mean {mean:.3g}",
        f"{limit:.3g}",
        found <= limit,
        f"over {count} replications the number in system is {found:+.3g} higher over the window than in its first "
        f"quarter; its mean is {mean:.3g}, and chance explains {limit:.3g}",
        "the warm-up is too short: use a longer warmup, and a longer duration",
    )
