"""The mean field and its 1/N correction against Markov chains that are built and solved here, state by state."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from scipy.linalg import solve_continuous_lyapunov
from scipy.sparse import coo_array, csr_array
from scipy.sparse.linalg import spsolve

from testbed.theory.stealing_sharing import mean_field
from testbed.workload.distributions import Erlang, Exponential, Hyperexponential, Hypoexponential, PhaseType
from testbed.workload.phase_type import PhaseTypeDistribution

Floats = npt.NDArray[np.float64]
GENERAL = PhaseType(  # three phases with loops, of mean 1
    alpha=(0.5, 0.3, 0.2), S=((-5.0, 1.0, 1.0), (0.5, -1.5, 0.0), (0.25, 0.25, -0.55))
)
GENERAL = GENERAL.scaled(1 / GENERAL.mean)


def stationary(size: int, transitions: list[tuple[int, int, float]]) -> Floats:
    """Return the stationary distribution of a chain on 0..size-1 with these (from, to, rate)."""
    source, target, rate = map(np.array, zip(*transitions, strict=True))
    flow = coo_array((rate, (target, source)), shape=(size, size)).tolil()
    out = np.bincount(source, weights=rate, minlength=size)
    balance = (flow - coo_array((out, (range(size), range(size))), shape=(size, size))).tolil()
    balance[0] = 1.0
    return np.asarray(spsolve(balance.tocsc(), np.r_[1.0, np.zeros(size - 1)]))


def typical_queue(
    load: float, distribution: PhaseTypeDistribution, probe_rate: float, levels: int
) -> tuple[float, Floats]:
    """Return P(idle) and P(Q = l, phase), (levels, n), where lambda_0 is found from its definition by iteration."""
    alpha, S = distribution.phase_type()
    n, mu = len(alpha), -S.sum(axis=1)

    def state(level: int, phase: int) -> int:
        return 1 + (level - 1) * n + phase

    idle_rate, removal = load, (1 - load) * probe_rate
    for _ in range(200):
        moves: list[tuple[int, int, float]] = []
        for j in range(n):
            moves.append((0, state(1, j), idle_rate * alpha[j]))
            for level in range(1, levels + 1):
                here = state(level, j)
                moves += [(here, state(level, k), S[j, k]) for k in range(n) if k != j]
                if level < levels:
                    moves.append((here, state(level + 1, j), load))
                if level == 1:
                    moves.append((here, 0, mu[j]))
                else:
                    moves += [(here, state(level - 1, k), mu[j] * alpha[k]) for k in range(n)]
                    moves.append((here, state(level - 1, j), removal))
        law_of_queue = stationary(1 + levels * n, moves)
        occupancy = law_of_queue[1:].reshape(levels, n)
        new = load + probe_rate * float(occupancy[1:].sum())
        if abs(new - idle_rate) < 1e-13:
            break
        idle_rate = new
    return float(law_of_queue[0]), occupancy


@pytest.mark.parametrize(
    ("load", "distribution", "probe_rate"),
    [
        (0.5, Exponential(), 1.0),
        (0.8, Hyperexponential(scv=5, f=0.3), 2.5),
        (0.7, Hypoexponential(wanted_scv=0.3), 0.7),
        (0.6, GENERAL, 3.0),
        (0.9, Erlang(phases=3), 12.0),
    ],
    ids=["exponential", "h2", "hypoexponential", "general", "erlang"],
)
def test_mean_field_is_the_truncated_chain(load: float, distribution: PhaseTypeDistribution, probe_rate: float) -> None:
    levels = 160
    idle, occupancy = typical_queue(load, distribution, probe_rate, levels)
    state = mean_field(load, distribution, probe_rate)
    lengths = np.arange(1, levels + 1)
    assert idle == pytest.approx(1 - load, abs=1e-11)
    assert state.mean_queue_length == pytest.approx(float(lengths @ occupancy.sum(axis=1)), rel=1e-9)
    assert state.pending_probability == pytest.approx(float(occupancy[1:].sum()), rel=1e-10)
    np.testing.assert_allclose(state.queue_length_pmf(lengths[:20]), occupancy[:20].sum(axis=1), rtol=1e-9)
    tail = occupancy.sum(axis=1)[::-1].cumsum()[::-1]
    np.testing.assert_allclose(state.queue_length_tail(lengths[:20]), tail[:20], rtol=1e-9)
    assert state.decay_rate == pytest.approx(occupancy[40].sum() / occupancy[39].sum(), rel=1e-7)


def test_two_servers_as_the_sheet_says() -> None:
    """Check value 12 is about real servers: this pins the model whose 1/N expansion is tested below."""
    case = tomllib.loads(Path(__file__).with_name("stealing_sharing_check_values.toml").read_text())["two_servers"]
    load, r, most = case["load"], case["probe_rate"], 90
    moves = []
    for a, b in itertools.product(range(most + 1), repeat=2):
        here = a * (most + 1) + b
        for (x, y), change in (((a, b), most + 1), ((b, a), 1)):
            if x < most:
                moves.append((here, here + change, load))
            if x > 0:
                moves.append((here, here - change, 1.0))
            if x >= 2 and y == 0:
                moves.append((here, here - change + (1 if change > 1 else most + 1), r))
    p = stationary((most + 1) ** 2, moves).reshape(most + 1, most + 1)
    first = p.sum(axis=1)
    pending = float(first[2:].sum())
    assert float(first @ np.arange(most + 1)) / load == pytest.approx(float(case["mean_response_time"]), rel=1e-7)
    assert pending == pytest.approx(float(case["pending_probability"]), rel=1e-7)
    assert r * float(first[0]) == pytest.approx(float(case["stealing_rate"]), rel=1e-7)
    assert r * pending == pytest.approx(float(case["sharing_rate"]), rel=1e-7)


def cluster(load: float, probe_rate: float, servers: int, most: int) -> tuple[float, float]:
    """Return E[T] and P(Q >= 2) of a cluster with exponential sizes, exactly but for queues above ``most``.

    States are the sorted queue lengths; the stationary distribution by repeated steps of the uniformised chain.
    """
    states = list(itertools.combinations_with_replacement(range(most + 1), servers))
    index = {state: i for i, state in enumerate(states)}

    def changed(state: tuple[int, ...], *changes: tuple[int, int]) -> int:
        lengths = list(state)
        for length, step in changes:
            lengths[lengths.index(length)] += step
        return index[tuple(sorted(lengths))]

    def moves(state: tuple[int, ...]) -> Iterator[tuple[int, float]]:
        for length in set(state):
            count = state.count(length)
            if length < most:
                yield changed(state, (length, 1)), load * count
            if length > 0:
                yield changed(state, (length, -1)), float(count)
            if length >= 2 and 0 in state:
                pairs = count * state.count(0)
                yield changed(state, (length, -1), (0, 1)), probe_rate * pairs / (servers - 1)

    entries = [(target, source, rate) for source, state in enumerate(states) for target, rate in moves(state)]
    target, source, rate = map(np.array, zip(*entries, strict=True))
    out = np.bincount(source, weights=rate, minlength=len(states))
    q = float(out.max()) * 1.05
    step = csr_array((rate / q, (target, source)), shape=(len(states), len(states)))
    p = np.full(len(states), 1 / len(states))
    for _ in range(100_000):
        new = step @ p + p * (1 - out / q)
        if np.abs(new - p).sum() < 1e-13:
            break
        p = new
    lengths = np.array(states)
    return float(p @ lengths.sum(axis=1)) / (servers * load), float(p @ (lengths >= 2).sum(axis=1)) / servers


def test_correction_is_the_limit_of_small_clusters_solved_exactly() -> None:
    load, probe_rate = 0.4, 1.5
    state = mean_field(load, Exponential(), probe_rate)
    correction = state.finite_size_correction()
    servers = np.array([3, 4, 6])
    exact = np.array([cluster(load, probe_rate, int(n), 12) for n in servers])
    excess = (exact - (state.mean_response_time, state.pending_probability)) * servers[:, None]
    # N (E_N - E) = c + a/N + b/N^2 through three points, at 1/N = 0. Its own next term leaves about 1 %.
    c_T, c_u = np.linalg.solve(np.vander(1 / servers, increasing=True), excess)[0]
    assert correction.mean_response_time == pytest.approx(c_T, rel=0.02)
    assert correction.pending_probability == pytest.approx(c_u, rel=0.02)


def dense_correction(
    load: float, distribution: PhaseTypeDistribution, r: float, levels: int
) -> tuple[float, float, float]:
    """Return c_T, c_u and sum V from the sheet's equations, with all matrices dense and the drift differenced."""
    alpha, S = distribution.phase_type()
    n, mu = len(alpha), -S.sum(axis=1)
    size = levels * n
    x = mean_field(load, distribution, r)
    occupancy = np.empty((levels, n))
    occupancy[0] = x._single
    for level in range(1, levels):
        occupancy[level] = occupancy[level - 1] @ x._rate_matrix
    point = occupancy.ravel()

    jumps: list[
        tuple[Floats, float, int, bool]
    ] = []  # vector, rate per server in the source, source, also needs an idle

    def jump(rate: float, source: int, *changes: tuple[int, int], transfer: bool = False) -> None:
        vector = np.zeros(size)
        for state, change in changes:
            vector[state] += change
        if rate > 0:
            jumps.append((vector, rate, source, transfer))

    for j in range(n):
        jump(load * alpha[j], -1, (j, 1))
        for level in range(levels):
            here = level * n + j
            if level + 1 < levels:
                jump(load, here, (here, -1), (here + n, 1))
            for k in range(n):
                if k != j:
                    jump(S[j, k], here, (here, -1), (level * n + k, 1))
                if level > 0:
                    jump(mu[j] * alpha[k], here, (here, -1), ((level - 1) * n + k, 1))
                    jump(r * alpha[k], here, (here, -1), (here - n, 1), (k, 1), transfer=True)
            if level == 0:
                jump(mu[j], here, (here, -1))
    vectors = np.array([v for v, *_ in jumps])
    base = np.array([rate for _, rate, *_ in jumps])
    source = np.array([s for *_, s, _ in jumps])
    transfer = np.array([t for *_, t in jumps])

    def rates(state: Floats) -> Floats:
        idle = 1 - state.sum()
        return np.asarray(base * np.where(source < 0, idle, state[source]) * np.where(transfer, idle, 1.0))

    drift_at = [vectors.T @ rates(point + 0.5 * unit) - vectors.T @ rates(point - 0.5 * unit) for unit in np.eye(size)]
    A = np.array(drift_at).T  # central differences are exact: the drift is quadratic
    Q = vectors.T @ (rates(point)[:, None] * vectors)
    W = solve_continuous_lyapunov(A, -Q)
    C = vectors[transfer].T @ rates(point)[transfer]
    B = -vectors[transfer].T @ (base[transfer] * W.sum(axis=0)[source[transfer]])
    V = np.linalg.solve(A, -(C + B)).reshape(levels, n)
    return float(np.arange(1, levels + 1) @ V.sum(axis=1)) / load, float(V[1:].sum()), float(V.sum())


