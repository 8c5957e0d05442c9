"""From scenarios to predictions: which formula, of which kind, with which delays added, and when none."""

from __future__ import annotations

import math
from functools import partial

import numpy as np
import pytest
from scipy.stats import t as student

from testbed.scenario import JobType, Pool
from testbed.scenario.policies import policies
from testbed.theory.baselines import jiq_limit, mg1, mm1b, mmc, power_of_d, power_of_d_phase_type, round_robin
from testbed.theory.copies import CopyTheory
from testbed.theory.policy_theory import NO_THEORY, theory_of_policy
from testbed.theory.predict import predict, predicted_tail
from testbed.workload.arrivals import DeterministicArrivals, MarkovModulatedPoisson, Renewal
from testbed.workload.distributions import Deterministic, Erlang, Exponential, Hyperexponential, Pareto

BATCH = ("batch-filling", "batch-sampling", "per-task-power-of-d", "per-task-power-of-kd")
PROBING = ("power-of-d", "jsq", *BATCH, "late-binding")
THEORIES = {name: theory_of_policy(policy) for name, policy in policies().items()}
POLICIES = sorted(name for name, theory in THEORIES.items() if theory is not NO_THEORY)
WITHOUT_COPIES = [name for name in POLICIES if not isinstance(THEORIES[name], CopyTheory)]
WITH_BUFFERS = sorted(set(WITHOUT_COPIES) - {"late-binding"})
FAST_AND_SLOW = [Pool(name="fast", servers=1), Pool(name="slow", servers=3)]
ONE_TYPE = [JobType(name="a", probability=1.0, speed={"fast": 2.0})]


near = partial(pytest.approx, rel=1e-9)


def test_random_routing_is_an_exact_mm1_queue_with_its_quantiles(predicted):
    prediction = predicted("random")
    assert (prediction.name, prediction.kind) == ("M/M/1, random routing", "exact")
    assert prediction.mean_response_time == near(5.0)
    assert prediction.quantiles == near({p: -5 * math.log(1 - p) for p in (0.5, 0.9, 0.99, 0.999)})
    times, tail = zip(*prediction.response_tail, strict=True)
    assert tail == near(tuple(math.exp(-t / 5) for t in times))
    assert times[0] < prediction.quantiles[0.5]
    assert times[-1] > prediction.quantiles[0.999]


@pytest.mark.parametrize("settings", [{}, {"message_delay": 0.25}, {"buffer": 4}])
def test_the_predicted_tail_is_that_of_the_quantiles_delays_included(predicted, scenario, settings):
    for policy in ("random", "power-of-d"):
        made = scenario(policy, **settings)
        tail = predicted_tail(made)
        quantiles = getattr(predict(made), "quantiles", {})
        assert (tail is None) == (not quantiles)
        for probability, value in quantiles.items():
            assert tail(value) == pytest.approx(1 - probability, rel=1e-6)
            assert tail(0.0) == pytest.approx(1.0)


def test_no_tail_is_predicted_where_there_is_no_distribution(scenario):
    assert predicted_tail(scenario("random", size=Deterministic(value=2.0))) is None
    assert predicted_tail(scenario("random", load=1.2)) is None


def test_random_routing_is_exact_for_any_sizes_and_says_nothing_of_unknown_distributions(predicted):
    prediction = predicted("random", size=Deterministic(value=2.0))
    assert prediction.mean_response_time == near(2 * (1 + 0.8 / (2 * 0.2)))
    assert prediction.quantiles == {}
    assert prediction.response_tail == []


def test_random_routing_with_weights_is_a_mixture_of_queues(predicted, reason):
    rate = 0.4 * 4
    prediction = predicted("random", servers=4, load=0.4, weights=(1.0, 1.0, 2.0, 0.0))
    assert prediction.mean_response_time == near(sum(p / (1 - rate * p) for p in (0.25, 0.25, 0.5)))
    assert "unstable" in reason("random", servers=4, load=0.5, weights=(1.0, 1.0, 2.0, 0.0))


def test_speeds_and_types_make_the_service_time_a_mixture(predicted):
    types = [
        JobType(name="a", probability=0.5, speed={"fast": 4.0}),
        JobType(name="b", probability=0.5, speed={"fast": 2.0}),
    ]
    prediction = predicted("random", pools=FAST_AND_SLOW, types=types, load=0.6)
    mean, second = (0.25 + 0.5) / 2, 2 * (0.25**2 + 0.5**2) / 2
    fast = mean + 0.6 * second / (2 * (1 - 0.6 * mean))
    assert prediction.mean_response_time == near((fast + 3 * 2.5) / 4)
    assert set(prediction.quantiles) == {0.5, 0.9, 0.99, 0.999}


