"""The largest arrival rate for which some assignment and thresholds keep the effective load of every pool below 1."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import linprog

from testbed.theory.rerouting_replication.known_sizes import known_size_cost
from testbed.theory.rerouting_replication.model import (
    FullRedundancy,
    Knowledge,
    KnownSizes,
    Model,
    Policy,
    Reroute,
    ZeroRedundancy,
    require_policy,
    signal_matrix,
)
from testbed.theory.rerouting_replication.search import (
    apart,
    coordinate_of,
    least,
    threshold_grid,
    threshold_of,
)
from testbed.theory.rerouting_replication.usage import usage_table

Floats = npt.NDArray[np.float64]

_FORBIDDEN = 1e150  # the cost of an assignment to a pool that can't serve the job
_EXACT = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}  # as small as allowed
_STARTS = 5  # local searches
#: Grid points per threshold, by the number of thresholds of one pool; five or more have 3.
_POINTS = {1: 41, 2: 15, 3: 8, 4: 5}


@dataclass(frozen=True)
class StabilityBound:
    """The bound, and where it is reached; other assignments and thresholds may reach it too.

    ``rate`` is in jobs per time unit. ``assignment`` is alpha_ij, shape (pools, types); ``thresholds`` has shape
    (pools, hops), by starting pool and visit. ``prices`` are what a time unit in each pool costs: at these prices no
    start is cheaper than those that the assignment uses. With known sizes both others are None, and a job takes the
    option that is cheapest for its own sizes; where two are equally cheap for many jobs, they are mixed.
    """

    rate: float
    assignment: Floats | None
    thresholds: Floats | None
    prices: Floats


def stability_bound(model: Model, policy: Policy, knowledge: Knowledge = "nothing") -> StabilityBound:
    """Return ``lam_max = 1 / min max_i E[B_i] / n_i``, over assignments and thresholds, with the maximiser.

    The assignment may use what the dispatcher knows of the type, the thresholds depend on the pool where the job
    started (and on the visit) only. For given thresholds the best assignment solves a linear programme. Two pools: its
    dual has one variable, and whole grids of thresholds are evaluated at once. With more than two pools a bound for
    replication is an upper bound, and the search is coarser.

    Args:
        model: the pools, types and sizes.
        policy: what happens at a threshold.
        knowledge: what the dispatcher knows of a job's type: "nothing", "types", Noisy(q), Revealed(phi), or a matrix
            with rows the types and columns the signals.

    Raises ValueError for arguments that don't fit together.
    """
    require_policy(policy)
    Q = signal_matrix(knowledge, len(model.types))
    if isinstance(policy, KnownSizes):
        cost, prices = known_size_cost(model, policy, Q)
        return StabilityBound(1 / cost, None, None, prices)
    tau = _best(model, policy, Q)
    costs = np.stack([_costs(model, policy, s, tau[s][None], Q)[0] for s in range(len(model.pools))])
    cost, beta, prices = _programme(costs)
    if len(costs) == 2:
        cost = float(dual_value(*costs))
    return StabilityBound(1 / cost if cost < _FORBIDDEN else 0.0, beta @ Q.T, tau, prices / model.n)


def _best(model: Model, policy: Policy, Q: Floats) -> Floats:
    """Return the best thresholds, shape (pools, hops)."""
    pools, hops = len(model.pools), policy.hops if isinstance(policy, Reroute) else 1
    if isinstance(policy, (ZeroRedundancy, FullRedundancy)):
        return np.full((pools, 1), np.inf if isinstance(policy, ZeroRedundancy) else 0.0)
    shape, mean = (pools, hops), model.size.mean

    def cost(z: Floats) -> float:
        tau = threshold_of(z.reshape(shape), mean)
        costs = [_costs(model, policy, s, tau[s][None], Q)[0] for s in range(pools)]
        return float(dual_value(*costs)) if pools == 2 else _programme(np.stack(costs))[0]

    starts = []
    if hops > 1:
        # Fewer reroutings are a special case. From there the search must leave infinity, where all is flat.
        fewer = _best(model, Reroute(hops - 1, policy.targets), Q) if isinstance(policy, Reroute) else np.empty(shape)
        starts = [coordinate_of(np.hstack([fewer, np.full((pools, 1), np.inf)]), mean).ravel()]
    # With tables of the costs by starting pool a grid in all thresholds is only a matter of combining them.
    grids = _grids(model, pools, hops)
    tables = [_costs(model, policy, s, grid, Q) for s, grid in enumerate(grids)]
    combinations = _pairs(tables) if pools == 2 else _tuples(tables)
    ranked = (
        coordinate_of(np.stack([grid[i] for grid, i in zip(grids, index, strict=True)]), mean).ravel()
        for _, index in sorted(combinations)
    )
    starts += apart(ranked, _STARTS)
    step = 0.5 / max(len(np.unique(grids[0][:, 0])), 2)
    return threshold_of(least(cost, starts, step)[1].reshape(shape), mean)


def _grids(model: Model, pools: int, hops: int) -> list[Floats]:
    """Return for each starting pool the thresholds to try first, shape (T, hops)."""
    points = _POINTS.get(hops, 3) if pools == 2 else max(int(500 ** (1 / (pools * hops))), 3)
    grids = []
    for s in range(pools):
        visits = [threshold_grid(model, (s + v) % pools, points) for v in range(hops)]
        grids.append(np.array(list(itertools.product(*visits))))
    return grids


def _costs(model: Model, policy: Policy, start: int, times: Floats, Q: Floats) -> Floats:
    """Return the mean time per job that signal-k jobs from ``start`` use of a server in each pool, (T, signals, pools).

    Prohibitive where a type that sends this signal can't be served.
    """
    D = usage_table(model, policy, start, times, squares=False).time / model.n
    weights = model.p[:, None] * Q
    impossible = np.isinf(D).any(axis=2) @ (weights > 0)
    costs = np.einsum("jk,tjq->tkq", weights, np.where(np.isinf(D), 0.0, D))
    return np.where(impossible[..., None], _FORBIDDEN, costs)


def dual_value(first: Floats, second: Floats) -> Floats:
    """Return ``max over w of sum_k min_s (w cost[s, k, 1] + (1 - w) cost[s, k, 2])``, the least of the larger load.

    ``first`` and ``second`` are the costs of starting in either pool, shape (..., signals, 2), broadcast. The maximum
    is at 0, at 1, or where the two starts of some signal cost the same.
    """
    gap = first - second
    slope = gap[..., 1] - gap[..., 0]
    tie = np.clip(gap[..., 1] / np.where(slope == 0, 1.0, slope), 0.0, 1.0)
    ends = np.broadcast_to([0.0, 1.0], (*tie.shape[:-1], 2))
    w = np.concatenate([ends, tie], axis=-1)[..., None]

    def price(cost: Floats) -> Floats:
        return np.asarray(w * cost[..., None, :, 0] + (1 - w) * cost[..., None, :, 1])

    return np.asarray(np.minimum(price(first), price(second)).sum(axis=-1).max(axis=-1))


def _pairs(tables: list[Floats]) -> list[tuple[float, tuple[int, ...]]]:
    """Return (cost, indices) of the best combinations of two starting pools' thresholds."""
    first, second = tables
    best = []
    for i, row in enumerate(first):
        values = dual_value(row, second)
        # A few of each row are enough to find all minima that are apart.
        for j in np.argsort(values, kind="stable")[:8]:
            best.append((float(values[j]), (i, int(j))))
    return heapq.nsmallest(2000, best)


