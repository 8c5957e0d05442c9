"""The rational policy as a rule for single jobs: which option a job of known sizes takes, and its thresholds.

The stability bound with known sizes comes with prices of time in the two pools, at which every job takes the option
that is cheapest for its own sizes. Where two options cost the same for many jobs (for identical sizes they do for all),
they are mixed so that both pools have the same load.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from testbed.theory.rerouting_replication.known_sizes import (
    Option,
    OptionTable,
    known_size_cost,
    replication_phases,
    reroute_factors,
)
from testbed.theory.rerouting_replication.model import KnownSizes, Model

#: How far the prices of the two rules that are mixed lie from the best ones: ties are told apart, little else changes.
_STEP = 1e-6


@dataclass(frozen=True)
class Priced:
    """An option and the mean time that it uses for sizes (x_1, x_2), over the types.

    That is ``alone[q] x_q`` in pool q, and min(rest x_s, rival x_o) in both for each of the ``pairs``, with its
    probability; s is the pool of the start and o the other one (infinite where that pool can't serve the type). On
    visit v the job leaves pool ``leaves[v][0]`` after its size there divided by ``leaves[v][1]``.
    """

    start: int
    alone: tuple[float, float]
    pairs: tuple[tuple[float, float, float], ...]
    leaves: tuple[tuple[int, float], ...]

    def price(self, sizes: Sequence[float], prices: Sequence[float]) -> float:
        """Return the mean price of the time that the option uses for a job of these sizes."""
        own, other = sizes[self.start], sizes[1 - self.start]
        paired = sum(p * min(rest * own, rival * other) for p, rest, rival in self.pairs)
        return prices[0] * (self.alone[0] * sizes[0] + paired) + prices[1] * (self.alone[1] * sizes[1] + paired)

    def thresholds(self, sizes: Sequence[float]) -> list[float]:
        """Return the received processing times after which the job moves on, visit by visit; none if it never does."""
        return [sizes[q] / speed for q, speed in self.leaves]


@dataclass(frozen=True)
class RationalRule:
    """What to do with a job of known sizes: the option that is cheapest at prices that may be drawn.

    ``prices[0]`` apply with probability ``mixing``, else ``prices[1]``. ``requirement`` is E[B_i] per job under the
    rule, in time units. All are plain numbers.
    """

    options: tuple[Priced, ...]
    prices: tuple[tuple[float, float], tuple[float, float]]
    mixing: float
    requirement: tuple[float, float]

    def choose(self, sizes: Sequence[float], uniform: float) -> tuple[int, list[float]]:
        """Return the starting pool and the thresholds, by visit, of a job; ``uniform`` is a draw from [0, 1)."""
        prices = self.prices[0] if uniform < self.mixing else self.prices[1]
        best = min(self.options, key=lambda option: option.price(sizes, prices))
        return best.start, best.thresholds(sizes)


def rational_rule(model: Model, policy: KnownSizes) -> RationalRule:
    """Return the assignment and the thresholds that reach the stability bound with known sizes and unknown types.

    Raises ValueError for a model with other than two pools, and where no option serves all types.
    """
    cost, prices = known_size_cost(model, policy, np.ones((len(model.types), 1)))
    table, n = OptionTable(model, policy), model.n

    def value(w: float) -> float:
        return table.mean_price(model.p, w)

    # The slope of the value at w is E[B_1] / n_1 - E[B_2] / n_2 under the cheapest options.
    w = min(max(float(prices[0] * n[0]), 2 * _STEP), 1 - 2 * _STEP)
    low, high = w - _STEP, w + _STEP
    below, above = (value(low) - value(low - _STEP)) / _STEP, (value(high + _STEP) - value(high)) / _STEP
    if below <= 0 or above >= 0:
        # One pool alone limits the rate (or both are in balance without mixing), and has the largest load.
        slope = above if below <= 0 else below
        loads = (cost + slope, cost) if slope < 0 else (cost, cost - slope)
        mixing = 1.0 if below <= 0 else 0.0
    else:
        loads, mixing = (cost, cost), below / (below - above)
    return RationalRule(
        tuple(_priced(model, policy, option) for option in table.options),
        ((high / n[0], (1 - high) / n[1]), (low / n[0], (1 - low) / n[1])),
        mixing,
        (float(loads[0] * n[0]), float(loads[1] * n[1])),
    )


def _priced(model: Model, policy: KnownSizes, option: Option) -> Priced:
    types = range(len(model.types))
    if policy.action == "reroute":
        alone = model.p @ reroute_factors(model, option)
        pairs: tuple[tuple[float, float, float], ...] = ()
    else:
        phases = [replication_phases(model, option, j) for j in types]
        before = float(sum(p * phase[0] for p, phase in zip(model.types, phases, strict=True)))
        alone = np.array([before, 0.0] if option.start == 0 else [0.0, before])
        pairs = tuple((p, rest, rival) for p, (_, rest, rival) in zip(model.types, phases, strict=True) if p * rest > 0)
    return Priced(option.start, (float(alone[0]), float(alone[1])), pairs, tuple(_leaves(model, policy, option)))


def _leaves(model: Model, policy: KnownSizes, option: Option) -> Iterator[tuple[int, float]]:
    """Yield the pools that the job leaves, and the speed of the slowest type that is waited for there."""
    left, q = set(range(len(model.types))), option.start
    for m in option.waits[:-1] if policy.action == "reroute" else option.waits:
        speeds = sorted({model.speeds[q][j] for j in left} - {0.0}, reverse=True)
        if policy.action == "replicate" and m == len(set(model.speeds[q])):
            return  # never
        until = speeds[m - 1] if m else math.inf
        yield q, until
        left = {j for j in left if model.speeds[q][j] < until}
        q = 1 - q
