"""Moments of sizes by adaptive quadrature of the tail, for continuous distributions without a closed form here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad_vec
from scipy.special import gammaincc, ndtr

from testbed.workload.distributions import BoundedPareto, Distribution, Erlang, Lognormal, Uniform, Weibull

Floats = npt.NDArray[np.float64]

TOLERANCE = 1e-11  # of the integrals that choose the panels, relative to the distribution's mean and second moment
NOISE = 1e-14  # a difference 1 - cdf below this is rounding
AGREEMENT = 1e-9  # how far the integrals may be from the distribution's own mean and second moment, relatively

# Twenty nodes are exact up to degree 39; the 21 Kronrod nodes that chose the panels, up to degree 31.
_NODES, _WEIGHTS = (0.5 * (v + shift) for v, shift in zip(np.polynomial.legendre.leggauss(20), (1.0, 0.0), strict=True))


def tail_function(size: Distribution) -> Callable[[Floats], Floats]:
    """Return P(X > x) as a function of x.

    ``1 - cdf`` would cancel where the tail is small, and second moments of heavy tails live there.
    """
    if isinstance(size, Lognormal):
        sigma = np.sqrt(np.log1p(size.scv))
        mu = np.log(size.mean) - sigma**2 / 2
        return lambda x: np.asarray(ndtr((mu - np.log(np.maximum(x, np.finfo(float).tiny))) / sigma))
    if isinstance(size, Weibull):
        return lambda x: np.exp(-((x / size.scale) ** size.shape))
    if isinstance(size, Erlang):
        return lambda x: np.asarray(gammaincc(size.phases, x * (size.phases / size.mean)))
    if isinstance(size, BoundedPareto):
        low, high, a = size.minimum, size.maximum, size.index
        beyond = (low / high) ** a
        return lambda x: np.asarray(((low / np.clip(x, low, high)) ** a - beyond) / (1 - beyond))

    def complement(x: Floats) -> Floats:
        tail = 1.0 - size.cdf(x)
        return np.where(tail > NOISE, tail, 0.0)

    return complement


class IntegratedSize:
    """A continuous distribution that is known by its tail S.

    Once per distribution ``scipy.integrate.quad_vec`` integrates S and x S, cutting the line into panels until its
    error estimate is below TOLERANCE. All other integrals then use Gauss-Legendre nodes on these panels, on which S is
    known to be smooth: from a point within a panel to its end, or, for a product of two tails, on the panels of both.
    ArithmeticError if the first integrals don't give the distribution's own mean and second moment.
    """

    def __init__(self, size: Distribution) -> None:
        self._tail = tail_function(size)
        self.mean, self.second_moment = size.mean, size.second_moment
        kinks: tuple[float, ...] = ()
        if isinstance(size, Uniform):
            kinks = (size.low, size.high)
        elif isinstance(size, BoundedPareto):
            kinks = (size.minimum, size.maximum)
        # What lies beyond the end is of the order of x^2 S(x), as the tail falls at least geometrically there.
        end = self.mean
        while end**2 * float(self._tail(np.asarray(end))) > 1e-16 * self.second_moment:
            end *= 2
        end = kinks[-1] if kinks else end
        self._cuts = self._panels(end, [x for x in kinks if 0 < x < end])
        first = self._integrals(self._tail, self._cuts)
        second = self._integrals(lambda x: 2 * x * self._tail(x), self._cuts)
        for name, panels, moment in (("mean", first, self.mean), ("second moment", second, self.second_moment)):
            if abs(panels.sum() / moment - 1) > AGREEMENT:
                raise ArithmeticError(f"the integral of the tail of {size} misses its {name} {moment}: {panels.sum()}")
        self._mean_from = np.append(np.cumsum(first[::-1])[::-1], 0.0)
        self._second_from = np.append(np.cumsum(second[::-1])[::-1], 0.0)
        self._second_to = np.append(0.0, np.cumsum(second))

    def _panels(self, end: float, kinks: list[float]) -> Floats:
        def tails(x: float) -> Floats:
            tail = float(self._tail(np.asarray(x)))
            return np.array([tail / self.mean, 2 * x * tail / self.second_moment])

        # Widths that double let a distribution on many scales be resolved without luck.
        doubling = [x for x in end * 2.0 ** -np.arange(1, 60, 2) if x > 1e-9 * self.mean]
        _, _, info = quad_vec(
            tails,
            0.0,
            end,
            epsabs=TOLERANCE,
            epsrel=0.0,
            norm="max",
            limit=2000,
            points=sorted([*kinks, *doubling]),
            full_output=True,
        )
        return np.unique(info.intervals)

    def _integrals(self, f: Callable[[Floats], Floats], cuts: Floats) -> Floats:
        """Return the integrals of f between successive ``cuts``, along the last axis."""
        width = np.diff(cuts, axis=-1)[..., None]
        return np.asarray((f(cuts[..., :-1, None] + width * _NODES) * width) @ _WEIGHTS)

    def _panel_of(self, x: Floats) -> tuple[Floats, npt.NDArray[np.intp]]:
        """Return x, at most the end of the last panel, and the index of the first cut that is not below it."""
        x = np.minimum(x, self._cuts[-1])
        return x, np.searchsorted(self._cuts, x, side="left")

    def _between(self, f: Callable[[Floats], Floats], left: Floats, right: Floats) -> Floats:
        return np.asarray(self._integrals(f, np.stack([left, right], axis=-1))[..., 0])

    def tail(self, x: Floats) -> Floats:
        """Return S(x)."""
        x = np.asarray(x, dtype=np.float64)
        return np.where(np.isinf(x), 0.0, self._tail(np.where(np.isinf(x), 0.0, x)))

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+], the integral of the tail from x on."""
        x, i = self._panel_of(x)
        return np.asarray(self._between(self._tail, x, self._cuts[i]) + self._mean_from[i])

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2], the integral of 2 (y - x) S(y) from x on."""
        x, i = self._panel_of(x)
        start = x[..., None, None]
        first = self._between(lambda y: 2 * (y - start) * self._tail(y), x, self._cuts[i])
        return np.asarray(first + self._second_from[i] - 2 * x * self._mean_from[i])

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2], the integral of 2 y S(y) up to x."""
        x, i = self._panel_of(x)
        return np.asarray(self._second_to[i] - self._between(lambda y: 2 * y * self._tail(y), x, self._cuts[i]))

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return the integral of two tails, on the panels of both."""
        c, r, d, s = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (c, r, d, s)))
        never = np.isinf(c) | np.isinf(d)
        c, r, d, s = (v[..., None] for v in (np.where(never, 0.0, c), r, np.where(never, 0.0, d), s))
        cuts_c, cuts_d = np.maximum(self._cuts - c, 0.0) / r, np.maximum(self._cuts - d, 0.0) / s
        end = np.minimum(cuts_c[..., -1:], cuts_d[..., -1:])
        cuts = np.sort(np.minimum(np.concatenate([cuts_c, cuts_d], axis=-1), end), axis=-1)
        c, r, d, s = (v[..., None] for v in (c, r, d, s))
        panels = self._integrals(
            lambda t: order * t ** (order - 1) * self._tail(c + r * t) * self._tail(d + s * t), cuts
        )
        return np.where(never, 0.0, panels.sum(axis=-1))