def _tuples(tables: list[Floats]) -> list[tuple[float, tuple[int, ...]]]:
    """Return (cost, indices) of all combinations of the starting pools' thresholds."""

    def each() -> Iterator[tuple[float, tuple[int, ...]]]:
        for index in itertools.product(*(range(len(table)) for table in tables)):
            yield _programme(np.stack([table[i] for table, i in zip(tables, index, strict=True)]))[0], index

    return list(each())


def _programme(costs: Floats) -> tuple[float, Floats, Floats]:
    """Return (least largest load per unit of rate, beta[s, k], prices) for costs[s, k, q], as a linear programme."""
    pools, signals, _ = costs.shape
    forbidden = costs[:, :, 0] >= _FORBIDDEN
    if forbidden.all(axis=0).any():
        return _FORBIDDEN, np.full((pools, signals), 1 / pools), np.full(pools, 1 / pools)
    allowed = np.where(forbidden[..., None], 0.0, costs).reshape(pools * signals, pools)
    scale = float(allowed.max())
    load = np.hstack([allowed.T / scale, -np.ones((pools, 1))])
    fractions = np.hstack([np.tile(np.eye(signals), pools), np.zeros((signals, 1))])
    bounds = [(0.0, 0.0 if no else 1.0) for no in forbidden.ravel()] + [(None, None)]
    target = np.append(np.zeros(pools * signals), 1.0)
    solution = linprog(target, load, np.zeros(pools), fractions, np.ones(signals), bounds, options=_EXACT)
    beta = np.clip(solution.x[:-1].reshape(pools, signals), 0.0, 1.0)
    beta /= beta.sum(axis=0)
    # The largest load of this very assignment: the solver's own value may be off by its tolerance.
    value = np.einsum("sk,skq->q", beta, np.where(forbidden[..., None], 0.0, costs)).max()
    return float(value), beta, np.abs(solution.ineqlin.marginals)
