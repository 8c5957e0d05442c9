"""What copies used and came to, by hand."""

from __future__ import annotations

from math import nan, sqrt

import numpy as np
import pytest
from scipy import stats

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.records import COPY_COLUMNS
from testbed.measure.copies import NominalPool, cancellations, pool_uses

#: Jobs 4, 2, 7, 9 came at 1, 2, 3, 30; job 7 is not done, job 9 came after the window.
JOBS = {
    "job": np.array([4, 2, 7, 9]),
    "arrival": np.array([1.0, 2.0, 3.0, 30.0]),
    "outcome": np.array([JobOutcome.COMPLETED, JobOutcome.COMPLETED, JobOutcome.IN_SYSTEM, JobOutcome.COMPLETED]),
}
WINDOW = (0.0, 20.0)
POOLS = [NominalPool("a", 2, 1.5), NominalPool("b", 4, None)]


def copies(*rows: tuple[int, int, float, int, int, float]) -> dict[str, np.ndarray]:
    """Copies by job, pool, processing time received, fate, what the cancellation met, and its delay."""
    columns = {name: np.zeros(len(rows), dtype=typecode) for name, typecode, _ in COPY_COLUMNS}
    for i, row in enumerate(rows):
        for name, value in zip(("job", "pool", "received", "fate", "met", "delay"), row, strict=True):
            columns[name][i] = value
    return columns


def test_service_is_counted_by_pool_and_by_what_it_was_good_for() -> None:
    found = pool_uses(
        JOBS,
        copies(
            (4, 0, 1.0, CopyOutcome.REROUTED, 0, nan),
            (4, 1, 2.0, CopyOutcome.WON, 0, nan),
            (2, 0, 3.0, CopyOutcome.WON, 0, nan),
            (2, 1, 0.5, CopyOutcome.SUPERSEDED, StateAtCancellation.IN_SERVICE, 0.1),
            (2, 1, nan, CopyOutcome.DIED, 0, nan),  # nobody knows what it had got
            (7, 0, 9.0, CopyOutcome.REROUTED, 0, nan),  # of a job that is not done
            (9, 1, 9.0, CopyOutcome.WON, 0, nan),  # came too late
        ),
        POOLS,
        rate=0.5,
        window=WINDOW,
    )
    a, b = found
    assert (a.name, a.servers, b.name, b.servers) == ("a", 2, "b", 4)
    assert (a.service_requirement.mean, a.useful, a.wasted_by_rerouting, a.wasted_by_losing) == (2.0, 1.5, 0.5, 0.0)
    assert (b.service_requirement.mean, b.useful, b.wasted_by_rerouting, b.wasted_by_losing) == (1.25, 1.0, 0.0, 0.25)
    # Jobs used 1 and 3 time units in pool a: a standard deviation of sqrt(2).
    assert a.service_requirement.half_width == pytest.approx(stats.t.ppf(0.975, 1) * sqrt(2) / sqrt(2))
    assert a.effective_load.mean == 2.0 * 0.5 / 2
    assert a.effective_load.half_width == a.service_requirement.half_width * 0.5 / 2
    assert (a.completed_share, b.completed_share) == (0.5, 0.5)
    assert (a.theory_service_requirement, a.theory_effective_load) == (1.5, 1.5 * 0.5 / 2)
    assert (b.theory_service_requirement, b.theory_effective_load) == (None, None)


def test_service_that_carries_over_is_not_wasted() -> None:
    rows = copies(
        (4, 0, 1.0, CopyOutcome.REROUTED, 0, nan),
        (4, 1, 2.0, CopyOutcome.WON, 0, nan),
        (2, 1, 1.0, CopyOutcome.WON, 0, nan),
    )
    pools = [NominalPool("a", 2, None, carries_over=True), NominalPool("b", 4, None, carries_over=True)]
    a, _ = pool_uses(JOBS, rows, pools, rate=0.5, window=WINDOW)
    assert (a.useful, a.wasted_by_rerouting) == (0.5, 0.0)


def test_cancellations_are_counted_by_what_they_met() -> None:
    rows = copies(
        (4, 0, 1.0, CopyOutcome.WON, 0, nan),
        (4, 1, 1.0, CopyOutcome.SUPERSEDED, StateAtCancellation.IN_SERVICE, 0.25),
        (2, 0, 1.0, CopyOutcome.WON, 0, nan),
        (2, 1, 1.0, CopyOutcome.SUPERSEDED, StateAtCancellation.ALREADY_DONE, 0.75),
        (7, 0, nan, CopyOutcome.DIED, 0, nan),  # of a job that is not done
        (9, 1, 1.0, CopyOutcome.SUPERSEDED, StateAtCancellation.ALREADY_DONE, 99.0),  # came too late
    )
    rows["preemptions"][[1, 4]] = 3
    found = cancellations(JOBS, rows, WINDOW)
    assert found.copies_per_job == 2.0
    assert found.preemptions_per_job == 1.5
    assert found.cancellations_per_job == 1.0
    assert found.by_outcome == {"won": 2, "lost": 2, "rerouted": 0, "died": 1}
    assert {name: count for name, count in found.by_state.items() if count} == {"in service": 1, "already done": 1}
    assert (found.delay_p50, found.delay_p99) == pytest.approx((0.5, 0.745))


def test_jobs_whose_copies_are_no_more_recorded_are_left_out_of_the_means() -> None:
    """As in a cluster that stands for long: a million records of each table are kept, and copies are more than jobs."""
    rows = copies(
        (2, 0, 1.0, CopyOutcome.WON, 0, nan), (2, 1, 0.5, CopyOutcome.SUPERSEDED, StateAtCancellation.IN_SERVICE, 0.1)
    )
    found = cancellations(JOBS, rows, WINDOW)
    assert (found.copies_per_job, found.preemptions_per_job) == (2.0, 0.0)
    used = pool_uses(JOBS, rows, POOLS, rate=0.5, window=WINDOW)
    assert [pool.service_requirement.mean for pool in used] == [1.0, 0.5]


def test_without_jobs_there_are_no_means() -> None:
    found = pool_uses(JOBS, copies(), POOLS, rate=0.5, window=(50.0, 60.0))
    assert [(pool.service_requirement.mean, pool.useful, pool.effective_load.mean) for pool in found] == [
        (None, None, None)
    ] * 2
    empty = cancellations(JOBS, copies(), (50.0, 60.0))
    assert (empty.copies_per_job, empty.preemptions_per_job, empty.delay_p50) == (None, None, None)
