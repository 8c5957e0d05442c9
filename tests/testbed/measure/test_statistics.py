import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from testbed.measure.records import COMPLETED, DROPPED, IN_SYSTEM, LOST
from testbed.measure.statistics import (
    correlation_p_value,
    departures,
    mean_interval,
    mser5,
    number_in_system,
    quantiles,
    replication_interval,
    time_average_queue_length,
)


def autoregressive(rng, n, phi):
    """AR(1) with mean 0 and standard normal innovations, past its transient."""
    return lfilter([1.0], [1.0, -phi], rng.standard_normal(n + 400))[400:]


def binomial_band(trials, probability, false_alarm=1e-5):
    return stats.binom.ppf(false_alarm / 2, trials, probability), stats.binom.isf(false_alarm / 2, trials, probability)


def mm1_responses(rng, n, load, warmup=4000):
    step = rng.exponential(1.0, n + warmup) - rng.exponential(1 / load, n + warmup)
    walk = np.cumsum(step)
    size = rng.exponential(1.0, n + warmup)
    return (walk - np.minimum.accumulate(np.minimum(walk, 0.0)) + size)[warmup:]


@pytest.mark.parametrize(("phi", "n"), [(0.0, 1000), (0.5, 4000), (0.9, 20_000)])
def test_intervals_cover_the_mean_of_an_autoregressive_series_as_often_as_they_say(phi, n):
    # 200 series; false alarm 1e-5 at the nominal coverage. Seed fixed.
    rng = np.random.default_rng(11)
    found = [mean_interval(autoregressive(rng, n, phi)) for _ in range(200)]
    covered = sum(abs(interval.mean) <= interval.half_width for interval in found)
    low, high = binomial_band(200, 0.95)
    assert low <= covered <= high
    assert sum(interval.reliable for interval in found) >= 150


def test_intervals_have_the_width_that_the_autocorrelation_asks_for():
    # Var of the mean of AR(1) is 1 / ((1 - phi)^2 n); half-widths of 100 series average to within 10 % of it.
    rng = np.random.default_rng(12)
    n, phi = 20_000, 0.9
    widths = [mean_interval(autoregressive(rng, n, phi)).half_width for _ in range(100)]
    assert np.mean(widths) == pytest.approx(1.96 / ((1 - phi) * math.sqrt(n)), rel=0.1)


def test_intervals_cover_the_mean_response_time_of_mm1():
    # E[T] = 1 / (1 - load); the false alarm 1e-5 is at a coverage of 92 %, which skewed batch means cost.
    rng = np.random.default_rng(13)
    found = [mean_interval(mm1_responses(rng, 20_000, 0.7)) for _ in range(150)]
    covered = sum(abs(interval.mean - 1 / 0.3) <= interval.half_width for interval in found)
    assert covered >= stats.binom.ppf(1e-5, 150, 0.92)


def test_a_series_too_short_for_its_memory_is_not_called_reliable():
    rng = np.random.default_rng(14)
    found = [mean_interval(autoregressive(rng, 1000, 0.999)) for _ in range(50)]
    assert not any(interval.reliable for interval in found)
    assert all(10 <= interval.batches < 20 for interval in found)


def test_batches_and_their_size_use_up_the_series():
    interval = mean_interval(np.random.default_rng(15).random(10_007))
    assert interval.batches * interval.batch_size <= 10_007 < (interval.batches + 1) * interval.batch_size


def test_degenerate_series_give_no_interval_and_no_warning():
    empty = mean_interval([])
    assert (empty.mean, empty.half_width, empty.reliable) == (None, None, False)
    single = mean_interval([3.0, math.nan])
    assert (single.mean, single.half_width, single.reliable) == (3.0, None, False)
    short = mean_interval([1.0, 2.0, 3.0])
    assert short.mean == 2.0
    assert short.half_width == pytest.approx(stats.t.ppf(0.975, 2) / math.sqrt(3))
    assert not short.reliable
    constant = mean_interval(np.full(1000, 0.1))
    assert constant.mean == pytest.approx(0.1)
    assert constant.half_width == pytest.approx(0.0, abs=1e-12)
    assert constant.reliable


def test_missing_values_are_left_out_of_the_mean():
    series = np.arange(100.0)
    series[::2] = math.nan
    assert mean_interval(series).mean == 50.0


def test_von_neumann_p_values_are_uniform_for_white_noise():
    # Kolmogorov-Smirnov at 1e-5 on 500 series; the normal approximation at 40 batches is far closer than that.
    rng = np.random.default_rng(16)
    p_values = [correlation_p_value(rng.standard_normal(40)) for _ in range(500)]
    assert stats.kstest(p_values, "uniform").pvalue > 1e-5
    assert correlation_p_value(autoregressive(rng, 100, 0.9)) < 1e-5


def test_replications_give_students_interval():
    means = [1.0, 1.2, 0.9, None, math.nan, 1.1]
    interval = replication_interval(means, confidence=0.9)
    low, high = stats.t.interval(0.9, 3, loc=1.05, scale=stats.sem([1.0, 1.2, 0.9, 1.1]))
    assert interval.mean == pytest.approx(1.05)
    assert interval.half_width == pytest.approx((high - low) / 2)
    assert interval.batches == 4
    assert replication_interval([2.0]).half_width is None
    assert replication_interval([]).mean is None


@pytest.mark.parametrize("phi", [0.0, 0.8])
def test_quantile_intervals_cover_the_true_quantiles(phi):
    # Normal marginal with variance 1 / (1 - phi^2). 150 series; false alarm below 1e-5 each at a coverage of 93 %.
    rng = np.random.default_rng(17)
    hits = np.zeros(3)
    probabilities = (0.5, 0.9, 0.99)
    truth = stats.norm.ppf(probabilities) / math.sqrt(1 - phi**2)
    for _ in range(150):
        found = quantiles(autoregressive(rng, 10_000, phi), probabilities)
        hits += [q.low <= true <= q.high for q, true in zip(found, truth, strict=True)]
    assert np.all(hits >= stats.binom.ppf(1e-5, 150, 0.93))
    assert np.any(hits < 150)


