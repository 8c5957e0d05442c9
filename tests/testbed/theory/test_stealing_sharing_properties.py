"""What must hold for the mean field whatever the size: identities, extremes, and which policy is best where."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.theory.stealing_sharing import (
    MeanField,
    Policy,
    best_policy,
    exponential_load_boundary,
    exponential_mean_field,
    exponential_mean_response_time,
    exponential_probe_rate_boundary,
    exponential_probe_rate_for,
    load_boundary,
    mean_field,
    probe_rate_boundary,
    probe_rate_for,
    sharing_always_best,
    stealing_always_best,
    traditional_sharing,
    traditional_stealing,
    unit_size_mean_field,
    vanishing_rate_load_boundary,
    vanishing_rate_load_bounds,
)
from testbed.theory.stealing_sharing.sizes import Size
from testbed.workload.distributions import (
    Deterministic,
    Erlang,
    Exponential,
    Hyperexponential,
    Hypoexponential,
    Lognormal,
)

loads = st.floats(0.02, 0.999)
rates = st.floats(1e-4, 1e4)


def random_size(phases: int, seed: int, spread: float) -> Size:
    """Return a dense phase-type distribution of mean 1, its rates spread over ``spread`` decades."""
    rng = np.random.default_rng(seed)
    S = rng.exponential(size=(phases, phases)) * 10 ** rng.uniform(-spread, 0, (phases, 1))
    np.fill_diagonal(S, 0.0)
    mu = rng.exponential(size=phases) * S.sum(axis=1) + 10 ** rng.uniform(-spread, 0, phases)
    np.fill_diagonal(S, -(S.sum(axis=1) + mu))
    alpha = rng.dirichlet(np.ones(phases))
    return alpha, S * float(alpha @ np.linalg.solve(-S, np.ones(phases)))


sizes: st.SearchStrategy[Size] = st.one_of(
    st.builds(Hyperexponential, scv=st.floats(1, 1000), f=st.floats(0.02, 0.98)),
    st.builds(lambda scv: Hypoexponential(wanted_scv=scv), st.floats(0.05, 0.99)),
    st.builds(random_size, st.integers(1, 12), st.integers(0, 10**6), st.floats(0, 2)),
)


def check_identities(state: MeanField, tolerance: float) -> None:
    """Check the identities of the formula sheet, relative to the size of their terms."""
    job, load, delta = state._job, state.load, state.removal_rate
    G, R, single = state._G, state._rate_matrix, state._single
    n = len(job.alpha)
    A_down = np.outer(job.mu, job.alpha) + delta * np.eye(n)
    fastest = float(-job.S.diagonal().min()) + load + delta
    pending = load * job.beta @ R
    assert state.residual < tolerance
    np.testing.assert_allclose(load * G, R @ A_down, atol=tolerance * fastest, rtol=0)
    assert single @ job.mu == pytest.approx((1 - load) * state.idle_arrival_rate, rel=tolerance * fastest)
    np.testing.assert_allclose(single, load * job.beta - pending, atol=tolerance)
    assert pending @ job.mu + delta * state.pending_probability == pytest.approx(load**2, rel=tolerance * fastest)
    assert state.queue_length_pmf(0) + state.queue_length_tail(1) == pytest.approx(1.0, abs=1e-14)
    assert state.pending_probability < min(load, load**2 / delta)


@settings(max_examples=60)
@given(load=loads, size=sizes, rate=rates)
def test_identities_hold(load: float, size: Size, rate: float) -> None:
    check_identities(mean_field(load, size, rate), 1e-12)


@pytest.mark.parametrize("rate", [0.001, 1.0, 500.0])
@pytest.mark.parametrize(
    "size",
    [Hyperexponential(scv=1000, f=0.5), Hyperexponential(scv=1000, f=0.02), Erlang(phases=50), random_size(50, 3, 3.0)],
    ids=["scv-1000", "scv-1000-few-short", "erlang-50", "dense-50"],
)
def test_residuals_stay_at_rounding_in_the_extremes(size: Size, rate: float) -> None:
    state = mean_field(0.999, size, rate)
    check_identities(state, 1e-12)
    # (I - R)^-1 amplifies rounding by up to 1 / (1 - eta); the mean is computed without it.
    direct = state._job.beta @ np.linalg.solve(np.eye(len(state._G)) - state._rate_matrix, np.ones(len(state._G)))
    assert state.mean_response_time == pytest.approx(direct, rel=1e-13 / (1 - state.decay_rate) + 1e-11)


def test_mean_response_time_at_load_0999_and_scv_1000_has_twelve_digits() -> None:
    """Against the same equations in 50-digit arithmetic (mpmath, logarithmic reduction)."""
    state = mean_field(0.999, Hyperexponential(scv=1000, f=0.5), 2.0)
    assert state.mean_response_time == pytest.approx(166334.5010009988348, rel=1e-12)


@settings(max_examples=25)
@given(load=st.floats(0.05, 0.98), size=sizes, rate=st.floats(1e-3, 1e3))
def test_more_probes_are_better_and_both_forms_of_the_mean_meet(load: float, size: Size, rate: float) -> None:
    slow, fast = mean_field(load, size, rate), mean_field(load, size, rate * 1.2)
    assert fast.mean_response_time < slow.mean_response_time
    assert fast.pending_probability < slow.pending_probability
    assert fast.overall_probe_rate("sharing") > slow.overall_probe_rate("sharing")
    # The formula changes at delta = lam: nothing may jump there.
    r = load / (1 - load)
    below, above = (mean_field(load, size, r * (1 + e)).mean_response_time for e in (-1e-12, 1e-12))
    assert below == pytest.approx(above, rel=1e-9)


@pytest.mark.parametrize("size", [Exponential(), Erlang(phases=4), Hyperexponential(scv=30, f=0.2)])
@pytest.mark.parametrize("load", [0.1, 0.7, 0.99])
def test_without_probes_it_is_mg1(load: float, size: Erlang | Exponential | Hyperexponential) -> None:
    state = mean_field(load, size, 0.0)
    assert state.mean_response_time == pytest.approx(1 + load * (1 + size.scv) / (2 * (1 - load)), rel=1e-12)
    assert state.pending_probability == pytest.approx(1 - (1 - load) / size.laplace_transform(load), rel=1e-12)


@settings(max_examples=40)
@given(load=st.floats(0.05, 0.99), rate=st.floats(1e-3, 50.0))
def test_exponential_sizes_match_their_closed_forms(load: float, rate: float) -> None:
    closed, state = exponential_mean_field(load, rate), mean_field(load, Exponential(), rate)
    assert state.mean_response_time == pytest.approx(closed.mean_response_time, rel=1e-12)
    assert state.pending_probability == pytest.approx(closed.pending_probability, rel=1e-12)
    assert state.decay_rate == pytest.approx(closed.decay_rate, rel=1e-12)
    policies: tuple[Policy, Policy] = ("stealing", "sharing")
    for policy in policies:
        r = probe_rate_for(policy, load, Exponential(), rate)
        # Close to the limit of sharing r is lam^2 - (1 - lam) R_o, inverted: rounding counts as often as r is large.
        assert r == pytest.approx(exponential_probe_rate_for(policy, load, rate), rel=1e-11 * (1 + min(r, 1e6)))
        mean = mean_field(load, Exponential(), r).mean_response_time
        assert mean == pytest.approx(exponential_mean_response_time(policy, load, rate), rel=1e-10)
    assert load_boundary(Exponential(), rate) == pytest.approx(exponential_load_boundary(rate), rel=1e-12)
    assert probe_rate_boundary(load, Exponential()) == pytest.approx(
        exponential_probe_rate_boundary(load), rel=1e-10, abs=1e-12
    )
    for most in (1, 3):
        stealing, sharing = (f(load, Exponential(), most) for f in (traditional_stealing, traditional_sharing))
        for policy, result in zip(policies, (stealing, sharing), strict=True):
            same = exponential_mean_response_time(policy, load, result.overall_probe_rate)
            assert result.mean_response_time == pytest.approx(same, rel=1e-10)


@settings(max_examples=30)
@given(load=st.floats(0.05, 0.99), size=sizes, share=st.floats(1e-6, 0.999))
def test_probe_rate_for_gives_the_overall_rate_and_best_policy_the_smaller_mean(
    load: float, size: Size, share: float
) -> None:
    rate = share * load**2 / (1 - load)
    states: dict[Policy, MeanField] = {
        policy: mean_field(load, size, probe_rate_for(policy, load, size, rate)) for policy in ("stealing", "sharing")
    }
    for policy, state in states.items():
        assert state.overall_probe_rate(policy) == pytest.approx(rate, rel=1e-11)
        assert state.transfer_rate == pytest.approx(rate * state.success_probability(policy), rel=1e-11)
    stealing, sharing = (states[policy].mean_response_time for policy in ("stealing", "sharing"))
    if stealing != pytest.approx(sharing, rel=1e-9):
        assert best_policy(load, size, rate) == ("stealing" if stealing < sharing else "sharing")


@settings(max_examples=20)
@given(size=sizes, rate=st.floats(0.01, 20.0))
def test_load_boundary_parts_the_policies_and_agrees_with_the_probe_rate_boundary(size: Size, rate: float) -> None:
    boundary = load_boundary(size, rate)
    assert 0.5 <= boundary < 1
    assert best_policy(boundary * (1 + 1e-7), size, rate) == "stealing"
    assert best_policy(boundary * (1 - 1e-7), size, rate) == "sharing"
    assert probe_rate_boundary(boundary, size) == pytest.approx(rate, rel=1e-5)


def test_beyond_its_limit_sharing_leaves_no_task_waiting() -> None:
    size = Hyperexponential(scv=10)
    limit = 0.6**2 / 0.4
    assert probe_rate_for("sharing", 0.6, size, limit * (1 + 1e-9)) == math.inf
    state = mean_field(0.6, size, math.inf)
    assert (state.mean_response_time, state.pending_probability, state.queue_length_pmf(1)) == (1.0, 0.0, 0.6)
    assert state.overall_probe_rate("sharing") == pytest.approx(limit)
    near = mean_field(0.6, size, 1e9)
    assert near.mean_response_time == pytest.approx(1.0, abs=1e-8)
    assert near.overall_probe_rate("sharing") == pytest.approx(limit, rel=1e-8)
    assert near.idle_arrival_rate == pytest.approx(state.idle_arrival_rate, rel=1e-8)


@settings(max_examples=30)
@given(load=st.floats(0.05, 0.99), size=sizes, rate=st.floats(0.01, 10.0))
def test_bounds_hold_for_every_size(load: float, size: Size, rate: float) -> None:
    if sharing_always_best(load, rate):
        assert best_policy(load, size, rate) == "sharing"
    if stealing_always_best(load, rate):
        assert best_policy(load, size, rate) == "stealing"
    unit = unit_size_mean_field(load, rate).pending_probability
    assert mean_field(load, size, rate / (1 - load)).pending_probability > unit * (1 - 1e-10)


def test_sharing_always_best_is_tight() -> None:
    """A few long jobs bring nearly all the work: with f -> 0 and a large SCV u2 gets to min(lam, lam^2 / delta)."""
    worst = Hyperexponential(scv=1e6, f=1e-4)
    for load, rate in ((0.51, 0.1), (0.7, 1.6), (0.9, 8.0)):
        assert not sharing_always_best(load, rate)
        assert best_policy(load, worst, rate) == "stealing"
    assert sharing_always_best(0.5, 0.1)
    assert sharing_always_best(0.7, 0.7**2 / 0.3)


@pytest.mark.parametrize(("load", "rate"), [(0.6, 0.0), (0.8, 0.3), (0.9, 4.0), (0.6, 2.0)])
def test_erlang_sizes_converge_to_unit_sizes(load: float, rate: float) -> None:
    unit = unit_size_mean_field(load, rate)
    for name, exact in unit._asdict().items():
        coarse, fine = (getattr(mean_field(load, Erlang(phases=k), rate / (1 - load)), name) for k in (20, 40))
        assert 2 * fine - coarse == pytest.approx(exact, rel=1e-3)  # the error is O(1/k): extrapolated, O(1/k^2)
        assert abs(fine - exact) < abs(coarse - exact)


@pytest.mark.parametrize(("load", "accuracy"), [(0.3, 1e-12), (0.9, 1e-11), (0.999, 1e-8)])
def test_unit_sizes_without_removals_are_md1(load: float, accuracy: float) -> None:
    state = unit_size_mean_field(load, 0.0)
    assert state.mean_response_time == pytest.approx(1 + load / (2 * (1 - load)), rel=accuracy)
    assert state.pending_probability == pytest.approx(1 - (1 - load) * math.exp(load), rel=accuracy)


def test_vanishing_rate_bounds_enclose_the_boundaries() -> None:
    assert vanishing_rate_load_bounds() == pytest.approx((0.5, 0.6590460684), abs=1e-9)
    assert vanishing_rate_load_bounds(phases=1)[1] == pytest.approx((math.sqrt(5) - 1) / 2)
    for distribution in (
        Exponential(),
        Erlang(phases=5),
        Hyperexponential(scv=5),
        Hyperexponential(scv=200, f=0.01),
        Deterministic(),
        Lognormal(mean=1.0, scv=4.0),
    ):
        low, high = vanishing_rate_load_bounds(scv=distribution.scv)
        assert low <= vanishing_rate_load_boundary(distribution) <= high + 1e-12
    low, high = vanishing_rate_load_bounds(scv=5.0, phases=2)
    assert 0.5 < low < load_boundary(Hyperexponential(scv=5, f=0.9), 0.0) < high


@pytest.mark.parametrize("load", [0.0, 1.0, 1.2, -0.1, math.nan])
def test_loads_outside_0_to_1_are_refused(load: float) -> None:
    with pytest.raises(ValueError, match="load is"):
        mean_field(load, Exponential(), 1.0)
    with pytest.raises(ValueError, match="load is"):
        best_policy(load, Exponential(), 1.0)


def test_sizes_that_do_not_fit_are_refused_with_a_reason() -> None:
    with pytest.raises(ValueError, match=r"mean size is 2, .* must be 1.*size.scaled"):
        mean_field(0.5, Exponential(mean=2.0), 1.0)
    with pytest.raises(ValueError, match=r"mean size is 0\.5"):
        mean_field(0.5, ([1.0], [[-2.0]]), 1.0)
    with pytest.raises(ValueError, match="Deterministic sizes are not phase-type"):
        mean_field(0.5, Deterministic(), 1.0)
    with pytest.raises(ValueError, match="row 0 of `S`"):
        mean_field(0.5, ([1.0, 0.0], [[-1.0, 2.0], [0.0, -1.0]]), 1.0)
    with pytest.raises(ValueError, match="shape"):
        mean_field(0.5, ([[1.0]], [[-1.0]]), 1.0)
    with pytest.raises(TypeError, match="give a distribution"):
        mean_field(0.5, [1.0], 1.0)  # type: ignore[arg-type]  # what a caller without a type checker may do


def test_rates_and_policies_that_make_no_sense_are_refused() -> None:
    for rate in (-1.0, math.nan):
        with pytest.raises(ValueError, match="probe rate"):
            mean_field(0.5, Exponential(), rate)
        with pytest.raises(ValueError, match="overall probe rate"):
            load_boundary(Exponential(), rate)
    with pytest.raises(ValueError, match='"stealing" or "sharing"'):
        probe_rate_for("push", 0.5, Exponential(), 1.0)  # type: ignore[arg-type]  # see above
    with pytest.raises(ValueError, match="max_probes"):
        traditional_stealing(0.5, Exponential(), 0)
    with pytest.raises(ValueError, match=r"at least 0\.5"):
        vanishing_rate_load_bounds(scv=0.2, phases=2)
    with pytest.raises(ValueError, match="queue length"):
        mean_field(0.5, Exponential(), 1.0).queue_length_pmf(-1)
