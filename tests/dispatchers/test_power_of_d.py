from collections import Counter
from itertools import permutations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatchers.power_of_d import PowerOfD, PowerOfDParameters


@given(st.data())
def test_the_job_joins_a_shortest_queue_of_those_sampled(bench, data):
    queue_lengths = data.draw(st.lists(st.integers(0, 4), min_size=2, max_size=8))
    system = bench(
        "power-of-d",
        len(queue_lengths),
        seed=data.draw(st.integers(0, 99)),
        d=data.draw(st.floats(2, 9)),
        replacement=data.draw(st.booleans()),
    )
    system.set_queue_lengths(*queue_lengths)
    for _ in range(5):
        job = system.arrive()
        sampled = system.probed.get(job, [system.placed[job]])
        assert len(set(sampled)) == len(sampled)
        assert queue_lengths[system.placed[job]] == min(queue_lengths[server] for server in sampled)


def test_pairs_are_sampled_uniformly(bench, assert_uniform):
    system = bench("power-of-d", 4)
    pairs = Counter(tuple(system.probed[system.arrive()]) for _ in range(3000))
    assert_uniform([pairs[pair] for pair in permutations(range(4), 2)])


def test_triples_are_sampled_uniformly(bench, assert_uniform):
    system = bench("power-of-d", 4, d=3)
    triples = Counter(tuple(system.probed[system.arrive()]) for _ in range(3000))
    assert_uniform([triples[triple] for triple in permutations(range(4), 3)])


@pytest.mark.parametrize("d", [2, 3, 5])
def test_ties_are_broken_uniformly(bench, assert_uniform, d):
    system = bench("power-of-d", 5, d=d)
    for _ in range(2000):
        system.arrive()
    assert_uniform(np.bincount(list(system.placed.values()), minlength=5))


@pytest.mark.parametrize("replacement", [False, True])
def test_the_chance_of_meeting_the_only_idle_server_is_that_of_the_sampling(bench, assert_uniform, replacement):
    servers, d = 3, 2
    chance = 1 - (1 - 1 / servers) ** d if replacement else d / servers  # 5/9 and 6/9
    system = bench("power-of-d", servers, d=d, replacement=replacement)
    system.set_queue_lengths(0, 1, 1)
    jobs = 9000
    for _ in range(jobs):
        system.arrive()
    hits = Counter(system.placed.values())[0]
    assert abs(hits - jobs * chance) < 4.5 * (jobs * chance * (1 - chance)) ** 0.5  # false alarm 7e-6


def test_a_fractional_d_is_the_mean_number_of_servers_sampled(bench):
    system = bench("power-of-d", 9, d=2.25)
    jobs = 4000
    sampled = Counter(len(system.probed[system.arrive()]) for _ in range(jobs))
    assert set(sampled) == {2, 3}
    assert abs(sampled[3] - jobs / 4) < 4.5 * (jobs * 3 / 16) ** 0.5  # false alarm 7e-6


def test_d_above_the_number_of_servers_asks_each_once(bench):
    system = bench("power-of-d", 3, d=50)
    assert sorted(system.probed[system.arrive()]) == [0, 1, 2]


@pytest.mark.parametrize("replacement", [False, True])
def test_with_d_1_it_is_random_routing_and_probes_nothing(bench, assert_uniform, replacement):
    system = bench("power-of-d", 4, d=1, replacement=replacement)
    for _ in range(1000):
        system.arrive()
    assert system.probed == {}
    assert_uniform(np.bincount(list(system.placed.values()), minlength=4))


@pytest.mark.parametrize(
    ("d", "servers", "most"), [(1, 9, 0), (1.2, 9, 2), (2, 9, 2), (2, 1, 0), (5, 3, 3), (2.5, 2, 2)]
)
def test_the_claim_of_probes(d, servers, most):
    assert PowerOfD.probes_per_job(PowerOfDParameters(d=d), servers) == most


def test_with_a_timeout_the_job_joins_a_known_queue_or_else_the_server_drawn_first(bench):
    system = bench("power-of-d", 4, timeout=1.0)
    system.set_queue_lengths(0, 0, 7, 7)
    system.servers[0].reply_after = system.servers[1].reply_after = None
    for _ in range(200):
        system.arrive()
    system.run(1.0)
    kinds = set()
    for job, sampled in system.probed.items():
        known = [server for server in sampled if server >= 2]
        kinds.add(len(known))
        assert system.placed[job] == (known or sampled)[0]
        assert system.placed_at[job] == (0.0 if len(known) == 2 else 1.0)
    assert kinds == {0, 1, 2}


def test_a_reply_that_comes_too_late_changes_nothing(bench):
    system = bench("power-of-d", 2, timeout=1.0)
    for server in system.servers:
        server.reply_after = 3.0
    job = system.arrive()
    system.run(2.0)
    before = dict(system.placed)
    system.run(5.0)
    assert before == system.placed
    assert system.placed_at == {job: 1.0}


def test_each_job_has_its_own_deadline(bench):
    system = bench("power-of-d", 3, timeout=1.0)
    for server in system.servers:
        server.reply_after = None
    for when in (0.0, 0.25, 0.5, 3.0):
        system.run(when)
        if when == 0.25:  # this one is answered
            for server in system.servers:
                server.reply_after = 0.125
            system.arrive()
            for server in system.servers:
                server.reply_after = None
        else:
            system.arrive()
    system.run(9.0)
    assert system.placed_at == {0: 1.0, 1: 0.375, 2: 1.5, 3: 4.0}


def test_a_timeout_costs_no_timer_per_job(bench):
    system = bench("power-of-d", 3, timeout=1000.0)
    calls = []
    call_at = system.runtime.call_at
    for _ in range(50):
        system.arrive()
    system.runtime.call_at = lambda when, callback: calls.append(when) or call_at(when, callback)
    for _ in range(50):
        system.dispatcher.arrive(system.jobs, 0, (1.0,))
        system.jobs += 1
    assert calls == []
