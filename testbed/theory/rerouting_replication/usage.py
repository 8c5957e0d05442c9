"""The processing time that a job uses in each pool, by where it starts and its type; and what it does to the queues."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from testbed.theory.rerouting_replication.model import (
    FullRedundancy,
    Model,
    Policy,
    Replicate,
    Reroute,
    ZeroRedundancy,
    require_probabilities,
    require_two_pools,
)
from testbed.theory.rerouting_replication.one_job import Visit, joint_phase, reroute_visits

Floats = npt.NDArray[np.float64]


@dataclass
class Usage:
    """Expectations for a job that starts in one pool, by type j and pool q; T sets of thresholds at a time.

    ``time`` and ``square`` are moments of the service of a visit to a server of pool q, summed over visits. Under
    replication a stay at the first server, alone and then in a pair, is one visit. ``held`` and ``held_square`` are
    moments of the time until the server hears what comes next, which are the same without a lag.
    """

    time: Floats  # D[j, q], shape (T, types, pools)
    square: Floats
    held: Floats
    held_square: Floats
    visits: Floats  # to servers of pool q
    waits: Floats  # of them those that begin with a wait in queue q: not those of a copy, which pre-empts
    elapsed: Floats  # processing time until the job is done, shape (T, types)
    alone: Floats  # of it, before the threshold
    paired: Floats  # of it, in a pair

    @classmethod
    def zero(cls, T: int, types: int, pools: int) -> Usage:
        """Return the usage of a job that does nothing."""
        by_pool = (np.zeros((T, types, pools)) for _ in range(6))
        by_type = (np.zeros((T, types)) for _ in range(3))
        return cls(*by_pool, *by_type)

    def take(self, index: npt.NDArray[np.intp]) -> Usage:
        """Return the usages at some sets of thresholds."""
        return Usage(*(getattr(self, field.name)[index] for field in fields(self)))


def threshold_policy(model: Model, policy: Policy) -> Reroute | Replicate:
    """Return the policy with thresholds that behaves like ``policy``; ValueError where the policy needs other data."""
    if isinstance(policy, (Reroute, Replicate)):
        return policy
    if isinstance(policy, ZeroRedundancy):
        return Reroute()
    if isinstance(policy, FullRedundancy):
        require_two_pools(model, "full redundancy")
        return Replicate()
    raise ValueError("thresholds of known sizes depend on the size: this is not defined for the policy KnownSizes")


def start_thresholds(model: Model, policy: Policy, thresholds: npt.ArrayLike | None) -> Floats:
    """Return the thresholds as an array (pools,) by pool, or (pools, hops) by starting pool and visit.

    Zero and full redundancy have their own and need none. Raises ValueError for a wrong shape or negative values.
    """
    pools = len(model.pools)
    if isinstance(policy, ZeroRedundancy):
        return np.full(pools, np.inf)
    if isinstance(policy, FullRedundancy):
        return np.zeros(pools)
    if thresholds is None:
        raise ValueError(f"the policy {policy} needs thresholds")
    tau = np.array(thresholds, dtype=np.float64)
    hops = policy.hops if isinstance(policy, Reroute) else 1
    if tau.shape not in ((pools,), (pools, hops)):
        raise ValueError(f"thresholds must have shape ({pools},), or ({pools}, {hops}), but have {tau.shape}")
    if not (tau >= 0).all():
        raise ValueError(f"thresholds must be at least 0 (or inf), but are {tau.tolist()}")
    return tau


def usages(model: Model, policy: Policy, thresholds: npt.ArrayLike | None, lag: float = 0.0) -> list[Usage]:
    """Return the usage by starting pool, for one set of thresholds (T = 1).

    Thresholds of shape (pools,) belong to the pool that is visited, of shape (pools, hops) to the start and visit.
    ``lag`` is the time until a server acts on what happens on another or on itself, by way of who decides: a replica
    starts so much after the threshold, a loser goes on for so much after the winner is done, and a server waits for so
    much until it hears what comes next.
    """
    tau = start_thresholds(model, policy, thresholds)
    threshold = threshold_policy(model, policy)
    if isinstance(threshold, Reroute) and threshold.targets == "random" and threshold.hops > 1 and tau.ndim == 1:
        return [_sum_over_visited(model, threshold, s, tau, lag) for s in range(len(model.pools))]
    return [
        _sum_of_paths(
            model,
            threshold,
            s,
            lambda path: tau[list(path[:-1])][None] if tau.ndim == 1 else tau[path[0]][None],
            squares=True,
            lag=lag,
        )
        for s in range(len(model.pools))
    ]


def usage_table(model: Model, policy: Policy, start: int, times: Floats, *, squares: bool = True) -> Usage:
    """Return the usage of jobs that start in pool ``start`` for T sets of thresholds, shape (T, hops), by visit.

    Without ``squares`` second moments are nan.
    """
    return _sum_of_paths(model, threshold_policy(model, policy), start, lambda path: times, squares=squares)


def _sum_of_paths(
    model: Model,
    policy: Reroute | Replicate,
    start: int,
    times: Callable[[tuple[int, ...]], Floats],
    *,
    squares: bool,
    lag: float = 0.0,
) -> Usage:
    """Return the mean usage over the paths of a job from ``start``; ``times`` gives a path's thresholds, (T, hops)."""
    total: Usage | None = None
    for weight, path in paths(model, policy, start):
        tau = times(path)
        if total is None:
            total = Usage.zero(len(tau), len(model.types), len(model.pools))
        for j in range(len(model.types)):
            if isinstance(policy, Reroute):
                _add_reroute(total, model, policy, j, path, tau, weight, squares=squares, lag=lag)
            else:
                _add_replicate(total, model, policy, j, path, tau[:, 0], weight, squares=squares, lag=lag)
    assert total is not None
    return total


