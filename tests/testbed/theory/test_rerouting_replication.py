"""Loads and bounds of rerouting and replication against the formula sheet, closed forms and brute force."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from testbed.theory.rerouting_replication import (
    FullRedundancy,
    KnownSizes,
    Model,
    Noisy,
    Replicate,
    Reroute,
    Revealed,
    ZeroRedundancy,
    effective_load,
    processing_time,
    service_requirement,
    signal_matrix,
    stability_bound,
)
from testbed.workload.distributions import Deterministic, Empirical, Exponential, Lognormal, Pareto

VALUES = json.loads((Path(__file__).parent / "rerouting_replication_values.json").read_text())
DISTRIBUTIONS = {"exponential": Exponential(10.0), "pareto": Pareto(10 / 9, 1.0)}
POLICIES = {
    "zero": ZeroRedundancy(),
    "full": FullRedundancy(),
    "reroute": Reroute(),
    "replicate": Replicate(),
    "sizes": KnownSizes(),
}
DIGITS = 0.51e-6


def standard(slow, size, dependence="identical", p=0.5, pools=(5, 5)):
    return Model(pools, (p, 1 - p), ((1.0, slow), (slow, 1.0)), size, dependence)


@pytest.mark.parametrize("row", VALUES["requirement"])
def test_service_requirement_has_the_value_of_the_sheet(row):
    model = standard(row["slow"], DISTRIBUTIONS[row["distribution"]], row["dependence"], row["p"])
    got = service_requirement(model, POLICIES[row["action"]], row["assignment"], row["tau"])
    assert got == pytest.approx(row["value"], abs=DIGITS)
    assert effective_load(model, POLICIES[row["action"]], row["assignment"], row["tau"], rate=0.3) == pytest.approx(
        0.3 * got / 5
    )


@pytest.mark.parametrize("row", VALUES["three_pools"])
def test_service_requirement_of_three_pools_has_the_value_of_the_sheet(row):
    speeds = ((1, 0.3, 0.5), (0.3, 1, 0.6), (0.5, 0.4, 1))
    model = Model((1, 2, 3), (0.5, 0.3, 0.2), speeds, Exponential(1.0))
    assignment = [[0.5, 0.3, 0.2], [0.3, 0.5, 0.2], [0.2, 0.2, 0.6]]
    policy = Reroute(row["hops"], row["targets"])
    assert service_requirement(model, policy, assignment, (1, 1.5, 0.8)) == pytest.approx(row["value"], abs=DIGITS)


@pytest.mark.parametrize(("row", "name"), [(row, name) for row in VALUES["bound"] for name in POLICIES if name in row])
def test_stability_bound_has_the_value_of_the_sheet_and_its_maximiser_reaches_it(row, name):
    model = standard(row["slow"], DISTRIBUTIONS[row["distribution"]], row["dependence"], row["p"])
    knowledge = Noisy(row["knows"]) if isinstance(row["knows"], float) else row["knows"]
    bound = stability_bound(model, POLICIES[name], knowledge)
    assert bound.rate == pytest.approx(row[name], abs=DIGITS)
    if name != "sizes":
        load = effective_load(model, POLICIES[name], bound.assignment, bound.thresholds, rate=bound.rate)
        assert load.max() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("row", VALUES["several_thresholds"][:2])
def test_more_reroutings_have_the_bound_and_the_thresholds_of_the_sheet(row):
    bound = stability_bound(standard(0.1, Exponential(10.0)), Reroute(row["hops"]))
    assert bound.rate == pytest.approx(row["bound"], abs=DIGITS)
    assert bound.thresholds == pytest.approx(np.array([row["tau"]] * 2), abs=0.051)


def test_three_reroutings_at_the_thresholds_of_the_sheet_carry_its_bound():
    row = VALUES["several_thresholds"][2]
    requirement = service_requirement(
        standard(0.1, Exponential(10.0)), Reroute(3), (0.5, 0.5), [row["tau"], row["tau"]]
    )
    assert 5 / requirement.max() == pytest.approx(row["bound"], abs=2e-6)  # at rounded thresholds


@pytest.mark.parametrize(("slow", "q"), [(0.5, 0.8), (0.8, 0.5)])
def test_stability_bounds_equal_the_closed_forms_of_the_symmetric_example(slow, q):
    m, r = 10.0, slow
    model = standard(r, Exponential(m), "independent")
    tau = m * math.log(q / ((1 - q) * r)) / (1 - r)
    rer = q * (1 + (1 / r - 1) * math.exp(-tau / m)) + (1 - q) * (1 / r - (1 / r - 1) * math.exp(-r * tau / m))
    tau = m * math.log(q / (1 - q)) / (1 - r)
    loss = (1 - r) / (1 + r)
    rep = q * (1 + loss * math.exp(-tau / m)) + (1 - q) * (1 / r - loss / r * math.exp(-r * tau / m))
    exact = {"zero": 1 / (q + (1 - q) / r), "full": (1 + r) / 2, "reroute": 1 / rer, "replicate": 1 / rep}
    for name, value in exact.items():
        assert stability_bound(model, POLICIES[name], Noisy(q)).rate == pytest.approx(value, rel=1e-10), name


@pytest.mark.parametrize("size", [Exponential(10.0), Pareto(10 / 9, 1.0), Lognormal(4.0, 10.0)])
@pytest.mark.parametrize(("slow", "q"), [(0.2, 0.5), (0.2, 0.8), (0.7, 0.5)])
def test_known_identical_sizes_depend_on_the_mean_only(size, slow, q):
    exact = max(1 / (q + (1 - q) / slow), 1 / (2 - q))
    assert stability_bound(standard(slow, size), KnownSizes(), Noisy(q)).rate == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("slow", [0.1, 0.3, 0.5, 0.7, 0.9])
def test_known_independent_exponential_sizes_have_their_closed_form(slow):
    bound = stability_bound(standard(slow, Exponential(10.0), "independent"), KnownSizes())
    exact = 1 / (1.25 - slow) if slow <= 0.5 else 4 * slow / (1 + slow)
    assert bound.rate == pytest.approx(exact, rel=1e-10)


@pytest.mark.parametrize("action", ["reroute", "replicate"])
def test_known_sizes_bound_is_reached_by_taking_the_cheapest_option_of_each_job(action):
    """Two values of the size, so that all pairs can be listed; the best option at the bound's prices costs 1/rate."""
    r, model = 0.3, standard(0.3, Empirical(values=(1.0, 4.0)), "independent", p=0.6)
    policy = KnownSizes(action)
    bound = stability_bound(model, policy)
    p = np.array([0.6, 0.4])
    y = np.array([[1, 1 / r], [1 / r, 1]])  # execution time per unit of size: pool, type
    thresholds = {0: [1.0, 1 / r], 1: [1.0, 1 / r]}
    total = 0.0
    for sizes in itertools.product((1.0, 4.0), repeat=2):
        costs = []
        for start in (0, 1):
            for wait in [*([0.0] if action == "replicate" else []), *thresholds[start]]:
                used = np.zeros(2)
                for j in (0, 1):
                    own, other = y[start, j] * sizes[start], y[1 - start, j] * sizes[1 - start]
                    tau = wait * sizes[start]
                    if own <= tau:
                        used[start] += p[j] * own
                    elif action == "reroute":
                        used[start] += p[j] * tau
                        used[1 - start] += p[j] * other
                    else:
                        k = min(own - tau, other)
                        used += p[j] * k
                        used[start] += p[j] * tau
                costs.append(used @ bound.prices)
        total += min(costs) / 4
    assert 1 / bound.rate == pytest.approx(total, rel=1e-9)


