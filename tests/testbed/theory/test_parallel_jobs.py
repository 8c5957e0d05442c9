"""Parallel jobs against closed forms, other formulas and brute force, where their limits meet."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import binom

from testbed.theory import parallel_jobs
from testbed.theory.baselines import round_robin
from testbed.theory.parallel_jobs import inherent_delay, many_tasks_limit, mean_field, regime
from testbed.theory.parallel_jobs.batch_filling import landings
from testbed.theory.power_of_d import power_of_d
from testbed.workload.distributions import (
    Deterministic,
    Empirical,
    Exponential,
    Hyperexponential,
    Lognormal,
    Pareto,
    Uniform,
    Weibull,
)

PROBING = ["batch-filling", "batch-sampling", "per-task-power-of-d", "per-task-power-of-kd", "late-binding"]


@pytest.mark.parametrize("policy", ["batch-filling", "batch-sampling", "per-task-power-of-d", "per-task-power-of-kd"])
@pytest.mark.parametrize("d", [1, 2, 5])
def test_with_one_task_every_probing_policy_is_power_of_d(policy: str, d: int) -> None:
    state, single = mean_field(policy, 0.9, 1, d), power_of_d(0.9, d)
    assert state.mean_job_response_time == pytest.approx(single.mean_response_time, rel=1e-10)
    assert state.mean_task_response_time == pytest.approx(single.mean_response_time, rel=1e-10)
    assert single.response_time_tail is not None
    assert state.response_time_cdf(3.0) == pytest.approx(1 - single.response_time_tail(3.0), abs=1e-12)
    assert state.inherent_delay == 1


@pytest.mark.parametrize("policy", ["batch-sampling", "late-binding", "per-task-power-of-d"])
def test_one_probe_per_task_is_random_routing(policy: str) -> None:
    state, random = mean_field(policy, 0.8, 6, 1), mean_field("random", 0.8, 6)
    assert random.mean_job_response_time == pytest.approx(inherent_delay(6) / 0.2, rel=1e-10)
    assert state.mean_job_response_time == pytest.approx(random.mean_job_response_time, rel=1e-9)
    t = np.array([0.0, 1.0, 5.0, 30.0])
    np.testing.assert_allclose(state.response_time_cdf(t), random.response_time_cdf(t), atol=1e-10)


@pytest.mark.parametrize("reservations", [2, 3, 7])
def test_late_binding_of_one_task_has_a_closed_form(reservations: int) -> None:
    load, m = 0.9, reservations
    c = math.pow(load, 1 - m) - load

    def more_work(w: float) -> float:  # the sheet's solution for k = 1, written so that it does not overflow
        return math.exp(-w) * math.pow(load * math.exp((1 - m) * w) + c, 1 / (1 - m))

    def waits(w: float) -> float:  # a task waits longer than w when all m servers have more work
        return more_work(w) ** m

    state = mean_field("late-binding", load, 1, m)
    assert state.mean_task_response_time == pytest.approx(quad(more_work, 0, 60)[0] / load, rel=1e-8)
    assert state.mean_job_response_time == pytest.approx(1 + quad(waits, 0, 60, epsabs=1e-12)[0], rel=1e-8)
    for t in (0.3, 2.0, 6.0):
        late = math.exp(-t) + quad(lambda w, t=t: math.exp(-(t - w)) * waits(w), 0, t, epsabs=1e-13)[0]
        assert state.response_time_cdf(t) == pytest.approx(1 - late, abs=1e-9)


def test_late_binding_of_one_task_with_two_reservations_is_a_logarithm() -> None:
    # The integral of the sheet's G for k = 1, m = 2 is ln(1/(1 - load^2)) / load; its C11 gives 2.050293, 4e-6 more.
    assert mean_field("late-binding", 0.9, 1, 2).mean_job_response_time == pytest.approx(
        -math.log(1 - 0.81) / 0.81, rel=1e-10
    )


@pytest.mark.parametrize(("tasks", "reservations"), [(10, 20), (10, 12)])
def test_late_binding_agrees_with_its_workloads_put_in_bins(tasks: int, reservations: int) -> None:
    """Round the work at each server to the middle of a bin; an error of second order in the bin's width is left."""
    load, k, m, width, bins = 0.9, tasks, reservations, 0.01, 3000

    def slope(G: float) -> float:
        return -(G - load / k * float(np.maximum(k - np.arange(m + 1), 0) @ binom.pmf(np.arange(m + 1), m, 1 - G)))

    G = np.empty(bins + 1)
    G[0] = load
    for i in range(bins):  # the middle-point rule: second order too
        G[i + 1] = G[i] + width * slope(G[i] + width / 2 * slope(G[i]))
    # Bins of work: none, and then each of positive width. A job's k least loaded of m servers, as in batch-sampling.
    work = np.concatenate([[0.0], (np.arange(bins) + 0.5) * width])
    below, above = np.concatenate([[0.0], 1 - G[:-1]]), np.concatenate([1 - G[:1], 1 - G[1:]])
    t = (np.arange(3000) + 0.5) * 0.015
    less = np.zeros_like(t)
    cdf = np.zeros_like(t)
    a = np.arange(k)
    for w, p, q in zip(work, below, above, strict=True):
        served = -np.expm1(-np.maximum(t - w, 0.0))
        weights = binom.pmf(a, m, p) * binom.sf(k - 1 - a, m - a, (q - p) / (1 - p))
        kept = np.flatnonzero(weights > 1e-12)
        if kept.size:
            cdf += ((less[:, None] / max(p, 1e-300)) ** kept * served[:, None] ** (k - kept)) @ weights[kept]
        less += (q - p) * served
    mean = 0.015 * float((1 - cdf).sum())
    assert mean_field("late-binding", load, k, m / k).mean_job_response_time == pytest.approx(mean, abs=3e-5)


