"""The mean field of stealing and sharing: a typical server's queue as the number of servers grows."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, overload

import numpy as np
import numpy.typing as npt

from testbed.theory.argument_checks import require_load
from testbed.theory.stealing_sharing import finite_size, qbd, response_time
from testbed.theory.stealing_sharing.finite_size import FiniteSizeCorrection
from testbed.theory.stealing_sharing.response_time import Moved
from testbed.theory.stealing_sharing.sizes import Floats, JobSize, Size, job_size

Policy = Literal["stealing", "sharing"]


@dataclass(frozen=True, eq=False)
class MeanField:
    """Stealing or sharing with probe clocks of rate r, in steady state, in the limit of many servers.

    At equal r both policies have the same queues and the same response times; only the probes that they send differ.
    Times are in mean sizes, rates per server and time unit. ``load`` is lam, ``probe_rate`` is r.

    ``mean_response_time``: E[T]. ``pending_probability``: u2 = P(queue length >= 2), the fraction of servers with a
    waiting task. ``idle_arrival_rate``: lambda_0 = lam + r u2, the rate at which an idle server gets work.

    Accuracy: relative errors below 1e-12, against 50-digit arithmetic, for loads up to 0.999, SCV up to 1000 and any
    probe rate; up to 1e-10 at SCV 1e6. ``residual`` shows it for up to 50 phases. The decay rate eta is exact to about
    1e-14, so that 1 - eta has fewer digits the closer eta is to 1.
    """

    load: float
    probe_rate: float
    mean_response_time: float
    pending_probability: float
    idle_arrival_rate: float
    _job: JobSize = field(repr=False)
    _G: Floats = field(repr=False)
    _single: Floats = field(repr=False)  # pi_1

    @property
    def mean_queue_length(self) -> float:
        """E[Q] = lam E[T], the task in service included."""
        return self.load * self.mean_response_time

    @property
    def idle_probability(self) -> float:
        """P(idle) = 1 - lam."""
        return 1 - self.load

    @property
    def removal_rate(self) -> float:
        """delta = (1 - lam) r, the rate at which a queue with waiting tasks loses one of them."""
        return (1 - self.load) * self.probe_rate

    @property
    def transfer_rate(self) -> float:
        """Tasks moved per server and time unit, tau = delta u2; lam^2 where r is infinite."""
        return self.load**2 if math.isinf(self.probe_rate) else self.removal_rate * self.pending_probability

    @property
    def decay_rate(self) -> float:
        """The factor by which P(Q = l) falls from one l to the next as l grows: the spectral radius of R."""
        return float(np.abs(np.linalg.eigvals(self._rate_matrix)).max())

    @property
    def residual(self) -> float:
        """How far G is from solving its equation, relative to the largest rate: rounding alone gives some 1e-16."""
        return 0.0 if math.isinf(self.probe_rate) else qbd.residual(self._job, self.load, self.removal_rate, self._G)

    @overload
    def queue_length_pmf(self, n: int) -> float: ...
    @overload
    def queue_length_pmf(self, n: npt.NDArray[np.int64]) -> Floats: ...
    def queue_length_pmf(self, n: int | npt.NDArray[np.int64]) -> float | Floats:
        """Return P(Q = n), the task in service included: a float for an int, an array (m,) for an array of ints (m,).

        ``pi_1 R^(n-1) 1``. Raises ValueError for a negative n.
        """
        return self._level_sums(n, self._single, 1 - self.load)

    @overload
    def queue_length_tail(self, n: int) -> float: ...
    @overload
    def queue_length_tail(self, n: npt.NDArray[np.int64]) -> Floats: ...
    def queue_length_tail(self, n: int | npt.NDArray[np.int64]) -> float | Floats:
        """Return P(Q >= n), in the shape of ``n``: ``lam beta R^(n-1) 1``. Raises ValueError for a negative n."""
        return self._level_sums(n, self.load * self._job.beta, 1.0)

    def overall_probe_rate(self, policy: Policy) -> float:
        """Return R_o, the probes sent per server and time unit, successes included.

        Stealing: idle servers probe, (1 - lam) r. Sharing: servers with waiting tasks do, r u2; in the limit of an
        infinite r that is lam^2 / (1 - lam).
        """
        if require_policy(policy) == "stealing":
            return self.removal_rate
        return self.transfer_rate / (1 - self.load)

    def success_probability(self, policy: Policy) -> float:
        """Return the fraction of probes that move a task: u2 for stealing, 1 - lam for sharing."""
        return self.pending_probability if require_policy(policy) == "stealing" else 1 - self.load

    @overload
    def response_time_tail(self, t: float, moved: Moved = ...) -> float: ...
    @overload
    def response_time_tail(self, t: Floats, moved: Moved = ...) -> Floats: ...
    def response_time_tail(self, t: float | Floats, moved: Moved = "newest") -> float | Floats:
        """Return P(T > t) in the shape of ``t``, where the newest or the oldest waiting task is the one that moves.

        The mean does not depend on which one moves; the distribution does. Absolute accuracy 1e-12; the effort grows
        with t times the fastest rate, a phase's or delta. Raises ValueError for a negative or infinite t.
        """
        times = np.asarray(t, dtype=np.float64)
        if not (np.isfinite(times) & (times >= 0)).all():
            raise ValueError(f"t is {t}; give finite times, at least 0")
        if math.isinf(self.probe_rate):
            tail = response_time.size_tail(self._job, times.ravel())
        else:
            model = response_time.TaggedTask(self._job, self.load, self.removal_rate, self._rate_matrix, self._single)
            tail = model.response_time_tail(times.ravel(), moved)
        return float(tail[0]) if times.ndim == 0 else tail.reshape(times.shape)

    def finite_size_correction(self) -> FiniteSizeCorrection:
        """Return the coefficients c_T and c_u of 1/N in E[T] and in u2 of a cluster with N servers.

        See ``FiniteSizeCorrection`` for accuracy and limits. Raises ValueError for an infinite probe rate, and
        ArithmeticError where the truncated chain is too large.
        """
        if math.isinf(self.probe_rate):
            raise ValueError("with an infinite probe rate the distance to the mean field is not of the order 1/N")
        if self.probe_rate == 0:
            return FiniteSizeCorrection(0.0, 0.0)
        return finite_size.correction(self._job, self.load, self.probe_rate, self._single, self._rate_matrix)

    @cached_property
    def _rate_matrix(self) -> Floats:
        if math.isinf(self.probe_rate):
            return np.zeros_like(self._job.S)
        return qbd.rate_matrix(self._job, self.load, self.removal_rate, self._G)

    def _level_sums(self, n: int | npt.NDArray[np.int64], first: Floats, zero: float) -> float | Floats:
        """Return ``first R^(n-1) 1`` for n >= 1, and ``zero`` for n = 0, by squaring: 50 squarings reach any n."""
        lengths = np.asarray(n)
        if not np.issubdtype(lengths.dtype, np.integer) or (lengths < 0).any():
            raise ValueError(f"n is {n}; a queue length is an integer of at least 0")
        flat = lengths.ravel()
        rows = np.tile(first, (flat.size, 1))
        steps, power = np.maximum(flat - 1, 0), self._rate_matrix
        while steps.any():
            odd = (steps & 1).astype(bool)
            rows[odd] = rows[odd] @ power
            power = power @ power
            steps = steps >> 1
        sums = np.where(flat == 0, zero, rows.sum(axis=1))
        return float(sums[0]) if lengths.ndim == 0 else sums.reshape(lengths.shape)


def mean_field(load: float, size: Size, probe_rate: float) -> MeanField:
    """Return the mean field of stealing and of sharing with probe clocks of rate r.

    Van Houdt (2019): the queue of a typical server is M/PH/1 with arrivals at rate lam while busy and lambda_0 while
    idle, of which waiting jobs are removed at rate delta = (1 - lam) r.

    ``load``: lam in (0, 1). ``size``: a phase-type distribution of ``testbed.workload`` with mean 1, or ``(alpha, S)``.
    ``probe_rate``: r >= 0; 0 gives M/PH/1, ``math.inf`` the limit in which no task waits.
    Raises ValueError for values outside these ranges and for sizes that are not phase-type or not of mean 1.
    """
    require_load(load)
    if not probe_rate >= 0:
        raise ValueError(f"the probe rate is {probe_rate}; give a rate of at least 0")
    job = job_size(size)
    if math.isinf(probe_rate):
        return MeanField(load, probe_rate, 1.0, 0.0, load / (1 - load), job, np.eye(len(job.alpha)), load * job.beta)
    removal_rate = (1 - load) * probe_rate
    G, pending = removal_solution(job, load, removal_rate)
    u2 = float(pending.sum())
    single = qbd.single_row(job, load, load * (1 - load) + removal_rate * u2, G)
    response = qbd.mean_response_time(job, load, removal_rate, G, pending)
    return MeanField(load, probe_rate, response, u2, load + probe_rate * u2, job, G, single)


def removal_solution(job: JobSize, load: float, removal_rate: float) -> tuple[Floats, Floats]:
    """Return ``G`` (n, n) and ``pi_{2+}`` (n,) for waiting jobs that are removed at rate ``removal_rate``."""
    G = qbd.first_passage_matrix(job, load, removal_rate)
    return G, qbd.pending_row(job, load, removal_rate, G)


def require_policy(policy: str) -> str:
    """Return ``policy``, or raise ValueError unless it is "stealing" or "sharing"."""
    if policy not in ("stealing", "sharing"):
        raise ValueError(f'the policy is {policy!r}; give "stealing" or "sharing"')
    return policy
