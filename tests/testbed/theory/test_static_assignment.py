"""Static assignment, central queues, rerouting and replication: from a scenario to what the theory says of it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from testbed.scenario import Scenario, decode
from testbed.theory.baselines import mg1, mmc
from testbed.theory.pool_loads import pool_notes, pool_requirements
from testbed.theory.predict import NoPrediction, Prediction, predict, stability_bound
from testbed.theory.rerouting_replication import Model, Reroute, ZeroRedundancy, effective_load, mean_latency
from testbed.theory.service import ServiceMixture
from testbed.workload.distributions import Exponential

ASYMMETRIC = {"a": {"one": 0.9, "two": 0.1}, "b": {"one": 0.35, "two": 0.65}}
HEAVY = {"kind": "pareto", "index": 10 / 9, "minimum": 1.0}
TEN = {"kind": "exponential", "mean": 10.0}


def near(value: Any, rel: float = 1e-9) -> Any:
    return pytest.approx(value, rel=rel, abs=1e-12)


def scenario(
    *,
    n: tuple[int, int] = (5, 5),
    queue: str = "central",
    slow: float = 0.4,
    p: float = 0.5,
    action: str | None = "reroute",
    tau: Any = (15.0, 15.0),
    rate: float = 0.3,
    **settings: Any,
) -> Scenario:
    """The paper's two types and two pools: each type is served at speed 1 in its own pool and ``slow`` in the other."""
    types = [
        {"name": "a", "probability": p, "speed": {"two": slow}},
        {"name": "b", "probability": 1 - p, "speed": {"one": slow}},
    ]
    mapping: dict[str, Any] = {
        "name": "test",
        "cluster": {
            "pools": [{"name": f, "servers": m, "queue": queue} for f, m in zip(("one", "two"), n, strict=True)]
        },
        "workload": {"rate": rate, "load_per": "server", "size": settings.pop("size", TEN), "types": types},
        "dispatch": {"policy": "static"},
    }
    if action is not None:
        mapping["threshold"] = {"action": action, "tau": _by_name(tau)}
    for key, value in settings.items():
        table, _, name = key.partition("__")
        mapping[table][name] = value
    return decode(mapping)


def _by_name(tau: Any) -> Any:
    return dict(zip(("one", "two"), tau, strict=True)) if isinstance(tau, tuple) else tau


@pytest.mark.parametrize(
    ("settings", "requirement"),
    [
        ({}, (10.443757, 10.443757)),
        ({"action": "replicate"}, (9.978802, 9.978802)),
        ({"workload__dependence": "independent"}, (7.528694, 7.528694)),
        ({"workload__dependence": "independent", "action": "replicate"}, (7.519037, 7.519037)),
        ({"asymmetric": True}, (5.289189, 12.601443)),
        ({"asymmetric": True, "action": "replicate"}, (9.391795, 8.556707)),
        (
            {"asymmetric": True, "action": "replicate", "workload__dependence": "independent"},
            (2.477027, 1.641939),
        ),
    ],
)
def test_service_requirements_are_those_of_the_formula_sheet(settings, requirement):
    """Sheet section 13, rows 1 to 7, to its digits."""
    if settings.pop("asymmetric", False):
        settings |= {"slow": 0.5, "p": 0.7, "tau": (5.0, 20.0), "size": HEAVY, "rate": 0.1}
        settings |= {"dispatch__knows": "types", "dispatch__assignment": ASYMMETRIC}
    assert pool_requirements(scenario(**settings)) == pytest.approx(requirement, abs=5.1e-7)


@pytest.mark.parametrize(
    ("action", "mean", "kind"), [("reroute", 4.322026, "rerouting"), ("replicate", 2.936356, "rep")]
)
def test_latencies_between_single_servers_are_the_sheets_and_are_called_approximations(action, mean, kind):
    """Sheet section 13, rows 13 and 14."""
    prediction = predict(scenario(n=(1, 1), size={"kind": "exponential"}, tau=(2.0, 2.0), rate=0.5, action=action))
    assert isinstance(prediction, Prediction)
    assert prediction.mean_response_time == pytest.approx(mean, abs=5.1e-7)
    assert prediction.kind == "approximation"
    assert prediction.name.startswith(kind)
    assert any("in simulations" in note for note in prediction.notes)


