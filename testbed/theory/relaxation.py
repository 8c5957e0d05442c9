"""How long queues remember the state in which they began."""

from __future__ import annotations

import math

from scipy.integrate import quad
from scipy.special import ndtr

from testbed.theory.cluster_model import ClusterModel
from testbed.theory.policy_theory import QueueOblivious


def queue_relaxation_time(load: float, arrival_dispersion: float, service_scv: float) -> float:
    """Return the relaxation time of a single-server queue, in mean service times.

    The distance from the steady state decays as exp(-t / relaxation time). In the M/M/1 queue this is
    1 / (1 - sqrt(load))^2 (Morse, Queues, Inventories and Maintenance, 1958; Cohen, The Single Server Queue, II.2.1).
    Other queues near saturation have it times (arrival_dispersion + service_scv) / 2, as the reflected Brownian motion
    they are then like. ``arrival_dispersion``: variance over mean of the arrivals in a long time; ``load`` in (0, 1).
    """
    return (arrival_dispersion + service_scv) / 2 / (1 - math.sqrt(load)) ** 2


def missing_fraction(time: float) -> float:
    """Return by what fraction the mean number in a queue that began empty is below that of the steady state.

    ``time``: since the empty start, in relaxation times. The formula is that of reflected Brownian motion, which queues
    near saturation are like: 2 (1 + s) (1 - Phi(sqrt(s))) - 2 sqrt(s) phi(sqrt(s)) with s = 2 time, since the
    relaxation time is 2 where drift and variance are 1. It is 1 at time 0, 0.057 at 1 and 0.0115 at 2.
    Abate and Whitt, Advances in Applied Probability 19 (1987), 560-598, Corollary 1.1.1.
    """
    s = 2 * time
    root = math.sqrt(s)
    density = math.exp(-s / 2) / math.sqrt(2 * math.pi)
    return max(0.0, 2 * (1 + s) * float(ndtr(-root)) - 2 * root * density)


def mean_missing_fraction(start: float, stop: float) -> float:
    """Return the mean of ``missing_fraction`` from ``start`` to ``stop``, in relaxation times; 0 <= start < stop."""
    # Beyond 20 relaxation times it is below 1e-10.
    last = min(stop, 20.0)
    return float(quad(missing_fraction, start, last)[0]) / (stop - start) if start < last else 0.0


def relaxation_time(
    model: ClusterModel, size_mean: float, size_second_moment: float, arrival_dispersion: float | None
) -> float | None:
    """Return the longest relaxation time of the cluster's servers, in time units, or None where it is not known.

    It is known for policies that look at no queue, where each server is a queue by itself: not for central queues.
    Random routing and static assignment thin the arrivals, which makes them more like a Poisson process, the more
    servers there are; round-robin gives a server every N-th of them, which evens them out. It is not known for jobs
    of several tasks, for servers that move tasks, at an overloaded server, and for sizes or gaps of infinite
    variance; servers with a finite buffer, which forget sooner, are left out.

    ``size_mean`` and ``size_second_moment``: of the sizes that arrive, in time units; ``arrival_dispersion``: as for
    ``queue_relaxation_time``, of the whole cluster; where it is None arrivals are taken for a Poisson process.
    """
    theory = model.theory
    if not isinstance(theory, QueueOblivious) or model.balance is not None or model.tasks.most > 1:
        return None
    if any(pool.central for pool in model.pools):
        return None
    dispersion = 1.0 if arrival_dispersion is None else arrival_dispersion
    times = []
    for pool, fraction, _ in theory.fractions(model):
        if pool.buffer is not None:
            continue
        mean = size_mean * pool.slowness
        scv = size_second_moment * sum(p / speed**2 for p, speed in pool.service.types) / mean**2 - 1
        at_server = theory.arrival_dispersion(fraction, dispersion)
        load = model.rate * fraction * mean
        if not (load < 1 and math.isfinite(at_server + scv)):
            return None
        times.append(mean * queue_relaxation_time(load, at_server, scv))
    return max(times, default=None)
