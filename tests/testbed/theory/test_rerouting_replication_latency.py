"""Mean latencies of rerouting and replication against the formula sheet and exact queueing results."""

import itertools
import json
import math
from pathlib import Path

import numpy as np
import pytest

from testbed.theory.baselines import mmc
from testbed.theory.rerouting_replication import (
    FullRedundancy,
    KnownSizes,
    Model,
    Replicate,
    Reroute,
    ZeroRedundancy,
    best_thresholds,
    effective_load,
    mean_latency,
)
from testbed.workload.distributions import Exponential, Pareto

VALUES = json.loads((Path(__file__).parent / "rerouting_replication_values.json").read_text())
POLICIES = {"reroute": Reroute(), "replicate": Replicate()}
HALF = (0.5, 0.5)


def standard(size, dependence="identical", pools=(1, 1), slow=0.4):
    return Model(pools, HALF, ((1.0, slow), (slow, 1.0)), size, dependence)


@pytest.mark.parametrize("row", VALUES["latency"])
def test_mean_latency_has_the_value_of_the_sheet(row):
    got = mean_latency(standard(Exponential(1.0)), POLICIES[row["action"]], HALF, (2, 2), rate=0.5)
    assert got.waiting == pytest.approx(np.full(2, row["waiting"]), abs=0.51e-6)
    assert got.overall == pytest.approx(row["overall"], abs=0.51e-6)
    assert got.by_pool == pytest.approx(np.full(2, row["overall"]), abs=0.51e-6)


@pytest.mark.parametrize("approximation", ["pollaczek-khinchine", "stretched", "several-servers"])
@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_full_redundancy_is_one_queue_with_the_faster_copy_as_service(dependence, approximation):
    model, rate = standard(Exponential(1.0), dependence), 0.4
    fastest = 1.0 if dependence == "identical" else 1 / 1.4  # mean of an exponential service
    for policy, tau in ((FullRedundancy(), None), (Replicate(), (0, 0))):
        got = mean_latency(model, policy, (0.3, 0.7), tau, rate=rate, approximation=approximation)
        assert got.overall == pytest.approx(1 / (1 / fastest - rate))  # M/M/1


@pytest.mark.parametrize("pools", [(1, 4), (5, 2), (2, 20)])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_pairs_of_unequal_pools_are_one_queue_for_the_servers_of_the_smaller(pools, share):
    """At tau = 0 every job takes a server of each pool: M/M/n, with the smaller n, where both copies last as long."""
    n = min(pools)
    model = Model(pools, (1.0,), ((1.0,), (1.0,)), Exponential(1.0))
    got = mean_latency(model, FullRedundancy(), (share, 1 - share), rate=0.8 * n, approximation="several-servers")
    exact = mmc(n, 0.8).mean_response_time
    small, large = sorted(range(2), key=pools.__getitem__)
    # By each starting pool as well: priority among pairs only moves waits from one to the other. A job of the larger
    # pool waits for its own pool besides, where there are servers enough.
    assert got.overall == pytest.approx(exact, rel=0.02)
    if (share, 1 - share)[large]:
        assert got.by_pool[large] == pytest.approx(exact, rel=0.02)
    if (share, 1 - share)[small]:
        assert got.by_pool[small] == pytest.approx(exact)


def test_pairs_that_wait_make_thresholds_of_zero_a_bad_choice_in_unequal_pools():
    model = Model((1, 4), HALF, ((1.0, 0.2), (0.2, 1.0)), Exponential(1.0))
    best = best_thresholds(model, Replicate(), 0.8, approximation="several-servers")
    # Full redundancy is an M/M/1 queue at load 0.8; simulated, five time units.
    assert best.latency < mean_latency(model, FullRedundancy(), HALF, rate=0.8, approximation="several-servers").overall
    assert best.thresholds.max() > 0.1


@pytest.mark.parametrize("policy", [ZeroRedundancy(), Reroute(), Replicate()])
@pytest.mark.parametrize("pools", [(1, 1), (2, 3)])
def test_without_redundancy_each_pool_of_one_type_is_an_mmn_queue(policy, pools):
    model = Model(pools, (1.0,), ((1.0,), (0.5,)), Exponential(1.0))
    got = mean_latency(model, policy, (0.6, 0.4), (math.inf, math.inf), rate=1.1, approximation="several-servers")
    expected = []
    for n, share, mu in zip(pools, (0.6, 0.4), (1.0, 0.5), strict=True):
        a = 1.1 * share / mu
        terms = [a**i / math.factorial(i) for i in range(n)]
        last = a**n / math.factorial(n) / (1 - a / n)
        expected.append(last / (sum(terms) + last) / (n * mu - 1.1 * share) + 1 / mu)
    assert got.by_pool == pytest.approx(expected)
    assert got.overall == pytest.approx(0.6 * expected[0] + 0.4 * expected[1])


def test_the_better_heuristic_is_above_the_plain_formula_and_brackets_the_simulated_mean():
    model = standard(Exponential(1.0))
    low, high = (
        mean_latency(model, Replicate(), HALF, (2, 2), rate=0.5, approximation=name).overall
        for name in ("pollaczek-khinchine", "stretched")
    )
    assert low < 3.128 < high < 3.128 * 1.08  # simulated: 3.128, 9 million jobs; errors up to +8 % are reported


