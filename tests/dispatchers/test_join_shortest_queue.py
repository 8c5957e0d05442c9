import numpy as np
from hypothesis import given
from hypothesis import strategies as st


@given(st.data())
def test_the_job_joins_a_shortest_queue(bench, data):
    queue_lengths = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=8))
    system = bench("jsq", len(queue_lengths), seed=data.draw(st.integers(0, 99)))
    system.set_queue_lengths(*queue_lengths)
    assert queue_lengths[system.placed[system.arrive()]] == min(queue_lengths)


def test_ties_are_broken_uniformly(bench, assert_uniform):
    system = bench("jsq", 6)
    system.set_queue_lengths(2, 1, 1, 5, 1, 3)
    for _ in range(3000):
        system.arrive()
    counts = np.bincount(list(system.placed.values()), minlength=6)
    assert_uniform(counts[[1, 2, 4]])
    assert counts[[0, 3, 5]].sum() == 0


def test_the_choice_does_not_depend_on_the_order_of_the_replies(bench):
    placements = []
    for delays in ([1.0, 2.0, 3.0, 4.0], [4.0, 3.0, 2.0, 1.0]):
        system = bench("jsq", 4)
        for server, delay in zip(system.servers, delays, strict=True):
            server.reply_after = delay
        for _ in range(50):
            system.arrive()
        system.run(10.0)
        placements.append(system.placed)
    assert placements[0] == placements[1]
    assert len(placements[0]) == 50


def test_every_server_is_probed_once_and_a_single_one_not_at_all(bench):
    system = bench("jsq", 5)
    assert sorted(system.probed[system.arrive()]) == [0, 1, 2, 3, 4]
    alone = bench("jsq", 1)
    alone.arrive()
    assert alone.probed == {}
    assert alone.placed == {0: 0}


def test_when_time_is_up_the_job_joins_a_shortest_queue_among_those_known(bench):
    system = bench("jsq", 4, timeout=2.0)
    system.set_queue_lengths(0, 3, 1, 2)
    system.servers[0].reply_after = None
    for _ in range(20):
        system.arrive()
    system.run(1.9)
    assert system.placed == {}
    system.run(2.0)
    assert set(system.placed.values()) == {2}
    assert set(system.placed_at.values()) == {2.0}


def test_without_any_reply_the_job_joins_a_server_chosen_uniformly(bench, assert_uniform):
    system = bench("jsq", 3, timeout=1.0)
    for server in system.servers:
        server.reply_after = None
    for _ in range(600):
        system.arrive()
    system.run(1.0)
    assert_uniform(np.bincount(list(system.placed.values()), minlength=3))
