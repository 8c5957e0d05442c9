"""Several sizes of a job, for pools or copies: each with the distribution of the sizes, and as dependent as asked."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from testbed.workload.arrivals import Poisson, Trace
from testbed.workload.distributions import Exponential, PhaseType, Uniform
from testbed.workload.task_numbers import FixedNumber
from testbed.workload.workload import Block, Workload

CYCLE = PhaseType(alpha=(0.5, 0.5), S=((-2.0, 1.0), (1.0, -1.5)))
JOBS = 40_000


def workload(**changes: Any) -> Workload:
    arguments: dict[str, Any] = {
        "arrivals": Poisson(),
        "size": Exponential(),
        "type_probabilities": [0.2, 0.8],
        "rate": 8.0,
        "dispatchers": 3,
        "seed": 5,
        "replication": 0,
    }
    return Workload(**arguments | changes)


def jobs(count: int = JOBS, **changes: Any) -> Block:
    return next(workload(**changes).blocks(count))


def independent(one: Any, other: Any) -> bool:
    """Whether ranks are uncorrelated, and large sizes don't come together; each raises a false alarm in 1e-5."""
    table = np.histogram2d(one > np.median(one), other > np.median(other), bins=2)[0]
    return bool(stats.spearmanr(one, other).pvalue > 1e-5 and stats.chi2_contingency(table).pvalue > 1e-5)


@pytest.mark.parametrize("size", [Exponential(mean=2.0), CYCLE, Uniform(low=1.0, high=3.0)])
@pytest.mark.parametrize("dependence", ["independent", 0.3])
def test_the_sizes_of_each_replica_have_the_law(size: Any, dependence: Any) -> None:
    """A false alarm of each: 1e-5."""
    sizes = jobs(size=size, replicas=3, dependence=dependence).size
    assert sizes.shape == (JOBS, 3)
    for column in sizes.T:
        assert stats.kstest(column, size.cdf).pvalue > 1e-5


def test_identical_sizes_are_one_size() -> None:
    sizes = jobs(replicas=4).size
    assert sizes.shape == (JOBS, 4)
    assert (sizes == sizes[:, :1]).all()


def test_independent_sizes_are_independent_of_each_other() -> None:
    sizes = jobs(replicas=3, dependence="independent").size
    assert independent(sizes[:, 0], sizes[:, 1])
    assert independent(sizes[:, 0], sizes[:, 2])
    assert independent(sizes[:, 1], sizes[:, 2])


@pytest.mark.parametrize("theta", [0.2, 0.9])
def test_a_probability_is_the_share_of_identical_sizes_and_their_correlation(theta: float) -> None:
    sizes = jobs(replicas=3, dependence=theta).size
    same = sizes[:, 0] == sizes[:, 1]
    assert (same == (sizes[:, 0] == sizes[:, 2])).all()  # all of a job's sizes are, or none
    assert (same == (sizes[:, 1] == sizes[:, 2])).all()
    assert stats.binomtest(int(same.sum()), JOBS, theta).pvalue > 1e-5
    # Corr(X_1, X_2) = theta, as the mixture has the covariance theta Var X. Its error: from 100 batches, 4.9 of them,
    # t with 99 degrees of freedom, is a false alarm of 4e-6.
    products = (sizes[:, 1] - 1) * (sizes[:, 2] - 1)  # mean and variance of the distribution are 1
    batches = products.reshape(100, -1).mean(axis=1)
    assert abs(batches.mean() - theta) < 4.9 * batches.std(ddof=1) / 10
    # The coin looks at no size.
    assert independent(sizes[:, 0], same + np.random.default_rng(1).random(JOBS))


@pytest.mark.parametrize("dependence", ["identical", "independent", 0.5, 0.0, 1.0])
@pytest.mark.parametrize("replicas", [2, 5])
def test_further_replicas_leave_all_else_as_it_is(dependence: Any, replicas: int) -> None:
    """Common random numbers: policies without copies, and other pools, meet the same jobs."""
    one, several = jobs(9000), jobs(9000, replicas=replicas, dependence=dependence)
    assert np.array_equal(one.size, several.size[:, 0])
    for name in ("job", "arrival", "job_type", "dispatcher", "tasks"):
        assert np.array_equal(getattr(one, name), getattr(several, name))


