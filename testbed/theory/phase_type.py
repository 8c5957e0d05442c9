"""Phase-type distributions as the formulas use them.

PH(alpha, S) is the time that a Markov chain with initial distribution ``alpha`` (m,) and generator ``S`` (m, m) among
its m phases takes to leave them; it leaves with rate ``exit = -S 1``. Source: Neuts, Matrix-Geometric Solutions in
Stochastic Models, 1981, chapter 2.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from testbed.theory.steady_state import Floats

#: Beyond this many phases the matrices make distributions, and fixed points, too slow to compute in passing.
MOST_PHASES = 50


def validated(alpha: npt.ArrayLike, S: npt.ArrayLike) -> tuple[Floats, Floats]:
    """Return ``alpha`` and ``S`` as arrays, or raise ValueError with what is wrong with them."""
    initial, generator = np.asarray(alpha, dtype=float), np.asarray(S, dtype=float)
    m = initial.size
    if initial.shape != (m,) or generator.shape != (m, m) or m == 0:
        raise ValueError(f"alpha has shape {initial.shape} and S {generator.shape}; give (m,) and (m, m)")
    if (initial < 0).any() or abs(initial.sum() - 1) > 1e-9:
        raise ValueError(f"alpha is {initial.tolist()}; give probabilities that sum to 1")
    off_diagonal = generator - np.diag(np.diag(generator))
    if (off_diagonal < 0).any() or (generator.sum(axis=1) > 1e-9 * np.abs(generator).max()).any():
        raise ValueError("S is no sub-generator; its rates off the diagonal must be >= 0 and its rows sum to <= 0")
    if np.linalg.matrix_rank(generator) < m:
        raise ValueError("S is singular, so that some phase is never left; give each phase a way out")
    return initial, generator


def mean(alpha: Floats, S: Floats) -> float:
    """Return the mean, alpha (-S)^-1 1."""
    return float(alpha @ np.linalg.solve(-S, np.ones(alpha.size)))


def equilibrium(alpha: Floats, S: Floats) -> Floats:
    """Return the initial distribution of the residual time, alpha (-S)^-1 / mean: the phase at a random moment."""
    stay = np.maximum(np.linalg.solve(-S.T, alpha), 0.0)
    return np.asarray(stay / stay.sum())
