import math

import numpy as np
import pytest
from scipy.signal import lfilter

from testbed.core.outcomes import JobOutcome
from testbed.measure.pathwise import compare


def records(job, arrival, response, server=None, outcome=None):
    job = np.array(job)
    return {
        "job": job,
        "arrival": np.array(arrival, float),
        "response": np.array(response, float),
        "server": np.zeros(len(job), np.int32) if server is None else np.array(server),
        "overhead": np.full(len(job), 0.25),
        "outcome": np.full(len(job), JobOutcome.COMPLETED) if outcome is None else np.array(outcome),
    }


def test_jobs_are_matched_by_number_within_the_window_only():
    twin = records([0, 1, 2, 3, 4], [0, 1, 2, 3, 4], [9, 1.0, 2.0, 3.0, 9])
    emulated = records([4, 3, 2, 1, 0], [4, 3, 2, 1, 0], [0, 3.2, 1.9, 1.5, 0], server=[0, 0, 7, 0, 0])
    found = compare(emulated, twin, (1.0, 4.0))
    assert (found.matched, found.unmatched, found.outcome_differs) == (3, 0, 0)
    assert found.twin_mean == 2.0
    assert found.twin_overhead == 0.25
    assert found.emulated_mean == pytest.approx(2.2)
    assert found.mean == pytest.approx((0.5 - 0.1 + 0.2) / 3 / 2.0)
    assert found.p50 == pytest.approx(0.2 / 2.0)
    assert found.p99 == pytest.approx(np.quantile([0.5, 0.1, 0.2], 0.99) / 2.0)
    assert found.same_server == pytest.approx(2 / 3)


def test_outcomes_and_jobs_that_differ_are_counted_and_left_out():
    twin = records(
        [0, 1, 2],
        [0, 1, 2],
        [1.0, math.nan, 2.0],
        outcome=[JobOutcome.COMPLETED, JobOutcome.DROPPED, JobOutcome.COMPLETED],
    )
    emulated = records([0, 1, 3], [0, 1, 2.5], [1.1, 5.0, 5.0])
    found = compare(emulated, twin, (0.0, 10.0))
    assert (found.matched, found.unmatched, found.outcome_differs) == (1, 2, 1)
    assert found.mean == pytest.approx(0.1)


def test_nothing_in_common_gives_no_numbers():
    empty = records([], [], [])
    found = compare(empty, records([1], [1], [1.0]), (0.0, 10.0))
    assert (found.matched, found.unmatched) == (0, 1)
    assert found.mean is None
    assert found.interval.half_width is None


def test_the_interval_knows_of_the_slow_drift_apart_of_two_histories():
    # Response times differ by an AR(1) of variance 1 that all servers share, and by each job's own noise, which hides
    # it from neighbours. The window holds 20 of its autocorrelation times of 200, so that the mean has the variance
    # 1 / 20. Single half-widths vary by 30 %, their mean over 60 runs by 4 % (standard error).
    rng = np.random.default_rng(4)
    n, steps = 20_000, 4000
    phi = 199 / 201
    widths = []
    for _ in range(60):
        arrival = np.sort(rng.random(n)) * steps
        drift = lfilter([math.sqrt(1 - phi**2)], [1.0, -phi], rng.standard_normal(steps + 1000))[1000:]
        response = 4.0 + rng.exponential(1.0, (2, n))
        twin = records(np.arange(n), arrival, response[0])
        found = compare(records(np.arange(n), arrival, response[1] + drift[arrival.astype(int)]), twin, (0, steps))
        widths.append(found.interval.half_width * found.twin_mean)
    assert np.mean(widths) == pytest.approx(1.96 * math.sqrt(1 / 20), rel=0.25)


def test_the_interval_knows_that_the_difference_lasts_for_as_long_as_the_queues_remember():
    # The twin's number in system has long waves, which the difference, white noise here, doesn't show.
    rng = np.random.default_rng(6)
    n, steps = 20_000, 4000
    arrival = np.sort(rng.random(n)) * steps
    noise = rng.standard_normal(n)
    widths = []
    for wave in (0.0, 0.8):
        twin = records(np.arange(n), arrival, 4.0 * (1 + wave * np.sin(arrival * (2 * math.pi / 1000))))
        found = compare(records(np.arange(n), arrival, twin["response"] + noise), twin, (0, steps))
        widths.append(found.interval.half_width)
    assert widths[1] > 1.5 * widths[0]


def test_the_interval_of_the_paired_difference_ignores_the_noise_that_both_share():
    # Response times with scv 1, and an error of 0.02 +- 0.05 on top: the interval is that of the error alone.
    rng = np.random.default_rng(3)
    n = 10_000
    order = rng.permutation(n)
    response = 1.0 + rng.exponential(3.0, n)
    error = 0.02 + 0.05 * rng.standard_normal(n)
    twin = records(order, order, response[order])
    found = compare(records(np.arange(n), np.arange(n), response + error), twin, (0, n))
    assert found.mean == pytest.approx(error.mean() / response.mean())
    assert found.interval.mean == pytest.approx(found.mean)
    assert found.interval.half_width == pytest.approx(1.96 * 0.05 / math.sqrt(n) / response.mean(), rel=0.3)
    assert found.interval.reliable
