"""Moments of one job against the formula sheet, and against integrals of the density that share no code with them."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from testbed.theory.rerouting_replication import Model, one_job, original_wins
from testbed.theory.rerouting_replication.size_moments import size_moments
from testbed.workload.distributions import (
    BoundedPareto,
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

VALUES = json.loads((Path(__file__).parent / "rerouting_replication_values.json").read_text())
R_SLOW, R_FAST = 0.4, 1.0


def model(size, dependence, r=((R_SLOW,), (R_FAST,))):
    return Model((1, 1), (1.0,), r, size, dependence)


@pytest.mark.parametrize("row", VALUES["one_job"])
def test_one_job_quantities_have_the_values_of_the_sheet(row):
    m, start = model(Exponential(1.0), row["dependence"]), row["start"]
    got = one_job(m, start, 1 - start, 0, 2.0)
    for name in ("a", "a2", "P", "b", "b2", "k", "k2"):
        assert float(getattr(got, name)) == pytest.approx(row[name], abs=0.51e-6), name
    assert original_wins(m, start, 1 - start, 0, 2.0) == pytest.approx(row["wins"], abs=0.51e-6)


# Laws of which scipy.stats has an independent density, with the points that bound its smooth parts.
DISTRIBUTIONS = [
    (Exponential(2.0), stats.expon(scale=2.0), [0, 60]),
    (Pareto(3.5, 1.0), stats.pareto(3.5), [1, math.inf]),
    (Erlang(4, 2.0), stats.gamma(4, scale=0.5), [0, 30]),
    (Lognormal(4.0, 2.0), stats.lognorm(math.sqrt(math.log(5)), scale=2 / math.sqrt(5)), [0, 5, 50, 1000, 1e5]),
    (Weibull(2.0, 2.0), stats.weibull_min(2.0, scale=2 / math.gamma(1.5)), [0, 20]),
    (Uniform(0.5, 3.0), stats.uniform(0.5, 2.5), [0.5, 3.0]),
    (BoundedPareto(1.5, 0.5, 40.0), stats.truncpareto(1.5, 80.0, scale=0.5), [0.5, 40.0]),
]


def integral(f, points, kinks=()):
    inner = sorted({*points, *(x for x in kinks if points[0] < x < points[-1])})
    return sum(quad(f, a, b, epsabs=1e-12, epsrel=1e-10, limit=200)[0] for a, b in itertools.pairwise(inner))


@pytest.mark.parametrize(("tau", "start"), [(0.0, 1), (1.9, 0), (1.9, 1)])
@pytest.mark.parametrize(("size", "distribution", "points"), DISTRIBUTIONS, ids=lambda x: type(x).__name__)
def test_moments_equal_integrals_of_the_density(size, distribution, points, tau, start):
    r_i, r_l = (R_SLOW, R_FAST) if start == 0 else (R_FAST, R_SLOW)
    c = r_i * tau
    kinks = [c] + ([c * r_l / (r_l - r_i)] if r_l > r_i else [])

    def mean(g):
        return integral(lambda x: g(x) * distribution.pdf(x), points, kinks)

    def minimum(x):
        return max(min(x / r_i - tau, x / r_l), 0.0)

    got = one_job(model(size, "identical"), start, 1 - start, 0, tau)
    expected = {
        "a": mean(lambda x: min(x / r_i, tau)),
        "a2": mean(lambda x: min(x / r_i, tau) ** 2),
        "P": distribution.sf(c),
        "b": mean(lambda x: x / r_l * (x > c)),
        "b2": mean(lambda x: (x / r_l) ** 2 * (x > c)),
        "k": mean(minimum),
        "k2": mean(lambda x: minimum(x) ** 2),
    }
    for name, value in expected.items():
        assert float(getattr(got, name)) == pytest.approx(value, rel=1e-7, abs=1e-9), name
    carried = one_job(model(size, "identical"), start, 1 - start, 0, tau, carry_over=True)
    left = mean(lambda x: max(x - c, 0.0))
    assert float(carried.b) == pytest.approx(left / r_l, rel=1e-7, abs=1e-9)
    assert float(carried.k) == pytest.approx(left / max(r_i, r_l), rel=1e-7, abs=1e-9)
    got = one_job(model(size, "independent"), start, 1 - start, 0, tau)
    low, high = points[0], points[-1]
    cuts = [0.0, *sorted({max(x / r_l, 0.0) for x in points} | {max(x / r_i - tau, 0.0) for x in points})]
    cuts = [t for t in cuts if t <= min(high / r_l, max(high / r_i - tau, 0.0))]
    assert low >= 0
    if cuts[-1] > 0:
        for order, name in ((1, "k"), (2, "k2")):
            value = integral(
                lambda t, h=order: h * t ** (h - 1) * distribution.sf(r_i * (tau + t)) * distribution.sf(r_l * t), cuts
            )
            assert float(getattr(got, name)) == pytest.approx(value, rel=1e-7, abs=1e-9), name
    assert float(got.b) == pytest.approx(distribution.sf(c) * distribution.mean() / r_l, rel=1e-9)


@pytest.mark.parametrize("index", [10 / 9, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("tau", [0.7, 400.0])
@pytest.mark.parametrize(("start", "r_i", "r_l"), [(0, R_SLOW, R_FAST), (1, R_FAST, R_SLOW)])
def test_the_joint_phase_of_independent_pareto_copies_equals_its_integral_on_a_logarithmic_scale(
    index, tau, start, r_i, r_l
):
    def tail(x):
        return min(x**-index, 1.0)

    got = one_job(model(Pareto(index, 1.0), "independent"), start, 1 - start, 0, tau)
    kinks = {math.log(t) for t in (1 / r_l, 1 / r_i - tau) if t > 0}
    points = [-40.0, *sorted(kinks), 3.0, 6.0, 10.0, 20.0, 50.0, 150.0, 340.0]
    for h, name in ((1, "k"), (2, "k2")):
        # What lies beyond exp(340) is smaller than it by a factor of exp(-0.2 * 340) at least.
        value = integral(
            lambda u, h=h: h * math.exp(h * u) * tail(r_i * (tau + math.exp(u))) * tail(r_l * math.exp(u)), points
        )
        assert float(getattr(got, name)) == pytest.approx(value, rel=1e-8), name


def test_carried_over_work_of_independent_pareto_copies_equals_its_integral():
    distribution, r_i, r_l, tau = stats.pareto(1.4), R_SLOW, R_FAST, 5.0
    c = r_i * tau
    got = one_job(model(Pareto(1.4, 1.0), "independent"), 0, 1, 0, tau, carry_over=True)
    for h, name in ((1, "k"), (2, "k2")):
        value = integral(
            lambda u, h=h: (
                h * math.exp(h * u) * distribution.sf(c + r_i * math.exp(u)) * distribution.sf(c + r_l * math.exp(u))
            ),
            [-40.0, *np.linspace(0, 200, 20)],
        )
        assert float(getattr(got, name)) == pytest.approx(value, rel=1e-8)


def test_infinite_second_moments_are_infinite_and_the_others_stay_finite():
    for dependence, infinite in (("identical", ("b2", "k2")), ("independent", ("b2",))):
        got = one_job(model(Pareto(10 / 9, 1.0), dependence), 0, 1, 0, 5.0)
        for name in ("a", "a2", "P", "b", "b2", "k", "k2"):
            assert math.isinf(getattr(got, name)) == (name in infinite), name


@pytest.mark.parametrize("size", [distribution for distribution, *_ in DISTRIBUTIONS], ids=lambda x: type(x).__name__)
@pytest.mark.parametrize("dependence", ["identical", "independent", 0.4])
def test_a_threshold_of_infinity_is_never_passed(size, dependence):
    for carry_over in (False, True):
        got = one_job(model(size, dependence), 0, 1, 0, math.inf, carry_over=carry_over)
        assert [float(v) for v in (got.P, got.b, got.b2, got.k, got.k2)] == [0] * 5
        assert float(got.a) == pytest.approx(size.mean / R_SLOW, rel=1e-9)
        assert float(got.a2) == pytest.approx(size.second_moment / R_SLOW**2, rel=1e-8)


def test_dependence_in_between_is_the_mixture():
    parts = [one_job(model(Lognormal(2.0), d), 0, 1, 0, 1.0) for d in ("identical", "independent", 0.3)]
    for name in ("a", "a2", "P", "b", "b2", "k", "k2"):
        one, other, mixed = (float(getattr(part, name)) for part in parts)
        assert mixed == pytest.approx(0.3 * one + 0.7 * other, rel=1e-12)


def test_phase_type_distributions_by_quadrature_equal_the_same_distributions_in_closed_form():
    closed = size_moments(Hyperexponential(4.0, 0.5, 1.0))
    alpha, S = Hyperexponential(4.0, 0.5, 1.0).phase_type()
    same = size_moments(PhaseType(tuple(alpha.tolist()), tuple(map(tuple, S.tolist()))))
    erlang, series = size_moments(Erlang(2, 1.0)), size_moments(Hypoexponential(rates=(2.0, 2.0)))
    x = np.array([0.0, 0.1, 1.0, 3.0, 20.0])
    one, half = np.ones(5), np.full(5, 0.5)
    for first, second in ((closed, same), (erlang, series)):
        for name in ("tail", "excess", "squared_excess", "truncated_square"):
            assert getattr(first, name)(x) == pytest.approx(getattr(second, name)(x), rel=1e-8, abs=1e-10), name
        for order in (1, 2):
            assert first.joint(x, one, half, half, order) == pytest.approx(
                second.joint(x, one, half, half, order), rel=1e-8, abs=1e-10
            )


@pytest.mark.parametrize("size", [Weibull(0.1, 1.0), Lognormal(1e4, 1.0), Erlang(500, 1.0), BoundedPareto(0.5, 1, 1e9)])
def test_quadrature_holds_out_on_distributions_that_span_many_scales_or_hardly_any(size):
    moments = size_moments(size)
    assert float(moments.excess(np.array(0.0))) == pytest.approx(size.mean, rel=1e-9)
    assert float(moments.squared_excess(np.array(0.0))) == pytest.approx(size.second_moment, rel=1e-8)
    x = size.mean * np.array([0.3, 1.0, 4.0])
    # E[min(X, x)^2] + E[((X - x)^+)^2] + 2 x E[(X - x)^+] = E[X^2], for any distribution.
    total = moments.truncated_square(x) + moments.squared_excess(x) + 2 * x * moments.excess(x)
    assert total == pytest.approx(np.full(3, size.second_moment), rel=1e-8)


def test_who_wins_among_identical_copies_is_decided_by_where_they_finish_together():
    size = Uniform(0.0, 10.0)
    # Threshold 2 at speed 0.4 is 0.8 work; the copies finish together at 0.8 / 0.6.
    assert original_wins(model(size, "identical"), 0, 1, 0, 2.0) == pytest.approx((0.8 / 0.6 - 0.8) / (10 - 0.8))
    assert math.isnan(original_wins(model(size, "identical"), 0, 1, 0, 100.0))
    with pytest.raises(ValueError, match="exponential"):
        original_wins(model(size, "independent"), 0, 1, 0, 2.0)
