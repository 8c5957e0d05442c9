import numpy as np
import pytest

from dispatchers.random_routing import Random, RandomParameters


def test_servers_are_chosen_uniformly(bench, assert_uniform):
    system = bench("random", 7)
    for _ in range(7000):
        system.arrive()
    assert_uniform(np.bincount(list(system.placed.values()), minlength=7))


def test_weights_are_kept_and_a_server_without_weight_gets_nothing(bench, assert_uniform):
    system = bench("random", 4, weights=(1.0, 0.0, 3.0, 0.0))
    for _ in range(8000):
        system.arrive()
    counts = np.bincount(list(system.placed.values()), minlength=4)
    assert counts[1] == counts[3] == 0
    # Count the heavier server's jobs as three servers' by drawing one of three for each.
    split = np.random.default_rng(2).multinomial(counts[2], [1 / 3] * 3)
    assert_uniform([counts[0], *split])


@pytest.mark.parametrize("weights", [(1.0,), (1.0, 1.0, 1.0), (0.0, 0.0)])
def test_weights_that_do_not_fit_the_servers_are_refused(weights):
    with pytest.raises(ValueError, match=r"^weights: "):
        Random.check(RandomParameters(weights), 2)
