"""The extra delay of messages."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.core.streams import generator
from testbed.runtime.delay import Delay

sends = st.lists(st.tuples(st.floats(0, 2), st.integers(0, 3), st.integers(0, 3)), max_size=60)


@given(sends, st.integers(0, 2**32))
def test_messages_of_a_pair_stay_in_order_and_no_pair_waits_for_another(
    gaps: list[tuple[float, int, int]], seed: int
) -> None:
    delay = Delay(lambda rng, count: rng.exponential(1.0, count), generator(seed, 0, "delay"))
    drawn = iter(generator(seed, 0, "delay").exponential(1.0, 1024).tolist())
    now = 0.0
    last: dict[tuple[int, int], float] = defaultdict(float)
    for gap, sender, to in gaps:
        now += gap
        expected = max(now + next(drawn), last[sender, to])
        assert delay.arrival(now, sender, to) == expected
        last[sender, to] = expected


def test_delays_are_drawn_in_blocks_without_repeating() -> None:
    delay = Delay(lambda rng, count: rng.random(count), generator(1, 0, "delay"))
    arrivals = [delay.arrival(0.0, i, 0) for i in range(3000)]
    assert len(np.unique(arrivals)) == 3000
