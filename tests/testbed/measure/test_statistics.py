import math

import numpy as np
import pytest
from scipy import stats
from scipy.signal import lfilter

from testbed.core.outcomes import JobOutcome
from testbed.measure.statistics import (
    SLICES,
    autocorrelation_time,
    departures,
    mean_interval,
    number_in_system,
    number_over,
    quantiles,
    replication_interval,
    response_interval,
    time_average_queue_length,
)


def autoregressive(rng, n, phi):
    """AR(1) with mean 0 and standard normal innovations, past its transient."""
    return lfilter([1.0], [1.0, -phi], rng.standard_normal(n + 400))[400:]


def mm1_queues(rng, servers, load, duration, warmup):
    """Independent M/M/1 queues by Lindley's recursion, as columns; the warm-up's jobs arrive before time 0."""
    horizon = warmup + duration
    jobs = int(load * horizon + 8 * math.sqrt(load * horizon) + 20)
    arrival = np.cumsum(rng.exponential(1 / load, (servers, jobs)), axis=1)
    size = rng.exponential(1.0, (servers, jobs))
    served = np.cumsum(size, axis=1)
    departure = (served + np.maximum.accumulate(arrival - (served - size), axis=1)).ravel()
    arrival = arrival.ravel()
    order = np.argsort(arrival)
    order = order[arrival[order] < horizon]
    return {
        "arrival": arrival[order] - warmup,
        "response": departure[order] - arrival[order],
        "outcome": np.full(len(order), JobOutcome.COMPLETED),
    }


def responses_over(columns, duration):
    return columns["response"][columns["arrival"] >= 0], number_over(columns, (0.0, duration))


@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_the_autocorrelation_time_is_that_of_a_known_series(phi):
    # (1 + phi) / (1 - phi) for AR(1). The estimate from 20,000 values has a standard error of 4 % at phi = 0.9 and of
    # less at 0.5; 20 of them average to within 1 %, and the bias is of the order of 1 / n.
    rng = np.random.default_rng(11)
    found = [autocorrelation_time(autoregressive(rng, 20_000, phi)) for _ in range(20)]
    assert np.mean(found) == pytest.approx((1 + phi) / (1 - phi), rel=0.05)


def test_the_autocorrelation_time_is_that_of_an_oscillating_series():
    # AR(2) with phi = 1.2, -0.5: by its definition 1 + 2 sum rho_k, the recursion for rho_k summed to the end.
    rho = [1.0, 1.2 / 1.5]
    for _ in range(200):
        rho.append(1.2 * rho[-1] - 0.5 * rho[-2])
    rng = np.random.default_rng(12)
    series = lfilter([1.0], [1.0, -1.2, 0.5], rng.standard_normal(40_000))
    assert autocorrelation_time(series) == pytest.approx(2 * sum(rho) - 1, rel=0.2)


def test_the_autocorrelation_time_is_never_less_than_a_step():
    rng = np.random.default_rng(13)
    assert autocorrelation_time(np.diff(rng.standard_normal(1000))) == 1.0
    assert autocorrelation_time(np.tile([0.0, 1.0], 100)) == 1.0
    assert autocorrelation_time(np.full(100, 0.1)) == 1.0
    assert autocorrelation_time(np.array([1.0, 2.0])) == 1.0
    assert autocorrelation_time(np.array([])) == 1.0
    assert autocorrelation_time(np.arange(256.0)) > 50  # a ramp: nothing but memory


@pytest.mark.parametrize(("servers", "load", "duration"), [(1, 0.6, 3000.0), (10, 0.6, 1500.0), (40, 0.5, 1000.0)])
def test_intervals_cover_the_mean_response_time_of_many_servers(servers, load, duration):
    # E[T] = 1 / (1 - load); 60 runs of 75 to 150 autocorrelation times 2 (1 + load) / (1 - load)^2. The false alarm is
    # 1e-5 at a coverage of 92 %, what an estimated time may cost.
    rng = np.random.default_rng(14)
    runs = [responses_over(mm1_queues(rng, servers, load, duration, 150.0), duration) for _ in range(60)]
    found = [response_interval(*run) for run in runs]
    covered = sum(abs(interval.mean - 1 / (1 - load)) <= interval.half_width for interval in found)
    assert covered >= stats.binom.ppf(1e-5, 60, 0.92)
    # A single estimate varies by 40 %, the median of 60 by 7 % (standard errors), around 0.8 to 1 of the true number.
    times = duration * (1 - load) ** 2 / (2 * (1 + load))
    assert np.median([interval.effective_samples for interval in found]) == pytest.approx(times, rel=0.5)
    # 98 % of the runs are called reliable; fewer than 50 of 60 has a probability below 1e-6.
    assert sum(interval.reliable for interval in found) >= 50
    # Nor are the intervals wide for safety's sake: the half-width is 1.1 to 1.4 times that of the means' standard
    # deviation. That 60 runs put it at 0.56 of its value, or less, has a probability below 1e-6 (chi squared).
    widths = np.mean([interval.half_width for interval in found])
    assert widths < 2.5 * 1.96 * np.std([interval.mean for interval in found])


