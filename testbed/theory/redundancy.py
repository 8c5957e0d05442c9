"""Copies of a job on several servers with queues of their own, where all but one are cancelled.

Service times have mean 1, and ``load`` is the arrival rate of jobs per server.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.integrate import quad
from scipy.special import gammaln

from testbed.theory.argument_checks import require_count, require_load
from testbed.theory.steady_state import SteadyState


def redundancy_on_completion(servers: int, load: float, d: int) -> SteadyState:
    """Return redundancy-d with independent exponential copies, cancelled when the first of them is done.

    ``E[T] = sum over i = d..N of 1 / (N (C(N-1, d-1) / C(i-1, d-1) - load))``, for copies on d distinct servers that
    are chosen at random. Only the mean is derived. Kind: exact. Source: Gardner et al. 2017, "Redundancy-d: the power
    of d choices for redundancy", Theorem 1. Raises ValueError unless 1 <= d <= servers and 0 < load < 1.
    """
    require_load(load)
    require_count("servers", servers)
    require_count("d", d)
    if d > servers:
        raise ValueError(f"d is {d}; {servers} servers can have at most {servers} copies of a job")
    i = np.arange(d, servers + 1)

    # C(N-1, d-1) / C(i-1, d-1), of which both (d-1)! cancel.
    ratio = np.exp(gammaln(servers) - gammaln(servers - d + 1) - gammaln(i) + gammaln(i - d + 1))
    return SteadyState(float((1 / (servers * (ratio - load))).sum()))


def redundancy_on_start(load: float, d: int) -> SteadyState:
    """Return redundancy-d with exponential sizes, cancelled when the first copy starts, in the limit of many servers.

    The job is served where the work ahead of it is least among d servers. The fraction of servers with more work than w
    is ``F(w) = (load + (load^(1-d) - load) e^((d-1) w))^(1/(1-d))``, the solution of F' = load F^d - F with F(0) =
    load; response times have the tail F(t) / load. d = 1 is M/M/1. Kind: limit. Source: Hellemans and Van Houdt 2018,
    "On the power-of-d-choices with least loaded server selection". Raises ValueError unless 0 < load < 1 and d >= 1.
    """
    require_load(load)
    require_count("d", d)

    def response_time_tail(t: float) -> float:
        if d == 1:
            return math.exp(-(1 - load) * t)
        # F / load = e^-t (1 - load^d (1 - e^(-(d-1) t)))^(-1/(d-1)): no power of a large number.
        return math.exp(-t) * math.pow(1 + load**d * math.expm1(-(d - 1) * t), -1 / (d - 1))

    mean = 1 / (1 - load) if d == 1 else float(quad(response_time_tail, 0, math.inf, epsabs=1e-13, limit=200)[0])
    return SteadyState(mean, response_time_tail=response_time_tail)