def _sum_over_visited(model: Model, policy: Reroute, start: int, tau: Floats, lag: float) -> Usage:
    """Return the usage of a job from ``start`` that goes to random pools where it has not been; tau by pool.

    What a visit takes depends on the set of the pools that were visited before, and not on their order: the number of
    sets grows like 2^pools, that of orders like the factorial.
    """
    pools = len(model.pools)
    if pools == 2:
        return _sum_of_paths(model, policy, start, lambda path: tau[list(path[:-1])][None], squares=True, lag=lag)
    _require_unvisited(policy.hops, pools)
    others = [q for q in range(pools) if q != start]
    total = Usage.zero(1, len(model.types), pools)
    for hop in range(policy.hops + 1):
        for path in [(start,)] if hop == 0 else _last_steps(start, others, hop):
            weight = 1.0 if hop == 0 else 1 / (math.comb(len(others), hop - 1) * (len(others) - hop + 1))
            times = tau[list(path)][None]
            if hop == policy.hops:
                times[0, -1] = np.inf
            for j in range(len(model.types)):
                visit = reroute_visits(model, j, path, times)[-1]
                _add_visit(total, j, visit, weight, lag, first=hop == 0)
    return total


def _last_steps(start: int, others: list[int], hop: int) -> Iterator[tuple[int, ...]]:
    """Yield the start, each set of pools visited before the ``hop``-th rerouting, and each pool that it may go to."""
    for before in itertools.combinations(others, hop - 1):
        for q in others:
            if q not in before:
                yield (start, *before, q)


def paths(model: Model, policy: Reroute | Replicate, start: int) -> Iterator[tuple[float, tuple[int, ...]]]:
    """Yield (probability, pools visited) for a job that starts in pool ``start`` and passes all its thresholds."""
    pools = len(model.pools)
    hops = policy.hops if isinstance(policy, Reroute) else 1
    if pools == 1:
        raise ValueError("a job can't move in a model with one pool: add a pool")
    if not isinstance(policy.targets, str):
        R = np.array(policy.targets, dtype=np.float64)
        if R.shape != (pools, pools) or R.diagonal().any():
            raise ValueError(f"targets must be a {pools} x {pools} matrix with zeros on its diagonal")
        require_probabilities(f"targets of pool {start}", R[start])
        for q in np.flatnonzero(R[start]):
            yield float(R[start, q]), (start, int(q))
    elif policy.targets == "cyclic" or pools == 2:
        yield 1.0, tuple((start + v) % pools for v in range(hops + 1))
    else:
        _require_unvisited(hops, pools)
        orders = list(itertools.permutations([q for q in range(pools) if q != start], hops))
        for order in orders:
            yield 1 / len(orders), (start, *order)


def _require_unvisited(hops: int, pools: int) -> None:
    if hops >= pools:
        raise ValueError(f"random targets are pools not yet visited: hops is {hops}, but at most {pools - 1}")


def _add_reroute(
    total: Usage,
    model: Model,
    policy: Reroute,
    j: int,
    path: tuple[int, ...],
    tau: Floats,
    weight: float,
    *,
    squares: bool,
    lag: float,
) -> None:
    times = np.concatenate([tau, np.full((len(tau), 1), np.inf)], axis=1)
    for v, visit in enumerate(reroute_visits(model, j, path, times, carry_over=policy.carry_over, squares=squares)):
        _add_visit(total, j, visit, weight, lag, first=v == 0)


