"""From scenarios to predictions: which formula, of which kind, with which delays added, and when none."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import t as student

from dispatchers.registry import policies
from testbed.scenario import ClusterSettings, Dispatch, JobType, Pool, Scenario, WorkloadSettings
from testbed.theory.baselines import jiq_limit, mg1, mm1b, mmc, power_of_d, power_of_d_phase_type, round_robin
from testbed.theory.predict import POLICIES, NoPrediction, Prediction, predict, stability_bound
from testbed.workload.arrivals import DeterministicArrivals, MarkovModulatedPoisson, Poisson, Renewal
from testbed.workload.distributions import Deterministic, Erlang, Exponential, Hyperexponential, Pareto

BATCH = ("batch-filling", "batch-sampling", "per-task-power-of-d", "per-task-power-of-kd")
PROBING = ("power-of-d", "jsq", *BATCH, "late-binding")
WITH_BUFFERS = sorted(set(POLICIES) - {"late-binding"})
FAST_AND_SLOW = [Pool(name="fast", servers=1), Pool(name="slow", servers=3)]
ONE_TYPE = [JobType(name="a", probability=1.0, speed={"fast": 2.0})]


def scenario(
    policy: str,
    *,
    servers: int = 40,
    buffer: int | None = None,
    pools: list[Pool] | None = None,
    types: list[JobType] | None = None,
    load: float = 0.8,
    dispatchers: int = 1,
    message_delay: Any = 0.0,
    arrivals: Any = None,
    size: Any = None,
    **parameters: Any,
) -> Scenario:
    return Scenario(
        name="test",
        cluster=ClusterSettings(
            dispatchers=dispatchers,
            message_delay=message_delay,
            pools=pools or [Pool(servers=servers, buffer=buffer)],
        ),
        workload=WorkloadSettings(
            load=load,
            arrivals=arrivals or Poisson(),
            size=size or Exponential(),
            types=types or [JobType(name="default", probability=1.0)],
        ),
        dispatch=Dispatch(policy, policies()[policy].Parameters(**parameters)),
    )


def predicted(policy: str, **settings: Any) -> Prediction:
    prediction = predict(scenario(policy, **settings))
    assert isinstance(prediction, Prediction), prediction
    return prediction


def reason(policy: str, **settings: Any) -> str:
    prediction = predict(scenario(policy, **settings))
    assert isinstance(prediction, NoPrediction), prediction
    return prediction.reason


def near(value: float, rel: float = 1e-9) -> Any:
    return pytest.approx(value, rel=rel)


def test_random_routing_is_an_exact_mm1_queue_with_its_quantiles():
    prediction = predicted("random")
    assert (prediction.name, prediction.kind) == ("M/M/1, random routing", "exact")
    assert prediction.mean_response_time == near(5.0)
    assert prediction.quantiles == near({p: -5 * math.log(1 - p) for p in (0.5, 0.9, 0.99, 0.999)})


def test_random_routing_is_exact_for_any_sizes_and_says_nothing_of_unknown_distributions():
    prediction = predicted("random", size=Deterministic(value=2.0))
    assert prediction.mean_response_time == near(2 * (1 + 0.8 / (2 * 0.2)))
    assert prediction.quantiles == {}


def test_random_routing_with_weights_is_a_mixture_of_queues():
    rate = 0.4 * 4
    prediction = predicted("random", servers=4, load=0.4, weights=(1.0, 1.0, 2.0, 0.0))
    assert prediction.mean_response_time == near(sum(p / (1 - rate * p) for p in (0.25, 0.25, 0.5)))
    assert "unstable" in reason("random", servers=4, load=0.5, weights=(1.0, 1.0, 2.0, 0.0))


def test_speeds_and_types_make_the_service_time_a_mixture():
    types = [
        JobType(name="a", probability=0.5, speed={"fast": 4.0}),
        JobType(name="b", probability=0.5, speed={"fast": 2.0}),
    ]
    prediction = predicted("random", pools=FAST_AND_SLOW, types=types, load=0.6)
    mean, second = (0.25 + 0.5) / 2, 2 * (0.25**2 + 0.5**2) / 2
    fast = mean + 0.6 * second / (2 * (1 - 0.6 * mean))
    assert prediction.mean_response_time == near((fast + 3 * 2.5) / 4)
    assert set(prediction.quantiles) == {0.5, 0.9, 0.99, 0.999}


def test_a_buffer_makes_it_mm1b_at_any_load():
    prediction = predicted("random", buffer=3, load=1.4)
    assert prediction.kind == "exact"
    assert prediction.mean_response_time == near(mm1b(1.4, 3).mean_response_time)
    assert any(f"{mm1b(1.4, 3).drop_probability:.4g}" in note for note in prediction.notes)


@pytest.mark.parametrize("policy", WITH_BUFFERS)
def test_a_buffer_that_never_fills_changes_nothing_and_one_that_does_ends_the_theory(policy):
    ample, unlimited = predicted(policy, buffer=1000), predicted(policy)
    assert ample.mean_response_time == near(unlimited.mean_response_time)
    if policy not in ("random", "static"):
        assert "buffer of 5" in reason(policy, buffer=5)
        assert "overloaded" in reason(policy, buffer=5, load=1.2)


def test_enormous_buffers_and_loads_next_to_one_are_answered_at_once():
    assert predicted("random", buffer=10**12).mean_response_time == near(5.0)
    assert predicted("random", load=1 - 1e-9).mean_response_time == near(1e9, 1e-5)
    assert "above 1000000" in reason("random", buffer=10**12, load=1.5)


def test_round_robin_is_exact_with_one_dispatcher_and_approximate_with_several():
    one, several = predicted("round-robin"), predicted("round-robin", dispatchers=4)
    assert (one.name, one.kind) == ("E_40/M/1, round robin", "exact")
    assert one.mean_response_time == near(round_robin(40, 0.8).mean_response_time)
    assert several.kind == "approximation"
    assert several.mean_response_time == near(5.0)
    assert any("2.75" in note for note in several.notes)


def test_renewal_arrivals_add_up_under_round_robin():
    prediction = predicted("round-robin", servers=4, arrivals=Renewal(gap=Erlang(phases=3, mean=7.0)))
    assert prediction.mean_response_time == near(round_robin(12, 0.8).mean_response_time)
    regular = predicted("round-robin", arrivals=DeterministicArrivals())
    assert regular.mean_response_time == near(round_robin(math.inf, 0.8).mean_response_time)


def test_renewal_arrivals_at_one_server_are_gim1_whatever_the_policy():
    for policy in POLICIES:
        prediction = predicted(policy, servers=1, arrivals=Renewal(gap=Erlang(phases=3)))
        assert prediction.mean_response_time == near(round_robin(3, 0.8).mean_response_time)


def test_regular_arrivals_split_at_random_agree_with_lindleys_recursion():
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


def test_power_of_d_is_the_limit_for_exponential_and_phase_type_sizes():
    prediction = predicted("power-of-d", load=0.9, d=2)
    assert prediction.kind == "limit"
    assert prediction.mean_response_time == near(power_of_d(0.9, 2).mean_response_time)
    assert prediction.lower_bound == near(mmc(40, 0.9).mean_response_time)
    assert any("above the limit" in note and "c/N" in note for note in prediction.notes)
    size = Hyperexponential(scv=4, mean=2.0)
    bursty = predicted("power-of-d", load=0.9, d=2, size=size)
    assert bursty.mean_response_time == near(power_of_d_phase_type(0.9, 2, *size.phase_type()).mean_response_time)
    assert bursty.lower_bound is None


def test_power_of_d_with_one_choice_is_random_routing():
    assert predicted("power-of-d", d=1, message_delay=0.1) == predicted("random", message_delay=0.1)


@pytest.mark.parametrize("policy", ["jsq", "least-outstanding", "jiq"])
def test_no_job_waits_in_the_limit_and_the_central_queue_bounds_it_below(policy):
    prediction = predicted(policy, load=0.9)
    assert (prediction.kind, prediction.mean_response_time) == ("limit", 1.0)
    assert prediction.lower_bound == near(mmc(40, 0.9).mean_response_time)
    assert any("(1 - load)^2" in note and "0.4" in note for note in prediction.notes)
    assert any("M/M/40" in note for note in prediction.notes)


def test_several_dispatchers_matter_to_jiq_and_end_the_theory_of_local_counts():
    assert predicted("jiq", dispatchers=4).mean_response_time == near(jiq_limit(0.8, 10).mean_response_time)
    assert "one dispatcher only" in reason("least-outstanding", dispatchers=4)
    for policy in ("power-of-d", "jsq"):
        assert predicted(policy, dispatchers=4) == predicted(policy)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_message_delays_are_added_and_probes_pay_a_round_trip_more(policy):
    without, with_delay = predicted(policy), predicted(policy, message_delay=0.1)
    added = 0.4 if policy in PROBING else 0.2
    assert with_delay.mean_response_time == near(without.mean_response_time + added)
    assert with_delay.quantiles == near({p: t + added for p, t in without.quantiles.items()})
    blind = policy in ("random", "round-robin", "static")
    assert with_delay.kind == ("exact" if blind else "approximation")
    assert any("true value is higher" in note for note in with_delay.notes) == (not blind)
    assert predicted(policy, message_delay=Deterministic(value=0.1)) == with_delay


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_random_message_delays_leave_an_approximate_mean_without_probes_and_nothing_with(policy):
    delay = Exponential(mean=0.1)
    if policy in PROBING:
        assert "slowest reply" in reason(policy, message_delay=delay)
    else:
        prediction = predicted(policy, message_delay=delay)
        assert (prediction.kind, prediction.quantiles) == ("approximation", {})
        assert prediction.mean_response_time == near(predicted(policy).mean_response_time + 0.2)


def test_a_fractional_d_pays_for_probes_as_often_as_it_makes_them():
    added = (
        predicted("power-of-d", d=1.25, message_delay=0.1).mean_response_time - power_of_d(0.8, 1.25).mean_response_time
    )
    assert added == near(0.2 + 0.25 * 0.2)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_speed_scales_time(policy):
    types = [
        JobType(name="a", probability=0.4, speed={"main": 2.0}),
        JobType(name="b", probability=0.6, speed={"main": 2.0}),
    ]
    double, normal = predicted(policy, types=types, load=1.6), predicted(policy)
    assert double.mean_response_time == near(normal.mean_response_time / 2)
    assert double.quantiles == near({p: t / 2 for p, t in normal.quantiles.items()})


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_one_server_is_one_queue_whatever_the_policy(policy):
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
def test_where_there_is_no_formula_the_reason_is_given(policy, settings, words):
    assert words in reason(policy, **settings)


def test_an_unknown_policy_has_no_theory():
    class Elsewhere:
        policy = "mine"
        parameters = None

    class Likeness:
        def __init__(self, real: Scenario) -> None:
            self.cluster, self.workload, self.dispatch = real.cluster, real.workload, Elsewhere()
            self.balance = self.threshold = None
            self.rate, self.load, self.service_rate = real.rate, real.load, real.service_rate

    prediction = predict(Likeness(scenario("random")))
    assert isinstance(prediction, NoPrediction)
    assert "'mine'" in prediction.reason
    assert stability_bound(Likeness(scenario("random"))).reason.startswith("at most")


def test_all_registered_policies_have_a_theory():
    assert set(POLICIES) >= {"random", "round-robin", "jsq", "least-outstanding", "power-of-d", "jiq"}


def test_blind_policies_are_stable_as_long_as_their_busiest_server():
    assert stability_bound(scenario("random", servers=4, weights=(1.0, 1.0, 2.0, 0.0))).bound == near(0.5)
    for policy in ("random", "round-robin"):
        uneven = stability_bound(scenario(policy, pools=FAST_AND_SLOW, types=ONE_TYPE))
        assert uneven.bound == near(1.0)
        assert "slow" in uneven.reason
        assert uneven.load == 0.8
    slow = [JobType(name="a", probability=0.5, speed={"main": 0.5}), JobType(name="b", probability=0.5)]
    assert stability_bound(scenario("random", types=slow)).bound == near(1 / 1.5)


def test_queue_aware_policies_are_stable_at_most_up_to_the_clusters_capacity():
    assert stability_bound(scenario("jsq")).bound == 1.0
    assert not stability_bound(scenario("jsq", load=1.0)).stable
    uneven = stability_bound(scenario("jsq", pools=FAST_AND_SLOW, types=ONE_TYPE))
    assert uneven.bound == near(5 / 4)
    assert uneven.reason.startswith("at most")


def test_capacity_sends_each_type_where_it_is_fast():
    pools = [Pool(name="p", servers=2), Pool(name="q", servers=2)]
    types = [
        JobType(name="a", probability=0.5, speed={"p": 3.0}),
        JobType(name="b", probability=0.5, speed={"q": 3.0}),
    ]
    assert stability_bound(scenario("power-of-d", pools=pools, types=types)).bound == near(3.0)


def test_finite_buffers_are_always_stable():
    assert stability_bound(scenario("random", buffer=10, load=5.0)).bound == math.inf
    mixed = [Pool(name="fast", servers=1, buffer=3), Pool(name="slow", servers=3)]
    assert stability_bound(scenario("random", pools=mixed)).bound == near(1.0)


TASKS_POLICIES = {
    "random": {},
    "round-robin": {},
    "power-of-d": {"d": 2},
    "jsq": {},
    "jiq": {},
    "least-outstanding": {},
    "batch-filling": {"d": 1.2},
    "batch-sampling": {"d": 2},
    "per-task-power-of-d": {"d": 2},
    "per-task-power-of-kd": {"d": 1.2},
    "late-binding": {"d": 1.2},
}
#: Formula sheet of Weng and Wang 2021 (parallel jobs), checks C10 and C11, and section 5 (D/M/1, and no waiting: H_10).
IN_THE_LIMIT = {
    "random": 29.289683,
    "batch-filling": 5.810455,
    "batch-sampling": 5.356494,
    "per-task-power-of-d": 6.207627,
    "power-of-d": 6.207627,
    "late-binding": 6.825218,
    "jsq": 2.928968,
    "jiq": 2.928968,
    "least-outstanding": 2.928968,
}


def jobs_of(tasks: Any, policy: str, load: float = 0.9, **settings: Any) -> Scenario:
    changes = {"workload.tasks": tasks, "workload.load": load}
    return scenario(policy, servers=100, **settings).with_settings(changes)


@pytest.mark.parametrize("policy", sorted(TASKS_POLICIES))
def test_jobs_of_ten_tasks_have_the_mean_field_of_their_policy(policy: str) -> None:
    prediction = predict(jobs_of(10, policy, **TASKS_POLICIES[policy]))
    assert isinstance(prediction, Prediction)
    assert prediction.kind == "limit"
    if policy in IN_THE_LIMIT:
        assert prediction.mean_response_time == near(IN_THE_LIMIT[policy], 1e-5)
    inherent = 2.9289683
    relative = prediction.mean_response_time / inherent - 1
    assert prediction.lower_bound == near(inherent, 1e-6)
    assert any(f"E[T - T*] / E[T*] is {max(relative, 0):.4g}" in note for note in prediction.notes)
    assert any("finite cluster" in note for note in prediction.notes)
    below = any("lies below" in note for note in prediction.notes)
    assert below == (policy == "random")
    assert sorted(prediction.quantiles.values()) == list(prediction.quantiles.values())


def test_batch_sampling_that_asks_nobody_is_random_routing() -> None:
    prediction = predict(jobs_of(10, "batch-sampling", d=1))
    assert isinstance(prediction, Prediction)
    assert prediction.mean_response_time == near(IN_THE_LIMIT["random"], 1e-6)
    assert not any("servers per task" in note for note in prediction.notes)


def test_whole_placement_in_finite_buffers_drops_jobs_and_costs_a_round_trip() -> None:
    """Formula sheet, check C13: k = 4, m = 6, load 0.9, b = 2."""
    plain = predict(jobs_of(4, "batch-filling", d=1.5, buffer=2))
    assert isinstance(plain, Prediction)
    assert plain.mean_response_time == near(2.901505, 1e-6)
    assert any("0.1868 of the jobs is dropped" in note for note in plain.notes)
    delayed = predict(jobs_of(4, "batch-filling", d=1.5, buffer=2, message_delay=0.1))
    assert isinstance(delayed, Prediction)
    assert delayed.mean_response_time == near(plain.mean_response_time + 0.6)


def test_a_fast_server_scales_the_time_of_a_job_of_tasks() -> None:
    normal = predict(jobs_of(10, "batch-filling"))
    double = predict(
        jobs_of(10, "batch-filling", load=1.8, types=[JobType(name="a", probability=1.0, speed={"main": 2})])
    )
    assert isinstance(normal, Prediction)
    assert isinstance(double, Prediction)
    assert double.mean_response_time == near(normal.mean_response_time / 2)


def test_late_binding_carries_less_where_messages_take_time() -> None:
    """Each task takes its server two message delays: load (1 + 2 l) < 1."""
    bound = stability_bound(jobs_of(10, "late-binding", message_delay=0.1))
    assert bound.bound == near(1 / 1.2)
    assert not bound.stable


@pytest.mark.parametrize(
    ("tasks", "policy", "settings", "words"),
    [
        ({"kind": "zipf", "exponent": 2.0, "most": 50}, "batch-filling", {}, "fixed number of tasks"),
        (10, "batch-filling", {"size": Erlang(phases=2)}, "exponential"),
        (10, "batch-filling", {"arrivals": DeterministicArrivals()}, "Poisson"),
        (10, "batch-filling", {"timeout": 0.2, "message_delay": 0.1}, "timeout of 0.2"),
        (7, "round-robin", {}, "divide 100 servers"),
        (10, "jiq", {"dispatchers": 2}, "one dispatcher"),
        (10, "jsq", {"buffer": 3}, "no limit is derived"),
        (10, "random", {"weights": (1.0, 2.0) * 50, "replacement": True}, "same speed, buffer and share"),
    ],
)
def test_jobs_of_tasks_without_a_theory_say_why(tasks: Any, policy: str, settings: dict[str, Any], words: str) -> None:
    found = predict(jobs_of(tasks, policy, **{"load": 0.5, **settings}))
    assert isinstance(found, NoPrediction)
    assert words in found.reason
