"""Parallel jobs against brute force: tasks placed one by one with all ties and probes, and exact small chains."""

from __future__ import annotations

import itertools
import math
import tomllib
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.linalg import spsolve

from testbed.theory.parallel_jobs import (
    fill_failure_probability,
    fill_failure_probability_finite,
    mean_field,
    response_time_at,
)

VALUES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("parallel_jobs_check_values.toml").read_text())

Lengths = tuple[int, ...]
#: Maps the probed servers' lengths after a job to the probability of that outcome.
Place = Callable[[Lengths, int], dict[Lengths, float]]


def fill(lengths: Lengths, tasks: int) -> dict[Lengths, float]:
    """Batch-filling: task after task to a shortest queue, ties at random."""
    outcomes = {lengths: 1.0}
    for _ in range(tasks):
        after: dict[Lengths, float] = defaultdict(float)
        for state, probability in outcomes.items():
            shortest = [j for j, q in enumerate(state) if q == min(state)]
            for j in shortest:
                after[(*state[:j], state[j] + 1, *state[j + 1 :])] += probability / len(shortest)
        outcomes = after
    return outcomes


def sample(lengths: Lengths, tasks: int) -> dict[Lengths, float]:
    """Batch-sampling: one task to each of the shortest queues, ties at random."""
    total = min(sum(lengths[j] for j in chosen) for chosen in itertools.combinations(range(len(lengths)), tasks))
    best = [c for c in itertools.combinations(range(len(lengths)), tasks) if sum(lengths[j] for j in c) == total]
    return {tuple(q + (j in c) for j, q in enumerate(lengths)): 1 / len(best) for c in best}


def last_positions(before: Lengths, after: Lengths) -> Lengths:
    return tuple(sorted(b for a, b in zip(before, after, strict=True) if b > a))


class Chain:
    """N exponential servers, jobs at rate N load / k, m probed without replacement, sorted lengths up to ``limit``.

    A job that would make a queue longer than that is dropped: a finite buffer, or a cut where it hardly matters.
    """

    def __init__(self, place: Place, N: int, k: int, m: int, load: float, limit: int) -> None:
        states = list(itertools.combinations_with_replacement(range(limit + 1), N))
        index = {state: i for i, state in enumerate(states)}
        rate = N * load / k
        rows, columns, rates = [], [], []

        def move(a: Lengths, b: Lengths, amount: float) -> None:
            rows.extend([index[tuple(sorted(b))], index[a]])
            columns.extend([index[a], index[a]])
            rates.extend([amount, -amount])

        jobs: list[list[tuple[Lengths, float]]] = []
        probes = list(itertools.combinations(range(N), m))
        for state in states:
            jobs.append([])
            for probed in probes:
                before = tuple(state[j] for j in probed)
                for after, share in place(before, k).items():
                    probability = share / len(probes)
                    if max(after) > limit:
                        continue
                    new = list(state)
                    for j, q in zip(probed, after, strict=True):
                        new[j] = q
                    move(state, tuple(new), rate * probability)
                    jobs[-1].append((last_positions(before, after), probability))
            for j in range(N):
                if state[j] > 0:
                    move(state, (*state[:j], state[j] - 1, *state[j + 1 :]), 1.0)
        n = len(states)
        balance = coo_matrix((rates, (rows, columns)), shape=(n, n)).tolil()
        balance[-1, :] = 1.0
        stationary = spsolve(balance.tocsc(), np.eye(1, n, n - 1).ravel())
        accepted: dict[Lengths, float] = defaultdict(float)
        for weight, outcomes in zip(stationary, jobs, strict=True):
            for positions, probability in outcomes:
                accepted[positions] += weight * probability
        total = sum(accepted.values())
        self.dropped = 1 - total
        self.busy = float(stationary @ [np.count_nonzero(state) / N for state in states])
        common = [(positions, weight) for positions, weight in accepted.items() if weight > 1e-13]
        self.mean = sum(weight * response_time_at(positions) for positions, weight in common) / total


def test_fork_join_of_two_servers_has_its_closed_form() -> None:
    chain = Chain(sample, N=2, k=2, m=2, load=0.5, limit=45)
    assert chain.mean == pytest.approx((12 - 0.5) / (8 * 0.5), rel=1e-9)
    assert chain.mean == pytest.approx(VALUES["C12"]["fork_join"], rel=1e-5)