def test_a_buffer_makes_it_mm1b_at_any_load(predicted):
    prediction = predicted("random", buffer=3, load=1.4)
    assert prediction.kind == "exact"
    assert prediction.mean_response_time == near(mm1b(1.4, 3).mean_response_time)
    assert any(f"{mm1b(1.4, 3).drop_probability:.4g}" in note for note in prediction.notes)


@pytest.mark.parametrize("policy", WITH_BUFFERS)
def test_a_buffer_that_never_fills_changes_nothing_and_one_that_does_ends_the_theory(predicted, reason, policy):
    ample, unlimited = predicted(policy, buffer=1000), predicted(policy)
    assert ample.mean_response_time == near(unlimited.mean_response_time)
    if policy not in ("random", "static"):
        assert "buffer of 5" in reason(policy, buffer=5)
        assert "overloaded" in reason(policy, buffer=5, load=1.2)


def test_enormous_buffers_and_loads_next_to_one_are_answered_at_once(predicted, reason):
    assert predicted("random", buffer=10**12).mean_response_time == near(5.0)
    assert predicted("random", load=1 - 1e-9).mean_response_time == near(1e9, rel=1e-5)
    assert "above 1000000" in reason("random", buffer=10**12, load=1.5)


def test_round_robin_is_exact_with_one_dispatcher_and_approximate_with_several(predicted):
    one, several = predicted("round-robin"), predicted("round-robin", dispatchers=4)
    assert (one.name, one.kind) == ("E_40/M/1, round robin", "exact")
    assert one.mean_response_time == near(round_robin(40, 0.8).mean_response_time)
    assert several.kind == "approximation"
    assert several.mean_response_time == near(5.0)
    assert any("2.75" in note for note in several.notes)


def test_renewal_arrivals_add_up_under_round_robin(predicted):
    prediction = predicted("round-robin", servers=4, arrivals=Renewal(gap=Erlang(phases=3, mean=7.0)))
    assert prediction.mean_response_time == near(round_robin(12, 0.8).mean_response_time)
    regular = predicted("round-robin", arrivals=DeterministicArrivals())
    assert regular.mean_response_time == near(round_robin(math.inf, 0.8).mean_response_time)


def test_renewal_arrivals_at_one_server_are_gim1_whatever_the_policy(predicted):
    for policy in POLICIES:
        prediction = predicted(policy, servers=1, arrivals=Renewal(gap=Erlang(phases=3)))
        assert prediction.mean_response_time == near(round_robin(3, 0.8).mean_response_time)


