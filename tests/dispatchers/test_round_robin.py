import pytest


@pytest.mark.parametrize("servers", [1, 2, 7])
def test_each_server_gets_every_nth_job_in_turn(bench, servers):
    system = bench("round-robin", servers)
    for _ in range(5 * servers):
        system.arrive()
    start = system.placed[0]
    assert system.placed == {job: (start + job) % servers for job in range(5 * servers)}


def test_the_turn_starts_at_a_server_chosen_uniformly(bench, assert_uniform):
    starts = [0] * 5
    for seed in range(500):
        system = bench("round-robin", 5, seed=seed)
        starts[system.placed[system.arrive()]] += 1
    assert_uniform(starts)