def test_bound_is_convex_and_grows_with_what_is_known_and_erasing_equals_noise_by_symmetry():
    model = standard(0.2, Exponential(10.0), "independent")
    rates = [stability_bound(model, Reroute(), Noisy(q)).rate for q in (0.5, 0.7, 0.9)]
    assert rates == sorted(rates)
    assert rates[1] <= (rates[0] + rates[2]) / 2
    assert stability_bound(model, Reroute(), Revealed(0.4)).rate == pytest.approx(rates[1], rel=1e-8)
    assert signal_matrix(Noisy(0.7), 3) == pytest.approx(np.full((3, 3), 0.15) + 0.55 * np.eye(3))


def test_two_of_three_pools_that_no_job_can_use_leave_the_bound_of_one():
    """The coarse search in three dimensions finds what the fine one finds in two."""
    two = Model((2, 3), (0.5, 0.5), ((1, 0.2), (0.2, 1)), Exponential(1.0), "independent")
    three = Model((2, 3, 1), (0.5, 0.5), ((1, 0.2), (0.2, 1), (0, 0)), Exponential(1.0), "independent")
    targets = ((0, 1, 0), (1, 0, 0), (1, 0, 0))
    # The pool of speed 0 can still run a job for a while to no avail; it can't help.
    assert stability_bound(three, Reroute(targets=targets)).rate == pytest.approx(
        stability_bound(two, Reroute()).rate, rel=1e-6
    )