def test_full_redundancy_between_single_servers_is_exact_one_queue_with_the_quicker_copy():
    settings = {"n": (1, 1), "action": "replicate", "tau": (0.0, 0.0), "size": {"kind": "exponential"}}
    prediction = predict(scenario(rate=0.5, **settings))
    assert isinstance(prediction, Prediction)
    assert prediction.kind == "exact"
    assert prediction.mean_response_time == near(mg1(0.5, Exponential()).mean_response_time)


@pytest.mark.parametrize(("action", "bound"), [("reroute", None), ("replicate", None), (None, 2 * 0.4 / 1.4)])
def test_at_the_stability_bound_the_fullest_pool_is_fully_used(action, bound):
    below = scenario(n=(2, 5), action=action, rate=0.1)
    stability = stability_bound(below)
    rate = 0.1 * stability.bound / stability.load
    requirement = pool_requirements(below)
    assert max(rate * requirement[0] / 2, rate * requirement[1] / 5) == near(1.0)
    assert not stability_bound(scenario(n=(2, 5), action=action, rate=rate * 1.001)).stable
    if bound is not None:
        assert stability.bound == near(bound)  # load counts sizes: (1 + 1 / 0.4) / 2 time units for each


def test_unstable_scenarios_have_no_prediction_but_a_bound():
    prediction = predict(scenario(rate=0.6))
    assert isinstance(prediction, NoPrediction)
    assert "pool one" in prediction.reason
    assert "unstable" in prediction.reason


def test_signals_become_shares_by_type():
    noisy = scenario(dispatch__knows={"noisy": 0.8}, dispatch__assignment={"a": {"one": 1.0}, "b": {"two": 1.0}}, p=0.5)
    told = scenario(
        dispatch__knows="types",
        dispatch__assignment={"a": {"one": 0.8, "two": 0.2}, "b": {"one": 0.2, "two": 0.8}},
    )
    assert pool_requirements(noisy) == near(pool_requirements(told))


def test_rational_thresholds_reach_the_bound_of_known_sizes():
    """Sheet section 13, row 8: 2/3 for identical sizes of mean 10, r_slow = 0.2 and five servers in each pool."""
    rational = scenario(slow=0.2, tau="rational", dispatch__knows="sizes")
    assert pool_requirements(rational) == near((7.5, 7.5))
    assert stability_bound(rational).bound == near(2 / 3)
    prediction = predict(rational)
    assert isinstance(prediction, NoPrediction)
    assert "latency" in prediction.reason
    assert "0.6667" in pool_notes(rational)[1]


def test_central_queues_without_thresholds_are_mmn_and_a_policy_that_never_moves_is_the_same():
    settings = {"slow": 1.0, "size": {"kind": "exponential"}, "rate": 8.0}
    prediction = predict(scenario(action=None, **settings))
    assert isinstance(prediction, Prediction)
    assert (prediction.name, prediction.kind) == ("M/M/5, static", "exact")
    assert prediction.mean_response_time == near(mmc(5, 0.8).mean_response_time)
    assert prediction.quantiles == near({p: mmc(5, 0.8).quantile(p) for p in prediction.quantiles})
    assert predict(scenario(tau="inf", action="replicate", **settings)) == prediction


def test_several_servers_and_other_service_times_are_an_approximation():
    prediction = predict(scenario(action=None, rate=0.5))
    assert isinstance(prediction, Prediction)
    assert (prediction.name, prediction.kind) == ("M/G/5, static", "approximation")
    model = Model((5, 5), (0.5, 0.5), ((1.0, 0.4), (0.4, 1.0)), Exponential(mean=10.0))
    expected = mean_latency(model, ZeroRedundancy(), (0.5, 0.5), rate=0.5, approximation="several-servers").overall
    assert prediction.mean_response_time == near(expected)


