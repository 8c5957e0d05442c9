"""The queue behind the mean field: M/PH/1 whose waiting jobs are removed at rate delta, a quasi-birth-death process."""

from __future__ import annotations

import numpy as np
from scipy.linalg.lapack import dgesv

from testbed.theory.stealing_sharing.sizes import Floats, JobSize

_CONVERGED = 1e-15
_MOST_ROUNDS = 64


def first_passage_matrix(job: JobSize, load: float, removal_rate: float) -> Floats:
    """Return G (n, n): the phase in which a queue that starts at length l >= 2 first gets to length l - 1.

    The minimal solution of ``A_down + A_loc G + A_up G^2 = 0`` with ``A_up = lam I``, ``A_loc = S - (lam + delta) I``,
    ``A_down = mu alpha + delta I``, by logarithmic reduction (Latouche and Ramaswami 1993). It doubles the levels in
    each round, so that load 0.999 takes a dozen rounds, and it only adds nonnegative terms and solves systems with
    M-matrices, so that there is nothing to cancel.
    """
    n = len(job.alpha)
    if removal_rate == 0:
        return np.tile(job.alpha, (n, 1))
    if n == 1:
        return np.ones((1, 1))
    identity = np.eye(n)
    both = np.empty((n, 2 * n))
    both[:, :n] = load * identity
    both[:, n:] = np.outer(job.mu, job.alpha) + removal_rate * identity
    both = _solve((load + removal_rate) * identity - job.S, both)
    H, L = both[:, :n], both[:, n:]
    G, T = L, H
    for _ in range(_MOST_ROUNDS):
        both = np.concatenate((H @ H, L @ L), axis=1)
        both = _solve(identity - (H @ L + L @ H), both)
        H, L = both[:, :n], both[:, n:]
        step = T @ L
        G = G + step
        if step.max() < _CONVERGED or abs(1 - G.sum(axis=1)).max() < _CONVERGED:
            return np.asarray(G / G.sum(axis=1)[:, None])
        T = T @ H
    raise ArithmeticError(f"logarithmic reduction did not converge at load {load}, removal rate {removal_rate}")


def pending_row(job: JobSize, load: float, removal_rate: float, G: Floats) -> Floats:
    """Return pi_{2+} = lam beta R (n,): P(queue length >= 2, phase of the job in service)."""
    return load * np.maximum(_solve(_sojourn(job, load, removal_rate, G).T, load * job.beta), 0.0)


def rate_matrix(job: JobSize, load: float, removal_rate: float, G: Floats) -> Floats:
    """Return R (n, n) = lam (-A_loc - lam G)^-1, with pi_{l+1} = pi_l R."""
    n = len(job.alpha)
    return np.maximum(_solve(_sojourn(job, load, removal_rate, G), load * np.eye(n)), 0.0)


def single_row(job: JobSize, load: float, idle_flow: float, G: Floats) -> Floats:
    """Return pi_1 (n,) = idle_flow alpha (lam (I - G) - S)^-1, ``idle_flow`` being the rate at which idleness ends.

    It equals ``lam beta (I - R)``, without the subtraction that costs all digits where a single job is rare.
    """
    n = len(job.alpha)
    return np.maximum(_solve((load * (np.eye(n) - G) - job.S).T, idle_flow * job.alpha), 0.0)


def mean_response_time(job: JobSize, load: float, removal_rate: float, G: Floats, pending: Floats) -> float:
    """Return E[T] = beta (I - R)^-1 1, in one of two equal forms.

    Where delta >= lam, ``(I - R)^-1 = (-A_loc - lam G)(delta I - S - lam G)^-1`` and the last matrix is diagonally
    dominant. Where delta < lam it is nearly singular at high load and SCV; summing l times the balance equation of
    level l instead leaves only the division by the drift:

        (1 + delta - lam) E[T] = 1 + delta + beta (lam I - delta R) (w - 1),    w = (-S)^-1 1.
    """
    if removal_rate >= load:
        n = len(job.alpha)
        sums = _solve(removal_rate * np.eye(n) - job.S - load * G, np.ones(n))
        return float(1 + load * (job.beta @ sums))
    excess = load * job.beta - removal_rate / load * pending
    return float((1 + removal_rate + excess @ (job.remaining - 1)) / (1 + removal_rate - load))


def residual(job: JobSize, load: float, removal_rate: float, G: Floats) -> float:
    """Return the largest row sum of ``|A_down + A_loc G + A_up G^2|``, relative to the largest rate out of a state."""
    n = len(job.alpha)
    out = (load + removal_rate) * np.eye(n) - job.S
    left = np.outer(job.mu, job.alpha) + removal_rate * np.eye(n) - out @ G + load * G @ G
    return float(np.abs(left).sum(axis=1).max() / out.diagonal().max())


def _sojourn(job: JobSize, load: float, removal_rate: float, G: Floats) -> Floats:
    return (load + removal_rate) * np.eye(len(job.alpha)) - job.S - load * G


def _solve(a: Floats, b: Floats) -> Floats:
    # LAPACK itself: for two phases the checks of numpy.linalg.solve take longer than the rest of the round.
    x: Floats
    _, _, x, info = dgesv(a, b)
    if info:
        raise ArithmeticError("the quasi-birth-death equations are singular to working precision")
    return x