def test_three_equal_pools_replicating_at_once_use_two_of_them_at_a_time():
    model = Model((1, 1, 1), (1.0,), ((1,), (1,), (1,)), Exponential(1.0), "independent")
    for targets in ("cyclic", "random"):
        got = service_requirement(model, Replicate(targets), (1 / 3, 1 / 3, 1 / 3), (0, 0, 0))
        assert got == pytest.approx([1 / 3] * 3)  # twice E[k] = 1/2, over three pools


@pytest.mark.parametrize("name", ["reroute", "replicate"])
def test_processing_times_are_those_of_the_exact_trace(name):
    trace, model = VALUES["trace"], standard(0.5, Exponential(1.0))
    for job_type, start, sizes, used in zip(trace["kind"], trace["start"], trace["sizes"], trace[name], strict=True):
        tau = (2, 1.6)[start]
        got = processing_time(model, POLICIES[name], (start, 1 - start), job_type, sizes, [tau])
        assert got == pytest.approx(used, abs=1e-12)


@pytest.mark.parametrize("dependence", ["identical", "independent", 0.3])
@pytest.mark.parametrize(
    ("policy", "thresholds"),
    [
        (ZeroRedundancy(), None),
        (FullRedundancy(), None),
        (Reroute(), [[2.0], [0.0]]),
        (Reroute(carry_over=True), [[2.0], [1.1]]),
        (Reroute(hops=3), [[1.0, 4.0, 3.0], [2.0, 2.0, math.inf]]),
        (Replicate(), [[2.0], [3.0]]),
        (Replicate(carry_over=True), [[2.0], [3.0]]),
    ],
)
def test_service_requirement_is_the_mean_of_the_processing_times_of_all_jobs(policy, thresholds, dependence):
    values = (0.5, 1.0, 1.7, 4.0, 9.0)
    model = Model((1, 2), (0.6, 0.4), ((1.0, 0.4), (0.7, 1.3)), Empirical(values=values), dependence)
    alpha = np.array([[0.9, 0.35], [0.1, 0.65]])
    theta = {"identical": 1.0, "independent": 0.0}.get(dependence, dependence)
    expected = np.zeros(2)
    for (a, x), (b, y), s, j in itertools.product(enumerate(values), enumerate(values), (0, 1), (0, 1)):
        weight = alpha[s, j] * model.types[j] * ((1 - theta) / 25 + (theta / 5 if a == b else 0))
        tau = [] if thresholds is None else thresholds[s]
        path = [(s + v) % 2 for v in range(max(len(tau), 1) + 1)]
        expected += weight * np.array(processing_time(model, policy, path, j, (x, y), tau))
    assert service_requirement(model, policy, alpha, thresholds) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_thresholds_of_known_sizes_use_the_time_that_their_jobs_use(dependence):
    values, r = (1.0, 4.0, 5.0), ((1.0, 0.4), (0.7, 1.3))
    model = Model((1, 2), (0.6, 0.4), r, Empirical(values=values), dependence)
    alpha = np.array([[0.9, 0.35], [0.1, 0.65]])
    # Start in pool 0: move after the first possible completion; in pool 1: after the first too, type 1's.
    for action, policy in (("reroute", Reroute()), ("replicate", Replicate())):
        expected = np.zeros(2)
        pairs = [(x, x) for x in values] if dependence == "identical" else list(itertools.product(values, values))
        for sizes, s, j in itertools.product(pairs, (0, 1), (0, 1)):
            tau = sizes[s] / max(r[s])
            used = processing_time(model, policy, (s, 1 - s), j, sizes, [tau])
            expected += alpha[s, j] * model.types[j] / len(pairs) * np.array(used)
        assert service_requirement(model, KnownSizes(action), alpha, (1, 1)) == pytest.approx(expected, rel=1e-12)


