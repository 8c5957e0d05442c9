"""Known job sizes (section 4 of the paper; superscript KS): rational policies and their stability bound.

The dispatcher knows the sizes (x_1, x_2) but not the type, so a job can finish in pool i only after x_i / r_ij for some
j. Passing one of these instants rules a type out; nothing is learned in between. So a job moves, if at all, right after
such an instant ("rational rerouting", Definition 2), and for replication too only these instants and 0 can be best.
Instants come in the order of decreasing speeds, whatever the size: an option is described by a starting pool and how
many possible completion times are waited for, and the time it uses is linear in the sizes, or piecewise so.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.optimize import minimize_scalar

from testbed.theory.rerouting_replication.model import KnownSizes, Model, require_two_pools
from testbed.theory.rerouting_replication.size_moments import size_moments

Floats = npt.NDArray[np.float64]
KnownSizeThresholds = Sequence[int | Sequence[int]]


@dataclass(frozen=True)
class Option:
    """What to do with a job of known size.

    ``start`` is its first pool; ``waits[v]`` how many of the completion times that are possible on visit v are passed
    before the job moves on (or, for replication, a copy starts). The last entry of a rerouted job covers all that are
    left: there it stays.
    """

    start: int
    waits: tuple[int, ...]


def rational_reroutes(model: Model) -> Iterator[Option]:
    """Yield all rational rerouting options under which every job completes."""
    for start in (0, 1):
        for waits in _continuations(model, start, frozenset(range(len(model.types)))):
            yield Option(start, waits)


def replication_options(model: Model) -> Iterator[Option]:
    """Yield all options to start a copy at once, right after a possible completion time, or never."""
    for start in (0, 1):
        for m in range(len(_speeds(model, start, range(len(model.types)))) + 1):
            yield Option(start, (m,))


def reroute_factors(model: Model, option: Option) -> Floats:
    """Return C_jq, shape (types, pools): a type-j job uses the time C_jq x_q in pool q."""
    C = np.zeros((len(model.types), 2))
    left, q = list(range(len(model.types))), option.start
    for v, m in enumerate(option.waits):
        speeds = _speeds(model, q, left)
        last = v == len(option.waits) - 1
        until = speeds[m - 1] if 0 < m <= len(speeds) else np.inf
        for j in left:
            r = model.speeds[q][j]
            if last:
                C[j, q] += 1 / r if r > 0 else np.inf
            else:
                C[j, q] += 1 / max(r, until)
        left = [j for j in left if model.speeds[q][j] < until]
        q = 1 - q
    return C


def replication_phases(model: Model, option: Option, j: int) -> tuple[float, float, float]:
    """Return (before, rest, rival), per unit of size: the time alone, then min(rest x_s, rival x_o) in a pair.

    ``rest`` is 0 for a type that completes before, and ``rival`` is infinite if the other pool can't serve it.
    """
    start, m = option.start, option.waits[0]
    speeds = _speeds(model, start, range(len(model.types)))
    r, r_o = model.speeds[start][j], model.speeds[1 - start][j]
    y, rival = (1 / r if r > 0 else np.inf), (1 / r_o if r_o > 0 else np.inf)
    never = m == len(set(model.speeds[start]))
    wait = np.inf if never else (1 / speeds[m - 1] if m else 0.0)
    return min(y, wait), (y - wait if y > wait else 0.0), rival


def known_size_usage(model: Model, policy: KnownSizes, thresholds: KnownSizeThresholds | None) -> Floats:
    """Return D[s, j, q], the expected time in pool q of a type-j job that starts in pool s, shape (2, types, 2).

    ``thresholds`` are whole numbers of possible completion times, as KnownSizes says. Raises ValueError for others.
    """
    require_two_pools(model, "the policy with known sizes")
    mean = size_moments(model.size).mean
    D = np.zeros((2, len(model.types), 2))
    if thresholds is None or len(thresholds) != 2:
        raise ValueError("known sizes need two thresholds, one per starting pool: numbers of completion times")
    for s, waits in enumerate(thresholds):
        option = _named_option(model, policy, s, tuple(waits) if isinstance(waits, Sequence) else (waits,))
        for j in range(len(model.types)):
            if policy.action == "reroute":
                D[s, j] = reroute_factors(model, option)[j] * mean
            else:
                before, rest, rival = replication_phases(model, option, j)
                k = _mean_minimum(model, rest, rival)
                D[s, j, s], D[s, j, 1 - s] = before * mean + k, k
    return D


def known_size_cost(model: Model, policy: KnownSizes, signals: Floats) -> tuple[float, Floats]:
    """Return the least ``max_i E[B_i] / n_i`` per job over all size-aware assignments and moves, and the prices.

    A job of known sizes and signal takes the option that is cheapest when time in pool i has price w_i / n_i; by
    duality the least cost is the maximum over w in [0, 1] of the mean price of the cheapest options.
    """
    require_two_pools(model, "the policy with known sizes")
    weights = model.p[:, None] * signals
    table = OptionTable(model, policy)

    def value(w: float) -> float:
        return sum(table.mean_price(weights[:, k], w) for k in range(signals.shape[1]))

    # The value is concave in w. Where it has kinks, in the symmetric case at 1/2, a search ends a rounding error away.
    found = minimize_scalar(lambda w: -value(w), bounds=(0.0, 1.0), method="bounded", options={"xatol": 1e-13})
    candidates = [0.0, 0.5, 1.0, float(found.x)]
    if model.theta == 1:
        candidates += table.crossings(weights)
    best = max(candidates, key=value)
    return value(best), np.array([best, 1 - best]) / model.n


class OptionTable:
    """The price of every option as a function of z = x_2 / x_1, at x_1 = 1, for each signal and price of pools."""

    def __init__(self, model: Model, policy: KnownSizes) -> None:
        self.model = model
        reroute = policy.action == "reroute"
        self.options = list(rational_reroutes(model) if reroute else replication_options(model))
        types = range(len(model.types))
        self._phases: list[list[tuple[float, float, float]]] = []
        self._factors: list[Floats] = []
        # z at which an option's use bends: where a rest and its rival take equally long.
        self._kinks: set[float] = set()
        if reroute:
            self._factors = [reroute_factors(model, option) for option in self.options]
            return
        usable = []
        for option in self.options:
            phases = [replication_phases(model, option, j) for j in types]
            if all(np.isfinite(before) and (rest == 0 or min(rest, rival) < np.inf) for before, rest, rival in phases):
                usable.append(option)
                self._phases.append(phases)
                for _, rest, rival in phases:
                    if 0 < rest < np.inf and rival < np.inf:
                        self._kinks.add(rest / rival if option.start == 0 else rival / rest)
        self.options = usable

    def usage(self, weights: Floats, z: float) -> Floats:
        """Return the mean time of each option in each pool for sizes (1, z), shape (options, 2)."""
        sizes = np.array([1.0, z])
        if self._factors:
            return np.stack([weights @ C * sizes for C in self._factors])
        result = np.zeros((len(self.options), 2))
        for o, (option, phases) in enumerate(zip(self.options, self._phases, strict=True)):
            s = option.start
            for weight, (before, rest, rival) in zip(weights, phases, strict=True):
                if weight > 0:
                    # An infinite time takes no part in the minimum; times a size of 0 it would be nan.
                    k = min([f * x for f, x in ((rest, sizes[s]), (rival, sizes[1 - s])) if f < np.inf])
                    result[o] += weight * k
                    result[o, s] += weight * before * sizes[s]
        return result

    def mean_price(self, weights: Floats, w: float) -> float:
        """Return the mean over sizes of the least price w t_1 / n_1 + (1 - w) t_2 / n_2 over the options."""
        moments, theta = size_moments(self.model.size), self.model.theta
        prices = np.array([w, 1 - w]) / self.model.n
        result = 0.0
        if theta > 0:
            result += theta * moments.mean * float((self.usage(weights, 1.0) @ prices).min())
        if theta < 1:
            result += (1 - theta) * self._independent(weights, prices)
        return result

    def _independent(self, weights: Floats, prices: Floats) -> float:
        """Return the mean over independent sizes of the least price.

        The least price is x_1 phi(x_2 / x_1) with phi continuous and piecewise linear: phi(0) + sum of the changes of
        slope times (z - z_b)^+ over its bends z_b. And E[X_1 (X_2 / X_1 - z)^+] = E[X] - E[min(X_2, z X_1)].
        """
        moments = size_moments(self.model.size)
        edges = [0.0, *sorted(self._kinks)]
        edges.append(2 * edges[-1] + 1)  # beyond the last kink each option is one line
        bends = set(edges)
        for i, (left, right) in enumerate(itertools.pairwise(edges)):
            low, high = (self.usage(weights, z) @ prices for z in (left, right))
            slope = (high - low) / (right - left)
            with np.errstate(divide="ignore", invalid="ignore"):
                crossing = left - (low[:, None] - low) / (slope[:, None] - slope)
            end = np.inf if i == len(edges) - 2 else right
            bends.update(crossing[(crossing > left) & (crossing < end) & np.isfinite(crossing)].tolist())
        z = np.array(sorted(bends))
        z = np.append(z, 2 * z[-1] + 1)
        phi = np.array([float((self.usage(weights, x) @ prices).min()) for x in z])
        slopes = np.diff(phi) / np.diff(z)
        one, zero = np.ones(len(z) - 2), np.zeros(len(z) - 2)
        minimum = moments.joint(zero, one, zero, 1 / z[1:-1], 1) if len(one) else one
        return float(phi[0] * moments.mean + slopes[0] * moments.mean + np.diff(slopes) @ (moments.mean - minimum))

    def crossings(self, weights: Floats) -> list[float]:
        """Return the w in (0, 1) at which two options have the same price for some signal, at equal sizes."""
        found: list[float] = []
        for k in range(weights.shape[1]):
            cost = self.usage(weights[:, k], 1.0) / self.model.n
            gap = cost[:, None, :] - cost
            with np.errstate(divide="ignore", invalid="ignore"):
                w = (gap[..., 1] / (gap[..., 1] - gap[..., 0])).ravel()
            found += w[(w > 0) & (w < 1)].tolist()
        return found


def _speeds(model: Model, q: int, job_types: Sequence[int]) -> list[float]:
    """Return the positive speeds in pool q of the types ``job_types``, the fastest first, each once."""
    return sorted({model.speeds[q][j] for j in job_types} - {0.0}, reverse=True)


def _continuations(model: Model, q: int, left: frozenset[int]) -> Iterator[tuple[int, ...]]:
    speeds = _speeds(model, q, sorted(left))
    if all(model.speeds[q][j] > 0 for j in left):
        yield (len(speeds),)
    for m, until in enumerate(speeds, start=1):
        after = frozenset(j for j in left if model.speeds[q][j] < until)
        if after:
            for rest in _continuations(model, 1 - q, after):
                yield (m, *rest)


def _named_option(model: Model, policy: KnownSizes, start: int, waits: Sequence[int]) -> Option:
    """Return the option of a starting pool with its numbers of completion times; a job that is left over then stays."""
    left, q = list(range(len(model.types))), start
    least = 1 if policy.action == "reroute" else 0
    for m in waits:
        speeds = _speeds(model, q, left)
        if m not in range(least, len(speeds) + 1):
            raise ValueError(f"on pool {q} a job may wait for {least} to {len(speeds)} completion times, not {m}")
        left = [j for j in left if m == 0 or model.speeds[q][j] < speeds[int(m) - 1]]
        q = 1 - q
    if policy.action == "replicate" and len(waits) != 1:
        raise ValueError("a job is replicated once: give one number of completion times for each pool")
    if policy.action == "replicate" or not left:
        return Option(start, tuple(waits))
    return Option(start, (*waits, len(_speeds(model, q, left))))


def _mean_minimum(model: Model, rest: float, rival: float) -> float:
    """Return E[min(rest X_s, rival X_o)]."""
    moments = size_moments(model.size)
    if rest == 0:
        return 0.0
    if not np.isfinite([rest, rival]).all():
        return moments.mean * min(rest, rival)
    zero = np.zeros(())
    independent = float(moments.joint(zero, np.asarray(1 / rest), zero, np.asarray(1 / rival), 1))
    return model.theta * min(rest, rival) * moments.mean + (1 - model.theta) * independent
