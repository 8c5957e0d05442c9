"""The mean field in time: how a cluster of many servers moves from any state to the steady one."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.integrate import solve_ivp

from testbed.theory.argument_checks import require_load
from testbed.theory.stealing_sharing.mean_field import Policy, require_policy
from testbed.theory.stealing_sharing.sizes import Floats, JobSize, Size, job_size

_NEGLIGIBLE = 1e-10
_MOST_STATES = 200_000


@dataclass(frozen=True)
class TransientMeanField:
    """Fractions of servers over time. Times are in mean sizes.

    ``times`` (m,). ``queue_length_pmf`` (m, K + 1): fraction of servers with l tasks, the one in service included.
    """

    times: Floats
    queue_length_pmf: Floats
    probe_rate: float

    @property
    def idle_probability(self) -> Floats:
        """Return the fraction of idle servers, (m,)."""
        return self.queue_length_pmf[:, 0]

    @property
    def pending_probability(self) -> Floats:
        """Return the fraction of servers with a waiting task, (m,)."""
        return np.asarray(self.queue_length_pmf[:, 2:].sum(axis=1))

    @property
    def mean_queue_length(self) -> Floats:
        """Return the mean number of tasks per server, (m,)."""
        return np.asarray(self.queue_length_pmf @ np.arange(self.queue_length_pmf.shape[1]))

    def overall_probe_rate(self, policy: Policy) -> Floats:
        """Return the probes sent per server and time unit at each time, (m,)."""
        prober = self.idle_probability if require_policy(policy) == "stealing" else self.pending_probability
        return np.asarray(self.probe_rate * prober)


def transient_mean_field(
    load: float, size: Size, probe_rate: float, times: npt.ArrayLike, initial: npt.ArrayLike = (1.0,)
) -> TransientMeanField:
    """Return the mean field of stealing or sharing (the same at equal r) from a given state on.

    The differential equations of Van Houdt (2019), integrated to a relative error of 1e-8 (absolute 1e-11). Queues are
    cut so high that in all the time the cut turns away less than 1e-10 tasks per server. The effort grows with the last
    time, times the fastest of the rates.

    ``load`` in (0, 1); ``size`` phase-type with mean 1; ``probe_rate`` r >= 0, finite. ``times`` (m,): increasing,
    the first at least 0, where 0 is when the state is ``initial``. ``initial``: either the fractions of servers with
    0, 1, 2, ... tasks, (k,), of which the one in service has just started; or, by phase of the task in service, the
    fractions with 1, 2, ... tasks, (k, n), the others being idle. Default: all idle.
    Raises ValueError for values outside these ranges, and ArithmeticError where queues grow beyond 200,000 states.
    """
    require_load(load)
    if not (math.isfinite(probe_rate) and probe_rate >= 0):
        raise ValueError(f"the probe rate is {probe_rate}; give a finite rate of at least 0")
    job = job_size(size)
    at = np.asarray(times, dtype=np.float64)
    if at.ndim != 1 or at.size == 0 or not np.isfinite(at).all() or at[0] < 0 or (np.diff(at) <= 0).any():
        raise ValueError("`times` must be increasing finite numbers, the first at least 0")
    start = _initial_occupancy(job, initial)
    levels = max(32, 2 * len(start))
    while True:
        if levels * len(job.alpha) > _MOST_STATES:
            raise ArithmeticError(f"queues of {levels} tasks still matter; lower the load or the last time")
        padded = np.pad(start, ((0, levels - len(start)), (0, 0)))
        occupancy, turned_away = _integrate(job, load, probe_rate, at, padded)
        if turned_away <= _NEGLIGIBLE:
            break
        levels *= 2
    lengths = occupancy.sum(axis=2)
    return TransientMeanField(at, np.column_stack((1 - lengths.sum(axis=1), lengths)), probe_rate)


def _initial_occupancy(job: JobSize, initial: npt.ArrayLike) -> Floats:
    state = np.asarray(initial, dtype=np.float64)
    n = len(job.alpha)
    if state.ndim == 1:
        total, occupancy = state.sum(), np.outer(state[1:], job.alpha)
        if abs(total - 1) > 1e-9:
            raise ValueError(f"`initial` sums to {total:.10g}; give fractions of servers that sum to 1")
    elif state.ndim == 2 and state.shape[1] == n:
        total, occupancy = state.sum(), state
        if total > 1 + 1e-9:
            raise ValueError(f"`initial` sums to {total:.10g}; the fractions of busy servers sum to at most 1")
    else:
        raise ValueError(f"`initial` has shape {state.shape}; give (k,), or (k, {n}) for {n} phases")
    if not (np.isfinite(state) & (state >= 0)).all():
        raise ValueError("`initial` must hold fractions of servers, which are at least 0")
    return occupancy


def _integrate(job: JobSize, load: float, probe_rate: float, times: Floats, start: Floats) -> tuple[Floats, float]:
    """Return f_{l,j} at each of ``times``: (m, levels, n); and the tasks per server that the cut turned away."""
    within = job.S - load * np.eye(len(job.alpha))

    def drift(_: float, state: Floats) -> Floats:
        f = state[:-1].reshape(start.shape)
        idle = 1 - f.sum()
        change = f @ within
        change[-1] += load * f[-1]  # no arrivals where the queue is cut
        change[1:] += load * f[:-1]
        removed = probe_rate * idle * f[1:]
        change[1:] -= removed
        change[:-1] += removed + np.outer(f[1:] @ job.mu, job.alpha)
        change[0] += (load * idle + removed.sum()) * job.alpha
        return np.append(change, load * f[-1].sum())

    if times[-1] == 0:
        return start[None], 0.0
    solution = solve_ivp(
        drift, (0.0, times[-1]), np.append(start, 0.0), method="DOP853", t_eval=times, rtol=1e-8, atol=1e-11
    )
    if not solution.success:
        raise ArithmeticError(f"the mean field could not be integrated: {solution.message}")
    return solution.y[:-1].T.reshape(len(times), *start.shape), float(solution.y[-1, -1])