def test_carry_over_saves_the_work_done_and_identical_replicas_then_use_the_faster_copy():
    model, m, tau = standard(0.4, Exponential(1.0), pools=(1, 1)), 1.0, 2.0
    left = m * (math.exp(-tau) + math.exp(-0.4 * tau)) / 2  # mean work left at the threshold
    plain, saved = (service_requirement(model, Reroute(carry_over=c), (1, 0), (tau, tau)) for c in (False, True))
    assert saved[0] == plain[0]
    assert saved[1] == pytest.approx(math.exp(-tau) / 2 / 0.4 + math.exp(-0.4 * tau) / 2)
    joint = service_requirement(model, Replicate(carry_over=True), (1, 0), (tau, tau))[1]
    assert joint == pytest.approx(left)


def test_a_pool_that_cannot_serve_a_type_costs_its_threshold_and_is_unusable_without_one():
    model = Model((1, 1), (0.5, 0.5), ((1, 0), (0, 1)), Exponential(2.0))
    for policy in (Reroute(), Replicate()):
        # Type 1 in pool 0: the threshold, then a whole service in pool 1 (and beside it in pool 0 for replication).
        got = service_requirement(model, policy, [[0, 1], [1, 0]], (1.5, math.inf))
        assert got[1] == math.inf
        got = service_requirement(model, policy, [[1, 1], [0, 0]], (math.inf, math.inf))
        assert got[0] == math.inf
    rerouted = service_requirement(model, Reroute(), [[0, 1], [1, 0]], (1.5, 0.5))
    assert rerouted == pytest.approx([0.5 * 1.5 + 0.5 * 2, 0.5 * 0.5 + 0.5 * 2])
    replicated = service_requirement(model, Replicate(), [[0, 1], [1, 0]], (1.5, 0.5))
    assert replicated == pytest.approx([0.5 * 3.5 + 0.5 * 2, 0.5 * 2.5 + 0.5 * 2])
    assert stability_bound(model, ZeroRedundancy(), "types").rate == pytest.approx(1.0)
    assert stability_bound(model, ZeroRedundancy()).rate == 0.0
    # At any finite threshold some jobs are sent where they can't be served; with known sizes none are.
    assert stability_bound(model, Reroute()).rate == 0.0
    assert stability_bound(model, KnownSizes()).rate == pytest.approx(1 / 1.5)


def test_a_second_pool_that_cannot_serve_a_type_makes_rerouting_infinite_and_the_replica_useless():
    model = Model((1, 1), (1.0,), ((1,), (0,)), Exponential(2.0), "independent")
    assert service_requirement(model, Reroute(), (1, 0), (1, 1))[1] == math.inf
    left = 2 * math.exp(-0.5)
    assert service_requirement(model, Replicate(), (1, 0), (1, 1)) == pytest.approx([2.0, left])


