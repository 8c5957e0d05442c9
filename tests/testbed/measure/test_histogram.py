import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.measure.histogram import LogHistogram


def test_buckets_cover_the_range_with_a_constant_ratio():
    histogram = LogHistogram(0.001, 100.0, 1.15)
    bounds = np.array(histogram.bounds)
    assert bounds[0] == 0.001
    assert 100.0 <= bounds[-1] * (1 + 1e-9) < 100.0 * 1.15
    assert np.allclose(bounds[1:] / bounds[:-1], 1.15)
    assert len(histogram.counts) == len(bounds) + 1


def test_a_value_on_a_bound_belongs_to_the_bucket_below_as_in_prometheus():
    histogram = LogHistogram(1.0, 8.0, 2.0)
    for value in (0.0, 1.0, 2.0, 2.5, 8.0, 9.0):
        histogram.add(value)
    assert histogram.counts == [2, 1, 1, 1, 1]
    assert histogram.count == 6
    assert histogram.sum == 22.5
    assert histogram.max == 9.0
    assert histogram.mean == 22.5 / 6


def test_quantiles_of_nothing_are_nan():
    histogram = LogHistogram(1.0, 8.0)
    assert math.isnan(histogram.quantile(0.99))
    assert math.isnan(histogram.mean)


@given(
    st.lists(st.floats(0.0, 500.0), min_size=1, max_size=200),
    st.floats(0.0, 1.0),
)
def test_a_quantile_lies_in_the_bucket_of_the_order_statistic(values, probability):
    histogram = LogHistogram(0.01, 100.0, 1.15)
    for value in values:
        histogram.add(value)
    exact = sorted(values)[max(0, math.ceil(probability * len(values)) - 1)]
    found = histogram.quantile(probability)
    edges = [0.0, *histogram.bounds, math.inf]
    bucket = np.searchsorted(histogram.bounds, exact)
    assert edges[bucket] * (1 - 1e-12) <= found <= min(edges[bucket + 1], max(values)) * (1 + 1e-12)


def test_quantiles_of_a_smooth_law_are_close_to_exact():
    histogram = LogHistogram(0.001, 100.0, 1.15)
    for value in (-math.log1p(-(i + 0.5) / 20_000) for i in range(20_000)):  # exponential, by its quantiles
        histogram.add(value)
    for p in (0.1, 0.5, 0.9, 0.99, 0.999):
        assert histogram.quantile(p) == pytest.approx(-math.log1p(-p), rel=0.02)


def test_finer_stretches_have_smaller_ratios():
    bounds = np.array(LogHistogram(0.01, 100.0, 2.0, [(0.1, 10.0, 1.2), (1.0, 2.0, 1.05)]).bounds)
    assert bounds[0] == 0.01
    assert 100.0 <= bounds[-1] < 200.0
    for low, ratio in zip(bounds[:-1], bounds[1:] / bounds[:-1], strict=True):
        assert ratio == pytest.approx(1.05 if 1.0 <= low < 2.0 else 1.2 if 0.1 <= low < 10.0 else 2.0)


@given(st.lists(st.floats(0.0, 500.0)))
def test_adding_all_at_once_equals_adding_one_by_one(values):
    one_by_one, at_once = LogHistogram(0.01, 100.0), LogHistogram(0.01, 100.0)
    for value in values:
        one_by_one.add(value)
    at_once.add_all(np.array(values[: len(values) // 2]))
    at_once.add_all(np.array(values[len(values) // 2 :]))
    assert at_once.counts == one_by_one.counts
    assert at_once.max == one_by_one.max
    assert at_once.sum == pytest.approx(one_by_one.sum)


@given(st.lists(st.floats(0.0, 500.0)), st.lists(st.floats(0.0, 500.0)))
def test_merging_equals_counting_everything_in_one(first, second):
    a, b, both = (LogHistogram(0.01, 100.0) for _ in range(3))
    for value in first:
        a.add(value)
        both.add(value)
    for value in second:
        b.add(value)
        both.add(value)
    a.merge(b)
    assert a.counts == both.counts
    assert a.max == both.max
    assert a.sum == pytest.approx(both.sum)


def test_different_buckets_do_not_merge():
    with pytest.raises(ValueError, match="different buckets"):
        LogHistogram(1.0, 8.0).merge(LogHistogram(1.0, 9.0))


@pytest.mark.parametrize("layout", [(0.0, 1.0, 1.1), (2.0, 1.0, 1.1), (1.0, math.inf, 1.1), (1.0, 2.0, 1.0)])
def test_impossible_buckets_are_refused(layout):
    with pytest.raises(ValueError, match="lowest < highest"):
        LogHistogram(*layout)
