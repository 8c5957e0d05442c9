"""All distributions against what their cdf says: moments, transforms, samples, phase-type representations."""

import math

import msgspec
import numpy as np
import pytest
from scipy import stats

from testbed.workload.distributions import (
    BoundedPareto,
    Deterministic,
    Distribution,
    Empirical,
    Erlang,
    Exponential,
    Hyperexponential,
    Hypoexponential,
    Lognormal,
    Pareto,
    PhaseType,
    Uniform,
    Weibull,
)

DISTRIBUTIONS: dict[str, Distribution] = {
    "exponential": Exponential(mean=2.0),
    "erlang": Erlang(phases=5, mean=3.0),
    "hypoexponential by scv": Hypoexponential(wanted_scv=0.3, wanted_mean=2.0),
    "hypoexponential by rates": Hypoexponential(rates=(1.0, 4.0, 0.5)),
    "hyperexponential": Hyperexponential(scv=5.0, f=0.3, mean=1.5),
    "hyperexponential with scv 1": Hyperexponential(scv=1.0, f=0.5),
    "phase-type with a cycle": PhaseType(
        alpha=(0.2, 0.5, 0.3), S=((-2.0, 1.0, 0.5), (0.3, -1.0, 0.7), (1.0, 0.0, -1.5))
    ),
    "phase-type with one way out": PhaseType(alpha=(1.0, 0.0), S=((-3.0, 3.0), (1.0, -2.0))),
    "pareto": Pareto(index=5.0, minimum=0.8),
    "bounded-pareto": BoundedPareto(index=1.3, minimum=0.3, maximum=40.0),
    "bounded-pareto with index 1": BoundedPareto(index=1.0, minimum=0.5, maximum=20.0),
    "bounded-pareto with index 2": BoundedPareto(index=2.0, minimum=0.5, maximum=20.0),
    "lognormal": Lognormal(scv=2.0, mean=1.2),
    "weibull with a heavy tail": Weibull(shape=0.6, mean=1.0),
    "weibull with a light tail": Weibull(shape=3.0, mean=2.0),
    "uniform": Uniform(low=0.5, high=2.0),
    "deterministic": Deterministic(value=1.7),
    "empirical": Empirical(values=(0.5, 3.0, 1.0, 1.0, 0.0)),
}
CONTINUOUS = {
    name: distribution for name, distribution in DISTRIBUTIONS.items() if name not in ("deterministic", "empirical")
}
PHASE_TYPE = {
    name: distribution for name, distribution in DISTRIBUTIONS.items() if distribution.phase_type() is not None
}