@pytest.mark.parametrize("speed", [1.0, 49.0, 0.3, 1 / 49])
def test_a_deterministic_job_completes_exactly_at_its_threshold(speed):
    model = Model((1, 1), (1.0,), ((speed,), (1.0,)), Deterministic(1.0))
    tau = 1 / speed
    assert service_requirement(model, Reroute(), (1, 0), (tau, tau)) == pytest.approx([tau, 0], abs=1e-15)
    assert processing_time(model, Reroute(), (0, 1), 0, (1.0, 1.0), [tau]) == [tau, 0]
    below = tau * (1 - 1e-9)
    assert service_requirement(model, Reroute(), (1, 0), (below, below)) == pytest.approx([tau, 1])


def test_the_best_threshold_of_deterministic_sizes_is_their_execution_time():
    model = standard(0.2, Deterministic(10.0))
    bound = stability_bound(model, Reroute())
    assert bound.rate == pytest.approx(stability_bound(model, KnownSizes()).rate, rel=1e-9)
    assert bound.thresholds == pytest.approx(np.full((2, 1), 10.0))


@pytest.mark.parametrize("dependence", ["identical", "independent", 0.3])
@pytest.mark.parametrize("hops", [2, 3, 4])
def test_random_pools_not_yet_visited_are_all_orders_alike(dependence, hops):
    """Thresholds by visit are summed over the orders of pools; equal ones by pool need only the sets of them."""
    speeds = tuple(tuple(float(x) for x in row) for row in np.random.default_rng(3).uniform(0.2, 1.5, (5, 2)))
    model = Model((1, 2, 1, 3, 1), (0.4, 0.6), speeds, Exponential(1.0), dependence)
    policy = Reroute(hops, "random")
    by_pool, by_visit = np.full(5, 0.7), np.full((5, hops), 0.7)
    sets = service_requirement(model, policy, np.full(5, 0.2), by_pool, handover=0.1)
    orders = service_requirement(model, policy, np.full(5, 0.2), by_visit, handover=0.1)
    assert sets == pytest.approx(orders, rel=1e-12)


def test_eight_pools_in_random_order_are_computed_without_all_their_orders():
    """Alike pools and independent sizes: visit v needs E[min(X, t)], and v - 1 sizes were above t."""
    model = Model((1,) * 8, (1.0,), ((1.0,),) * 8, Exponential(1.0), "independent")
    beyond = math.exp(-0.5)
    needed = sum(beyond**v * (1 - beyond) for v in range(7)) + beyond**7
    requirement = service_requirement(model, Reroute(7, "random"), np.full(8, 1 / 8), np.full(8, 0.5))
    assert requirement == pytest.approx(np.full(8, needed / 8), rel=1e-12)


@pytest.mark.parametrize("tau", [0.0, 0.7])
@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_copies_that_start_and_stop_late_use_the_time_that_single_jobs_do(tau, dependence):
    """Against 400,000 jobs, each by the rules: 24 normal intervals of 5 standard errors, false alarm 1.4e-5."""
    lag, n = 0.4, 400_000
    model = Model((5, 5), (1.0,), ((0.5,), (1.0,)), Exponential(1.0), dependence)
    rng = np.random.default_rng(8)
    x = rng.exponential(size=n)
    own, other = x / 0.5, x if dependence == "identical" else rng.exponential(size=n)
    starts = 0.0 if tau == 0 else lag  # of the replica, after the threshold
    left = own - tau
    crosses = left > 0
    done = np.minimum(left, starts + other)
    # Each copy goes on until it is done itself, or until the word that the job is done has come.
    original = np.where(crosses, tau + np.minimum(left, done + lag), own)
    replica = np.where(crosses, np.minimum(other, done + lag - starts), 0.0)
    # Its server then waits for what comes next, unless that came with the word.
    held = np.where(crosses, tau + done + lag, own + lag), np.where(crosses, done + lag - starts, 0.0)
    for policy in (Replicate(),) if tau else (Replicate(), FullRedundancy()):
        for samples, counted in (((original, replica), {"lag": lag}), (held, {"handover": lag})):
            found = service_requirement(model, policy, (1, 0), (tau, math.inf if tau else 0.0), **counted)
            for value, sample in zip(found, samples, strict=True):
                assert abs(value - sample.mean()) < 5 * sample.std() / n**0.5