def test_servers_with_queues_of_their_own_are_mg1_with_the_jobs_that_they_get():
    prediction = predict(
        scenario(queue="per-server", action=None, dispatch__knows="types", dispatch__assignment=ASYMMETRIC)
    )
    assert isinstance(prediction, Prediction)
    assert prediction.kind == "exact"
    shares, mean = ((0.45, 0.175), (0.05, 0.325)), 0.0
    for pool, speeds in zip(shares, ((1.0, 0.4), (0.4, 1.0)), strict=True):
        share = sum(pool)
        service = ServiceMixture(
            Exponential(mean=10.0), tuple((q / share, v) for q, v in zip(pool, speeds, strict=True))
        )
        mean += share * mg1(0.3 * share / 5, service).mean_response_time
    assert prediction.mean_response_time == near(mean)


def test_message_delay_keeps_servers_of_central_queues_waiting():
    delay, settings = 0.25, {"n": (1, 1), "slow": 1.0, "size": {"kind": "exponential"}, "rate": 1.0}
    prediction = predict(scenario(action=None, cluster__message_delay=delay, **settings))
    assert isinstance(prediction, Prediction)
    taken, square = 1 + 2 * delay, 2 + 4 * delay + 4 * delay**2
    # Admit, Serve, Served, JobDone; and the wait of M/G/1 whose services last two messages longer.
    assert prediction.mean_response_time == near(4 * delay + 1 + 0.5 * square / (2 * (1 - 0.5 * taken)))
    assert prediction.kind == "exact"
    assert stability_bound(scenario(action=None, cluster__message_delay=delay, **settings)).bound == near(1 / taken)
    rerouted = {**settings, "tau": (1.0, 1.0), "cluster__message_delay": delay}
    visits = 1 + math.exp(-1)
    used = 1 - math.exp(-1) + 2 * math.exp(-1) + 2 * delay * visits
    assert stability_bound(scenario(**rerouted)).bound == near(1 / used)
    assert predict(scenario(**{**rerouted, "rate": 0.1})).mean_response_time == near(
        mean_latency(
            Model((1, 1), (0.5, 0.5), ((1.0, 1.0), (1.0, 1.0)), Exponential()),
            Reroute(),
            (0.5, 0.5),
            (1.0, 1.0),
            rate=0.1,
            handover=2 * delay,
        ).overall
        + (2 + 2 * visits) * delay
    )


def test_the_notes_name_effective_loads_and_a_best_assignment_with_thresholds():
    loads, best = pool_notes(scenario(slow=0.2, rate=0.3))
    assert loads.startswith("effective load per server: one 0.")
    assert "0.4001" in best  # sheet section 13, row 8: 0.400065
    assert "thresholds" in best
    model = Model((5, 5), (0.5, 0.5), ((1.0, 0.2), (0.2, 1.0)), Exponential(mean=10.0))
    first = effective_load(model, Reroute(), (0.5, 0.5), (15.0, 15.0), rate=0.3)[0]
    assert f"one {first:.4g}" in loads


def test_policies_that_look_at_queues_have_no_requirement_beforehand_but_in_one_pool():
    several = scenario(queue="per-server", action=None).with_settings({"dispatch.policy": "jsq"})
    assert pool_requirements(several) is None
    assert pool_notes(several) == []
    weights = [2.0] * 5 + [1.0] * 5
    random = scenario(queue="per-server", action=None).with_settings(
        {"dispatch.policy": "random", "dispatch.weights": weights}
    )
    assert pool_requirements(random) == near(np.array([2 / 3, 1 / 3]) * 10 * (1 + 1 / 0.4) / 2)


def test_a_copy_that_a_pool_cannot_serve_holds_its_server_until_the_other_is_done():
    """Sheet section 11: all start in pool one, which can't serve half of them; pool two can't serve the others."""
    requirement = pool_requirements(
        scenario(slow=0.0, action="replicate", tau=(3.0, "inf"), dispatch__assignment={"one": 1.0})
    )
    assert requirement == near(((10 + 13) / 2, (10 * math.exp(-0.3) + 10) / 2))


def test_the_best_bound_says_that_it_leaves_message_delay_out():
    (_, best) = pool_notes(scenario(cluster__message_delay=0.1))
    assert "if messages took no time" in best
    (_, plain) = pool_notes(scenario())
    assert "messages" not in plain


def test_shares_that_add_up_with_rounding_drop_no_job():
    prediction = predict(scenario(queue="per-server", action=None, dispatch__assignment={"one": 0.9, "two": 0.1}))
    assert isinstance(prediction, Prediction)
    assert not any("full buffer" in note for note in prediction.notes)
