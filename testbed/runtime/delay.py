"""The one-way delay of messages that the scenario adds, the same in both runtimes."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import numpy.typing as npt


class Delay:
    """Draws a delay for each message and keeps the messages between two agents in order.

    ``sample(rng, n)`` returns ``n`` delays in time units (testbed.workload.distributions). As on a stream connection,
    a message arrives no earlier than the one before it from the same sender to the same receiver.
    """

    def __init__(
        self, sample: Callable[[np.random.Generator, int], npt.NDArray[np.float64]], source: np.random.Generator
    ) -> None:
        def blocks() -> Iterator[float]:
            while True:
                yield from sample(source, 1024).tolist()

        self._next = blocks().__next__
        self._last: dict[tuple[int, int], float] = {}

    def arrival(self, now: float, sender: int, to: int) -> float:
        """Return when a message that is sent at ``now`` arrives."""
        pair = (sender, to)
        when = max(now + self._next(), self._last.get(pair, 0.0))
        self._last[pair] = when
        return when