def test_round_robin_has_the_delay_of_k_servers_with_the_same_arrivals() -> None:
    task = round_robin(math.inf, 0.9)
    state = mean_field("round-robin", 0.9, 10)
    assert state.mean_job_response_time == pytest.approx(inherent_delay(10) * task.mean_response_time, rel=1e-10)


@given(
    load=st.floats(0.05, 0.95),
    tasks=st.integers(1, 12),
    probes=st.integers(1, 30),
)
@settings(max_examples=40)
def test_landings_of_batch_filling_sum_to_one_and_job_times_are_ordered(load: float, tasks: int, probes: int) -> None:
    state = mean_field("batch-filling", load, tasks, probes / tasks)
    assert state.queue_length_tail is not None
    weights = landings(state.queue_length_tail, tasks, probes)
    assert sum(float(Q.sum()) for Q in weights.values()) == pytest.approx(1, abs=1e-11)
    # Nothing is done before its inherent delay, and a job not before any of its tasks.
    assert state.mean_job_response_time >= max(state.inherent_delay, state.mean_task_response_time) * (1 - 1e-9)


@pytest.mark.parametrize(("tasks", "probes"), [(100, 200), (100, 4096), (100, 20)])
def test_landings_sum_to_one_for_many_tasks_and_probes(tasks: int, probes: int) -> None:
    S = mean_field("batch-filling", 0.9, tasks, probes / tasks).queue_length_tail
    assert S is not None
    assert sum(float(Q.sum()) for Q in landings(S, tasks, probes).values()) == pytest.approx(1, abs=1e-10)


@pytest.mark.parametrize("policy", ["batch-filling", "batch-sampling"])
def test_many_tasks_approach_their_limit(policy: str) -> None:
    limit = many_tasks_limit(policy, 0.9, 1.2)
    errors = []
    for tasks in (5, 50, 500):
        S = mean_field(policy, 0.9, tasks, 1.2).queue_length_tail
        assert S is not None
        errors.append(max(abs(float(S[i]) - float(limit[i])) for i in range(6)))
    # A job sees its share of free positions but for fluctuations, of order k^-1/2 near the highest level.
    assert errors[0] > errors[1] > errors[2]
    assert errors[2] < 0.01