def over(distributions: dict[str, Distribution]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("distribution", distributions.values(), ids=distributions.keys())


@over(DISTRIBUTIONS)
def test_moments_are_those_of_the_cdf(distribution: Distribution) -> None:
    # E[X^k] is the integral of k x^k P(X > x) over log x, by the midpoint rule up to where P(X > x) is 1e-11: beyond,
    # the Pareto distribution of index 5 has 3e-7 of its second moment. A jump is off by at most half a step, 5e-5.
    top = 1.0
    while 1 - distribution.cdf(top) > 1e-11:
        top *= 1.1
    edges = np.linspace(-25, math.log(top), 300_001)
    middle = np.exp((edges[1:] + edges[:-1]) / 2)
    beyond = 1 - distribution.cdf(middle)
    step = edges[1] - edges[0]
    assert distribution.mean == pytest.approx(float((beyond * middle).sum() * step), rel=1e-4)
    assert distribution.second_moment == pytest.approx(float((2 * beyond * middle**2).sum() * step), rel=2e-4)
    assert distribution.variance == pytest.approx(distribution.second_moment - distribution.mean**2, abs=1e-9)
    assert distribution.scv == pytest.approx(distribution.variance / distribution.mean**2)


@over(DISTRIBUTIONS)
@pytest.mark.parametrize("s", [0.01, 0.7, 20.0])
def test_laplace_transform_is_that_of_the_cdf(distribution: Distribution, s: float) -> None:
    # E[exp(-s X)] is the integral of P(X <= -log(v) / s) over v in (0, 1), monotone in v: the midpoint rule with m
    # points is off by at most 1/m.
    m = 100_000
    v = (np.arange(m) + 0.5) / m
    assert distribution.laplace_transform(s) == pytest.approx(
        float(distribution.cdf(-np.log(v) / s).mean()), abs=1.01 / m
    )


@over(DISTRIBUTIONS)
def test_laplace_transform_starts_at_one_with_slope_minus_the_mean(distribution: Distribution) -> None:
    s = 1e-6
    assert distribution.laplace_transform(0) == 1
    assert (1 - distribution.laplace_transform(s)) / s == pytest.approx(distribution.mean, rel=1e-4)
    with pytest.raises(ValueError, match="s >= 0, not at -1"):
        distribution.laplace_transform(-1)


@over(CONTINUOUS)
def test_samples_follow_the_cdf(distribution: Distribution) -> None:
    """False alarm of one distribution: 1e-5."""
    assert distribution.continuous
    sample = distribution.sample(np.random.default_rng(1), 40_000)
    assert sample.dtype == np.float64
    assert sample.shape == (40_000,)
    assert stats.kstest(sample, distribution.cdf).pvalue > 1e-5


@over(DISTRIBUTIONS)
def test_samples_have_mean_and_variance(distribution: Distribution) -> None:
    """Intervals of 4.5 standard errors, estimated from the sample: false alarm of one distribution 1.4e-5."""
    sample = distribution.sample(np.random.default_rng(2), 40_000)
    squares = (sample - distribution.mean) ** 2
    root = math.sqrt(len(sample))
    assert abs(sample.mean() - distribution.mean) <= 4.5 * sample.std() / root + 1e-12
    assert abs(squares.mean() - distribution.variance) <= 4.5 * squares.std() / root + 1e-12


def test_empirical_samples_each_value_equally_often() -> None:
    """False alarm: 1e-5."""
    distribution = DISTRIBUTIONS["empirical"]
    assert not distribution.continuous
    values, counts = np.unique(distribution.sample(np.random.default_rng(3), 50_000), return_counts=True)
    assert values.tolist() == [0.0, 0.5, 1.0, 3.0]
    assert stats.chisquare(counts, np.array([1, 1, 2, 1]) * 10_000).pvalue > 1e-5


def test_empirical_cdf_steps_at_the_values() -> None:
    assert DISTRIBUTIONS["empirical"].cdf(np.array([-1, 0, 0.49, 0.5, 1, 2.9, 3, 9])).tolist() == pytest.approx(
        [0, 0.2, 0.2, 0.4, 0.8, 0.8, 1, 1]
    )


def test_deterministic_has_an_atom() -> None:
    distribution = DISTRIBUTIONS["deterministic"]
    assert not distribution.continuous
    assert set(distribution.sample(np.random.default_rng(1), 5).tolist()) == {1.7}
    assert distribution.cdf(np.array([1.69, 1.7])).tolist() == [0, 1]


@over(DISTRIBUTIONS)
def test_cdf_takes_floats_and_arrays_of_any_shape(distribution: Distribution) -> None:
    x = np.array([[-1.0, 0.3], [1.0, 2.5]])
    table = distribution.cdf(x)
    assert table.shape == (2, 2)
    one = distribution.cdf(2.5)
    assert isinstance(one, float)
    assert table[1, 1] == one
    assert table[0, 0] == 0
    assert distribution.cdf(1e9) == pytest.approx(1)
    assert distribution.cdf(math.inf) == 1


@over(DISTRIBUTIONS)
def test_scaled_distribution_is_the_distribution_of_the_scaled_variable(distribution: Distribution) -> None:
    scaled = distribution.scaled(2.5)
    x = np.linspace(0.01, 5, 50)
    assert type(scaled) is type(distribution)
    assert scaled.mean == pytest.approx(2.5 * distribution.mean)
    assert scaled.scv == pytest.approx(distribution.scv)
    assert scaled.cdf(2.5 * x) == pytest.approx(distribution.cdf(x))


@over(DISTRIBUTIONS)
def test_distributions_are_values(distribution: Distribution) -> None:
    copy = msgspec.structs.replace(distribution)
    assert copy is not distribution
    assert copy == distribution
    assert hash(copy) == hash(distribution)
    assert distribution.scaled(2.0) != distribution
    with pytest.raises(AttributeError):
        distribution.kind = "x"  # type: ignore[union-attr]  # it must not be possible


@over(PHASE_TYPE)
def test_phase_type_representation_gives_the_same_law(distribution: Distribution) -> None:
    representation = distribution.phase_type()
    assert representation is not None
    alpha, S = representation
    general = PhaseType(alpha=tuple(alpha.tolist()), S=tuple(map(tuple, S.tolist())))
    x = np.linspace(0, 10, 101) * distribution.mean
    assert general.cdf(x) == pytest.approx(distribution.cdf(x), abs=1e-13)
    assert general.mean == pytest.approx(distribution.mean)
    assert general.variance == pytest.approx(distribution.variance)
    assert general.laplace_transform(0.7) == pytest.approx(distribution.laplace_transform(0.7))


def test_distributions_without_phases_have_no_representation() -> None:
    assert {type(distribution) for distribution in DISTRIBUTIONS.values() if distribution.phase_type() is None} == {
        Pareto,
        BoundedPareto,
        Lognormal,
        Weibull,
        Uniform,
        Deterministic,
        Empirical,
    }


# Formula sheet of Van Houdt, "Randomized work stealing versus sharing in large-scale systems with non-exponential job
# sizes" (2019), check values 1 and 1b.
@pytest.mark.parametrize(
    ("scv", "f", "expected"),
    [
        (5.0, 0.5, (0.90824829, 1.81649658, 0.18350342)),
        (25.0, 0.1, (0.93764115, 9.37641149, 0.06928761)),
    ],
)
def test_hyperexponential_parameters(scv: float, f: float, expected: tuple[float, ...]) -> None:
    alpha_1, alpha_2, mu_1, mu_2 = Hyperexponential(scv=scv, f=f).parameters
    assert (alpha_1, mu_1, mu_2) == pytest.approx(expected, abs=5e-9)
    assert alpha_1 + alpha_2 == pytest.approx(1, abs=1e-15)


@pytest.mark.parametrize("scv", [1.0, 1.0001, 40.0, 1e6])
@pytest.mark.parametrize("f", [0.001, 0.5, 0.999])
def test_hyperexponential_has_its_mean_scv_and_fraction_at_the_extremes(scv: float, f: float) -> None:
    alpha_1, alpha_2, mu_1, mu_2 = Hyperexponential(scv=scv, f=f).parameters
    assert alpha_1 + alpha_2 == pytest.approx(1, rel=1e-12)
    assert alpha_1 / mu_1 == pytest.approx(f, rel=1e-12)
    assert alpha_1 / mu_1 + alpha_2 / mu_2 == pytest.approx(1, rel=1e-12)
    assert 2 * (alpha_1 / mu_1**2 + alpha_2 / mu_2**2) - 1 == pytest.approx(scv, rel=1e-9)
    assert mu_1 >= mu_2 * (1 - 1e-12)


@pytest.mark.parametrize("scv", [0.999, 0.5, 0.4, 1 / 3, 0.1, 1 / 49, 0.0333, 0.001])
def test_hypoexponential_hits_its_scv_with_the_fewest_phases(scv: float) -> None:
    distribution = Hypoexponential(wanted_scv=scv, wanted_mean=3.0)
    assert distribution.mean == pytest.approx(3)
    assert distribution.scv == pytest.approx(scv)
    assert len(distribution.phase_type()[0]) == math.ceil(1 / scv - 1e-9)


@pytest.mark.parametrize("phases", [2, 5, 10, 49])
def test_hypoexponential_with_the_scv_of_an_erlang_distribution_is_that_law(phases: int) -> None:
    # Its rates are equal but for rounding, on which scipy.linalg.expm is off by 1 % (see phase_type._survival).
    x = np.linspace(0, 5, 200)
    assert Hypoexponential(wanted_scv=1 / phases).cdf(x) == pytest.approx(Erlang(phases=phases).cdf(x), abs=1e-12)


def test_stiff_phase_type_cdf_is_exact() -> None:
    x = np.array([1e-8, 1e-6, 1e-3, 1.0, 30.0, 1e3])
    distribution = PhaseType(alpha=(0.4, 0.6), S=((-1e7, 0.0), (0.0, -0.1)))
    expected = 1 - 0.4 * np.exp(-1e7 * x) - 0.6 * np.exp(-0.1 * x)
    assert distribution.cdf(x) == pytest.approx(expected, abs=1e-8)


def test_pareto_has_infinite_variance_up_to_index_two() -> None:
    distribution = Pareto(index=1.5, minimum=1.0)
    assert distribution.mean == pytest.approx(3)
    assert distribution.variance == distribution.scv == distribution.second_moment == math.inf
    # E[exp(-sX)] = index s^index Gamma(-index, s), whose expansion at 0 gives the complement up to terms in s^2.
    s = 1e-6
    expected = s * distribution.mean + math.gamma(1 - 1.5) * s**1.5
    assert 1 - distribution.laplace_transform(s) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", [name for name in DISTRIBUTIONS if not name.startswith("phase-type")])
def test_samples_do_not_depend_on_how_they_are_cut(name: str) -> None:
    distribution = DISTRIBUTIONS[name]
    whole = distribution.sample(np.random.default_rng(4), 1000)
    rng = np.random.default_rng(4)
    assert np.concatenate([distribution.sample(rng, n) for n in (1, 0, 600, 399)]) == pytest.approx(whole, rel=1e-14)
