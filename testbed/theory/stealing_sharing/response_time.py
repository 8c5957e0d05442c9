"""The response-time distribution under stealing or sharing: what happens to one task that arrives.

A task that arrives at a busy server waits until it gets to the front, or until it is moved; then it is served at once.
Everything is uniformised: a matrix function F with F' = F M has ``F(t) = sum_k Poisson(k; q t) F_k``, and its terms F_k
are nonnegative, so that nothing cancels however small the tail is.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.special import gammaln

from testbed.theory.stealing_sharing.sizes import Floats, JobSize

Moved = Literal["newest", "oldest"]

_DEVIATIONS = 9.0  # of a Poisson count, beyond which its probability is below 1e-17
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)


@dataclass(frozen=True)
class TaggedTask:
    """A task that arrives in steady state. ``rate_matrix`` is R (n, n), ``single`` is pi_1 (n,)."""

    job: JobSize
    load: float
    removal_rate: float
    rate_matrix: Floats
    single: Floats

    def response_time_tail(self, t: Floats, moved: Moved) -> Floats:
        """Return P(T > t), shape (m,)."""
        if moved == "oldest":
            return self._oldest_moves(t)
        if moved == "newest":
            return self._newest_moves(t)
        raise ValueError(f'moved is {moved!r}; give "newest" or "oldest"')

    def _oldest_moves(self, t: Floats) -> Floats:
        """Z' = Z (S - delta I) + R Z (mu alpha + delta I), P(W > t) = lam beta Z 1: each removal brings the task ahead.

        While it waits, it leaves the queue for service at rate pi_1 Z (mu + delta 1), since lam beta (I - R) = pi_1;
        the row ``serving`` follows its phase from then on.
        """
        job, delta = self.job, self.removal_rate
        q = self._fastest + delta
        terms = _terms(q, t)
        leaving = (job.mu + delta) / q
        stay = np.eye(len(job.alpha)) * (1 - delta / q) + job.S / q
        serve = np.eye(len(job.alpha)) + job.S / q
        Z = np.eye(len(job.alpha))
        serving = (1 - self.load) * job.alpha
        tail = np.empty(terms)
        for k in range(terms):
            tail[k] = self.load * (job.beta @ Z).sum() + serving.sum()
            serving = serving @ serve + (self.single @ Z @ leaving) * job.alpha
            moved_up = self.rate_matrix @ Z
            Z = Z @ stay + np.outer(moved_up @ (job.mu / q), job.alpha) + moved_up * (delta / q)
        return _poisson_mixture(tail, q * t)

    def _newest_moves(self, t: Floats) -> Floats:
        """P(W > t) = lam beta Z(t) 1 B(t) with Z' = Z S + R Z mu alpha; then P(T > t) by a quadrature.

        The task is moved when one more removal comes than tasks arrive behind it, whatever is before it: B is the tail
        of the busy period of an M/M/1 queue with arrivals at rate lam and services at rate delta.
        ``P(T > t) = P(X > t) + u(t) mu`` with the row ``u(t) = int_0^t P(W > s) alpha exp(S (t - s)) ds``, which is
        carried from each of the times to the next.
        """
        job, q, total = self.job, self._fastest, self.load + self.removal_rate
        ahead, behind = self._ahead_tail(_terms(q, t)), self._busy_tail(_terms(total, t))
        phases = _powers(job, job.alpha, _terms(q, t))
        tail = size_tail(job, t)
        u, before = np.zeros_like(job.alpha), 0.0
        for i in np.argsort(t).tolist():
            if t[i] > before:
                s, weights = _nodes(before, float(t[i]), 0.5 / (q + total))
                waiting = _poisson_mixture(ahead, q * s) * _poisson_mixture(behind, total * s)
                step = np.array([t[i] - before])
                u = _poisson_mixture(_powers(job, u, _terms(q, step)), q * step)[0]
                u = u + (weights * waiting) @ _poisson_mixture(phases, q * (t[i] - s))
                before = float(t[i])
            tail[i] += u @ job.mu
        return tail

    def _ahead_tail(self, terms: int) -> Floats:
        """Return the uniformised ``lam beta Z 1``, (terms,): the tasks ahead would not all have been served."""
        P = np.eye(len(self.job.alpha)) + self.job.S / self._fastest
        Z = np.eye(len(self.job.alpha))
        ahead = np.empty(terms)
        for k in range(terms):
            ahead[k] = self.load * (self.job.beta @ Z).sum()
            Z = Z @ P + np.outer(self.rate_matrix @ Z @ (self.job.mu / self._fastest), self.job.alpha)
        return ahead

    def _busy_tail(self, terms: int) -> Floats:
        """Return the probabilities, (terms,), that a walk from 1 has not been at 0 within k steps; up lam, down delta.

        It is at 0 first after 2 i + 1 steps with probability C_i p^i (1 - p)^(i + 1), C_i the Catalan numbers.
        """
        p = self.load / (self.load + self.removal_rate)
        if p == 1:
            return np.ones(terms)
        i = np.arange((terms + 1) // 2)
        log_catalan = gammaln(2 * i + 1) - gammaln(i + 1) - gammaln(i + 2)
        first = np.zeros(terms + 1)
        first[1 : 2 * i.size : 2] = np.exp(log_catalan + i * math.log(p) + (i + 1) * math.log1p(-p))
        return 1 - np.cumsum(first)[:terms]

    @property
    def _fastest(self) -> float:
        return float(-self.job.S.diagonal().min())


def size_tail(job: JobSize, t: Floats) -> Floats:
    """Return P(X > t), shape (m,)."""
    q = float(-job.S.diagonal().min())
    return _poisson_mixture(_powers(job, job.alpha, _terms(q, t)).sum(axis=1), q * t)


def _powers(job: JobSize, row: Floats, terms: int) -> Floats:
    """Return the uniformised ``row exp(S t)``, (terms, n)."""
    P = np.eye(len(row)) + job.S / float(-job.S.diagonal().min())
    powers = np.empty((terms, len(row)))
    for k in range(terms):
        powers[k] = row
        row = row @ P
    return powers


def _nodes(start: float, end: float, finest: float) -> tuple[Floats, Floats]:
    """Return nodes and weights, (m,) each, for an integral of f(s) g(end - s) over start < s < end.

    f and g are sums of decaying exponentials. Panels that double in width away from 0 and from ``end`` resolve the fast
    and the slow ones alike: where a panel is too wide for an exponential, that has died out before it.
    """
    middle = (start + end) / 2
    widths = 2.0 ** np.arange(math.ceil(math.log2(1 + (end - start) / finest)) + 1) - 1
    left, right = start + max(finest, start) * widths, end - finest * widths
    ends = np.concatenate((left[left < middle], [middle], right[right > middle][::-1]))
    half = np.diff(ends) / 2
    return (ends[:-1, None] + half[:, None] * (1 + _NODES)).ravel(), (half[:, None] * _WEIGHTS).ravel()


def _terms(q: float, t: Floats) -> int:
    most = q * float(t.max(initial=0.0))
    return math.ceil(most + _DEVIATIONS * math.sqrt(most) + 40)


def _poisson_mixture(coefficients: Floats, means: Floats) -> Floats:
    """Return ``sum_k coefficients[k] exp(-x) x^k / k!`` for each x of ``means``, over the k that matter.

    ``coefficients`` (terms, ...), ``means`` (m,): the result is (m, ...).
    """
    log_factorials = gammaln(np.arange(len(coefficients)) + 1.0)
    result = np.empty((len(means), *coefficients.shape[1:]))
    for i, x in enumerate(means.tolist()):
        if x == 0:
            result[i] = coefficients[0]
            continue
        reach = _DEVIATIONS * math.sqrt(x)
        low, high = max(0, int(x - reach)), min(len(coefficients), math.ceil(x + reach + 40))
        k = np.arange(low, high)
        weights = np.exp(k * math.log(x) - x - log_factorials[low:high])
        # gammaln loses 1e-16 k log k: the weights' own sum takes that out again.
        result[i] = weights @ coefficients[low:high] / weights.sum()
    return result
