import numpy as np
from scipy import stats

from testbed.measure.arrivals import MOST_GAPS, distance, gap_test, spread


def exponential(rate):
    return lambda x: -np.expm1(-rate * x)


def test_without_tolerance_the_distance_is_kolmogorov_and_smirnovs():
    gaps = np.random.default_rng(1).exponential(0.5, 700)
    law = exponential(2.3)
    assert np.isclose(distance(gaps, law, 0.0), stats.kstest(gaps, law).statistic)


def test_poisson_arrivals_pass_and_another_rate_fails():
    # Level 1e-5 at the fixed seed.
    arrival = np.cumsum(np.random.default_rng(2).exponential(0.1, 20_000))
    lag = np.zeros_like(arrival)
    good = gap_test(arrival, lag, exponential(10.0), 0.01)
    assert good.gaps == MOST_GAPS
    assert max(good.intended, good.actual) < good.critical
    bad = gap_test(arrival, lag, exponential(12.0), 0.01)
    assert bad.intended > bad.critical


def test_merged_dispatchers_are_tested_in_the_order_of_time():
    rng = np.random.default_rng(3)
    first, second = (np.cumsum(rng.exponential(0.2, 3000)) for _ in range(2))
    stop = min(first[-1], second[-1])
    arrival = np.concatenate((first[first < stop], second[second < stop]))
    found = gap_test(arrival, np.zeros_like(arrival), exponential(10.0), 0.0)
    assert found.intended == found.actual < found.critical


def test_waking_up_for_bunches_within_the_tolerance_is_forgiven_and_beyond_is_not():
    arrival = np.cumsum(np.random.default_rng(4).exponential(0.1, 5000))
    for tick, forgiven in ((0.004, True), (0.1, False)):
        handled = np.ceil(arrival / tick) * tick
        found = gap_test(arrival, handled - arrival, exponential(10.0), 0.01)
        assert found.intended < found.critical
        assert (found.actual < found.critical) is forgiven
    exact = gap_test(arrival, np.ceil(arrival / 0.004) * 0.004 - arrival, exponential(10.0), 0.0)
    assert exact.actual > found.intended


def test_few_gaps_are_all_used_and_none_are_no_evidence():
    assert len(spread(np.ones(MOST_GAPS))) == MOST_GAPS
    assert len(spread(np.ones(MOST_GAPS + 1))) == MOST_GAPS // 2 + 1
    nothing = gap_test(np.array([1.0]), np.array([0.0]), exponential(1.0), 0.0)
    assert nothing.intended == nothing.actual == 0.0 < nothing.critical
