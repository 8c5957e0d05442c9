"""How far a cluster of N servers is from the mean field: the coefficients of 1/N ("refined mean field").

Gast and Van Houdt, "A refined mean field approximation" (2017), for the density-dependent chain of stealing and
sharing. The coefficients need 1' W d for a few vectors d only, W being the covariance that solves
``A W + W A' + Q = 0``; so W, which is dense and has (levels n)^2 entries, is never formed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import solve_banded
from scipy.sparse import csr_array

from testbed.theory.stealing_sharing.sizes import Floats, JobSize

_NEGLIGIBLE = 1e-17
_MOST_STATES = 100_000
_MOST_BAND_ENTRIES = 50_000_000
_SHIFT_RATIO = 2.5
_SETTLED = 1e-9
_MOST_SWEEPS = 60


class FiniteSizeCorrection(NamedTuple):
    """The coefficients of 1/N: a cluster of N servers has ``E_N[T] = E[T] + mean_response_time / N + O(1/N^2)``.

    ``mean_response_time``: c_T, in mean sizes. ``pending_probability``: c_u, for u2. P(idle) has no correction.

    Accuracy: about 8 digits of the coefficients themselves (the queue is cut where P(Q = K) < 1e-17). Against
    simulation E[T] + c_T/N is within 1 % from N = 10 on, as long as c_T/N is small beside E[T]; at load 0.9, SCV 5,
    stealing at 1 probe per time unit, where c_T is 25, it is 5 % high at N = 10 and 1 % at N = 50.

    Limits: 100,000 (queue length, phase) states, or 50 million matrix entries in a band. Load 0.9 with SCV 25 and load
    0.99 with SCV 5 take less than a second, Erlang-50 at load 0.9 half a minute, the largest chains a minute. Load
    0.999 with SCV 1000 is beyond: queues of ten million tasks matter, and N would have to be far above that for 1/N to
    mean anything.
    """

    mean_response_time: float
    pending_probability: float


def correction(
    job: JobSize, load: float, probe_rate: float, single: Floats, rate_matrix: Floats
) -> FiniteSizeCorrection:
    """Return the 1/N coefficients at the fixed point ``pi_l = single R^(l-1)``, for a positive, finite probe rate.

    Raises ArithmeticError where the chain is too large, or the iteration does not settle.
    """
    levels = _levels(single, rate_matrix)
    chain = _Chain(job, load, probe_rate, _fixed_point(single, rate_matrix, levels))
    lengths = np.repeat(np.arange(1.0, levels + 1), len(job.alpha))
    waiting = (lengths > 1).astype(np.float64)
    # h' V for h = queue length and h = (queue length > 1) is z' (C + B), with A' z = -h.
    z = -chain.solve(0.0, np.stack((lengths, waiting), axis=1))
    freed = chain.transfer_effect(z)
    occupied = np.ones((lengths.size, 1))
    covariance = _covariances(chain, np.concatenate((occupied, freed), axis=1))
    # C: a server probes N - 1 others, so that each pair meets at rate r / (N - 1) = (r / N) (1 + 1 / N + ...).
    more_probes = (1 - load) * probe_rate * (chain.occupancy.ravel() @ freed)
    c = more_probes - probe_rate * covariance
    return FiniteSizeCorrection(float(c[0] / load), float(c[1]))


def _levels(single: Floats, rate_matrix: Floats) -> int:
    """Return K with P(Q = K) below ``_NEGLIGIBLE``. Squaring R finds a power of two, halving goes back from there."""
    powers = [rate_matrix]
    row = single
    while (row @ powers[-1]).sum() > _NEGLIGIBLE:
        if 2 ** len(powers) * len(single) > 2 * _MOST_STATES:
            break
        powers.append(powers[-1] @ powers[-1])
    levels = 1
    for exponent in range(len(powers) - 1, -1, -1):
        if (row @ powers[exponent]).sum() > _NEGLIGIBLE:
            row = row @ powers[exponent]
            levels += 2**exponent
    levels += 2
    n = len(single)
    if levels * n > _MOST_STATES or levels * n * 7 * n > _MOST_BAND_ENTRIES:
        raise ArithmeticError(
            f"queues of {levels} tasks and more still matter, with {n} phases: more than the 1/N correction is "
            f"computed for ({_MOST_STATES} states); lower the load or the SCV"
        )
    return levels


def _fixed_point(single: Floats, rate_matrix: Floats, levels: int) -> Floats:
    occupancy = np.empty((levels, len(single)))
    occupancy[0] = single
    for level in range(1, levels):
        occupancy[level] = occupancy[level - 1] @ rate_matrix
    return occupancy


@dataclass(frozen=True)
class _Jumps:
    """The transitions of one server (two in a transfer): ``vectors`` (jumps, states), ``rates`` at the fixed point."""

    vectors: csr_array
    rates: Floats

    def covariance(self, left: Floats, right: Floats) -> Floats:
        """Return ``left' Q right`` with Q = sum of rate e e' over the jumps e."""
        return np.asarray((self.vectors @ left).T @ (self.rates[:, None] * (self.vectors @ right)))


class _Chain:
    """The drift F of the occupancy x_{l,j} (fractions of servers), cut at level K, linearised at the fixed point.

    With M the rates between the states (l, j) of a typical queue, and f_0 = 1 - sum x, the transposed Jacobian is
    ``A' = M - 1 p' + e2 s'``: p is the derivative of F in f_0, s that in the fraction e2' x of servers with waiting
    tasks. M is banded, so that a system with A' + shift is a banded system with two more right-hand sides.
    """

    def __init__(self, job: JobSize, load: float, probe_rate: float, occupancy: Floats) -> None:
        self.job, self.load, self.probe_rate, self.occupancy = job, load, probe_rate, occupancy
        self._removal_rate = (1 - load) * probe_rate
        levels, n = occupancy.shape
        self._lower, self._upper = 2 * n - 1, n
        self._band = self._banded_rates()
        above = np.concatenate((occupancy[1:], np.zeros((1, n))))
        p = probe_rate * (above - occupancy)
        p[0] = load * job.alpha + probe_rate * (occupancy[1] + occupancy[1:].sum() * job.alpha)
        s = np.zeros((levels, n))
        s[0] = self._removal_rate * job.alpha
        self._right = np.stack((-p.ravel(), s.ravel()))
        self._left = np.ones((levels * n, 2))
        self._left[:n, 1] = 0.0

    def solve(self, shift: float, right: Floats) -> Floats:
        """Return the solution y of ``(A' + shift I) y = right``, shape (states, m)."""
        band = self._band.copy()
        band[self._upper] += shift
        both = solve_banded((self._lower, self._upper), band, np.concatenate((self._left, right), axis=1))
        left, y = both[:, :2], both[:, 2:]
        result: Floats = y - left @ np.linalg.solve(np.eye(2) + self._right @ left, self._right @ y)
        return result

    def transfer_effect(self, z: Floats) -> Floats:
        """Return z' e of the transfer from (l, j), averaged over the phase in which the moved task starts: (states, m).

        ``z_{l-1,j} - z_{l,j} + sum_j' alpha_j' z_{1,j'}`` for l >= 2, zero for l = 1.
        """
        grid = z.reshape(*self.occupancy.shape, -1)
        effect = np.zeros_like(grid)
        effect[1:] = grid[:-1] - grid[1:] + self.job.alpha @ grid[0]
        return effect.reshape(z.shape)

    def fastest_rate(self) -> float:
        return float(-self._band[self._upper].min())

    def jumps(self) -> _Jumps:
        """Return all transitions with their rates per server."""
        job, x = self.job, self.occupancy
        levels, n = x.shape
        index = np.arange(levels * n).reshape(levels, n)
        start = np.flatnonzero(job.alpha)
        # Each entry: the states that gain or lose a server, and the rates, over the same list of transitions.
        rows: list[tuple[list[tuple[npt.NDArray[np.int64], int]], Floats]] = []
        rows.append(([(index[0, start], 1)], self.load * (1 - self.load) * job.alpha[start]))
        rows.append(([(index[:-1].ravel(), -1), (index[1:].ravel(), 1)], self.load * x[:-1].ravel()))
        rows.append(([(index[0], -1)], x[0] * job.mu))
        for j in range(n):
            for k in np.flatnonzero(job.S[j] > 0):
                rows.append(([(index[:, j], -1), (index[:, k], 1)], x[:, j] * job.S[j, k]))
            for k in start:
                if job.mu[j] > 0:
                    rows.append(([(index[1:, j], -1), (index[:-1, k], 1)], x[1:, j] * job.mu[j] * job.alpha[k]))
                moved = [(index[1:, j], -1), (index[:-1, j], 1), (np.full(levels - 1, index[0, k]), 1)]
                rows.append((moved, self._removal_rate * x[1:, j] * job.alpha[k]))
        values, at, jump, count = [], [], [], 0
        for changes, rates in rows:
            for states, sign in changes:
                at.append(states)
                values.append(np.full(states.size, float(sign)))
                jump.append(count + np.arange(states.size))
            count += rates.size
        entries = (np.concatenate(values), (np.concatenate(jump), np.concatenate(at)))
        return _Jumps(csr_array(entries, shape=(count, levels * n)), np.concatenate([rates for _, rates in rows]))

    def _banded_rates(self) -> Floats:
        """Return M in the form of ``scipy.linalg.solve_banded``: entry (i, k) at [upper + i - k, k]."""
        job, delta = self.job, self._removal_rate
        levels, n = self.occupancy.shape
        band = np.zeros((self._lower + self._upper + 1, levels, n))
        for i in range(n):
            for k in range(n):
                band[self._upper + i - k, :, k] += job.S[i, k]
                # From level l, phase i, down to level l - 1, phase k: i - k + n below the diagonal.
                band[self._upper + n + i - k, :-1, k] += job.mu[i] * job.alpha[k]
        band[self._upper] -= self.load
        band[self._upper, -1] += self.load
        band[0, 1:] = self.load
        band[self._upper, 1:] -= delta
        band[self._upper + n, :-1] += delta
        return band.reshape(len(band), levels * n)


def _covariances(chain: _Chain, columns: Floats) -> Floats:
    """Return ``b_0' W b_i`` for the columns b_0, b_1, ... of ``columns`` (states, m + 1): shape (m,).

    ``W = int exp(A t) Q exp(A' t) dt``, so that the integral of ``U' Q U`` with U = exp(A' t) B is wanted. The ADI
    iteration turns it into a sum: with shifts p_k < 0, ``V_k = (A' + p_k)^-1 U_{k-1}``, ``U_k = U_{k-1} - 2 p_k V_k``,
    each step adds ``-2 p_k V_k' Q V_k`` and shrinks U by |(a - p_k)/(a + p_k)| in the direction of the eigenvalue a.
    Shifts in geometric progression over the spectrum serve all directions; what a sweep adds is about a seventh of what
    the one before it added, so that a tenth sweep is rarely needed.
    """
    jumps = chain.jumps()
    slowest = _slowest_rate(chain, columns[:, :1])
    fastest = 2 * chain.fastest_rate()
    count = max(2, math.ceil(math.log(fastest / (slowest / 2)) / math.log(_SHIFT_RATIO)))
    shifts = -np.geomspace(slowest / 2, fastest, count)
    U = columns
    total = np.zeros(columns.shape[1])
    for _ in range(_MOST_SWEEPS):
        added = np.zeros_like(total)
        for shift in shifts.tolist():
            V = chain.solve(shift, U)
            U = U - 2 * shift * V
            added -= 2 * shift * jumps.covariance(V[:, :1], V)[0]
        total += added
        if (np.abs(added) <= _SETTLED * np.abs(total)).all():
            return total[1:]
    raise ArithmeticError(f"the covariances did not settle in {_MOST_SWEEPS} sweeps")


def _slowest_rate(chain: _Chain, start: Floats) -> float:
    """Return the rate at which the slowest deviation from the fixed point dies out, by inverse iteration."""
    vector = start
    size = 1.0
    for _ in range(30):
        vector = chain.solve(0.0, vector)
        size = float(np.abs(vector).max())
        vector = vector / size
    return 1 / size
