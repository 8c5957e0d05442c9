"""Approximations of the mean latency (section 6 of the paper), and the thresholds that make it least.

Each pool is taken for an M/G/1 queue, with the traffic from other pools as if it were Poisson. That is exact without
redundancy, and on the whole for full redundancy. Elsewhere it is an approximation: rerouting with thresholds below the
mean size is badly underestimated, since rerouted jobs come in bunches, and replication by about a tenth, since copies
pre-empt. Compare a system with a simulation of its rules, and show the formula beside it.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from scipy.special import gammaln, pdtr

from testbed.theory.rerouting_replication.load import expected
from testbed.theory.rerouting_replication.model import (
    FullRedundancy,
    Knowledge,
    KnownSizes,
    Model,
    Policy,
    Replicate,
    Reroute,
    ZeroRedundancy,
    checked_assignment,
    require_policy,
    require_time,
    require_two_pools,
    signal_matrix,
)
from testbed.theory.rerouting_replication.rerouting_stability import stability_bound
from testbed.theory.rerouting_replication.search import (
    apart,
    coordinate_of,
    least,
    threshold_grid,
    threshold_of,
)
from testbed.theory.rerouting_replication.usage import Usage, usage_table, usages

Floats = npt.NDArray[np.float64]

#: "pollaczek-khinchine": the paper's, for pools of one server. "several-servers": a two-moment formula for M/G/n, the
#: same for n = 1, in which pairs wait for the servers of the smaller of two unequal pools. "stretched": a heuristic for
#: replication between two single servers, in which unreplicated service is stretched by the copies that pre-empt it; it
#: errs mostly high where the first errs low.
Approximation = Literal["pollaczek-khinchine", "several-servers", "stretched"]

_UNSTABLE = 1e300  # an objective for the search, which needs finite numbers
_STARTS = 4


@dataclass(frozen=True)
class MeanLatency:
    """Mean latencies in time units, infinite where a pool's effective load is 1 or more.

    ``by_pool`` is conditional on the pool where a job starts, shape (pools,), nan where none does; ``waiting`` is the
    mean wait E[W_i] in each pool's queue.
    """

    overall: float
    by_pool: Floats
    waiting: Floats


@dataclass(frozen=True)
class BestThresholds:
    """The least mean latency that was found, and where: thresholds (pools, hops), assignment (pools, types)."""

    latency: float
    thresholds: Floats
    assignment: Floats


def mean_latency(
    model: Model,
    policy: Policy,
    assignment: npt.ArrayLike,
    thresholds: npt.ArrayLike | None = None,
    rate: float = math.nan,
    *,
    approximation: Approximation = "pollaczek-khinchine",
    handover: float = 0.0,
) -> MeanLatency:
    """Return the approximate mean time from arrival to departure, by starting pool and overall.

    The Pollaczek-Khinchine mean wait is ``rate M2_i / (2 (1 - rho_i))`` with M2_i the second moments of all services
    that a job gets in pool i; under replication the stay of a job at its first server is one service, so that M2 has a
    cross term 2 tau k. Infinite where E[X^2] is needed and infinite. Beyond the paper it is used in the same way for
    more reroutings, more pools and work carried over.

    Args:
        model: the pools, types and sizes.
        policy: what happens at a threshold; not KnownSizes.
        assignment: alpha_ij, shape (pools, types) or (pools,).
        thresholds: as in service_requirement.
        rate: arrivals per time unit of the whole system, Poisson; needed, though thresholds before it may be left out.
        approximation: see Approximation.
        handover: time that a server is taken at each visit beyond the service, until it hears what comes next: others
            wait for it, the job itself does not. A replica starts, and a loser stops, later by as much.

    Raises ValueError for arguments that don't fit, and for an approximation that is not made for the model.
    """
    require_approximation(model, policy, rate, approximation)
    require_time("handover", handover)
    alpha = checked_assignment(model, assignment)
    tables = usages(model, policy, thresholds, lag=handover)
    overall, by_pool, waiting = _latency(model, tables, alpha, rate, approximation)
    return MeanLatency(float(overall[0]), by_pool[0], waiting[0])


def best_thresholds(
    model: Model,
    policy: Policy,
    rate: float,
    knowledge: Knowledge = "nothing",
    *,
    assignment: npt.ArrayLike | None = None,
    approximation: Approximation = "pollaczek-khinchine",
) -> BestThresholds:
    """Return the thresholds, and the assignment unless it is given, with the least mean latency by ``approximation``.

    Beware that the default underestimates rerouting with small thresholds, and so may prefer them.
    Arguments as in mean_latency and stability_bound. Raises ValueError if no thresholds give a finite mean latency.
    """
    require_approximation(model, policy, rate, approximation)
    pools, mean = len(model.pools), model.size.mean
    Q = signal_matrix(knowledge, len(model.types))
    fixed = None if assignment is None else checked_assignment(model, assignment)
    hops = policy.hops if isinstance(policy, Reroute) else 1
    fixed_tau = isinstance(policy, (ZeroRedundancy, FullRedundancy))
    dimensions = 0 if fixed_tau else pools * hops

    def thresholds_at(x: Floats) -> Floats:
        if fixed_tau:
            return np.full((pools, 1), 0.0 if isinstance(policy, FullRedundancy) else np.inf)
        return threshold_of(x[:dimensions].reshape(pools, hops), mean)

    def assignment_at(x: Floats) -> Floats:
        return fixed if fixed is not None else _shares(x[dimensions:].reshape(pools - 1, Q.shape[1])) @ Q.T

    def objective(x: Floats) -> float:
        tau = thresholds_at(x)
        tables = [usage_table(model, policy, s, tau[s][None]) for s in range(pools)]
        value = float(_latency(model, tables, assignment_at(x), rate, approximation)[0][0])
        return value if math.isfinite(value) else _UNSTABLE

    # The thresholds on a grid, combined with a few assignments and with that of the stability bound, which is feasible
    # if any is.
    free = 0 if fixed is not None else (pools - 1) * Q.shape[1]
    bound = stability_bound(model, policy, knowledge)
    assert bound.assignment is not None
    assert bound.thresholds is not None
    corner = coordinate_of(bound.thresholds, mean).ravel()[:dimensions]
    fractions = _fractions(free)
    candidates = [np.concatenate([corner, fraction]) for fraction in fractions]
    scored = [(objective(x), tuple(x)) for x in candidates]
    if dimensions:
        points = max(int(900 ** (1 / dimensions)), 3)
        by_pool = [_visit_grid(model, s, hops, points) for s in range(pools)]
        index = np.array(list(itertools.product(*(range(len(grid)) for grid in by_pool))))
        tables = [usage_table(model, policy, s, grid).take(index[:, s]) for s, grid in enumerate(by_pool)]
        z = np.hstack([coordinate_of(grid, mean)[index[:, s]] for s, grid in enumerate(by_pool)])
        for fraction in fractions:
            alpha = assignment_at(np.concatenate([z[0], fraction]))
            values = _latency(model, tables, alpha, rate, approximation)[0]
            for i in np.argsort(values, kind="stable")[:100]:
                scored.append((float(values[i]), (*z[i], *fraction)))
    starts = apart((np.array(x) for value, x in sorted(scored) if value < _UNSTABLE), _STARTS)
    if not starts:
        raise ValueError(
            f"no thresholds were found for which the approximation is finite at rate {rate}: "
            f"the stability bound is {bound.rate:.6g}, and sizes may need a finite second moment"
        )
    latency, x = least(objective, starts, 0.02)
    return BestThresholds(latency, thresholds_at(x), assignment_at(x))


def require_approximation(model: Model, policy: Policy, rate: float, approximation: Approximation) -> None:
    """Raise ValueError for a rate that is none, and for an approximation that is not made for model and policy."""
    require_policy(policy)
    if isinstance(policy, KnownSizes):
        raise ValueError("there is no formula for the latency with known sizes: thresholds depend on the size")
    if not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"rate is {rate}; give a finite number of jobs per time unit, above 0")
    single = all(n == 1 for n in model.pools)
    if approximation == "pollaczek-khinchine":
        if not single:
            raise ValueError("this approximation is for pools of one server: give approximation='several-servers'")
    elif approximation == "stretched":
        require_two_pools(model, "the approximation 'stretched'")
        if not single or not isinstance(policy, (Replicate, FullRedundancy)):
            raise ValueError("the approximation 'stretched' is for replication between two pools of one server")
    elif approximation != "several-servers":
        raise ValueError(f"there is no approximation {approximation!r}")


def _latency(
    model: Model,
    tables: list[Usage],
    alpha: Floats,
    rate: float,
    approximation: Approximation,
) -> tuple[Floats, Floats, Floats]:
    """Return the mean latency (T,), by starting pool (T, pools), and the mean waits (T, pools)."""
    weights = alpha * model.p
    fraction = weights.sum(axis=1)
    held, held_square = (
        expected(weights, np.stack([np.moveaxis(getattr(table, name), 1, 0) for table in tables]))
        for name in ("held", "held_square")
    )
    waiting = mean_wait(model.n, rate, held, held_square)
    by_pool = np.full((len(held), len(model.pools)), np.nan)
    for s, table in enumerate(tables):
        if fraction[s] == 0:
            continue
        own = weights[s] / fraction[s]
        waits = np.einsum("j,tjq->tq", own, table.waits)
        waited = np.where(waits > 0, waits * np.where(waits > 0, waiting, 0.0), 0.0).sum(axis=1)
        elapsed = np.where(own > 0, table.elapsed, 0.0) @ own
        by_pool[:, s] = waited + elapsed
    if len(tables) == 2 and model.pools[0] != model.pools[1]:
        _wait_as_pairs(model, tables, weights, rate, by_pool)
    if approximation == "stretched":
        by_pool = _stretched(rate, tables, weights, by_pool, waiting)
    used = fraction > 0
    return by_pool[:, used] @ fraction[used], by_pool, waiting


def _wait_as_pairs(model: Model, tables: list[Usage], weights: Floats, rate: float, by_pool: Floats) -> None:
    """Add to the latencies what jobs from the larger of two pools wait, once they cross, for a server of the other.

    Both copies start at once, and take precedence over everything but other pairs. In the smaller pool pairs are then
    an M/G/n queue of their own. A job that starts there never waits as a pair: its own server is in none, so that there
    are fewer pairs than the other pool has servers. At tau = 0 every job is a pair, and this is the whole system.
    """
    small, large = sorted(range(2), key=model.pools.__getitem__)
    if not weights[large].any():
        return
    # What a replica takes of its server is what its pair takes.
    pairs = [(table, 1 - s, weights[s]) for s, table in enumerate(tables)]
    held = sum(table.held[:, :, other] @ w for table, other, w in pairs)
    square = sum(table.held_square[:, :, other] @ w for table, other, w in pairs)
    wait = mean_wait(model.n[[small]], rate, held[:, None], square[:, None])[:, 0]
    crossing = tables[large].visits[:, :, small] @ weights[large] / weights[large].sum()
    by_pool[:, large] += np.where(crossing > 0, crossing * np.where(crossing > 0, wait, 0.0), 0.0)


def mean_wait(n: Floats, rate: float, time: Floats, square: Floats) -> Floats:
    """Return E[W_i] in M/G/n queues, shape (T, pools): ``C(n, rate E[B]) / (n (1 - rho)) E[S^2] / (2 E[S])``.

    C is Erlang's delay probability and S a service; for n = 1 that is the Pollaczek-Khinchine formula. ``time`` and
    ``square`` are sums over the services of a job, so that E[S^2] / E[S] is their quotient.
    """
    offered = rate * time
    stable = offered < n
    load = np.where(stable & (offered > 0), offered, 0.5 * n)
    # Erlang's loss probability: a Poisson variable that is n, given that it is at most n.
    loss = np.exp(n * np.log(load) - load - gammaln(n + 1)) / pdtr(n, load)
    delay = loss / (1 - load / n * (1 - loss))
    waits = delay / (n - load) * square / np.where(time > 0, 2 * np.where(stable, time, 1.0), 1.0)
    return np.where(stable, np.where(time > 0, waits, 0.0), np.inf)


def _stretched(rate: float, tables: list[Usage], weights: Floats, by_pool: Floats, waiting: Floats) -> Floats:
    alone, paired = (
        np.stack([getattr(table, name) @ w for table, w in zip(tables, weights, strict=True)], axis=1)
        for name in ("alone", "paired")
    )
    pairs = paired.sum(axis=1, keepdims=True)
    stable = np.isfinite(waiting).all(axis=1, keepdims=True) & (rate * pairs < 1)
    # Pre-emptions of a server, in joint-phase time per unit of its own unreplicated work.
    g = rate * paired[:, ::-1] / np.where(stable, 1 - rate * pairs, 1.0)
    total = alone + pairs
    waited = np.where(stable, waiting, 0.0) * (1 + g * alone / np.where(total > 0, total, 1.0))
    with np.errstate(invalid="ignore", divide="ignore"):
        result = waited + ((1 + g) * alone + paired) / weights.sum(axis=1)
    return np.where(np.isnan(by_pool), np.nan, np.where(stable, result, np.inf))


def _visit_grid(model: Model, start: int, hops: int, points: int) -> Floats:
    visits = [threshold_grid(model, (start + v) % len(model.pools), points) for v in range(hops)]
    return np.array(list(itertools.product(*visits)))


def _fractions(dimensions: int) -> list[Floats]:
    """Return a grid on [0, 1]^dimensions of at most about 30 points; one point of no dimension."""
    points = max(int(30 ** (1 / max(dimensions, 1))), 2)
    return [np.array(x) for x in itertools.product(np.linspace(0.0, 1.0, min(points, 11)), repeat=dimensions)]


def _shares(x: Floats) -> Floats:
    """Return probabilities of the pools, shape (pools, signals), by breaking a stick: x[i] of what is left is i's."""
    left = np.vstack([np.ones(x.shape[1]), np.cumprod(1 - x, axis=0)])
    return np.vstack([x, np.ones(x.shape[1])]) * left
