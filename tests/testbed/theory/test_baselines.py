"""The formulas against the sheet's check values, against each other, and against small chains solved by brute force."""

from __future__ import annotations

import itertools
import math
import tomllib
from pathlib import Path

import numpy as np
import pytest
from scipy.integrate import quad

from testbed.theory.baselines import (
    central_queue_task_delay,
    erlang_c,
    gim1,
    jiq_idle_fraction,
    jiq_limit,
    jsq_limit,
    mg1,
    mm1,
    mm1b,
    mmc,
    power_of_d,
    power_of_d_phase_type,
    round_robin,
)
from testbed.theory.steady_state import SteadyState
from testbed.workload.distributions import Deterministic, Erlang, Exponential, Hyperexponential

CHECK = tomllib.loads(Path(__file__).with_name("check_values.toml").read_text())
BALANCED = ([CHECK["C5"]["p"], 1 - CHECK["C5"]["p"]], np.diag([-2 * CHECK["C5"]["p"], -2 * (1 - CHECK["C5"]["p"])]))


def near(value: float, rel: float = 1e-5) -> object:
    return pytest.approx(value, rel=rel)


def test_single_queues_have_the_sheets_means():
    c1 = CHECK["C1"]
    assert mm1(0.9).mean_response_time == near(c1["mm1"])
    assert mg1(0.9, Deterministic(value=1.0)).mean_response_time == near(c1["md1"])
    assert mg1(0.9, Hyperexponential(scv=4)).mean_response_time == near(c1["mg1"])


def test_central_queues_have_the_sheets_values():
    c2 = CHECK["C2"]
    assert erlang_c(10, 0.9) == near(c2["erlang_c"])
    assert mmc(10, 0.9).mean_response_time == near(c2["mean"])
    assert central_queue_task_delay(20, 0.9, 10) == near(c2["central_batch"])
    assert central_queue_task_delay(10, 0.9, 1) == near(c2["mean"])


def test_central_queue_of_very_many_servers_stays_in_floating_point_range():
    assert central_queue_task_delay(2000, 0.9, 1) == near(mmc(2000, 0.9).mean_response_time, 1e-9)


def test_round_robin_has_the_sheets_means():
    c3 = CHECK["C3"]
    assert round_robin(20, 0.9).mean_response_time == near(c3["twenty_servers"])
    assert round_robin(math.inf, 0.9).mean_response_time == near(c3["many_servers"])
    assert round_robin(math.inf, 0.9).mean_response_time == near(CHECK["section_10"]["round_robin_at_0_9"], 2e-5)


def test_power_of_d_has_the_sheets_values():
    c4, section_10 = CHECK["C4"], CHECK["section_10"]
    two = power_of_d(0.9, 2)
    assert two.queue_length_tail is not None
    assert two.queue_length_tail[2:5] == near(c4["po2_tail"])
    assert two.mean_response_time == near(c4["po2_mean"])
    assert power_of_d(0.7, 3).mean_response_time == near(c4["po3_mean_at_0_7"])
    mixed = power_of_d(0.9, 1.2)
    assert mixed.queue_length_tail is not None
    assert mixed.queue_length_tail[2] == near(c4["po1_2_second"])
    assert mixed.mean_response_time == near(c4["po1_2_mean"])
    for load, mean in section_10["po2"].items():  # given to four decimals
        assert power_of_d(float(load), 2).mean_response_time == pytest.approx(mean, abs=5.1e-5)
    assert power_of_d(0.9, 3).mean_response_time == pytest.approx(section_10["po3_at_0_9"], abs=5.1e-5)
    assert two.quantile(0.99) == pytest.approx(section_10["po2_p99_at_0_9"], abs=5.1e-4)


def test_power_of_d_with_phase_type_sizes_has_the_sheets_mean():
    assert power_of_d_phase_type(0.7, 2, *BALANCED).mean_response_time == near(CHECK["C5"]["po2_mean_at_0_7"])


def test_jiq_has_the_sheets_values():
    c15 = CHECK["C15"]
    assert jiq_idle_fraction(0.9, 10) == near(c15["rho"])
    assert jiq_limit(0.9, 10).mean_response_time == near(c15["mean"])
    assert jiq_idle_fraction(0.9, 10, 2) == near(c15["rho_shortest_of_two"])


@pytest.mark.parametrize("size", [Hyperexponential(scv=4), Erlang(phases=3), Exponential(mean=2.0)])
def test_power_of_one_choice_is_the_mg1_queue(size):
    load = 0.8
    one, alone = power_of_d_phase_type(load, 1, *size.phase_type()), mg1(load / size.mean, size)
    assert one.mean_response_time == near(alone.mean_response_time, 1e-8)
    assert one.queue_length_tail[:20] == pytest.approx(alone.queue_length_tail[:20], abs=1e-9)
    for p in (0.5, 0.9, 0.999):
        assert one.quantile(p) == near(alone.quantile(p), 1e-7)