def test_a_run_of_a_few_autocorrelation_times_is_not_called_reliable():
    # 60 runs of three times (20 each). None of 300 showed 30; at 1 %, 10 or more of 60 have a probability below 1e-8.
    # The median was 13, with a standard error of 0.6 over 60 runs.
    rng = np.random.default_rng(15)
    runs = [responses_over(mm1_queues(rng, 20, 0.6, 60.0, 150.0), 60.0) for _ in range(60)]
    found = [response_interval(*run) for run in runs]
    assert sum(interval.reliable for interval in found) < 10
    assert np.median([interval.effective_samples for interval in found]) < 17


def test_intervals_have_the_width_that_the_number_in_system_asks_for():
    # Var of the mean of AR(1) is 1 / ((1 - phi)^2 n); the samples themselves show nothing. Half-widths vary by 15 %,
    # their mean over 60 by 2 % (standard error).
    rng = np.random.default_rng(25)
    n, phi = 10_000, 0.9
    widths = [mean_interval(np.ones(n), autoregressive(rng, n, phi), 3.0).half_width for _ in range(60)]
    assert np.mean(widths) == pytest.approx(3.0 * 1.96 / ((1 - phi) * math.sqrt(n)), rel=0.1)


def test_fluctuations_that_the_number_in_system_does_not_show_widen_the_interval():
    # Job by job differences of AR(1) at phi = 0.5: Var of the mean is 1 / ((1 - phi)^2 n).
    rng = np.random.default_rng(16)
    n = 5000
    widths = [mean_interval(autoregressive(rng, n, 0.5), np.ones(SLICES), 1.0).half_width for _ in range(60)]
    assert np.mean(widths) == pytest.approx(1.96 / (0.5 * math.sqrt(n)), rel=0.1)


def test_degenerate_series_give_no_interval_and_no_warning():
    nobody = np.zeros(SLICES)
    empty = response_interval([], nobody)
    assert (empty.mean, empty.half_width, empty.effective_samples, empty.reliable) == (None, None, 0, False)
    single = response_interval([3.0, math.nan], nobody + 0.01)
    assert (single.mean, single.half_width, single.reliable) == (3.0, None, False)
    short = response_interval([1.0, 2.0, 3.0], nobody + 0.01)
    assert short.mean == 2.0
    assert short.half_width == pytest.approx(stats.t.ppf(0.975, 2) / math.sqrt(3))
    assert (short.effective_samples, short.reliable) == (3, False)
    constant = response_interval(np.full(1000, 0.1), np.full(SLICES, 2.0))
    assert constant.mean == pytest.approx(0.1)
    assert constant.half_width == pytest.approx(0.0, abs=1e-12)
    assert constant.reliable
    assert response_interval([1.0, 3.0], nobody).half_width == pytest.approx(stats.t.ppf(0.975, 1))


def test_missing_values_are_left_out_of_the_mean():
    series = np.arange(100.0)
    series[::2] = math.nan
    assert response_interval(series, np.ones(SLICES)).mean == 50.0


