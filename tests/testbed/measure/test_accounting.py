import math

import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.measure.accounting import check


def records(outcomes, jobs=None):
    outcome = np.array(outcomes, np.int8)
    return {
        "job": np.arange(len(outcome)) if jobs is None else np.array(jobs),
        "outcome": outcome,
        "response": np.where(outcome == JobOutcome.COMPLETED, 1.0, math.nan),
    }


def test_balanced_books_count_every_outcome():
    found = check(
        records(
            [
                JobOutcome.COMPLETED,
                JobOutcome.COMPLETED,
                JobOutcome.DROPPED,
                JobOutcome.LOST,
                JobOutcome.LOST,
                JobOutcome.LOST,
                JobOutcome.IN_SYSTEM,
            ]
        ),
        7,
    )
    assert (found.arrived, found.completed, found.dropped, found.lost, found.in_system) == (7, 2, 1, 3, 1)
    assert found.balanced
    assert check(records([]), 0).balanced


def test_a_missing_job_is_found():
    found = check(records([JobOutcome.COMPLETED, JobOutcome.DROPPED]), 3)
    assert not found.balanced
    assert found.problems == [
        "3 jobs arrived, but the records hold 2: 1 completed + 1 dropped + 0 lost + 0 in system",
    ]


def test_a_job_recorded_twice_is_found_even_if_the_sum_fits():
    found = check(records([JobOutcome.COMPLETED, JobOutcome.COMPLETED, JobOutcome.DROPPED], jobs=[4, 9, 9]), 3)
    assert found.problems == ["1 jobs are recorded more than once, the first is job 9"]


def test_records_that_make_no_sense_are_found():
    assert "outcome that does not exist" in check(records([JobOutcome.COMPLETED, 7]), 1).problems[0]
    columns = records([JobOutcome.COMPLETED, JobOutcome.COMPLETED])
    columns["response"][1] = math.nan
    assert "no response time" in check(columns, 2).problems[0]


def test_jobs_without_a_record_are_counted_by_what_became_of_them() -> None:
    columns = {"outcome": np.array([0, 0, 2]), "job": np.array([0, 1, 2]), "response": np.array([1.0, 1.0, np.nan])}
    accounting = check(columns, 8, {"lost": 4, "completed": 1})
    assert accounting.balanced
    assert (accounting.completed, accounting.lost, accounting.in_system) == (3, 5, 0)
    assert not check(columns, 8, {"lost": 4}).balanced