@pytest.mark.parametrize(
    ("load", "distribution", "probe_rate", "levels"),
    [
        (0.5, Hyperexponential(scv=3, f=0.5), 1.0, 64),
        (0.6, Erlang(phases=3), 2.0, 32),
        (0.5, GENERAL, 4.0, 40),
    ],
    ids=["h2", "erlang", "general"],
)
def test_correction_solves_the_lyapunov_equation(
    load: float, distribution: PhaseTypeDistribution, probe_rate: float, levels: int
) -> None:
    c_T, c_u, busy = dense_correction(load, distribution, probe_rate, levels)
    correction = mean_field(load, distribution, probe_rate).finite_size_correction()
    assert correction.mean_response_time == pytest.approx(c_T, rel=1e-6)
    assert correction.pending_probability == pytest.approx(c_u, rel=1e-6)
    assert busy == pytest.approx(0.0, abs=1e-9)


def test_correction_vanishes_without_probes_and_is_refused_without_end() -> None:
    assert mean_field(0.8, Exponential(), 0.0).finite_size_correction() == (0.0, 0.0)
    with pytest.raises(ValueError, match="order 1/N"):
        mean_field(0.8, Exponential(), float("inf")).finite_size_correction()
    with pytest.raises(ArithmeticError, match="lower the load or the SCV"):
        mean_field(0.999, Hyperexponential(scv=1000), 0.1).finite_size_correction()