def test_the_number_over_a_window_counts_jobs_that_came_before_and_those_that_stay():
    columns = {
        "arrival": np.array([-5.0, 1.0, 2.0, 2.0]),
        "response": np.array([7.0, math.nan, 100.0, math.nan]),
        "outcome": np.array([JobOutcome.COMPLETED, JobOutcome.IN_SYSTEM, JobOutcome.COMPLETED, JobOutcome.DROPPED]),
    }
    found = number_over(columns, (0.0, 4.0)).reshape(4, -1)
    assert found == pytest.approx(np.array([1.0, 2.0, 2.0, 2.0])[:, None] * np.ones(SLICES // 4))
    assert not number_over(columns, (4.0, 4.0)).any()


def test_replications_give_students_interval():
    means = [1.0, 1.2, 0.9, None, math.nan, 1.1]
    interval = replication_interval(means, confidence=0.9)
    low, high = stats.t.interval(0.9, 3, loc=1.05, scale=stats.sem([1.0, 1.2, 0.9, 1.1]))
    assert interval.mean == pytest.approx(1.05)
    assert interval.half_width == pytest.approx((high - low) / 2)
    assert interval.effective_samples == 4
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
        found = quantiles(autoregressive(rng, 10_000, phi), 10_000 * (1 - phi) / (1 + phi), probabilities)
        hits += [q.low <= true <= q.high for q, true in zip(found, truth, strict=True)]
    assert np.all(hits >= stats.binom.ppf(1e-5, 150, 0.93))
    assert np.any(hits < 150)


def test_quantile_intervals_have_the_width_that_the_autocorrelation_asks_for():
    # The indicator of "at most the median" of a Gaussian series has the autocorrelations (2 / pi) arcsin rho_k. Ten
    # batches give Student's quantile with 9 degrees of freedom and 5 % less for what correlation is left, 1.06 times
    # the width in all; single widths vary by 25 %, so that their mean over 60 has a standard error of 3 %.
    rng = np.random.default_rng(26)
    n, phi = 10_000, 0.99
    time = 1 + 4 / math.pi * np.sum(np.arcsin(phi ** np.arange(1, 3000)))
    found = [quantiles(autoregressive(rng, n, phi), n * (1 - phi) / (1 + phi), [0.5])[0] for _ in range(60)]
    density = math.sqrt((1 - phi**2) / (2 * math.pi))
    width = 2 * 1.96 * math.sqrt(0.25 * time / n) / density
    assert np.mean([q.high - q.low for q in found]) == pytest.approx(width, rel=0.2)


def test_quantile_intervals_cover_the_quantiles_of_many_servers():
    # Response times of M/M/1 are exponential. 60 runs; false alarm below 1e-5 each at a coverage of 88 %.
    rng = np.random.default_rng(24)
    hits = np.zeros(2)
    for _ in range(60):
        response, number = responses_over(mm1_queues(rng, 10, 0.6, 1500.0, 150.0), 1500.0)
        found = quantiles(response, response_interval(response, number).effective_samples, (0.5, 0.9))
        hits += [q.low <= -math.log1p(-q.probability) / 0.4 <= q.high for q in found]
    assert np.all(hits >= stats.binom.ppf(1e-5, 60, 0.88))


def test_quantiles_of_independent_samples_have_the_binomial_order_statistics():
    # The exact interval for the median of 1000 samples: ranks 469 and 532 (binomial, 95 %).
    rng = np.random.default_rng(18)
    series = rng.permutation(1000) + 1.0
    (median,) = quantiles(series, 1000, [0.5])
    assert median.value == 500.5
    assert 440 < median.low <= 469
    assert 532 <= median.high < 561


def test_a_tail_that_the_samples_do_not_reach_has_no_upper_bound():
    rng = np.random.default_rng(19)
    found = {q.probability: q for q in quantiles(rng.exponential(1.0, 500), 500)}
    assert found[0.999].high is None
    assert found[0.999].low is not None
    assert found[0.9].high is not None
    assert all(q.value is None and q.low is None and q.high is None for q in quantiles([math.nan], 0))
    assert quantiles([2.0], 1)[0].value == 2.0


def test_queue_lengths_are_averaged_over_whole_slices_only():
    occupancy = np.array([[9.0, 1.0, 0.0], [4.0, 4.0, 2.0], [2.0, 6.0, 2.0], [0.0, 0.0, 10.0]])
    edges = np.array([0.0, 5.0, 10.0, 15.0, 20.0])  # two servers
    found = time_average_queue_length(occupancy, edges, start=4.0, stop=15.0)
    assert found.probabilities == [0.3, 0.5, 0.2]
    assert found.mean == pytest.approx(0.9)
    assert found.utilisation == pytest.approx(0.7)
    assert found.edges == [5.0, 10.0, 15.0]


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
        "outcome": np.array([JobOutcome.COMPLETED, JobOutcome.DROPPED, JobOutcome.LOST, JobOutcome.IN_SYSTEM]),
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
    for quantile in quantiles(run.columns["response"][1000:], 100, (0.5, 0.9)):
        assert quantile.low * 0.97 <= -2 * math.log1p(-quantile.probability) <= quantile.high * 1.03
