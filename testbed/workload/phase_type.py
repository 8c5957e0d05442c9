"""Phase-type distributions: the time until absorption of a Markov chain on phases 1..n, started in alpha, moving by S.

cdf ``1 - alpha exp(S x) 1``, moments ``E[X^k] = k! alpha (-S)^-k 1``, Laplace transform ``alpha (sI - S)^-1 mu`` with
``mu = -S 1`` (Neuts, Matrix-Geometric Solutions in Stochastic Models, 1981, chapter 2).
"""

from __future__ import annotations

import math
from typing import Annotated

import numpy as np
from msgspec import Meta

from testbed.workload.distribution import DistributionBase, FloatArray, PhaseTypeMatrices

ROUNDING = 1e-9  # how far sums that should be exact may be off: matrices are typed in with a few digits


class PhaseTypeDistribution(DistributionBase, frozen=True):
    """A distribution with a phase-type representation, from which all else follows."""

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)``: initial row vector (n,) and subgenerator (n, n)."""
        raise NotImplementedError

    @property
    def mean(self) -> float:
        """E[X] = alpha (-S)^-1 1."""
        alpha, S = self.phase_type()
        return float(alpha @ np.linalg.solve(-S, np.ones(len(alpha))))

    @property
    def variance(self) -> float:
        """Var[X], from E[X^2] = 2 alpha (-S)^-2 1."""
        alpha, S = self.phase_type()
        first = np.linalg.solve(-S, np.ones(len(alpha)))
        return float(2 * alpha @ np.linalg.solve(-S, first) - (alpha @ first) ** 2)

    def _cdf(self, x: FloatArray) -> FloatArray:
        return np.clip(1.0 - _survival(*self.phase_type(), np.maximum(x, 0.0).ravel()).reshape(x.shape), 0.0, 1.0)

    def _laplace_transform(self, s: float) -> float:
        alpha, S = self.phase_type()
        return float(alpha @ np.linalg.solve(s * np.eye(len(alpha)) - S, -S.sum(axis=1)))


class PhaseType(PhaseTypeDistribution, frozen=True, tag="phase-type"):
    """General phase-type distribution: initial probabilities ``alpha`` and subgenerator ``S`` of the phases."""

    alpha: Annotated[tuple[float, ...], Meta(description="probability of starting in each phase; sums to 1")]
    S: Annotated[
        tuple[tuple[float, ...], ...],
        Meta(description="rows of the subgenerator: rates between phases, and minus the total rate on the diagonal"),
    ]

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_probabilities(self.alpha)
        _check_subgenerator(self.S, len(self.alpha))

    def sample(self, rng: np.random.Generator, n: int) -> FloatArray:
        """Return ``n`` independent values, shape (n,): all chains take a step at a time until the last is absorbed."""
        alpha, S = self.phase_type()
        phases = len(alpha)
        total_rate = -S.diagonal()
        absorption = -S.sum(axis=1)
        absorption[absorption < ROUNDING * total_rate] = 0.0
        # Cumulated weights, divided by their ends: a uniform number below 1 never falls behind the last possible move.
        moves = np.cumsum(np.column_stack([S + np.diag(total_rate), absorption]), axis=1)
        moves /= moves[:, -1:]
        start = np.cumsum(alpha)
        phase = np.searchsorted(start / start[-1], rng.random(n), side="right")
        chain = np.arange(n)
        time = np.zeros(n)
        while chain.size:
            time[chain] += rng.standard_exponential(chain.size) / total_rate[phase]
            phase = (rng.random(chain.size)[:, None] >= moves[phase]).sum(axis=1)
            left = phase < phases
            chain, phase = chain[left], phase[left]
        return time

    def phase_type(self) -> PhaseTypeMatrices:
        """Return ``(alpha, S)`` as given."""
        return np.array(self.alpha, dtype=np.float64), np.array(self.S, dtype=np.float64)

    def scaled(self, factor: float) -> PhaseType:
        """Return the distribution of ``factor * X``."""
        return PhaseType(alpha=self.alpha, S=tuple(tuple(entry / factor for entry in row) for row in self.S))


def _survival(alpha: FloatArray, S: FloatArray, x: FloatArray) -> FloatArray:
    """Return ``alpha exp(S x) 1`` for each of ``x``, shape (m,), by uniformisation.

    With q the largest rate out of a phase, ``P = I + S / q`` is substochastic, and
    ``exp(S t / q) = sum_k exp(-t) t^k / k! P^k`` adds up nonnegative terms only. For t < 1 twenty terms do. The integer
    part of q x is put together from its binary digits, with ``exp(S 2^j / q)`` from squaring, which stays nonnegative
    too. ``scipy.linalg.expm`` is not used because it is wrong by 1 % for a series of phases whose rates are equal but
    for rounding: on triangular matrices it divides by the differences of the diagonal (seen with scipy 1.17).
    """
    phases = len(alpha)
    q = float(-S.diagonal().min())
    P = np.eye(phases) + S / q
    whole = np.floor(np.minimum(q * x, 2.0**62))
    rest = np.maximum(q * np.minimum(x, 2.0**62 / q) - whole, 0.0)
    weight, unit_weight = np.exp(-rest), math.exp(-1)
    power = np.eye(phases)
    columns = np.zeros((len(x), phases))  # row i becomes exp(S x_i) 1
    step = np.zeros_like(power)  # exp(S / q)
    for k in range(1, 24):
        columns += weight[:, None] * power.sum(axis=1)
        step += unit_weight * power
        power = power @ P
        weight *= rest / k
        unit_weight /= k
    digits = whole.astype(np.int64)
    while digits.any():
        odd = (digits & 1).astype(bool)
        columns[odd] = columns[odd] @ step.T
        step = step @ step
        digits >>= 1
    result: FloatArray = columns @ alpha
    return result


def _check_probabilities(alpha: tuple[float, ...]) -> None:
    if not alpha:
        raise ValueError("`alpha` is empty: give the probability of starting in each phase")
    for i, probability in enumerate(alpha):
        if not 0 <= probability <= 1:
            raise ValueError(f"`alpha[{i}]` is {probability!r}, but a probability is between 0 and 1")
    if abs(math.fsum(alpha) - 1) > ROUNDING:
        raise ValueError(f"`alpha` sums to {math.fsum(alpha):.10g}, but must sum to 1")


def _check_subgenerator(S: tuple[tuple[float, ...], ...], phases: int) -> None:
    if len(S) != phases or any(len(row) != phases for row in S):
        shape = f"{len(S)} rows of {sorted({len(row) for row in S})} entries"
        raise ValueError(f"`S` must have {phases} rows of {phases} entries, as `alpha` has phases, but has {shape}")
    for i, row in enumerate(S):
        for j, entry in enumerate(row):
            if not math.isfinite(entry):
                raise ValueError(f"`S[{i}][{j}]` must be a finite number, but is {entry!r}")
            if i != j and entry < 0:
                raise ValueError(f"`S[{i}][{j}]` is {entry!r}, but a rate from one phase to another is at least 0")
        if row[i] >= 0:
            raise ValueError(
                f"`S[{i}][{i}]` is {row[i]!r}, but must be negative: minus the total rate out of phase {i}"
            )
        if math.fsum(row) > -ROUNDING * row[i]:
            raise ValueError(
                f"row {i} of `S` sums to {math.fsum(row):.6g}, but may not be above 0: "
                "the diagonal is minus the rates to all other phases and to absorption"
            )
    ends = {i for i, row in enumerate(S) if math.fsum(row) < ROUNDING * row[i]}
    while True:
        before = {i for i, row in enumerate(S) if i not in ends and any(row[j] > 0 for j in ends)}
        if not before:
            break
        ends |= before
    if len(ends) < phases:
        stuck = ", ".join(str(i) for i in range(phases) if i not in ends)
        raise ValueError(
            f"from phase {stuck} of `S` absorption can't be reached, so X would be infinite: "
            "let some row on the way sum to less than 0"
        )
