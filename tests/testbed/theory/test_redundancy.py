"""Copies on several servers: the closed forms against brute force and against what they contain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.integrate import quad

from testbed.theory.baselines import mm1
from testbed.theory.pool_loads import pool_requirements
from testbed.theory.predict import predict, stability_bound
from testbed.theory.redundancy import redundancy_on_completion, redundancy_on_start
from testbed.workload.arrivals import DeterministicArrivals
from testbed.workload.distributions import Deterministic


def chain_mean(servers: int, load: float, d: int, most: int) -> float:
    """Mean response time from the Markov chain of the ordered jobs' server sets, at most ``most`` jobs."""
    sets = list(itertools.combinations(range(servers), d))
    states = [state for n in range(most + 1) for state in itertools.product(range(len(sets)), repeat=n)]
    index = {state: i for i, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for state, i in index.items():
        if len(state) < most:
            for new in range(len(sets)):
                generator[i, index[(*state, new)]] += servers * load / len(sets)
        serving: dict[int, int] = {}
        for position, job in enumerate(state):
            for server in sets[job]:
                serving.setdefault(server, position)
        for position in serving.values():
            generator[i, index[state[:position] + state[position + 1 :]]] += 1.0
    generator -= np.diag(generator.sum(axis=1))
    balance = generator.T.copy()
    balance[0] = 1.0  # one balance equation follows from the others: in its place the shares sum to 1
    share = np.linalg.solve(balance, np.eye(len(states))[0])
    jobs = np.array([len(state) for state in states])
    accepted = servers * load * share[jobs < most].sum()
    return float(jobs @ share / accepted)


def test_cancel_on_completion_is_the_chain_of_all_queues():
    """Three servers, two copies, low load: what more than five jobs add is below 1e-4."""
    got = redundancy_on_completion(3, 0.1, 2).mean_response_time
    assert got == pytest.approx(chain_mean(3, 0.1, 2, 5), rel=2e-4)
    assert got != pytest.approx(redundancy_on_completion(3, 0.1, 1).mean_response_time, rel=0.1)


def test_one_copy_is_random_routing_and_a_copy_everywhere_is_one_fast_server():
    assert redundancy_on_completion(10, 0.7, 1).mean_response_time == pytest.approx(mm1(0.7).mean_response_time)
    assert redundancy_on_completion(5, 0.7, 5).mean_response_time == pytest.approx(mm1(0.7).mean_response_time / 5)
    assert redundancy_on_start(0.7, 1).mean_response_time == pytest.approx(mm1(0.7).mean_response_time)


@pytest.mark.parametrize(("load", "d"), [(0.5, 2), (0.9, 2), (0.9, 5), (0.99, 3)])
def test_least_work_solves_the_balance_of_work_across_each_level(load, d):
    """The share f(w) dw of servers that pass w downwards equals the rate of the jobs that lift one above w.

    F is the share of servers with more work than w; a job finds more than u ahead of it with probability F(u)^d.
    """
    tail = redundancy_on_start(load, d).response_time_tail
    assert tail is not None

    def more(w: float) -> float:
        return load * tail(w)

    for w in (0.3, 1.0, 2.5):
        step = 1e-5
        down = (more(w - step) - more(w + step)) / (2 * step)
        lifted = quad(lambda u, w=w: np.exp(-(w - u)) * (1 - more(u) ** d), 0, w)[0]  # by parts: what joins below w
        up = load * (1 - more(w) ** d - lifted)
        assert down == pytest.approx(up, rel=1e-6)
    mean = redundancy_on_start(load, d).mean_response_time
    waits = quad(lambda w: more(w) ** d, 0, 200, limit=500)[0]
    assert mean == pytest.approx(1 + waits, rel=1e-8)


@pytest.mark.parametrize("call", [lambda: redundancy_on_completion(3, 0.5, 4), lambda: redundancy_on_start(1.0, 2)])
def test_bad_arguments_are_refused(call):
    with pytest.raises(ValueError, match=r"d is 4|load is"):
        call()


def test_tied_requests_are_redundancy_on_start_and_a_hedge_that_never_comes_is_random(predicted):
    tied, on_start = predicted("tied"), predicted("redundancy-d", cancel="on-start")
    assert (tied.kind, tied.mean_response_time) == ("limit", on_start.mean_response_time)
    assert tied.mean_response_time == redundancy_on_start(0.8, 2).mean_response_time
    assert predicted("hedge", delay="inf").mean_response_time == predicted("random").mean_response_time


@pytest.mark.parametrize(("policy", "parameters"), [("redundancy-d", {}), ("hedge", {"delay": 0.0})])
def test_independent_exponential_copies_until_completion_are_exact_and_cost_nothing(scenario, policy, parameters):
    made = scenario(policy, **parameters).with_settings({"workload.dependence": "independent"})
    prediction = predict(made)
    assert prediction.kind == "exact"
    assert prediction.mean_response_time == redundancy_on_completion(40, 0.8, 2).mean_response_time
    assert pool_requirements(made) == [1.0]
    assert stability_bound(made).reason == "identical servers, all busy"


@pytest.mark.parametrize(
    ("policy", "settings", "words"),
    [
        ("redundancy-d", {}, "independent"),
        ("hedge", {}, "delay of 0 or inf"),
        ("tied", {"message_delay": 0.1}, "message delay"),
        ("tied", {"size": Deterministic()}, "exponential"),
        ("tied", {"arrivals": DeterministicArrivals()}, "Poisson"),
    ],
)
def test_where_copies_have_no_formula_the_reason_is_named(scenario, reason, policy, settings, words):
    assert words in reason(policy, **settings)
    assert stability_bound(scenario("redundancy-d")).reason.startswith("at most")