@pytest.mark.parametrize("load", [0.5, 0.6, 0.7, 0.9, 0.99])
@pytest.mark.parametrize("level", [1, 2, 3, 7])
def test_probe_overhead_for_positions_is_where_the_longest_queue_steps_down(load: float, level: int) -> None:
    d = parallel_jobs.probe_overhead_for_positions(load, level)
    assert parallel_jobs.largest_queue_length(load, d) == level
    assert parallel_jobs.largest_queue_length(load, d * 0.999) == level + 1


def test_more_probes_and_better_use_of_them_shorten_response_times() -> None:
    means = [mean_field("batch-filling", 0.9, 8, d).mean_job_response_time for d in (0.25, 0.5, 1, 1.5, 2, 4, 8, 20)]
    assert means == sorted(means, reverse=True)
    late, filling, sampling, single, random = (
        mean_field(policy, 0.9, 8, 2).mean_job_response_time
        for policy in ("late-binding", "batch-filling", "batch-sampling", "per-task-power-of-d", "random")
    )
    assert late < filling < sampling < single < random


@pytest.mark.parametrize("policy", ["batch-filling", "batch-sampling", "per-task-power-of-d", "random"])
def test_an_ample_buffer_changes_nothing_and_a_small_one_keeps_the_utilisation_law(policy: str) -> None:
    unlimited, ample = mean_field(policy, 0.6, 3, 2), mean_field(policy, 0.6, 3, 2, buffer=60)
    assert ample.drop_probability < 1e-9
    assert ample.mean_job_response_time == pytest.approx(unlimited.mean_job_response_time, rel=1e-8)
    small = mean_field(policy, 1.3, 3, 2, buffer=3)
    S = small.queue_length_tail
    assert S is not None
    assert S.size == 4
    assert S[1] == pytest.approx(1.3 * (1 - small.drop_probability), rel=1e-10)
    assert small.mean_task_response_time == pytest.approx(S[1:].sum() / S[1], rel=1e-9)


@pytest.mark.parametrize("policy", ["batch-filling", "batch-sampling", "per-task-power-of-d", "random"])
def test_without_room_to_queue_a_job_takes_its_inherent_delay(policy: str) -> None:
    assert mean_field(policy, 0.9, 4, 2, buffer=1).relative_queueing_delay == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("policy", PROBING)
def test_distribution_mean_and_quantiles_are_of_one_kind(policy: str) -> None:
    state = mean_field(policy, 0.85, 5, 1.6)
    t = np.linspace(0, 12, 60)
    cdf = state.response_time_cdf(t)
    assert cdf.shape == t.shape
    assert cdf[0] == pytest.approx(0, abs=1e-12)
    assert state.response_time_cdf(-1.0) == 0
    assert np.all(np.diff(cdf) > 0)
    # A job is not done before the largest of its own sizes.
    assert np.all(cdf <= -(np.expm1(-t) ** 1) * 1.0 + 1e-12)
    assert np.all(cdf <= (-np.expm1(-t)) ** 5 + 1e-12)
    mean = quad(lambda x: 1 - state.response_time_cdf(x), 0, 200, limit=400, epsabs=1e-8)[0]
    assert state.mean_job_response_time == pytest.approx(mean, rel=1e-7)
    assert state.response_time_cdf(state.quantile(0.5)) == pytest.approx(0.5, abs=1e-10)
    assert state.steady_state().mean_response_time == state.mean_job_response_time


def test_probe_overhead_is_what_is_realised() -> None:
    assert mean_field("batch-filling", 0.5, 2, 1.2).probe_overhead == 1.5
    assert mean_field("batch-sampling", 0.5, 10, 1.1).probe_overhead == 1.1
    assert mean_field("per-task-power-of-kd", 0.5, 4, 2).probe_overhead == 8
    assert mean_field("per-task-power-of-d", 0.5, 4, 1.3).probe_overhead == 1.3
    assert mean_field("random", 0.5, 4).probe_overhead == 0
    assert parallel_jobs.number_of_probes(100, 1.1) == 110  # 100 * 1.1 is a little more
    assert parallel_jobs.number_of_probes(10, 30, servers=50) == 50


