"""Water-filling, against the end state that the formula sheet gives, and its random ties."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from dispatchers.water_filling import fill
from testbed.core.streams import Stream, generator


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 40))
def test_the_water_comes_to_the_level_of_the_formula(queue_lengths: list[int], tasks: int) -> None:
    """V_i = sum (i - q_j)^+, L = max{i: V_i <= k}, r = k - V_L: all below L end at L, then r servers at L + 1."""
    servers = list(range(100, 100 + len(queue_lengths)))
    placed = Counter(fill(servers, dict(zip(servers, queue_lengths, strict=True)), tasks))
    assert placed.total() == tasks
    level = max(i for i in itertools.takewhile(lambda i: space(queue_lengths, i) <= tasks, itertools.count()))
    left = tasks - space(queue_lengths, level)
    after = [q + placed[server] for server, q in zip(servers, queue_lengths, strict=True)]
    raised = [new for new, old in zip(after, queue_lengths, strict=True) if old <= level]
    assert Counter(raised) == +Counter({level + 1: left, level: len(raised) - left})
    assert all(new == old for new, old in zip(after, queue_lengths, strict=True) if old > level)


def space(queue_lengths: list[int], level: int) -> int:
    return sum(max(level - q, 0) for q in queue_lengths)


def test_the_last_tasks_go_to_a_uniformly_random_set_of_equal_queues(assert_uniform: Any) -> None:
    rng = Stream(generator(1, 0, "test"))
    lengths = {0: 2, 1: 0, 2: 1, 3: 1, 4: 7}  # one task to server 1, then two to two of 1, 2 and 3
    counts: Counter[tuple[int, ...]] = Counter()
    for _ in range(3000):
        placed = Counter(fill(rng.sample(5, 5), lengths, 3))
        counts[tuple(sorted(server for server in (1, 2, 3) if lengths[server] + placed[server] == 2))] += 1
    assert len(counts) == 3
    assert_uniform(list(counts.values()))


def test_servers_that_have_not_replied_are_left_out_and_none_known_counts_as_all_empty() -> None:
    assert fill([3, 1, 2], {1: 5, 2: 5}, 3) == [1, 2, 1]
    assert fill([3, 1, 2], {}, 4) == [3, 1, 2, 3]