def test_a_replica_has_the_same_sizes_however_many_there_are_and_whatever_the_coin_says() -> None:
    two, four = jobs(9000, replicas=2, dependence=0.0), jobs(9000, replicas=4, dependence="independent")
    assert np.array_equal(two.size, four.size[:, :2])
    mixed = jobs(9000, replicas=4, dependence=0.5).size
    same = mixed[:, 0] == mixed[:, 1]
    assert np.array_equal(mixed[~same], four.size[~same])
    more = jobs(9000, replicas=4, dependence=0.7).size  # coins are common too: what was identical stays so
    assert (more[same, 0] == more[same, 1]).all()


@pytest.mark.parametrize("length", [1, 1000, 4096, 5000])
def test_sizes_do_not_depend_on_the_block_size(length: int) -> None:
    blocks = workload(replicas=3, dependence=0.5, size=CYCLE).blocks(length)
    taken = [next(blocks) for _ in range(-(-9000 // length))]
    expected = jobs(9000, replicas=3, dependence=0.5, size=CYCLE).size
    assert np.array_equal(Block.joined(taken).size[:9000], expected)


def test_each_job_brings_its_own_sizes_to_its_dispatcher() -> None:
    everything = jobs(3000, replicas=2, dependence="independent")
    part = next(workload(replicas=2, dependence="independent").for_dispatcher(1))
    part = part.take(part.job < 3000)
    assert np.array_equal(part.size, everything.size[everything.dispatcher == 1])
    assert list(part.sizes()) == part.size.tolist()
    assert {len(sizes) for sizes in part.sizes()} == {2}


def trace(folder: Path, text: str, **settings: Any) -> Trace:
    file = folder / "jobs.csv"
    file.write_text(text)
    return Trace(file=str(file), **settings)


def test_a_trace_may_have_the_sizes_in_each_pool(tmp_path: Path) -> None:
    recorded = trace(tmp_path, "arrival,size_b,size_a,size_word\n0,1,4,x\n1,2,5,y\n3,3,6,z\n", repeat=True)
    block = jobs(7, arrivals=recorded, rate=None, replicas=2, pools=["a", "b"])
    assert block.size.tolist() == [[4, 1], [5, 2], [6, 3], [4, 1], [5, 2], [6, 3], [4, 1]]
    (alone,) = workload(arrivals=trace(tmp_path, "arrival,size_a\n0,1\n1,2\n"), rate=None, pools=["a"]).blocks()
    assert alone.size.tolist() == [1, 2]


def test_one_size_of_a_trace_is_that_of_all_replicas(tmp_path: Path) -> None:
    recorded = trace(tmp_path, "arrival,size\n0,1\n1,2\n")
    (block,) = workload(arrivals=recorded, rate=None, replicas=2, pools=["a", "b"]).blocks()
    assert block.size.tolist() == [[1, 1], [2, 2]]


def test_sizes_that_a_trace_lacks_are_drawn(tmp_path: Path) -> None:
    recorded = trace(tmp_path, "arrival\n" + "\n".join(map(str, range(5000))) + "\n")
    block = jobs(5000, arrivals=recorded, rate=None, replicas=2, dependence=0.5, pools=["a", "b"])
    assert np.array_equal(block.size, jobs(5000, replicas=2, dependence=0.5).size)


@pytest.mark.parametrize(
    ("text", "dependence", "message"),
    [
        ("arrival,size_a\n0,1\n1,2\n", "identical", r"has no column 'size_b'; its columns are 'size_a'"),
        ("arrival,size_a,size_b\n0,1,1\n1,2,-2\n", "identical", r"'size_b' must be at least 0, but row 2 is -2.0"),
        ("arrival,size_a,size_b\n0,1,1\n1,2,x\n", "identical", r"'size_b' must hold finite numbers, but row 2 is 'x'"),
        ("arrival,size_a,size_b\n0,1,1\n1,2,2\n", 0.5, "the trace has the sizes in each pool, .* leave dependence out"),
        (
            "arrival,size\n0,1\n1,2\n",
            "independent",
            "one size for each job: leave dependence out, or give .* size_<pool>",
        ),
    ],
)
def test_a_trace_that_does_not_fit_is_refused(tmp_path: Path, text: str, dependence: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload(arrivals=trace(tmp_path, text), replicas=2, pools=["a", "b"], dependence=dependence)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"replicas": 0}, "a job of one task has one size or more, but is to have 0"),
        ({"replicas": 2, "tasks": FixedNumber(value=2)}, "a job of one task has one size or more, but is to have 2"),
        ({"dependence": 1.5}, "dependence must be the probability of identical sizes, from 0 to 1, but is 1.5"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload(**change)