def _add_visit(total: Usage, j: int, visit: Visit, weight: float, lag: float, *, first: bool) -> None:
    total.time[:, j, visit.pool] += weight * visit.mean
    total.square[:, j, visit.pool] += weight * visit.second
    held, held2 = _longer(visit.mean, visit.second, visit.probability, lag)
    total.held[:, j, visit.pool] += weight * held
    total.held_square[:, j, visit.pool] += weight * held2
    total.visits[:, j, visit.pool] += weight * visit.probability
    total.waits[:, j, visit.pool] += weight * visit.probability
    total.elapsed[:, j] += weight * visit.mean
    if first:
        total.alone[:, j] += weight * visit.mean


def _add_replicate(
    total: Usage,
    model: Model,
    policy: Replicate,
    j: int,
    path: tuple[int, ...],
    tau: Floats,
    weight: float,
    *,
    squares: bool,
    lag: float,
) -> None:
    """Add a job that is replicated from the first pool of the path to the second.

    With R still to do at the threshold and a replica of Y that starts ``lag`` later, the job is done after min(R, Y +
    lag), as if its threshold were later by that. Of a replica's end the original hears ``lag`` afterwards: it gets
    min(R, Y + 2 lag). The replica gets min(R, Y), for it is stopped as late as it began. Copies that start together
    (tau = 0) only stop late. A loser's server hears with the word to stop what comes next, so that both servers are
    held until ``lag`` after the job is done. Where work is carried over a lag is counted roughly.
    """
    start, other = path
    first = _stay(model, policy, j, start, other, tau, squares=squares)
    done, own = first, first
    theirs = held_there = np.stack([first.joint, first.joint2])
    if lag:
        at_once = tau == 0
        shift = np.where(at_once, 0.0, lag)
        done = _stay(model, policy, j, start, other, tau + shift, squares=squares)
        own = _stay(model, policy, j, start, other, tau + shift + lag, squares=squares)
        back = _stay(model, policy, j, other, start, np.full_like(tau, lag), squares=squares)
        theirs = np.where(at_once, (back.mean, back.second), theirs)
        # From a replica's start until lag after the job is done: as long as from the threshold until it is done.
        moves = first.crossed > 0
        wait = np.where(moves, done.alone, 0.0) - np.where(moves, first.alone, 0.0)
        wait2 = np.where(moves, done.alone2 - first.alone2, 0.0) - 2 * np.where(moves, tau, 0.0) * wait
        later = wait + done.joint, wait2 + 2 * lag * done.joint + done.joint2
        held_there = np.where(at_once, _longer(done.joint, done.joint2, first.crossed, lag), later)
    held, held2 = _longer(done.mean, done.second, np.ones_like(tau), lag)
    total.time[:, j, start] += weight * own.mean
    total.time[:, j, other] += weight * theirs[0]
    total.square[:, j, start] += weight * own.second
    total.square[:, j, other] += weight * theirs[1]
    total.held[:, j, start] += weight * held
    total.held_square[:, j, start] += weight * held2
    total.held[:, j, other] += weight * held_there[0]
    total.held_square[:, j, other] += weight * held_there[1]
    total.visits[:, j, start] += weight
    total.visits[:, j, other] += weight * first.crossed
    total.waits[:, j, start] += weight
    total.elapsed[:, j] += weight * done.mean
    total.alone[:, j] += weight * first.alone
    total.paired[:, j] += weight * first.joint


def _longer(mean: Floats, second: Floats, probability: Floats, lag: float) -> tuple[Floats, Floats]:
    """Return the moments of a time that comes with a probability, ``lag`` longer."""
    return (mean + lag * probability, second + 2 * lag * mean + lag**2 * probability) if lag else (mean, second)


class _Stay(NamedTuple):
    """A job at its first server, whose replica begins when it has received ``tau``: until either copy is done."""

    alone: Floats  # moments of the time until tau, or until it is done
    alone2: Floats
    joint: Floats  # and of the time in a pair
    joint2: Floats
    crossed: Floats  # the probability that it comes to that
    mean: Floats  # of both together; the stay is one service, hence the cross term 2 tau k in the second moment
    second: Floats


def _stay(model: Model, policy: Replicate, j: int, start: int, other: int, tau: Floats, *, squares: bool) -> _Stay:
    times = np.stack([tau, np.full_like(tau, np.inf)], axis=1)
    first, beyond = reroute_visits(model, j, (start, other), times, squares=squares)
    k, k2 = joint_phase(model, start, other, j, tau, carry_over=policy.carry_over, squares=squares)
    cross = 2 * np.where(np.isinf(tau), 0.0, tau) * k
    return _Stay(first.mean, first.second, k, k2, beyond.probability, first.mean + k, first.second + cross + k2)