def test_probe_overhead_needed_is_the_least_that_reaches_the_target() -> None:
    d = parallel_jobs.probe_overhead_needed(200, 12, 0.9, 0.3)
    m = round(d * 12)
    assert d == m / 12
    assert mean_field("batch-filling", 0.9, 12, d).relative_queueing_delay <= 0.3
    assert mean_field("batch-filling", 0.9, 12, (m - 1) / 12).relative_queueing_delay > 0.3
    assert parallel_jobs.probe_overhead_needed(m, 12, 0.9, 0.3) == d
    assert parallel_jobs.probe_overhead_needed(m - 1, 12, 0.9, 0.3) == math.inf


@pytest.mark.parametrize("level", [1, 3, 10])
@pytest.mark.parametrize("servers", [1, 5, 100])
def test_bounds_on_the_response_time_hold(level: int, servers: int) -> None:
    exact = parallel_jobs.response_time_at([level] * servers)
    bound = parallel_jobs.response_time_bound([level] * servers)
    # At one server the bound is reached in the limit theta -> 0, the end of the range that is searched.
    assert exact <= bound * (1 + 1e-6)
    assert bound <= parallel_jobs.response_time_closed_bound(level, servers) * (1 + 1e-6)


def test_inherent_delay_of_other_sizes() -> None:
    p = (1 + math.sqrt(3 / 5)) / 2  # balanced means, squared coefficient of variation 4
    rates = (2 * p, 2 * (1 - p))
    assert inherent_delay(10, Deterministic(value=1.0)) == 1
    assert inherent_delay(10, Uniform(low=0.0, high=2.0)) == pytest.approx(20 / 11, rel=1e-9)
    assert inherent_delay(10, Uniform(low=3.0, high=5.0)) == pytest.approx(3 + 20 / 11, rel=1e-9)
    shares = (p, 1 - p)
    least = sum(a * b / (x + y) for a, x in zip(shares, rates, strict=True) for b, y in zip(shares, rates, strict=True))
    assert inherent_delay(2, Hyperexponential(scv=4, f=0.5)) == pytest.approx(2 - least, rel=1e-9)
    assert inherent_delay(4, Exponential(mean=3.0)) == pytest.approx(3 * (1 + 1 / 2 + 1 / 3 + 1 / 4), rel=1e-12)
    # The least of two Weibull sizes is a Weibull size, smaller by 2^(-1/shape).
    assert inherent_delay(2, Weibull(mean=1.0, shape=0.5)) == pytest.approx(2 - 2**-2, rel=1e-9)
    # The largest of two Pareto sizes: 2 E[X] less the least, Pareto with twice the index.
    assert inherent_delay(2, Pareto(index=1.5, minimum=1.0)) == pytest.approx(2 * 3 - 3 / 2, rel=1e-12)
    assert inherent_delay(3, Empirical(values=(1.0, 2.0))) == pytest.approx(1 / 8 + 2 * 7 / 8, rel=1e-12)
    for distribution in (Lognormal(mean=1.0, scv=4.0), Uniform(low=0.0, high=2.0), Weibull(mean=1.0, shape=3.0)):
        assert inherent_delay(1, distribution) == pytest.approx(1, rel=1e-8)


# The conditions for zero queueing delay.


def test_not_even_an_astronomic_system_meets_the_conditions() -> None:
    found = regime(10**24, 30_000, 1 - 10**-2.4, 2000)
    assert found.value("h / ln k") == pytest.approx(0.194, abs=1e-3)
    assert found.satisfied("k ln²N / (√N ε)")
    assert not found.satisfied("h / ln k")
    assert found.side == "neither"


def test_sides_are_told_apart_where_their_ratios_are_met() -> None:
    ε = 10**-2.4
    assert regime(10**24, 30_000, 1 - ε, 8 / ε).side == "achievability"
    assert regime(10**24, 2, 1 - ε, 1).side == "impossibility"


