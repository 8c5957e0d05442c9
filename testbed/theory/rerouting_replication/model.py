"""The model: pools, job types, sizes; what a policy does at a threshold; what the dispatcher knows of a job's type."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from numbers import Integral
from typing import Literal

import numpy as np
import numpy.typing as npt

from testbed.workload.distributions import Distribution

Floats = npt.NDArray[np.float64]
ROUNDING = 1e-9  # how far probabilities may be from summing to 1


@dataclass(frozen=True)
class Model:
    """Pools of servers, job types with a speed in each pool, and sizes.

    Args:
        pools: number of servers in each pool, n_i.
        types: probability of each job type, p_j, summing to 1.
        speeds: r_ij, one row per pool, one column per type; 0 where the type can't be served.
        size: distribution of the size X_i of a job in a pool, the same in every pool and for every type.
        dependence: "identical" (X_1 = X_2 = ...), "independent", or the probability theta that they are identical,
            being independent otherwise.

    Sequences and arrays become tuples. Raises ValueError for arguments that don't fit together.
    """

    pools: tuple[int, ...]
    types: tuple[float, ...]
    speeds: tuple[tuple[float, ...], ...]
    size: Distribution
    dependence: Literal["identical", "independent"] | float = "identical"

    def __post_init__(self) -> None:
        for name in ("pools", "types"):
            object.__setattr__(self, name, tuple(np.array(getattr(self, name)).tolist()))
        object.__setattr__(self, "speeds", tuple(tuple(np.array(row).tolist()) for row in self.speeds))
        if not self.pools or any(not _is_whole(n) or n < 1 for n in self.pools):
            raise ValueError(f"pools are {self.pools}; give the number of servers of each, a whole one of at least 1")
        require_probabilities("the types' probabilities", np.array(self.types, dtype=np.float64))
        r = self.speeds
        if len(r) != len(self.pools) or any(len(row) != len(self.types) for row in r):
            raise ValueError(f"speeds must have {len(self.pools)} rows (pools) of {len(self.types)} entries (types)")
        if any(not (math.isfinite(speed) and speed >= 0) for row in r for speed in row):
            raise ValueError(f"speeds are {r}; give finite numbers of at least 0")
        if not isinstance(self.size, Distribution):
            raise ValueError(f"size is {self.size!r}; give a distribution, such as Exponential(1.0)")
        if isinstance(self.dependence, str):
            if self.dependence not in ("identical", "independent"):
                raise ValueError(f"dependence is {self.dependence!r}; give 'identical', 'independent' or a probability")
        elif isinstance(self.dependence, bool) or not 0 <= self.dependence <= 1:
            raise ValueError(f"dependence is {self.dependence}; give a probability of identical sizes, from 0 to 1")

    @property
    def theta(self) -> float:
        """The probability that a job's sizes in the pools are identical; otherwise they are independent."""
        if isinstance(self.dependence, str):
            return 1.0 if self.dependence == "identical" else 0.0
        return float(self.dependence)

    @property
    def p(self) -> Floats:
        """The types' probabilities, shape (types,)."""
        return np.array(self.types, dtype=np.float64)

    @property
    def r(self) -> Floats:
        """The speeds, shape (pools, types)."""
        return np.array(self.speeds, dtype=np.float64)

    @property
    def n(self) -> Floats:
        """The numbers of servers, shape (pools,)."""
        return np.array(self.pools, dtype=np.float64)


#: Where a job goes at its threshold: to the next pool, to a random pool that it has not been in, or by a matrix of
#: probabilities, rows the pool it leaves and columns the pool it goes to.
Targets = Literal["cyclic", "random"] | tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Reroute:
    """At a threshold service stops, and the job starts afresh in another pool.

    Args:
        hops: most reroutings of a job; with more than one, thresholds can be given by starting pool and visit.
        targets: where to; with two pools all choices are the same. A matrix goes with one hop only.
        carry_over: the work done in the first pool counts in the second ("absolute work": c units done on any copy are
            done on all). One hop only.
    """

    hops: int = 1
    targets: Targets = "cyclic"
    carry_over: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _checked_targets(self.targets))
        if not _is_whole(self.hops) or self.hops < 1:
            raise ValueError(f"hops is {self.hops}; give a whole number of at least 1, or the policy ZeroRedundancy")
        if self.hops > 1 and (self.carry_over or not isinstance(self.targets, str)):
            raise ValueError("carry_over, and targets that are a matrix, are defined for one hop only")


@dataclass(frozen=True)
class Replicate:
    """At the threshold a copy starts in another pool and both run at once, until the first of them finishes.

    ``targets`` and ``carry_over`` as in Reroute. With more than two pools an effective load below 1 is necessary but
    not sufficient for stability: pairs of servers must be packed.
    """

    targets: Targets = "cyclic"
    carry_over: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "targets", _checked_targets(self.targets))


@dataclass(frozen=True)
class ZeroRedundancy:
    """No job ever leaves the pool to which it was assigned: thresholds are infinite."""


@dataclass(frozen=True)
class FullRedundancy:
    """Both copies start at once: replication with thresholds 0. Two pools only."""