def test_quantiles_of_independent_samples_have_the_binomial_order_statistics():
    # The exact interval for the median of 1000 samples: ranks 469 and 532 (binomial, 95 %).
    rng = np.random.default_rng(18)
    series = rng.permutation(1000) + 1.0
    (median,) = quantiles(series, [0.5])
    assert median.value == 500.5
    assert 440 < median.low <= 469
    assert 532 <= median.high < 561


def test_a_tail_that_the_samples_do_not_reach_has_no_upper_bound():
    rng = np.random.default_rng(19)
    found = {q.probability: q for q in quantiles(rng.exponential(1.0, 500))}
    assert found[0.999].high is None
    assert found[0.999].low is not None
    assert found[0.9].high is not None
    assert all(q.value is None and q.low is None and q.high is None for q in quantiles([math.nan]))
    assert quantiles([2.0])[0].value == 2.0


def test_mser5_cuts_a_known_transient():
    # The mean decays from 20 to 0 with time constant 40: after 200 observations it is below the noise.
    rng = np.random.default_rng(20)
    cuts = [mser5(rng.standard_normal(4000) + 20 * np.exp(-np.arange(4000) / 40)) for _ in range(50)]
    assert all(cut % 5 == 0 for cut in cuts)
    assert 80 <= np.median(cuts) <= 400
    assert min(cuts) >= 60


def test_mser5_equals_its_definition_by_brute_force():
    rng = np.random.default_rng(21)
    series = rng.standard_normal(203) + 1000 + 5 * np.exp(-np.arange(203) / 20)
    means = series[:200].reshape(40, 5).mean(axis=1)
    statistic = [np.sum((means[d:] - means[d:].mean()) ** 2) / (40 - d) ** 2 for d in range(21)]
    assert mser5(series) == 5 * int(np.argmin(statistic))


def test_mser5_leaves_short_series_alone_and_bears_missing_values():
    assert mser5([]) == 0
    assert mser5([5.0, 1.0, 1.0]) == 0
    assert mser5(np.full(100, math.nan)) == 0
    series = np.concatenate((np.full(50, 10.0), np.tile([0.0, 1.0, 0.5, 0.25, 0.75], 90)))
    assert mser5(series) == 50
    series[::7] = math.nan
    series[100:110] = math.nan
    assert mser5(series) == 50


def test_queue_lengths_are_averaged_over_whole_slices_only():
    occupancy = np.array([[9.0, 1.0, 0.0], [4.0, 4.0, 2.0], [2.0, 6.0, 2.0], [0.0, 0.0, 10.0]])
    edges = np.array([0.0, 5.0, 10.0, 15.0, 20.0])  # two servers
    found = time_average_queue_length(occupancy, edges, start=4.0, stop=15.0)
    assert found.probabilities == [0.3, 0.5, 0.2]
    assert found.mean == pytest.approx(0.9)
    assert found.utilisation == pytest.approx(0.7)
    assert found.edges == [5.0, 10.0, 15.0]
    assert found.number_in_system == pytest.approx([8 / 5, 2.0])


def test_no_slice_gives_no_queue_lengths():
    nothing = time_average_queue_length(np.zeros((0, 1)), np.array([]))
    assert nothing.probabilities == []
    assert nothing.mean is None
    beyond = time_average_queue_length(np.ones((1, 2)), np.array([0.0, 1.0]), start=2.0)
    assert beyond.utilisation is None


def test_the_number_in_system_equals_a_count_on_a_fine_grid():
    rng = np.random.default_rng(22)
    arrival = rng.random(60) * 10
    departure = arrival + rng.exponential(2.0, 60)
    departure[:5] = math.inf
    edges = np.array([0.0, 1.0, 4.0, 9.0])
    found = number_in_system(arrival, departure, edges)
    for low, high, average in zip(edges, edges[1:], found, strict=False):
        grid = low + (high - low) * (np.arange(20_000) + 0.5) / 20_000
        present = ((arrival <= grid[:, None]) & (grid[:, None] < departure)).sum(axis=1)
        assert average == pytest.approx(present.mean(), abs=0.01)


def test_jobs_depart_by_their_outcome():
    columns = {
        "outcome": np.array([COMPLETED, DROPPED, LOST, IN_SYSTEM]),
        "arrival": np.array([1.0, 2.0, 3.0, 4.0]),
        "response": np.array([5.0, math.nan, math.nan, math.nan]),
    }
    assert departures(columns).tolist() == [6.0, 2.0, 3.0, math.inf]


def test_quantiles_and_queue_lengths_of_mm1_agree_with_the_closed_forms(simulate_run):
    # 20 queues at load 0.5 and 900 time units: p_i = 0.5^(i + 1), each time average to within 0.02; standard errors,
    # from 20 independent queues with relaxation time below 12, are below 0.005, so that the false alarm is below 1e-4.
    run = simulate_run(load=0.5, horizon=1000.0, seed=5)
    found = time_average_queue_length(run.occupancy, run.occupancy_edges, start=100.0)
    assert found.probabilities[:4] == pytest.approx([0.5, 0.25, 0.125, 0.0625], abs=0.02)
    assert found.mean == pytest.approx(1.0, abs=0.1)
    for quantile in quantiles(run.columns["response"][1000:], (0.5, 0.9)):
        assert quantile.low * 0.97 <= -2 * math.log1p(-quantile.probability) <= quantile.high * 1.03
