import math

import numpy as np

from testbed.measure.trend import BATCHES, mann_kendall, trend


def random_queues(rng, servers, load, duration, batches=BATCHES):
    """Number at M/M/1 queues in steady state: uniformised chains, sampled at the batches' middles."""
    queue = rng.geometric(1 - load, servers) - 1
    steps = rng.poisson((1 + load) * duration / batches, (batches, servers))
    number = []
    for count in steps:
        for i in range(count.max(initial=0)):
            move = np.where(rng.random(servers) < load / (1 + load), 1, -1) * (i < count)
            queue = np.maximum(queue + move, 0)
        number.append(queue.sum())
    return np.array(number, float)


def test_steady_queues_near_saturation_are_rarely_called_growing():
    # The rule's false alarm is below 1e-3 a window; 100 windows with more than 3 would be a chance of 4e-6.
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(100):
        number = random_queues(rng, 10, 0.95, 60.0)
        alarms += trend(number, math.sqrt(10 * 0.95 * 60 * 2)).growing
    assert alarms <= 3


def test_white_noise_is_rarely_called_growing():
    rng = np.random.default_rng(2)
    assert sum(trend(10 + 3 * rng.standard_normal(BATCHES), 1.0).growing for _ in range(1000)) <= 3


def test_an_overloaded_cluster_is_seen():
    # 40 servers at load 1.1 for 200 time units: drift 800, bound 3.3 * sqrt(44 * 200 * 2) = 436.
    rng = np.random.default_rng(3)
    walk = np.cumsum(rng.poisson(44 * 5, BATCHES) - rng.poisson(40 * 5, BATCHES)) + 100.0
    found = trend(walk, math.sqrt(44 * 200 * 2))
    assert found.growing
    assert found.growth > found.significant > 400


def test_a_clear_line_in_white_noise_is_seen_at_once_if_it_matters():
    rng = np.random.default_rng(4)
    noise = 2 * rng.standard_normal(BATCHES)
    line = np.linspace(-0.5, 0.5, BATCHES)
    assert trend(100 + 40 * line + noise, 1e9).growing
    assert not trend(100 + 15 * line + noise, 1e9).growing  # clear, but below a quarter of the mean
    assert not trend(100 - 40 * line + noise, 1e9).growing


def test_growth_is_that_of_the_least_squares_line():
    number = np.random.default_rng(5).random(BATCHES)
    time = (np.arange(BATCHES) + 0.5) / BATCHES
    slope = np.cov(time, number)[0, 1] / np.var(time, ddof=1)
    assert np.isclose(trend(number, 1.0).growth, slope)


def test_an_empty_or_constant_system_does_not_grow():
    assert not trend(np.zeros(BATCHES), 0.0).growing
    assert not trend(np.full(BATCHES, 3.0), 0.0).growing
    assert mann_kendall(np.full(10, 2.0)) == 1.0


def test_mann_kendall_of_a_strict_order_is_one_over_the_permutations():
    assert np.isclose(mann_kendall(np.arange(6.0)), 1 / math.factorial(6))
