"""Deterministic search over thresholds: a coarse grid on [0, inf], then Nelder and Mead's method from the best places.

There are several local minima (typically at 0, at infinity, and between), and the objectives have kinks where the size
distribution has them and where the best assignment changes: hence a grid that holds 0, infinity and the distribution's
kinks, and a method without derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize

from testbed.theory.rerouting_replication.model import Model
from testbed.workload.distributions import BoundedPareto, Deterministic, Empirical, Pareto, Uniform

Floats = npt.NDArray[np.float64]

_APART = 0.1  # starts of the local search differ by this at least, in some coordinate of [0, 1]
_MOST_KINKS = 60


def threshold_of(z: Floats, mean: float) -> Floats:
    """Return the thresholds E[X] (z / (1 - z))^(3/2) for z in [0, 1]: from 0 to infinity."""
    z = np.clip(z, 0.0, 1.0)
    end = z == 1.0
    return np.where(end, np.inf, mean * (z / np.where(end, 1.0, 1.0 - z)) ** 1.5)


def coordinate_of(tau: Floats, mean: float) -> Floats:
    """Return the z in [0, 1] with ``threshold_of(z) = tau``."""
    end = np.isinf(tau)
    root = (np.where(end, 0.0, tau) / mean) ** (2 / 3)
    return np.where(end, 1.0, root / (1 + root))


def threshold_grid(model: Model, pool: int, points: int) -> Floats:
    """Return about ``points`` thresholds of a pool in increasing order, with 0, infinity and the kinks of the sizes.

    A kink is the time x / r_ij of a size x at which the distribution starts, ends or has an atom.
    """
    kinks = np.array([x / r for x in size_kinks(model) for r in set(model.speeds[pool]) if r > 0])
    return np.unique(np.concatenate([threshold_of(np.linspace(0.0, 1.0, points), model.size.mean), kinks]))


def size_kinks(model: Model) -> list[float]:
    """Return the sizes at which the size distribution starts, ends or has an atom; a selection if there are many."""
    size = model.size
    if isinstance(size, Pareto):
        return [size.minimum]
    if isinstance(size, BoundedPareto):
        return [size.minimum, size.maximum]
    if isinstance(size, Uniform):
        return [size.low, size.high]
    if isinstance(size, Deterministic):
        return [size.value]
    if isinstance(size, Empirical):
        values = np.unique(size.sorted_values)
        chosen = np.unique(np.linspace(0, len(values) - 1, _MOST_KINKS).astype(int))
        return [float(value) for value in values[chosen]]
    return []


def apart(points: Iterable[Floats], most: int) -> list[Floats]:
    """Return the first of ``points``, and of the following at most ``most - 1`` that are not near one before."""
    chosen: list[Floats] = []
    for point in points:
        if all(np.abs(point - other).max(initial=0.0) > _APART for other in chosen):
            chosen.append(point)
            if len(chosen) == most:
                break
    return chosen


def least(objective: Callable[[Floats], float], starts: list[Floats], step: float) -> tuple[float, Floats]:
    """Return (value, point) of the least local minimum in [0, 1]^n that is found near one of ``starts``.

    A short search from each start tells which is best; that one is then followed to the end, with fresh simplices,
    since one may collapse on a kink before it has arrived.
    """
    dimensions = len(starts[0])
    if not dimensions:
        return objective(starts[0]), starts[0]
    found = [_simplex_search(objective, start, step, 30 * dimensions) for start in starts]
    value, best = min(found, key=lambda pair: pair[0])
    for size in (step / 10, step / 1000):
        value, best = _simplex_search(objective, best, size, 120 * dimensions)
    return value, best


def _simplex_search(
    objective: Callable[[Floats], float], start: Floats, step: float, evaluations: int
) -> tuple[float, Floats]:
    """Return (value, point) of Nelder and Mead's method in [0, 1]^n, never worse than its start."""
    value = objective(start)
    # Inside the box on both sides: a step out of it would be clipped, and the simplex flat from the start.
    corners = start + np.diag(np.where(start + step <= 1, step, -step))
    found = minimize(
        lambda z: objective(np.clip(z, 0.0, 1.0)),
        start,
        method="Nelder-Mead",
        options={
            "initial_simplex": np.vstack([start, corners]),
            "xatol": 1e-8,
            "fatol": 1e-13 * abs(value),
            "maxfev": evaluations,
        },
    )
    return (float(found.fun), np.clip(found.x, 0.0, 1.0)) if found.fun < value else (value, start)