def test_regime_prints_every_quantity_and_the_unknown_constants() -> None:
    found = regime(256, 30, 0.81, 1.5)
    text = str(found)
    for q in found.quantities:
        assert any(line.startswith(q.quantity) and line.endswith(q.explanation) for line in text.splitlines())
    assert all(constant in text for constant in found.unknown_constants)
    with pytest.raises(KeyError, match="no quantity 'h'"):
        found.value("h")


def test_bounds_on_filling_hold_in_the_mean_field() -> None:
    for servers, tasks, load, d in ((256, 17, 0.9, 0.8), (1000, 20, 0.9, 2.0), (4096, 69, 0.9, 1.0)):
        found = regime(servers, tasks, load, d)
        level = max(1, round(math.log(tasks)))
        exact = found.value(f"P(FILL_{level} fails)")
        finite = found.value(f"P(FILL_{level} fails), {servers} servers")
        bound = found.value(f"bound on P(FILL_{level} fails)")
        assert exact <= bound
        assert finite <= bound
        # Probing a few of many servers without replacement is nearly independent.
        assert 0 < finite == pytest.approx(exact, rel=0.5)


# Bad values.


def test_bad_values_are_refused() -> None:
    with pytest.raises(ValueError, match="unknown policy 'power-of-d'; one of random"):
        mean_field("power-of-d", 0.9, 2, 2)
    with pytest.raises(ValueError, match="needs probe_overhead"):
        mean_field("batch-filling", 0.9, 2)
    with pytest.raises(ValueError, match="load is 1"):
        mean_field("batch-filling", 1, 2, 2)
    with pytest.raises(ValueError, match="tasks is 0"):
        mean_field("random", 0.9, 0)
    with pytest.raises(ValueError, match="at least one probe per task"):
        mean_field("batch-sampling", 0.9, 4, 0.5)
    with pytest.raises(ValueError, match="at least one reservation per task"):
        mean_field("late-binding", 0.9, 4, 0.5)
    with pytest.raises(ValueError, match="at least 1"):
        mean_field("per-task-power-of-d", 0.9, 4, 0.5, buffer=3)
    with pytest.raises(ValueError, match="no limit is derived for jsq with a finite buffer"):
        mean_field("jsq", 0.9, 4, buffer=3)
    with pytest.raises(ValueError, match="at least 2 servers and 2 tasks"):
        regime(100, 1, 0.9, 2)
    with pytest.raises(ValueError, match="no limit of many tasks"):
        many_tasks_limit("random", 0.9, 2)
    with pytest.raises(ValueError, match="must start with 1 and fall"):
        parallel_jobs.fill_failure_probability([0.9, 0.7], 2, 2, 1)
    with pytest.raises(ValueError, match="there are 2 servers"):
        parallel_jobs.fill_failure_probability_finite([0, 0], 1, 3, 1)


@pytest.mark.parametrize("policy", ["random", "batch-filling", "batch-sampling", "per-task-power-of-d"])
@pytest.mark.parametrize(("load", "buffer"), [(0.5, 3), (0.99, 30), (1.0, 30), (2.0, 5), (50.0, 4)])
def test_single_tasks_at_one_sampled_server_are_a_queue_with_a_buffer(policy: str, load: float, buffer: int) -> None:
    """M/M/1/b, at any load and buffer: where arrivals balance departures queue lengths settle slowly."""
    weights = load ** np.arange(buffer + 1.0)
    full = float(weights[-1] / weights.sum())
    in_system = float(weights @ np.arange(buffer + 1.0) / weights.sum())
    state = mean_field(policy, load, 1, 1, buffer)
    assert state.drop_probability == pytest.approx(full, abs=1e-11)
    assert state.mean_job_response_time == pytest.approx(in_system / (load * (1 - full)), rel=1e-9)


def test_without_room_for_a_job_anywhere_there_is_no_response_time() -> None:
    with pytest.raises(ValueError, match="every job is dropped: 7 servers with a buffer of 2 never have room for 30"):
        mean_field("batch-filling", 0.5, 30, 7 / 30, 2)
