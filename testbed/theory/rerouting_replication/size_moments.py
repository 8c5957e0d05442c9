"""What the formulas ask of a size distribution: tails, truncated moments, and integrals of a product of two tails.

All functions take and return arrays that broadcast; a size bound of ``inf`` is allowed. ``X`` is the size, ``S`` its
tail ``P(X > x)``. Exponential distributions and their mixtures, Pareto distributions and distributions with atoms only
are in closed form here; ``quadrature`` has the others.
"""

from __future__ import annotations

import functools
import math
from typing import Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import hyp2f1

from testbed.theory.rerouting_replication.quadrature import IntegratedSize
from testbed.workload.distributions import (
    Deterministic,
    Distribution,
    Empirical,
    Exponential,
    Hyperexponential,
    Pareto,
)

Floats = npt.NDArray[np.float64]


class SizeMoments(Protocol):
    """The moments of a size distribution."""

    mean: float
    second_moment: float

    def tail(self, x: Floats) -> Floats:
        """Return S(x) = P(X > x)."""

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+]."""

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2]; ``inf`` for finite x where E[X^2] is infinite."""

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2]."""

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return ``int_0^inf order t^(order - 1) S(c + r t) S(d + s t) dt`` for order 1 or 2, r and s positive.

        That is the moment of this order of min((X - c)^+ / r, (X' - d)^+ / s), with X and X' independent.
        """


@functools.lru_cache(maxsize=64)
def size_moments(size: Distribution) -> SizeMoments:
    """Return the moments of a size distribution, in closed form where there is one."""
    if isinstance(size, Exponential):
        return ExponentialMixture((1.0,), (1 / size.mean,))
    if isinstance(size, Hyperexponential):
        alpha_1, alpha_2, mu_1, mu_2 = size.parameters
        return ExponentialMixture((alpha_1, alpha_2), (mu_1, mu_2))
    if isinstance(size, Pareto):
        return ParetoSize(size)
    if isinstance(size, Deterministic):
        return AtomicSize(np.array([size.value]))
    if isinstance(size, Empirical):
        return AtomicSize(size.sorted_values)
    return IntegratedSize(size)


class ExponentialMixture:
    """An exponential distribution with a random rate."""

    def __init__(self, probabilities: tuple[float, ...], rates: tuple[float, ...]) -> None:
        self.phases = tuple(zip(probabilities, rates, strict=True))
        self.mean = math.fsum(w / mu for w, mu in self.phases)
        self.second_moment = math.fsum(2 * w / mu**2 for w, mu in self.phases)

    def tail(self, x: Floats) -> Floats:
        """Return S(x)."""
        return np.asarray(sum(w * np.exp(-mu * x) for w, mu in self.phases))

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+]: what is left is exponential again."""
        return np.asarray(sum(w / mu * np.exp(-mu * x) for w, mu in self.phases))

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2]."""
        return np.asarray(sum(2 * w / mu**2 * np.exp(-mu * x) for w, mu in self.phases))

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2] = 2 (1 - (1 + mu x) exp(-mu x)) / mu^2, averaged over the rates."""
        finite = np.where(np.isinf(x), 0.0, x)
        values = sum(
            2 * w / mu**2 * (-np.expm1(-mu * finite) - mu * finite * np.exp(-mu * finite)) for w, mu in self.phases
        )
        return np.where(np.isinf(x), self.second_moment, values)

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return the integral of two tails: the minimum of two exponential times is exponential."""
        total: Floats = np.zeros(())
        for w, mu in self.phases:
            for v, nu in self.phases:
                total = total + w * v * np.exp(-mu * c - nu * d) * math.factorial(order) / (mu * r + nu * s) ** order
        return np.asarray(total)

    def first_wins(self, c: Floats, r: float, s: float) -> Floats:
        """Return P(X > c and (X - c) / r < X' / s), with X and X' independent."""
        total: Floats = np.zeros(())
        for w, mu in self.phases:
            for v, nu in self.phases:
                total = total + w * v * np.exp(-mu * c) * mu * r / (mu * r + nu * s)
        return np.asarray(total)


