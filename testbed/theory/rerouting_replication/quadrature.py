"""Moments of sizes by adaptive quadrature of the tail, for continuous laws without a closed form here."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
from scipy.integrate import quad_vec
from scipy.special import gammaincc, ndtr

from testbed.workload.distributions import BoundedPareto, Distribution, Erlang, Lognormal, Uniform, Weibull

Floats = npt.NDArray[np.float64]

RELATIVE_TOLERANCE = 1e-11  # of the largest panel of an integral


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
    return lambda x: np.asarray(1.0 - size.cdf(x))


class IntegratedSize:
    """A continuous law that is known by its tail.

    The line is cut into panels, doubling in length from 1e-12 of the mean to where the rest of E[X^2] drowns in
    rounding, with further cuts where the tail has a kink. All panels of all integrals of a call are integrated at once
    (``scipy.integrate.quad_vec``), to a relative error of RELATIVE_TOLERANCE; ArithmeticError if that fails.
    """

    def __init__(self, size: Distribution) -> None:
        self._tail = tail_function(size)
        self.mean, self.second_moment = size.mean, size.second_moment
        kinks: list[float] = []
        if isinstance(size, Uniform):
            kinks = [size.low, size.high]
        elif isinstance(size, BoundedPareto):
            kinks = [size.minimum, size.maximum]
        # The tail decays at least geometrically there, so what lies beyond is of the order of x^2 S(x).
        end = self.mean
        while end**2 * float(self._tail(np.asarray(end))) > 1e-15 * self.second_moment:
            end *= 2
        if kinks:
            end = kinks[-1]
        doubling = end * 2.0 ** -np.arange(np.ceil(np.log2(end / self.mean / 1e-12)) + 1)
        self._cuts = np.unique(np.concatenate([[0.0], doubling, kinks]))

    def _integrate(self, f: Callable[[Floats], Floats], cuts: Floats) -> Floats:
        """Return the integrals of f between the first and last of ``cuts``, in increasing order along the last axis."""
        left, width = cuts[..., :-1], np.diff(cuts, axis=-1)
        values, _, info = quad_vec(
            lambda u: width * f(left + u * width),
            0.0,
            1.0,
            epsabs=1e-200,
            epsrel=RELATIVE_TOLERANCE,
            norm="max",
            full_output=True,
        )
        # Status 2 is rounding, beyond which no error estimate can go.
        if info.status not in (0, 2):
            raise ArithmeticError(f"quadrature of the size law's tail did not converge: {info.message}")
        return np.asarray(values.sum(axis=-1))

    def tail(self, x: Floats) -> Floats:
        """Return S(x)."""
        x = np.asarray(x, dtype=np.float64)
        return np.where(np.isinf(x), 0.0, self._tail(np.where(np.isinf(x), 0.0, x)))

    def excess(self, x: Floats) -> Floats:
        """Return E[(X - x)^+], the integral of the tail from x on."""
        return self._integrate(self._tail, np.maximum(self._cuts, np.minimum(x, self._cuts[-1])[..., None]))

    def squared_excess(self, x: Floats) -> Floats:
        """Return E[((X - x)^+)^2], the integral of 2 (y - x) S(y) from x on."""
        bound = np.minimum(x, self._cuts[-1])[..., None]
        return self._integrate(lambda y: 2 * (y - bound) * self._tail(y), np.maximum(self._cuts, bound))

    def truncated_square(self, x: Floats) -> Floats:
        """Return E[min(X, x)^2], the integral of 2 y S(y) up to x."""
        return self._integrate(
            lambda y: 2 * y * self._tail(y), np.minimum(self._cuts, np.asarray(x, dtype=np.float64)[..., None])
        )

    def joint(self, c: Floats, r: Floats, d: Floats, s: Floats, order: int) -> Floats:
        """Return the integral of two tails, cut where either argument reaches a cut."""
        c, r, d, s = np.broadcast_arrays(*(np.asarray(v, dtype=np.float64) for v in (c, r, d, s)))
        never = np.isinf(c) | np.isinf(d)
        c, r, d, s = (v[..., None] for v in (np.where(never, 0.0, c), r, np.where(never, 0.0, d), s))
        cuts = np.concatenate([np.maximum(self._cuts - c, 0.0) / r, np.maximum(self._cuts - d, 0.0) / s], axis=-1)
        end = np.minimum(cuts[..., len(self._cuts) - 1], cuts[..., -1])[..., None]
        cuts = np.sort(np.minimum(cuts, end), axis=-1)
        values = self._integrate(
            lambda t: order * t ** (order - 1) * self._tail(c + r * t) * self._tail(d + s * t), cuts
        )
        return np.where(never, 0.0, values)