@dataclass(frozen=True)
class KnownSizes:
    """The dispatcher knows a job's size in each of two pools, and moves the job right after possible completion times.

    Thresholds are whole numbers, by starting pool: after how many of the possible completion times x_i / r_ij the job
    is rerouted, or a copy started; as many as there are different speeds means never. For rerouting they may be
    sequences, one number per visit, each counting the completion times that are still possible then.
    """

    action: Literal["reroute", "replicate"] = "reroute"

    def __post_init__(self) -> None:
        if self.action not in ("reroute", "replicate"):
            raise ValueError(f"action is {self.action!r}; give 'reroute' or 'replicate'")


Policy = Reroute | Replicate | ZeroRedundancy | FullRedundancy | KnownSizes


@dataclass(frozen=True)
class Noisy:
    """The dispatcher sees the true type with probability q, else one of the others: q = 1 / types says nothing."""

    q: float


@dataclass(frozen=True)
class Revealed:
    """The dispatcher sees the type with probability phi, else nothing."""

    phi: float


#: A matrix has one row per type and one column per signal: Q_jk = P(signal k | type j).
Knowledge = Literal["nothing", "types"] | Noisy | Revealed | tuple[tuple[float, ...], ...] | Floats


def signal_matrix(knowledge: Knowledge, types: int) -> Floats:
    """Return Q_jk = P(the dispatcher gets signal k | the job is of type j), shape (types, signals).

    Raises ValueError for probabilities out of range.
    """
    if isinstance(knowledge, str):
        if knowledge == "nothing":
            return np.ones((types, 1))
        if knowledge == "types":
            return np.eye(types)
        raise ValueError(f"knowledge is {knowledge!r}; give 'nothing', 'types', Noisy, Revealed or a matrix")
    if isinstance(knowledge, Noisy):
        _require_probability("q", knowledge.q)
        others = (1 - knowledge.q) / max(types - 1, 1)
        return np.full((types, types), others) + np.eye(types) * (knowledge.q - others) if types > 1 else np.eye(1)
    if isinstance(knowledge, Revealed):
        _require_probability("phi", knowledge.phi)
        return np.hstack([knowledge.phi * np.eye(types), np.full((types, 1), 1 - knowledge.phi)])
    Q = np.array(knowledge, dtype=np.float64)
    if Q.ndim != 2 or len(Q) != types:
        raise ValueError(f"the signals' matrix must have {types} rows, one per type, but has shape {Q.shape}")
    for j, row in enumerate(Q):
        require_probabilities(f"the probabilities of the signals of type {j}", row)
    return Q


def checked_assignment(model: Model, assignment: npt.ArrayLike) -> Floats:
    """Return alpha_ij, shape (pools, types), from such a matrix, or from fractions of the pools that all types have.

    Raises ValueError unless each column sums to 1.
    """
    alpha = np.array(assignment, dtype=np.float64)
    shape = (len(model.pools), len(model.types))
    if alpha.shape == shape[:1]:
        alpha = np.repeat(alpha[:, None], shape[1], axis=1)
    if alpha.shape != shape:
        raise ValueError(f"an assignment has shape {shape} (pools, types) or {shape[:1]} (pools), not {alpha.shape}")
    for j, column in enumerate(alpha.T):
        require_probabilities(f"the assignment of type {j}", column)
    return alpha


def require_two_pools(model: Model, what: str) -> None:
    """Raise ValueError unless the model has two pools."""
    if len(model.pools) != 2:
        raise ValueError(f"{what} is defined for two pools, but the model has {len(model.pools)}")


def require_probabilities(what: str, values: Floats) -> None:
    """Raise ValueError unless the values are at least 0 and sum to 1."""
    if not len(values) or not (values >= 0).all() or abs(float(values.sum()) - 1) > ROUNDING:
        raise ValueError(f"{what} must be at least 0 and sum to 1, but are {values.tolist()}")


def require_policy(policy: object) -> None:
    """Raise ValueError for what is no policy."""
    if not isinstance(policy, Policy):
        raise ValueError(
            f"policy is {policy!r}; give Reroute(), Replicate(), ZeroRedundancy(), FullRedundancy() or KnownSizes()"
        )


def require_time(name: str, value: float) -> None:
    """Raise ValueError unless it is a time."""
    if not (math.isfinite(value) and value >= 0):
        raise ValueError(f"{name} is {value}; give a finite time of at least 0")


def require_path(model: Model, path: Sequence[int], job_type: int) -> None:
    """Raise ValueError unless ``path`` is a chain of distinct neighbours among the pools, and ``job_type`` a type."""
    pools, types = len(model.pools), len(model.types)
    if not all(_is_whole(q) and 0 <= q < pools for q in path) or any(a == b for a, b in pairwise(path)):
        raise ValueError(f"pools {tuple(path)} are no path: each is from 0 to {pools - 1}, and not the one before")
    if not (_is_whole(job_type) and 0 <= job_type < types):
        raise ValueError(f"job_type is {job_type}; give the index of a type, from 0 to {types - 1}")


def _is_whole(value: object) -> bool:
    return isinstance(value, Integral) and not isinstance(value, bool)


def _checked_targets(targets: Targets) -> Targets:
    if not isinstance(targets, str):
        return tuple(tuple(np.array(row, dtype=np.float64).tolist()) for row in targets)
    if targets not in ("cyclic", "random"):
        raise ValueError(f"targets are {targets!r}; give 'cyclic', 'random' or a matrix of probabilities")
    return targets


def _require_probability(name: str, value: float) -> None:
    if not 0 <= value <= 1:
        raise ValueError(f"{name} is {value}; give a probability, from 0 to 1")
