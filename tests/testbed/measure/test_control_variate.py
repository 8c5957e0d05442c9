"""Control variates: the regression's prediction and its interval, against least squares and by coverage."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from testbed.measure.control_variate import controlled_interval
from testbed.measure.statistics import replication_interval


def test_mean_and_interval_are_those_of_a_regression_at_the_known_mean() -> None:
    x = np.array([0.1, 0.4, 0.2, 0.7, 0.9, 0.3])
    y = np.array([1.1, 1.9, 1.2, 2.2, 3.1, 1.5])
    known = 0.5
    design = np.column_stack([np.ones(6), x])
    coefficients, squares, *_ = np.linalg.lstsq(design, y, rcond=None)
    at = np.array([1.0, known])
    variance = squares[0] / 4 * at @ np.linalg.inv(design.T @ design) @ at
    interval = controlled_interval(y.tolist(), x.tolist(), known)
    assert interval.mean == pytest.approx(at @ coefficients, rel=1e-12)
    assert interval.half_width == pytest.approx(stats.t.ppf(0.975, 4) * np.sqrt(variance), rel=1e-12)


def test_the_interval_holds_the_true_mean_as_often_as_it_says_and_is_narrower() -> None:
    rng = np.random.default_rng(5)
    runs, hits, width, plain = 2000, 0, 0.0, 0.0
    for _ in range(runs):
        x = rng.normal(0.8, 0.02, size=8)
        y = 0.3 + 2.0 * (x - 0.8) + rng.normal(0.0, 0.01, size=8)
        interval = controlled_interval(y.tolist(), x.tolist(), 0.8)
        assert interval.mean is not None
        assert interval.half_width is not None
        hits += abs(interval.mean - 0.3) <= interval.half_width
        width += interval.half_width
        plain += replication_interval(y.tolist()).half_width or 0.0
    # 95 % of 2000: four standard deviations are 39 (false alarm below 1e-4).
    assert 1861 <= hits <= 1939
    assert width < 0.4 * plain


@pytest.mark.parametrize(("means", "controls"), [([1.0, 2.0, 4.0], [0.1, 0.2, 0.4]), ([1.0, 2.0] * 4, [0.5] * 8)])
def test_few_replications_and_constant_controls_give_the_plain_interval(
    means: list[float], controls: list[float]
) -> None:
    assert controlled_interval(means, controls, 0.5) == replication_interval(means)