@pytest.mark.parametrize("d", [2, 3, 1.5])
def test_power_of_d_with_one_phase_is_the_closed_form(d):
    iterated, closed = power_of_d_phase_type(0.9, d, [1.0], [[-0.5]]), power_of_d(0.9, d).scaled(2.0)
    assert iterated.mean_response_time == near(closed.mean_response_time, 1e-9)
    assert iterated.quantile(0.99) == near(closed.quantile(0.99), 1e-9)


def test_two_equal_phases_in_parallel_are_one():
    twice = power_of_d_phase_type(0.9, 2, [0.3, 0.7], [[-1.0, 0.0], [0.0, -1.0]])
    assert twice.mean_response_time == near(power_of_d(0.9, 2).mean_response_time, 1e-9)


def test_power_of_one_is_mm1_and_more_choices_are_better():
    assert power_of_d(0.9, 1).mean_response_time == near(10.0, 1e-9)
    means = [power_of_d(0.9, d).mean_response_time for d in (1, 1.3, 2, 2.5, 3, 10)]
    assert means == sorted(means, reverse=True)


@pytest.mark.parametrize(
    "state",
    [
        mm1(0.8),
        mm1b(0.8, 4),
        mm1b(1.5, 3),
        mg1(0.8, Hyperexponential(scv=4)),
        mg1(0.35, Erlang(phases=4, mean=2.0)),
        mmc(3, 0.8),
        mmc(5, 0.8),  # drains at rate 1: the continued case
        mmc(5, 0.8 + 1e-12),
        round_robin(5, 0.8),
        power_of_d(0.9, 2),
        power_of_d(0.9, 1.2),
        power_of_d_phase_type(0.9, 2, *BALANCED),
        power_of_d_phase_type(0.8, 1.5, *Erlang(phases=3).phase_type()),
        jsq_limit(0.9),
        jiq_limit(0.9, 10),
    ],
)
def test_the_response_time_tail_integrates_to_the_mean_and_gives_the_quantiles(state: SteadyState):
    tail = state.response_time_tail
    assert tail is not None
    assert tail(0.0) == near(1.0, 1e-9)
    pieces = [0.0, *(state.mean_response_time * x for x in (0.5, 2.0, 6.0, 20.0, 100.0))]
    area = sum(quad(tail, low, high, epsabs=1e-11)[0] for low, high in itertools.pairwise(pieces))
    assert area == near(state.mean_response_time, 1e-7)
    for p in (0.001, 0.5, 0.999):
        assert tail(state.quantile(p)) == pytest.approx(1 - p, rel=1e-6)


@pytest.mark.parametrize(
    ("state", "arrival_rate"),
    [
        (mm1(0.8), 0.8),
        (mg1(0.4, Erlang(phases=4, mean=2.0)), 0.4),
        (round_robin(5, 0.8), 0.8),
        (power_of_d(0.9, 1.7), 0.9),
        (power_of_d_phase_type(0.9, 2, *BALANCED), 0.9),
        (jiq_limit(0.9, 10), 0.9),
        (mm1b(1.5, 3), 1.5 * (1 - mm1b(1.5, 3).drop_probability)),
    ],
)
def test_littles_distribution_joins_queue_lengths_and_response_times(state: SteadyState, arrival_rate: float):
    assert state.queue_length_tail is not None
    assert state.queue_length_tail[0] == near(1.0, 1e-9)
    assert state.queue_length_tail[1:].sum() == near(arrival_rate * state.mean_response_time, 1e-8)


def test_gim1_with_exponential_gaps_is_mm1():
    state = gim1(lambda s: 0.9 / (0.9 + s), 0.9)
    assert state.mean_response_time == near(10.0, 1e-9)
    assert state.queue_length_tail[:5] == pytest.approx(0.9 ** np.arange(5), rel=1e-9)


def test_gim1_close_to_saturation_keeps_its_precision():
    assert gim1(lambda s: 1 / (1 + s / 0.9999), 0.9999).mean_response_time == near(1e4, 1e-6)


def test_round_robin_over_one_server_is_mm1_and_tends_to_d_m_1():
    assert round_robin(1, 0.8).mean_response_time == near(5.0, 1e-9)
    assert round_robin(10**6, 0.9).mean_response_time == near(CHECK["C3"]["many_servers"])


def test_mm1b_is_the_stationary_distribution_of_its_chain():
    load, buffer = 1.3, 4
    generator = np.diag(np.full(buffer, load), 1) + np.diag(np.ones(buffer), -1)
    pi = stationary(generator)
    state = mm1b(load, buffer)
    assert state.drop_probability == near(pi[-1], 1e-9)
    assert state.queue_length_tail == pytest.approx(np.cumsum(pi[::-1])[::-1], rel=1e-9)
    assert mm1b(1.0, 3).drop_probability == near(0.25, 1e-12)


