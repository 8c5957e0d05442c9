"""Random streams by name.

Each agent and each use (arrivals, sizes, choices) draws from its own stream, spawned from the run's seed. A stream's
values depend on the seed, the replication and the stream's name, and on nothing else. Two policies can therefore be
compared on the same arrivals and sizes, and a run can be replayed on its twin, the discrete-event simulation of the
same agents.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np


def generator(seed: int, replication: int, name: str) -> np.random.Generator:
    """Return the numpy generator of the stream called ``name``.

    The spawn key contains a hash of the name, so that a new stream never shifts the values of another one.
    """
    digest = hashlib.blake2b(name.encode(), digest_size=16).digest()
    words = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(replication, *words)))


class Stream:
    """Uniform random numbers for an agent's choices, drawn in blocks.

    One number from a numpy generator costs about a microsecond, one from a block forty nanoseconds; an agent draws for
    every job.
    """

    __slots__ = ("uniform",)

    BLOCK = 1024

    def __init__(self, source: np.random.Generator) -> None:
        def blocks() -> Iterator[float]:
            while True:
                yield from source.random(self.BLOCK).tolist()

        #: ``uniform()`` is the next number in [0, 1).
        self.uniform = blocks().__next__

    def integer(self, bound: int) -> int:
        """Return an integer uniform on 0..bound-1."""
        return int(self.uniform() * bound)

    def sample(self, population: int, count: int) -> list[int]:
        """Return ``count`` distinct integers of 0..population-1 in uniformly random order.

        ``count`` uniform numbers are used. A partial Fisher-Yates shuffle on a sparse array: O(count) whatever the
        population. The order is exchangeable, so that "the first of the shortest" is a uniform choice among ties.
        """
        uniform = self.uniform
        if count == 2:
            first = int(uniform() * population)
            second = int(uniform() * (population - 1))
            return [first, second + (second >= first)]
        moved: dict[int, int] = {}
        drawn = []
        for i in range(count):
            j = i + int(uniform() * (population - i))
            drawn.append(moved.get(j, j))
            moved[j] = moved.get(i, i)
        return drawn