def test_shortest_queue_and_batch_filling_of_two_servers_agree_with_the_sheet() -> None:
    assert Chain(fill, N=2, k=1, m=2, load=0.8, limit=60).mean == pytest.approx(VALUES["C12"]["jsq"], rel=1e-5)
    filling = Chain(fill, N=2, k=2, m=2, load=0.8, limit=80)
    assert filling.mean == pytest.approx(VALUES["C12"]["batch_filling"], rel=1e-5)


def test_finite_buffers_of_four_servers_agree_with_the_sheet() -> None:
    chain, sheet = Chain(fill, N=4, k=3, m=3, load=0.9, limit=5), VALUES["C13"]["finite"]
    # A job is dropped whole; in this chain that a job doesn't fit never hangs on how its ties fall.
    assert chain.dropped == pytest.approx(sheet["dropped"], rel=1e-5)
    assert chain.mean == pytest.approx(sheet["mean"], rel=1e-5)
    assert chain.busy == pytest.approx(sheet["S1"], rel=1e-5)
    assert chain.busy == pytest.approx(0.9 * (1 - chain.dropped), rel=1e-10)


def independent_queues(S: np.ndarray, m: int) -> dict[Lengths, float]:
    """Return all lengths of m independent queues and their probabilities, those below 1e-11 left out."""
    p = -np.diff(np.append(S, 0.0))
    likely = [q for q in range(p.size) if p[q] > 1e-12]
    return {
        lengths: weight
        for lengths in itertools.product(likely, repeat=m)
        if (weight := math.prod(float(p[q]) for q in lengths)) > 1e-11
    }


@pytest.mark.parametrize(
    ("policy", "place", "tasks", "probes", "buffer"),
    [
        ("batch-filling", fill, 3, 3, None),
        ("batch-filling", fill, 2, 3, None),
        ("batch-filling", fill, 4, 2, None),
        ("batch-filling", fill, 4, 3, 3),
        ("batch-filling", fill, 3, 4, 2),
        ("batch-sampling", sample, 2, 3, None),
        ("batch-sampling", sample, 3, 4, 3),
        ("batch-sampling", sample, 2, 2, 2),
    ],
)
def test_mean_field_is_what_placing_tasks_one_by_one_gives(
    policy: str, place: Place, tasks: int, probes: int, buffer: int | None
) -> None:
    load = 0.6 if buffer is None else 0.95
    state = mean_field(policy, load, tasks, probes / tasks, buffer)
    S = state.queue_length_tail
    assert S is not None
    flow = np.zeros(S.size + tasks + 1)
    accepted: dict[Lengths, float] = defaultdict(float)
    for lengths, weight in independent_queues(S, probes).items():
        for after, share in place(lengths, tasks).items():
            if buffer is not None and max(after) > buffer:
                continue
            accepted[last_positions(lengths, after)] += weight * share
            for a, b in zip(lengths, after, strict=True):
                flow[a + 1 : b + 1] += load / tasks * weight * share
    # The flow of tasks into position i is S_i: tasks at positions above i - 1 pass it on their way to the server.
    into_or_above = np.cumsum(flow[::-1])[::-1]
    np.testing.assert_allclose(into_or_above[1 : S.size], S[1:], rtol=0, atol=1e-7)
    total = sum(accepted.values())
    assert 1 - total == pytest.approx(state.drop_probability, abs=1e-7)
    mean = sum(weight * response_time_at(positions) for positions, weight in accepted.items() if weight > 1e-10) / total
    assert state.mean_job_response_time == pytest.approx(mean, rel=1e-6)


def test_filling_probabilities_are_what_enumeration_gives() -> None:
    lengths, tasks, probes, level = [0, 0, 1, 1, 1, 2, 3, 5], 6, 4, 3
    fails = [
        last_positions(chosen, next(iter(fill(chosen, tasks))))[-1] > level
        for chosen in itertools.combinations(lengths, probes)
    ]
    assert 0 < sum(fails) < len(fails)
    finite = fill_failure_probability_finite(lengths, tasks, probes, level)
    assert finite == pytest.approx(sum(fails) / len(fails), rel=1e-12)
    S = [sum(q >= i for q in lengths) / len(lengths) for i in range(7)]
    fails = [sum(max(0, level - q) for q in chosen) < tasks for chosen in itertools.product(lengths, repeat=probes)]
    limit = fill_failure_probability(S, tasks, probes, level)
    assert limit == pytest.approx(sum(fails) / len(fails), rel=1e-12)
