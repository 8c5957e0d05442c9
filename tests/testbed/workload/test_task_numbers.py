"""Numbers of tasks: the distributions, and jobs that have them."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy import stats

from testbed.workload.arrivals import Poisson, Trace
from testbed.workload.distributions import Exponential
from testbed.workload.task_numbers import FixedNumber, TableOfNumbers, TaskNumbers, Zipf
from testbed.workload.workload import Block, Workload

DISTRIBUTIONS: list[TaskNumbers] = [
    FixedNumber(value=7),
    TableOfNumbers(values=(10, 1, 4), shares=(0.2, 0.5, 0.3)),
    Zipf(exponent=1.5, most=1000),
]


def workload(tasks: TaskNumbers, **changes: Any) -> Workload:
    arguments: dict[str, Any] = {
        "arrivals": Poisson(),
        "size": Exponential(),
        "type_probabilities": [1.0],
        "rate": 1.0,
        "dispatchers": 2,
        "seed": 5,
        "replication": 0,
        "tasks": tasks,
    }
    return Workload(**arguments | changes)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_samples_follow_the_probabilities(distribution: TaskNumbers) -> None:
    """Pearson's test on the values expected at least 20 times; false alarm 1e-5."""
    values, probabilities = distribution.probabilities()
    assert probabilities.sum() == pytest.approx(1)
    sample = distribution.sample(np.random.default_rng(1), 20_000)
    assert distribution.mean == pytest.approx(float(values @ probabilities))
    assert distribution.scv == pytest.approx(float(values**2 @ probabilities) / distribution.mean**2 - 1, abs=1e-9)
    assert distribution.most == values.max()
    common = probabilities * len(sample) >= 20
    observed = np.array([np.count_nonzero(sample == value) for value in values[common]], dtype=float)
    expected = probabilities[common] * len(sample)
    assert ((observed - expected) ** 2 / expected).sum() < stats.chi2.isf(1e-5, len(observed))


def test_a_heavy_tail_has_jobs_of_many_tasks() -> None:
    distribution = Zipf(exponent=1.5, most=1000)
    assert distribution.scv > 10
    assert distribution.sample(np.random.default_rng(1), 20_000).max() > 500


@pytest.mark.parametrize(
    ("values", "shares", "words"),
    [((1, 2), (1.0,), "2, one for each"), ((1, 1), (0.5, 0.5), "twice"), ((1, 2), (0.5, 0.4), "add up to 1")],
)
def test_a_table_that_is_no_distribution_is_refused(
    values: tuple[int, ...], shares: tuple[float, ...], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        TableOfNumbers(values=values, shares=shares)


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_jobs_have_their_tasks_sizes_whatever_the_blocks_and_the_dispatchers(distribution: TaskNumbers) -> None:
    def jobs(blocks: Any) -> dict[int, list[float]]:
        found = {}
        for block in itertools.takewhile(lambda block: block.job[0] < 5000, blocks):
            assert block.tasks.sum() == len(block.size)
            found.update(zip(block.job.tolist(), map(list, block.sizes()), strict=True))
        return {job: sizes for job, sizes in found.items() if job < 5000}

    whole = workload(distribution)
    expected = jobs(whole.blocks(1000))
    assert len(expected) == 5000
    assert jobs(whole.blocks(37)) == expected
    parts = [jobs(whole.for_dispatcher(index)) for index in range(2)]
    assert parts[0] | parts[1] == expected
    assert sum(map(len, parts)) == 5000


def test_arrivals_and_dispatchers_do_not_depend_on_the_number_of_tasks() -> None:
    blocks = [next(workload(distribution).blocks(4000)) for distribution in DISTRIBUTIONS]
    for block in blocks[1:]:
        np.testing.assert_array_equal(block.arrival, blocks[0].arrival)
        np.testing.assert_array_equal(block.dispatcher, blocks[0].dispatcher)


def test_sizes_are_those_of_the_law() -> None:
    """Kolmogorov and Smirnov's test; false alarm 1e-5."""
    block = next(workload(Zipf(exponent=1.5, most=100)).blocks(4000))
    assert len(block.size) > 20_000
    assert stats.kstest(block.size, Exponential().cdf).pvalue > 1e-5


def test_many_tasks_are_drawn_in_pieces() -> None:
    pieces = list(itertools.islice(workload(FixedNumber(value=10_000), dispatchers=1).for_dispatcher(0), 5))
    assert max(len(piece.size) for piece in pieces) <= 1 << 17
    assert Block.joined(pieces).job.tolist() == list(range(sum(map(len, pieces))))


def test_a_trace_with_sizes_has_jobs_of_one_task(tmp_path: Any) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("arrival,size\n0,1\n1,2\n2,1\n")
    with pytest.raises(ValueError, match="a job has one task"):
        workload(FixedNumber(value=2), arrivals=Trace(file=str(file)))