@pytest.mark.parametrize("row", VALUES["simulated_latency"])
def test_the_formula_for_several_servers_is_as_near_the_simulated_means_as_the_sheet_says(row):
    model, policy = standard(Exponential(10.0), row["dependence"], (5, 5)), POLICIES[row["action"]]
    assert effective_load(model, policy, HALF, (15, 15), rate=row["rate"]) == pytest.approx([0.7, 0.7], abs=1e-5)
    got = mean_latency(model, policy, HALF, (15, 15), rate=row["rate"], approximation="several-servers")
    low, high = (-0.03, 0.03) if row["action"] == "reroute" else (-0.04, -0.01)
    assert low - 0.006 <= got.overall / row["latency"] - 1 <= high + 0.006  # simulated to 0.6 %


def test_a_pool_without_first_visits_has_no_latency_of_its_own_and_an_overloaded_one_is_infinite():
    model = standard(Exponential(1.0))
    got = mean_latency(model, Reroute(), (1, 0), (2, 2), rate=0.2)
    assert math.isnan(got.by_pool[1])
    assert got.overall == got.by_pool[0]
    got = mean_latency(model, ZeroRedundancy(), (1, 0), rate=0.9)
    assert got.overall == got.by_pool[0] == math.inf
    assert got.waiting[1] == 0


def test_latency_needs_a_finite_second_moment_but_independent_copies_do_not():
    heavy, rate = Pareto(10 / 9, 0.1), 0.3
    assert mean_latency(standard(heavy), Reroute(), HALF, (1, 1), rate=rate).overall == math.inf
    assert mean_latency(standard(heavy), Replicate(), HALF, (1, 1), rate=rate).overall == math.inf
    got = mean_latency(standard(heavy, "independent"), Replicate(), HALF, (1, 1), rate=rate)
    assert math.isfinite(got.overall)


@pytest.mark.parametrize(("policy", "slow"), [(Reroute(), 0.4), (Replicate(), 0.2)])
def test_best_thresholds_are_not_beaten_on_a_fine_grid(policy, slow):
    model, rate = standard(Exponential(1.0), "independent", slow=slow), 0.5
    best = best_thresholds(model, policy, rate)
    assert mean_latency(model, policy, best.assignment, best.thresholds, rate=rate).overall == best.latency
    grid = [0, 0.3, 0.6, 1, 1.5, 2, 3, 5, math.inf]
    for tau, share in itertools.product(itertools.product(grid, grid), (0.3, 0.5)):
        found = mean_latency(model, policy, (share, 1 - share), tau, rate=rate).overall
        assert best.latency <= found * (1 + 1e-9)
    given = best_thresholds(model, policy, rate, assignment=(0.3, 0.7))
    assert best.latency <= given.latency * (1 + 1e-9)
    assert given.assignment[0].tolist() == [0.3, 0.3]


def test_best_thresholds_use_what_is_known():
    model = standard(Exponential(1.0), slow=0.2)
    best = best_thresholds(model, ZeroRedundancy(), 1.0, "types")
    assert best.assignment == pytest.approx(np.eye(2), abs=1e-6)
    assert best.latency == pytest.approx(1 / (1 - 0.5))  # two M/M/1 queues


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda m: mean_latency(m, Reroute(), HALF, (1, 1), rate=0.1), "several-servers"),
        (
            lambda m: mean_latency(m, Reroute(), HALF, (1, 1), rate=0.1, approximation="stretched"),
            "pools of one server",
        ),
        (lambda m: mean_latency(m, Reroute(), HALF, (1, 1), rate=0.1, approximation="best"), "no approximation"),
        (lambda m: mean_latency(m, Reroute(), HALF, (1, 1), rate=0, approximation="several-servers"), "rate"),
        (
            lambda m: mean_latency(m, KnownSizes(), HALF, (1, 1), rate=0.1, approximation="several-servers"),
            "known sizes",
        ),
        (lambda m: best_thresholds(m, KnownSizes(), 0.1, approximation="several-servers"), "known sizes"),
        (lambda m: best_thresholds(m, "reroute", 0.1, approximation="several-servers"), r"policy is 'reroute'; give"),
        (lambda m: mean_latency(m, Reroute, HALF, (1, 1), 0.1, approximation="several-servers"), "give Reroute"),
        (lambda m: mean_latency(m, ZeroRedundancy(), HALF, approximation="several-servers"), "rate is nan"),
        (
            lambda m: mean_latency(m, Reroute(), HALF, (1, 1), 0.1, approximation="several-servers", handover=-1),
            "handover is -1",
        ),
        (lambda m: best_thresholds(m, ZeroRedundancy(), 50.0, approximation="several-servers"), "stability bound"),
    ],
)
def test_unfit_arguments_are_refused_with_what_is_wrong(call, message):
    with pytest.raises(ValueError, match=message):
        call(standard(Exponential(1.0), pools=(2, 1)))
