import math

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from testbed.workload.distributions import Distribution, Exponential, Hyperexponential, Hypoexponential
from testbed.workload.fit import fit_moments, fit_sizes


def moments(distribution):
    alpha, S = distribution.phase_type()
    inverse = np.linalg.inv(-S)
    return [math.factorial(k) * float(alpha @ np.linalg.matrix_power(inverse, k) @ np.ones(len(S))) for k in (1, 2, 3)]


@given(scv=st.floats(1.05, 100), f=st.floats(0.02, 0.98), mean=st.floats(0.01, 100))
def test_three_moments_of_a_hyperexponential_distribution_give_it_back(scv, f, mean):
    distribution = Hyperexponential(scv=scv, f=f, mean=mean)
    fit = fit_moments(*moments(distribution))
    assert fit.matched == 3
    assert moments(fit.distribution) == pytest.approx(moments(distribution), rel=1e-6)


@given(scv=st.floats(0.02, 0.99), mean=st.floats(0.01, 100))
def test_an_scv_below_1_is_fitted_by_two_moments(scv, mean):
    fit = fit_moments(mean, (1 + scv) * mean**2, 7.0)
    assert isinstance(fit.distribution, Hypoexponential) or scv > 0.99899
    assert fit.matched == 2
    assert moments(fit.distribution)[:2] == pytest.approx(
        [mean, (1 + scv) * mean**2], rel=2e-3 if scv > 0.9989 else 1e-6
    )


def test_two_moments_above_1_split_the_work_in_halves():
    fit = fit_moments(2.0, 24.0)
    assert fit.distribution == Hyperexponential(scv=5.0, f=0.5, mean=2.0)


def test_an_scv_of_1_is_exponential():
    assert fit_moments(3.0, 18.0, 162.0).distribution == Exponential(mean=3.0)


def test_a_third_moment_that_no_two_phase_distribution_has_is_left_out_and_said():
    fit = fit_moments(1.0, 6.0, 50.0)  # 1.5 * 6^2 = 54
    assert (fit.matched, fit.distribution.f) == (2, 0.5)
    assert "no two-phase distribution has so small a third moment" in fit.remark


@pytest.mark.parametrize(
    ("given_moments", "message"),
    [((1.0, 0.9), "at least the mean's square"), ((0.0, 1.0), "no distribution"), ((1.0, 1.0005), "deterministic")],
)
def test_moments_that_cannot_be_fitted_are_refused(given_moments, message):
    with pytest.raises(ValueError, match=message):
        fit_moments(*given_moments)


def test_a_sample_and_its_fit_have_the_same_moments():
    sizes = np.random.default_rng(3).lognormal(0.0, 1.0, 5000)
    distribution = fit_sizes(sizes).distribution
    assert moments(distribution) == pytest.approx([float(np.mean(sizes**k)) for k in (1, 2, 3)], rel=1e-6)


def test_the_toml_of_a_fit_is_read_back_as_the_same_law():
    import tomllib

    for fit in (fit_moments(2.0, 24.0, 700.0), fit_moments(2.0, 5.0), fit_moments(1.0, 2.0)):
        read = msgspec.convert(tomllib.loads(f"size = {fit.toml()}")["size"], Distribution)
        assert read.mean == pytest.approx(fit.distribution.mean, rel=1e-8)
        assert read.scv == pytest.approx(fit.distribution.scv, rel=1e-8)


@pytest.mark.parametrize("sizes", [[1.0], [1.0, 0.0], [1.0, math.inf], [-1.0, 2.0]])
def test_sizes_that_are_no_sizes_are_refused(sizes):
    with pytest.raises(ValueError, match="at least two sizes"):
        fit_sizes(np.array(sizes))
    with pytest.raises(ValueError, match="two or three moments"):
        fit_sizes(np.array([1.0, 2.0]), 4)
