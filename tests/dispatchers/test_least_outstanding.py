import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.core.messages import Dropped


@given(st.data())
def test_the_job_joins_a_server_with_the_fewest_unfinished_tasks(bench, data):
    servers = data.draw(st.integers(1, 6))
    system = bench("least-outstanding", servers, seed=data.draw(st.integers(0, 99)))
    outstanding = [0] * servers
    unfinished = []
    for _ in range(data.draw(st.integers(0, 40))):
        if unfinished and data.draw(st.booleans()):
            job = unfinished.pop(data.draw(st.integers(0, len(unfinished) - 1)))
            system.finish(job)
            outstanding[system.placed[job]] -= 1
        else:
            job = system.arrive()
            assert outstanding[system.placed[job]] == min(outstanding)
            outstanding[system.placed[job]] += 1
            unfinished.append(job)


def test_ties_are_broken_uniformly(bench, assert_uniform):
    system = bench("least-outstanding", 5)
    busy = {system.placed[system.arrive()] for _ in range(2)}
    counts = dict.fromkeys(set(range(5)) - busy, 0)
    assert len(counts) == 3
    for _ in range(1000):
        job = system.arrive()
        counts[system.placed[job]] += 1
        system.finish(job)
    assert_uniform(list(counts.values()))


def test_a_dropped_task_is_no_longer_outstanding(bench):
    system = bench("least-outstanding", 2)
    first = system.arrive()
    server = system.placed[first]
    system.act(lambda: system.runtime.send(Dropped(system.dispatcher.address, server, first, 0)))
    seen = {system.placed[system.arrive()] for _ in range(2)}
    assert seen == {0, 1}


def test_nobody_is_probed(bench):
    system = bench("least-outstanding", 3)
    for _ in range(10):
        system.arrive()
    assert system.probed == {}
    assert np.ptp(np.bincount(list(system.placed.values()), minlength=3)) <= 1