def test_regular_arrivals_split_at_random_agree_with_lindleys_recursion(predicted):
    """Twenty independent runs; the interval's false alarm rate is 1e-5."""
    servers, load, jobs = 2, 0.7, 100_000
    rng = np.random.default_rng(5)
    means = []
    for _ in range(20):
        gaps = rng.geometric(1 / servers, jobs) / (servers * load)
        sizes = rng.standard_exponential(jobs)
        walk = np.concatenate([[0.0], np.cumsum(sizes[:-1] - gaps[1:])])
        waits = walk - np.minimum.accumulate(walk)
        means.append(float((waits + sizes)[jobs // 20 :].mean()))
    half_width = student.ppf(1 - 0.5e-5, 19) * np.std(means, ddof=1) / math.sqrt(20)
    prediction = predicted("random", servers=servers, load=load, arrivals=DeterministicArrivals())
    assert prediction.kind == "exact"
    assert abs(np.mean(means) - prediction.mean_response_time) < half_width < 0.04
    assert prediction.mean_response_time < 1 / (1 - load) - 0.5  # it can tell from M/M/1


def test_power_of_d_is_the_limit_for_exponential_and_phase_type_sizes(predicted):
    prediction = predicted("power-of-d", load=0.9, d=2)
    assert prediction.kind == "limit"
    assert prediction.mean_response_time == near(power_of_d(0.9, 2).mean_response_time)
    assert prediction.lower_bound == near(mmc(40, 0.9).mean_response_time)
    assert any("above the limit" in note and "c/N" in note for note in prediction.notes)
    size = Hyperexponential(scv=4, mean=2.0)
    bursty = predicted("power-of-d", load=0.9, d=2, size=size)
    assert bursty.mean_response_time == near(power_of_d_phase_type(0.9, 2, *size.phase_type()).mean_response_time)
    assert bursty.lower_bound is None


def test_power_of_d_with_one_choice_is_random_routing(predicted):
    assert predicted("power-of-d", d=1, message_delay=0.1) == predicted("random", message_delay=0.1)


@pytest.mark.parametrize("policy", ["jsq", "least-outstanding", "jiq"])
def test_no_job_waits_in_the_limit_and_the_central_queue_bounds_it_below(predicted, policy):
    prediction = predicted(policy, load=0.9)
    assert (prediction.kind, prediction.mean_response_time) == ("limit", 1.0)
    assert prediction.lower_bound == near(mmc(40, 0.9).mean_response_time)
    assert any("(1 - load)^2" in note and "0.4" in note for note in prediction.notes)
    assert any("M/M/40" in note for note in prediction.notes)


def test_several_dispatchers_matter_to_jiq_and_end_the_theory_of_local_counts(predicted, reason):
    assert predicted("jiq", dispatchers=4).mean_response_time == near(jiq_limit(0.8, 10).mean_response_time)
    assert "one dispatcher only" in reason("least-outstanding", dispatchers=4)
    for policy in ("power-of-d", "jsq"):
        assert predicted(policy, dispatchers=4) == predicted(policy)


@pytest.mark.parametrize("policy", WITHOUT_COPIES)
def test_message_delays_are_added_and_probes_pay_a_round_trip_more(predicted, policy):
    without, with_delay = predicted(policy), predicted(policy, message_delay=0.1)
    added = 0.4 if policy in PROBING else 0.2
    assert with_delay.mean_response_time == near(without.mean_response_time + added)
    assert with_delay.quantiles == near({p: t + added for p, t in without.quantiles.items()})
    assert with_delay.response_tail == [(near(t + added), near(p)) for t, p in without.response_tail]
    blind = policy in ("random", "round-robin", "static")
    assert with_delay.kind == ("exact" if blind else "approximation")
    assert any("true value is higher" in note for note in with_delay.notes) == (not blind)
    assert predicted(policy, message_delay=Deterministic(value=0.1)) == with_delay


@pytest.mark.parametrize("policy", WITHOUT_COPIES)
def test_random_message_delays_leave_an_approximate_mean_without_probes_and_nothing_with(predicted, reason, policy):
    delay = Exponential(mean=0.1)
    if policy in PROBING:
        assert "slowest reply" in reason(policy, message_delay=delay)
    else:
        prediction = predicted(policy, message_delay=delay)
        assert (prediction.kind, prediction.quantiles, prediction.response_tail) == ("approximation", {}, [])
        assert prediction.mean_response_time == near(predicted(policy).mean_response_time + 0.2)


def test_a_fractional_d_pays_for_probes_as_often_as_it_makes_them(predicted):
    added = (
        predicted("power-of-d", d=1.25, message_delay=0.1).mean_response_time - power_of_d(0.8, 1.25).mean_response_time
    )
    assert added == near(0.2 + 0.25 * 0.2)


@pytest.mark.parametrize("policy", WITHOUT_COPIES)
def test_speed_scales_time(predicted, policy):
    types = [
        JobType(name="a", probability=0.4, speed={"main": 2.0}),
        JobType(name="b", probability=0.6, speed={"main": 2.0}),
    ]
    double, normal = predicted(policy, types=types, load=1.6), predicted(policy)
    assert double.mean_response_time == near(normal.mean_response_time / 2)
    assert double.quantiles == near({p: t / 2 for p, t in normal.quantiles.items()})


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_one_server_is_one_queue_whatever_the_policy(predicted, policy):
    prediction = predicted(policy, servers=1, size=Erlang(phases=2), dispatchers=3)
    assert prediction.kind == "exact"
    assert prediction.mean_response_time == near(mg1(0.8, Erlang(phases=2)).mean_response_time)


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        ("random", {"load": 1.0}, "unstable"),
        ("jsq", {"load": 1.3}, "unstable"),
        ("random", {"size": Pareto(index=1.5, minimum=1 / 3)}, "infinite"),
        ("random", {"arrivals": MarkovModulatedPoisson(rates=(1.0, 2.0), sojourns=(1.0, 1.0))}, "neither Poisson nor"),
        ("random", {"arrivals": DeterministicArrivals(), "size": Erlang(phases=2)}, "exponential"),
        ("random", {"buffer": 5, "size": Erlang(phases=2)}, "buffer of 5"),
        ("random", {"buffer": 5, "size": Deterministic()}, "phase-type"),
        ("round-robin", {"size": Erlang(phases=2)}, "exponential"),
        ("round-robin", {"arrivals": DeterministicArrivals(), "dispatchers": 2}, "Poisson"),
        ("power-of-d", {"size": Deterministic()}, "phase-type"),
        ("power-of-d", {"size": Erlang(phases=300)}, "phases"),
        ("power-of-d", {"arrivals": DeterministicArrivals()}, "Poisson"),
        ("power-of-d", {"pools": FAST_AND_SLOW, "types": ONE_TYPE}, "same speed"),
        ("power-of-d", {"timeout": 0.2, "message_delay": 0.1}, "timeout of 0.2"),
        ("jiq", {"size": Erlang(phases=2)}, "exponential"),
        ("jsq", {"pools": FAST_AND_SLOW, "types": ONE_TYPE}, "same speed"),
    ],
)
def test_where_there_is_no_formula_the_reason_is_given(reason, policy, settings, words):
    assert words in reason(policy, **settings)