def test_mmc_is_the_stationary_mean_of_its_chain():
    servers, load, most = 3, 0.7, 200
    generator = np.diag(np.full(most, servers * load), 1)
    generator += np.diag(np.minimum(np.arange(1, most + 1), servers).astype(float), -1)
    pi = stationary(generator)
    assert mmc(servers, load).mean_response_time == near(float(np.arange(most + 1) @ pi) / (servers * load), 1e-9)


def test_shortest_queue_of_two_servers_lies_between_the_central_queue_and_one_choice():
    """The sheet's exact value for JSQ with N = 2, from a chain solved here, against the bound and the limits."""
    load, most = 0.8, 45
    states = [(a, b) for a in range(most) for b in range(a + 1)]
    index = {state: i for i, state in enumerate(states)}
    generator = np.zeros((len(states), len(states)))
    for (a, b), i in index.items():
        shortest = tuple(sorted((a, b + 1), reverse=True))
        if shortest in index:
            generator[i, index[shortest]] += 2 * load
        if a:
            generator[i, index[tuple(sorted((a - 1, b), reverse=True))]] += 1
        if b:
            generator[i, index[a, b - 1]] += 1
    mean = float(np.array([a + b for a, b in states]) @ stationary(generator)) / (2 * load)
    assert mean == near(CHECK["C12"]["jsq_two_servers_at_0_8"])
    assert (
        max(mmc(2, load).mean_response_time, jsq_limit(load).mean_response_time) < mean < mm1(load).mean_response_time
    )


def test_jiq_tends_to_no_waiting_with_ever_more_servers_per_dispatcher():
    means = [jiq_limit(0.9, r).mean_response_time for r in (0.01, 1, 10, 1000, math.inf)]
    assert means == sorted(means, reverse=True)
    assert means[0] == near(10.0, 0.02)
    assert means[-1] == 1.0


def test_an_infinite_second_moment_gives_an_infinite_mean():
    class HeavyTailed:
        mean = 1.0
        second_moment = math.inf

        def phase_type(self) -> None:
            return None

    state = mg1(0.5, HeavyTailed())
    assert state.mean_response_time == math.inf
    with pytest.raises(ValueError, match="no response-time distribution"):
        state.quantile(0.5)


@pytest.mark.parametrize(
    ("call", "named"),
    [
        (lambda: mm1(1.0), "load is 1.0"),
        (lambda: mm1(math.nan), "load is nan"),
        (lambda: mg1(2.0, Exponential()), "load is 2.0"),
        (lambda: mmc(0, 0.5), "servers is 0"),
        (lambda: mmc(2.5, 0.5), "servers is 2.5"),
        (lambda: mm1b(0.5, 0), "buffer is 0"),
        (lambda: mm1b(-1.0, 3), "load is -1.0"),
        (lambda: round_robin(0, 0.5), "servers is 0"),
        (lambda: round_robin(1.5, 0.5), "servers is 1.5"),
        (lambda: power_of_d(0.5, 0.9), "d is 0.9"),
        (lambda: power_of_d(0.5, math.inf), "d is inf"),
        (lambda: power_of_d_phase_type(0.5, 2, [0.5, 0.6], np.diag([-1.0, -1.0])), "sum to 1"),
        (lambda: power_of_d_phase_type(0.5, 2, [1.0], np.diag([-1.0, -1.0])), "shape"),
        (lambda: power_of_d_phase_type(0.5, 2, [1.0, 0.0], [[-1.0, 2.0], [0.0, -1.0]]), "rows sum"),
        (lambda: power_of_d_phase_type(0.5, 2, [1.0, 0.0], [[-1.0, 1.0], [1.0, -1.0]]), "singular"),
        (lambda: jiq_limit(0.5, 0), "servers_per_dispatcher is 0"),
        (lambda: jiq_idle_fraction(0.5, 3, 0), "idle_list_choices is 0"),
        (lambda: gim1(lambda s: 1 / (1 + s / 2), 0.5), "mean gap"),
        (lambda: mm1(0.5).quantile(1.0), "probability is 1.0"),
        (lambda: mm1(0.5).quantile(0.0), "probability is 0.0"),
    ],
)
def test_bad_arguments_are_named_with_their_value(call, named):
    with pytest.raises(ValueError, match=named):
        call()


def stationary(generator: np.ndarray) -> np.ndarray:
    """Return the stationary distribution of a chain given its rates off the diagonal."""
    generator = generator - np.diag(generator.sum(axis=1))
    system = np.vstack([generator.T, np.ones(len(generator))])
    right = np.zeros(len(generator) + 1)
    right[-1] = 1.0
    return np.linalg.lstsq(system, right, rcond=None)[0]
