"""The size of jobs as the formulas see it: a phase-type distribution of mean 1, checked once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from testbed.workload.distribution import DistributionBase
from testbed.workload.distributions import PhaseType

Floats = npt.NDArray[np.float64]
#: A distribution of ``testbed.workload``, or its initial row vector (n,) and subgenerator (n, n).
Size = DistributionBase | tuple[npt.ArrayLike, npt.ArrayLike]

_MEAN_TOLERANCE = 1e-9


@dataclass(frozen=True)
class JobSize:
    """A phase-type distribution of mean 1 with n phases, in the paper's symbols.

    ``alpha`` (n,): initial phases. ``S`` (n, n): subgenerator. ``mu`` (n,) = -S 1: completion rates. ``beta`` (n,) =
    alpha (-S)^-1: the phase of a busy server at a random time. ``remaining`` (n,) = (-S)^-1 1: mean remaining size in
    each phase. ``scv``: squared coefficient of variation.
    """

    alpha: Floats
    S: Floats
    mu: Floats
    beta: Floats
    remaining: Floats
    scv: float


def job_size(size: Size) -> JobSize:
    """Return the matrices of ``size``.

    Raises ValueError if it is not phase-type, if its mean is not 1 (the time unit of all formulas here), or if
    ``(alpha, S)`` is not a phase-type distribution, with what is wrong; TypeError for anything else.
    """
    alpha, S = _matrices(size)
    n = len(alpha)
    # The diagonal follows from the other rates, so that rounding in a typed-in matrix can't make a row leak.
    rates = S.copy()
    rates.flat[:: n + 1] = 0.0
    mu = np.maximum(-S.sum(axis=1), 0.0)
    S = rates
    S.flat[:: n + 1] = -(rates.sum(axis=1) + mu)
    remaining = np.asarray(np.linalg.solve(-S, np.ones(n)), dtype=np.float64)
    mean = float(alpha @ remaining)
    if abs(mean - 1) > _MEAN_TOLERANCE:
        hint = "`size.scaled(1 / size.mean)`" if isinstance(size, DistributionBase) else "S times its mean"
        raise ValueError(f"the mean size is {mean:.10g}, but the mean size is the time unit here and must be 1: {hint}")
    S, mu, remaining = S * mean, mu * mean, remaining / mean
    beta = np.maximum(np.linalg.solve(-S.T, alpha), 0.0)
    beta /= beta.sum()
    return JobSize(alpha, S, mu, beta, remaining, float(2 * beta @ remaining - 1))


def _matrices(size: Size) -> tuple[Floats, Floats]:
    if isinstance(size, DistributionBase):
        matrices = size.phase_type()
        if matrices is None:
            raise ValueError(
                f"{type(size).__name__} sizes are not phase-type, which the mean field of stealing and sharing needs: "
                "take a phase-type distribution with the same SCV (for unit sizes see `unit_size_mean_field`)"
            )
        return matrices
    if not (isinstance(size, tuple) and len(size) == 2):
        raise TypeError(f"the size is {size!r}; give a distribution of testbed.workload, or the tuple (alpha, S)")
    alpha, S = np.asarray(size[0], dtype=np.float64), np.asarray(size[1], dtype=np.float64)
    if alpha.ndim != 1 or S.ndim != 2:
        raise ValueError(f"alpha has shape {alpha.shape} and S {S.shape}; give (n,) and (n, n)")
    distribution = PhaseType(alpha=tuple(alpha.tolist()), S=tuple(tuple(row) for row in S.tolist()))
    return distribution.phase_type()
