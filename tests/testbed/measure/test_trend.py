import math

import numpy as np
import pytest
from scipy.signal import lfilter

from testbed.measure.trend import trend

SLICES = 256


def random_queues(rng, servers, load, duration, slices=SLICES):
    """Number at M/M/1 queues in steady state: uniformised chains, sampled at the slices' middles."""
    queue = rng.geometric(1 - load, servers) - 1
    steps = rng.poisson((1 + load) * duration / slices, (slices, servers))
    number = []
    for count in steps:
        for i in range(count.max(initial=0)):
            move = np.where(rng.random(servers) < load / (1 + load), 1, -1) * (i < count)
            queue = np.maximum(queue + move, 0)
        number.append(queue.sum())
    return np.array(number, float)


def memory_of(rng, times, slices=SLICES):
    """An autoregressive series in its steady state, of variance 1, whose window holds so many relaxation times."""
    phi = math.exp(-times / slices)
    start = rng.standard_normal()
    return lfilter([math.sqrt(1 - phi**2)], [1.0, -phi], rng.standard_normal(slices), zi=[phi * start])[0]


def test_steady_queues_near_saturation_are_rarely_called_growing():
    # A false alarm has a chance of 1e-3 a window at most; 100 windows with more than 3 would be a chance of 4e-6.
    rng = np.random.default_rng(1)
    alarms = 0
    for _ in range(100):
        number = random_queues(rng, 10, 0.95, 60.0)
        alarms += trend(number, math.sqrt(10 * 0.95 * 60 * 2)).growing
    assert alarms <= 3


@pytest.mark.parametrize("times", [0.5, 4.0, 30.0, 1e6])
def test_steady_series_are_rarely_called_growing_whatever_their_memory(times):
    # 300 windows at a chance of 1e-3 at most: more than 5 are a chance of 9e-7. The mean of 0.1 hides no alarm.
    rng = np.random.default_rng(2)
    noise = math.sqrt(2 * min(times, SLICES))
    assert sum(trend(0.1 + memory_of(rng, times), noise).growing for _ in range(300)) <= 5


def test_an_overloaded_cluster_is_seen():
    # 40 servers at load 1.1 for 200 time units: drift 800, bound 3.6 * sqrt(44 * 200 * 2) = 480.
    rng = np.random.default_rng(3)
    step = 200 / SLICES
    walk = np.cumsum(rng.poisson(44 * step, SLICES) - rng.poisson(40 * step, SLICES)) + 100.0
    found = trend(walk, math.sqrt(44 * 200 * 2))
    assert found.growing
    assert found.growth > found.significant > 400


def test_a_line_that_matters_is_seen_at_once_in_what_forgets_fast():
    rng = np.random.default_rng(4)
    line = np.linspace(-0.5, 0.5, SLICES)
    for times in (100.0, 1e6):
        noise = 2 * memory_of(rng, times)
        assert trend(100 + 40 * line + noise, 1e9).growing
        assert not trend(100 + 15 * line + noise, 1e9).growing  # clear, but below a quarter of the mean
        assert not trend(100 - 40 * line + noise, 1e9).growing


def test_growth_is_judged_against_the_memory_of_the_series_where_a_free_walk_would_hide_it():
    # As of 40 servers that look at queues, at load 0.8 for 400 time units: they forget in 5 of them, the number is
    # 46 +- 6. A free walk with the same arrivals has a deviation of 160. A growth of 40 is seen, in most windows.
    rng = np.random.default_rng(5)
    line = np.linspace(-0.5, 0.5, SLICES)
    found = [trend(46 + 40 * line + 6 * memory_of(rng, 80.0), math.sqrt(32 * 400 * 2)) for _ in range(50)]
    assert sum(each.growing for each in found) > 25
    assert max(each.significant for each in found) < 3 * 160 / 2


def test_growth_is_that_of_the_least_squares_line():
    number = np.random.default_rng(5).random(SLICES)
    time = (np.arange(SLICES) + 0.5) / SLICES
    slope = np.cov(time, number)[0, 1] / np.var(time, ddof=1)
    assert np.isclose(trend(number, 1.0).growth, slope)


def test_an_empty_or_constant_system_does_not_grow():
    assert not trend(np.zeros(SLICES), 0.0).growing
    assert not trend(np.full(SLICES, 3.0), 0.0).growing
