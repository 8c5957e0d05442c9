"""Fits over the number of servers: against least squares done otherwise, and by how often their intervals are right."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from testbed.measure.control_variate import Estimate
from testbed.studies.validate.finite_size import fit

SERVERS = [20, 50, 100, 200, 500]


def exact(values: list[float]) -> list[Estimate]:
    return [Estimate(value, 1.0, 20) for value in values]


def test_errors_that_are_a_plus_b_over_n_plus_c_over_n_squared_are_found_again() -> None:
    found = fit(SERVERS, exact([0.01 + 3.2 / n + 10 / n**2 for n in SERVERS]), [1, 2, 3, 4, 5])
    assert found.extrapolation.value == pytest.approx(0.01, abs=1e-12)
    assert found.first_order.value == pytest.approx(3.2, abs=1e-9)
    assert found.second_order.value == pytest.approx(10, abs=1e-7)
    assert [misfit.value for misfit in found.misfit] == pytest.approx([0.0, 0.0], abs=1e-12)
    assert found.error(1000) == pytest.approx(0.01 + 3.2e-3 + 1e-5)


def test_it_is_the_weighted_least_squares_fit_with_its_standard_errors() -> None:
    errors = [0.17, 0.06, 0.037, 0.012, 0.009]
    weights = [1.0, 1.0, 2.0, 4.0, 1.0]
    design = np.stack([np.ones(5), 1 / np.array(SERVERS), 1 / np.array(SERVERS) ** 2.0], axis=1)
    normal = design.T @ np.diag(weights) @ design
    expected = np.linalg.solve(normal, design.T @ np.diag(weights) @ errors)
    # Where the errors' variances are one over the weights, the coefficients' covariance is the inverse normal matrix.
    deviations = [weight**-0.5 for weight in weights]
    estimates = [Estimate(e, s, 11) for e, s in zip(errors, deviations, strict=True)]
    found = fit(SERVERS, estimates, weights)
    terms = (found.extrapolation, found.first_order, found.second_order)
    assert [term.value for term in terms] == pytest.approx(expected, rel=1e-6)
    assert [term.standard_error for term in terms] == pytest.approx(np.sqrt(np.diag(np.linalg.inv(normal))), rel=1e-6)
    # Satterthwaite's degrees of freedom are between those of one estimate and those of all together.
    assert all(11 <= term.freedom <= 55 for term in terms)
    # What the fit leaves, in the same units, is spread over as many combinations as there are spare sizes.
    left = np.array(errors) - design @ expected
    assert sum(m.value**2 for m in found.misfit) * max(weights) == pytest.approx(left @ np.diag(weights) @ left)


def test_intervals_of_the_extrapolation_miss_the_limit_as_often_as_they_say() -> None:
    rng = np.random.default_rng(8)
    runs, replications = 1000, 8
    misses = misfits = 0
    for _ in range(runs):
        estimates = []
        for n, deviation in zip(SERVERS, (0.02, 0.05, 0.03, 0.01, 0.04), strict=True):
            sample = 3.2 / n + 10 / n**2 + rng.normal(0, deviation, replications)
            error = float(sample.std(ddof=1)) / replications**0.5
            estimates.append(Estimate(float(sample.mean()), error, replications - 1))
        found = fit(SERVERS, estimates, [1, 1, 1, 2, 1])
        misses += abs(found.extrapolation.value) > found.extrapolation.half_width(0.05)
        misfits += abs(found.misfit[0].value) > found.misfit[0].half_width(0.05)
    # 5 % of 1000, give or take: below 1e-5 on either side by the binomial distribution, if 4 to 6 % is near enough.
    low, high = stats.binom.ppf(1e-5, runs, 0.04), stats.binom.isf(1e-5, runs, 0.06)
    assert low <= misses <= high
    assert low <= misfits <= high


def test_an_error_that_does_not_go_away_with_n_shows_in_the_limit_and_one_of_another_shape_in_the_misfit() -> None:
    stays = fit(SERVERS, exact([0.05 + 1 / n for n in SERVERS]), [1] * 5)
    assert stays.extrapolation.value == pytest.approx(0.05)
    root = fit(SERVERS, exact([n**-0.5 for n in SERVERS]), [1] * 5)
    assert max(abs(misfit.value) for misfit in root.misfit) > 1e-3


def test_three_numbers_of_servers_leave_nothing_to_test() -> None:
    with pytest.raises(ValueError, match="more than 3"):
        fit([20, 50, 100], exact([0.1, 0.2, 0.3]), [1, 1, 1])