class ParetoSize:
    """A Pareto distribution of type I: S(x) = (x_m / x)^a for x >= x_m."""

    def __init__(self, size: Pareto) -> None:
        self.a, self.x_m = size.index, size.minimum
        self.mean, self.second_moment = size.mean, size.second_moment

    def tail(self, x: Floats) -> Floats:
        """Return S(x)."""
        return np.asarray((self.x_m / np.maximum(x, self.x_m)) ** self.a)

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+]: x S(x) / (a - 1) from x_m on, and a line before it."""
        beyond = np.maximum(x, self.x_m)
        return np.asarray(self.x_m / (self.a - 1) * (self.x_m / beyond) ** (self.a - 1) + np.maximum(self.x_m - x, 0.0))

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2]; ``inf`` for an index of at most 2, but 0 at x = inf."""
        x = np.asarray(x, dtype=np.float64)
        if math.isinf(self.second_moment):
            return np.where(np.isinf(x), 0.0, np.inf)
        finite = np.where(np.isinf(x), 0.0, x)
        beyond = np.maximum(finite, self.x_m)
        # E[X^2; X > c] = a c^2 S(c) / (a - 2) and E[X; X > c] = a c S(c) / (a - 1) for c >= x_m.
        square, first = self.a * beyond**2 / (self.a - 2), self.a * beyond / (self.a - 1)
        values = self.tail(beyond) * (square - 2 * finite * first + finite**2)
        return np.where(np.isinf(x), 0.0, values)

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2] = x_m^2 (1 + int_1^(x / x_m) 2 y^(1 - a) dy) from x_m on."""
        x = np.asarray(x, dtype=np.float64)
        finite = np.where(np.isinf(x), 0.0, x)
        log_ratio = np.log(np.maximum(finite, self.x_m) / self.x_m)
        power = 2 - self.a
        integral = log_ratio if power == 0 else np.expm1(power * log_ratio) / power
        values = np.minimum(finite, self.x_m) ** 2 + 2 * self.x_m**2 * integral
        return np.where(np.isinf(x), self.second_moment, values)

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return the integral of two tails.

        A tail is 1 until its argument reaches x_m. While one of them still is, the integral has one tail in it; the
        rest, where both decay, is a Gauss hypergeometric function. Nothing is cut off: for an index near 1 that rest
        decays too slowly for it.
        """
        c, r, d, s = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (c, r, d, s)))
        never = np.isinf(c) | np.isinf(d)
        c, d = np.where(never, 0.0, c), np.where(never, 0.0, d)
        kink_c, kink_d = np.maximum(self.x_m - c, 0.0) / r, np.maximum(self.x_m - d, 0.0) / s
        T = np.maximum(kink_c, kink_d)
        # The tail that decays first; the other one is 1 up to T.
        start, speed = np.where(kink_c < kink_d, c, d), np.where(kink_c < kink_d, r, s)
        stop = start + speed * T
        head = self.excess(start) - self.excess(stop)
        if order == 2:
            head = self.truncated_square(stop) - self.truncated_square(start) - 2 * start * head
        head = head / speed**order
        # With u = t + shift the rest is C int u^-a (u + gap)^-a du from U on, and t = u - shift.
        shift, gap = np.minimum(c / r, d / s), np.abs(c / r - d / s)
        U = T + shift
        factor = (self.x_m / r * (self.x_m / s)) ** self.a

        def power_integral(k: int) -> Floats:
            e = 2 * self.a - k
            return np.asarray(factor * U**-e / e * hyp2f1(self.a, e, e + 1, -gap / U))

        rest = power_integral(1)
        if order == 2:
            rest = 2 * power_integral(2) - 2 * shift * rest
        return np.where(never, 0.0, head + rest)


class AtomicSize:
    """A distribution on finitely many values, all of the same probability."""

    def __init__(self, values: Floats) -> None:
        self.values = values  # in increasing order
        n = len(values)
        self.mean, self.second_moment = float(values.mean()), float((values**2).mean())
        self._sums = [np.append(np.cumsum(values[::-1] ** k)[::-1] / n, 0.0) for k in (0, 1, 2)]

    def _above(self, x: Floats) -> npt.NDArray[np.intp]:
        # A threshold of exactly value / speed, times the speed, can end a rounding error below the value; a job of
        # that size completes.
        return np.searchsorted(self.values, np.asarray(x) * (1 + 1e-12), side="right")

    def tail(self, x: Floats) -> Floats:
        """Return S(x)."""
        return np.asarray(self._sums[0][self._above(x)])

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+]."""
        above, finite = self._above(x), np.where(np.isinf(x), 0.0, x)
        return np.asarray(self._sums[1][above] - finite * self._sums[0][above])

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2]."""
        above, finite = self._above(x), np.where(np.isinf(x), 0.0, x)
        zeroth, first, second = (sums[above] for sums in self._sums)
        return np.asarray(second - 2 * finite * first + finite**2 * zeroth)

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2]."""
        above, finite = self._above(x), np.where(np.isinf(x), 0.0, x)
        return np.asarray(self.second_moment - self._sums[2][above] + finite**2 * self._sums[0][above])

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return the integral of two tails, each a step function."""
        c, r, d, s = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (c, r, d, s)))
        result = np.zeros(c.shape)
        for i in np.ndindex(c.shape):
            if np.isinf(c[i]) or np.isinf(d[i]):
                continue
            steps = np.concatenate([[0.0], (self.values - c[i]) / r[i], (self.values - d[i]) / s[i]])
            steps = np.sort(steps[steps >= 0])
            middle = (steps[1:] + steps[:-1]) / 2
            heights = self.tail(c[i] + r[i] * middle) * self.tail(d[i] + s[i] * middle)
            result[i] = heights @ np.diff(steps**order)
        return result
