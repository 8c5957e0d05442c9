"""Late binding in the limit of many servers (Sparrow; Ousterhout et al. 2013).

A job leaves reservations at m >= k servers, and the first k that reach them fetch a task. Without message delay this
puts one task on each of the k probed servers with the least unfinished work. The policy is that of Ousterhout et al.
2013; its limit is derived here.
"""

from __future__ import annotations

import numpy as np
from scipy.integrate import solve_ivp
from scipy.special import gammaln, xlogy
from scipy.stats import binom

from testbed.theory.parallel_jobs.job_maximum import ArrayTail
from testbed.theory.parallel_jobs.steady_job import MeanField
from testbed.theory.steady_state import Floats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(12)
#: Unfinished work above which fewer servers lie is left out.
_NEGLIGIBLE = 1e-14


class _Workload:
    """The unfinished work w at a server: G(w) = P(work > w), its density g, and K(w) = integral of e^-(w-u) g(u) du.

    G' = -(G - (load / k) E[(k - Bin(m, 1 - G))^+]), G(0) = load; K' = g - K. Both are solved as one system.
    """

    def __init__(self, load: float, tasks: int, probes: int) -> None:
        self.load, self.tasks, self.probes = load, tasks, probes
        self._excess = np.arange(1, tasks + 1.0)
        busier = probes - tasks + self._excess
        self._busier, self._others = busier, probes - busier
        self._log_choices = gammaln(probes + 1) - gammaln(busier + 1) - gammaln(self._others + 1)
        end = 16.0
        while True:
            # The third unknown is the integral of G, E[work].
            solved = solve_ivp(
                lambda _, y: self._derivative(y),
                (0.0, end),
                [load, 0.0, 0.0],
                method="DOP853",
                rtol=1e-12,
                atol=1e-16,
                dense_output=True,
            )
            if solved.y[0, -1] < _NEGLIGIBLE:
                break
            end *= 2
            if end > 1e8:
                raise ArithmeticError(f"the unfinished work at load {load} does not end")
        self.steps = solved.t
        self.mean = float(solved.y[2, -1])
        self._solution = solved.sol

    def density(self, G: Floats) -> Floats:
        """Return g at the points where the tail is G, shape of ``G``."""
        G = np.clip(np.asarray(G), 0.0, 1.0)[..., None]
        pmf = np.exp(self._log_choices + xlogy(self._busier, G) + xlogy(self._others, 1 - G))
        return np.asarray(G[..., 0] - self.load / self.tasks * (pmf @ self._excess))

    def at(self, w: Floats) -> tuple[Floats, Floats]:
        """Return G and K at the amounts of work ``w``."""
        G, K, _ = self._solution(w)
        return np.maximum(G, 0.0), K

    def _derivative(self, y: Floats) -> list[float]:
        g = float(self.density(y[0]))
        return [-g, g - y[1], y[0]]


def late_binding(load: float, tasks: int, probes: int) -> MeanField:
    """Return the mean field of late binding with ``probes`` reservations per job and no message delay.

    A task waits for the work before it, P(wait > w) = E[(k - Bin(m, 1 - G(w)))^+] / k, so that the mean response time
    of a task is E[work] / load. Raises ValueError for fewer reservations than tasks.
    """
    if probes < tasks:
        raise ValueError(f"late-binding needs at least one reservation per task, but has {probes} for {tasks} tasks")
    work = _Workload(load, tasks, probes)
    return MeanField(
        policy="late-binding",
        load=load,
        tasks=tasks,
        probe_overhead=probes / tasks,
        queue_length_tail=None,
        mean_task_response_time=work.mean / load,
        response_time_tail=_response_time_tail(work),
    )


def _response_time_tail(work: _Workload) -> ArrayTail:
    """Return the tail of the response time: a condition on w, the work at the k-th least loaded of the m servers.

    P(T <= t) = P(k idle) (1 - e^-t)^k + integral over w < t of m C(m-1, k-1) A_w(t)^(k-1) (1 - e^-(t-w)) g G^(m-k),
    with A_w(t) = (1 - load)(1 - e^-t) + integral over u < w of (1 - e^-(t-u)) g(u), the chance that a server with less
    work is done with it and with the task by t.
    """
    k, m, load = work.tasks, work.probes, work.load
    log_choices = float(np.log(m) + gammaln(m) - gammaln(k) - gammaln(m - k + 1))
    all_idle = float(binom.sf(k - 1, m, 1 - load))

    def panels(start: Floats, end: Floats) -> Floats:
        """Return rows w, G, K and mass at the nodes of the intervals, shape (4, intervals x nodes)."""
        half = (end - start)[:, None] / 2
        w = (start[:, None] + half * (1 + _NODES)).ravel()
        G, K = work.at(w)
        # (1 - G)^(k-1) is taken in here and out of A_w(t) below, so that neither under- nor overflows.
        log_mass = log_choices + xlogy(k - 1, 1 - G) + xlogy(m - k, G)
        return np.stack([w, G, K, (half * _WEIGHTS).ravel() * work.density(G) * np.exp(log_mass)])

    def served(t: float, nodes: Floats) -> float:
        w, G, K, mass = nodes
        gone = np.exp(w - t)
        less = (1 - load) * -np.expm1(-t) + load - G - gone * K
        return float(mass @ ((np.maximum(less, 0.0) / (1 - G)) ** (k - 1) * -np.expm1(w - t)))

    steps = work.steps
    whole = panels(steps[:-1], steps[1:])
    total = all_idle + float(whole[3].sum())

    def done_by(t: float) -> float:
        before = int(np.searchsorted(steps, t, side="right")) - 1
        done = all_idle * float(-np.expm1(-t)) ** k + served(t, whole[:, : before * _NODES.size])
        if before < steps.size - 1:
            done += served(t, panels(steps[before : before + 1], np.array([t])))
        return done

    def tail(t: Floats) -> Floats:
        return np.array([max(0.0, 1 - done_by(float(x)) / total) for x in t])

    return tail
