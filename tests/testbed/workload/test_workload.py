"""A run's jobs: the same whatever else changes, and spread over types and dispatchers as asked."""

import itertools
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from testbed.workload.arrivals import ArrivalProcess, MarkovModulatedPoisson, Poisson, Renewal, Trace
from testbed.workload.distributions import Distribution, Exponential, PhaseType
from testbed.workload.workload import Block, Workload

COLUMNS = ("job", "arrival", "job_type", "size", "dispatcher")
CYCLE = PhaseType(alpha=(0.5, 0.5), S=((-2.0, 1.0), (1.0, -1.5)))


def workload(**changes: Any) -> Workload:
    arguments: dict[str, Any] = {
        "arrivals": Poisson(),
        "size": Exponential(),
        "type_probabilities": [0.2, 0.5, 0.3],
        "rate": 8.0,
        "dispatchers": 3,
        "seed": 5,
        "replication": 0,
    }
    return Workload(**arguments | changes)


def first(blocks: Iterable[Block], jobs: int) -> Block:
    taken: list[Block] = []
    count = 0
    for block in blocks:
        taken.append(block)
        count += len(block)
        if count >= jobs:
            break
    return Block.joined(taken).take(slice(0, jobs))


def same(one: Block, other: Block, columns: Iterable[str] = COLUMNS) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in columns)


def test_blocks_hold_consecutive_jobs() -> None:
    blocks = list(itertools.islice(workload().blocks(size=100), 60))
    assert {len(block) for block in blocks} == {100}
    jobs = Block.joined(blocks)
    assert jobs.job.tolist() == list(range(6000))
    assert (np.diff(jobs.arrival) > 0).all()
    assert {name: getattr(jobs, name).dtype.kind for name in COLUMNS} == {
        "job": "i",
        "arrival": "f",
        "job_type": "i",
        "size": "f",
        "dispatcher": "i",
    }


@pytest.mark.parametrize("arrivals", [Poisson(), Renewal(gap=CYCLE), MarkovModulatedPoisson((1.0, 9.0), (5.0, 5.0))])
@pytest.mark.parametrize("size", [Exponential(), CYCLE])
@pytest.mark.parametrize("length", [1, 1000, 4096, 5000])
def test_values_do_not_depend_on_the_block_size(arrivals: ArrivalProcess, size: Distribution, length: int) -> None:
    jobs = workload(arrivals=arrivals, size=size)
    assert same(first(jobs.blocks(length), 10_000), first(jobs.blocks(), 10_000))


def test_same_seed_and_replication_give_the_same_jobs() -> None:
    jobs = first(workload().blocks(), 5000)
    assert same(jobs, first(workload().blocks(), 5000))
    for change in ({"seed": 6}, {"replication": 1}):
        other = first(workload(**change).blocks(), 5000)
        assert not any(same(jobs, other, [name]) for name in COLUMNS if name != "job")


@pytest.mark.parametrize(
    ("change", "columns"),
    [
        ({"dispatchers": 7}, {"dispatcher"}),
        ({"size": CYCLE}, {"size"}),
        ({"type_probabilities": [0.9, 0.1]}, {"job_type"}),
        ({"rate": 9.0}, {"arrival"}),
        ({"arrivals": Renewal(gap=CYCLE)}, {"arrival"}),
    ],
)
def test_a_change_moves_only_what_it_is_about(change: dict[str, Any], columns: set[str]) -> None:
    jobs, other = first(workload().blocks(), 9000), first(workload(**change).blocks(), 9000)
    assert {name for name in COLUMNS if not same(jobs, other, [name])} == columns


def test_types_and_dispatchers_are_drawn_with_their_probabilities() -> None:
    """False alarm of each: 1e-5."""
    jobs = first(workload().blocks(), 50_000)
    assert stats.chisquare(np.bincount(jobs.job_type), np.array([0.2, 0.5, 0.3]) * 50_000).pvalue > 1e-5
    assert stats.chisquare(np.bincount(jobs.dispatcher)).pvalue > 1e-5
    table = np.histogram2d(jobs.job_type, jobs.dispatcher, bins=3)[0]
    assert stats.chi2_contingency(table).pvalue > 1e-5


def test_type_of_probability_zero_never_occurs() -> None:
    jobs = first(workload(type_probabilities=[0.0, 1.0, 0.0]).blocks(), 5000)
    assert set(jobs.job_type.tolist()) == {1}


def test_dispatchers_split_the_jobs_between_them() -> None:
    jobs = workload()
    parts = [first(jobs.for_dispatcher(index), 3000) for index in range(3)]
    for index, part in enumerate(parts):
        assert set(part.dispatcher.tolist()) == {index}
    until = min(int(part.job[-1]) for part in parts)
    joined = Block.joined(parts)
    order = np.argsort(joined.job)
    in_order = Block(*(getattr(joined, name)[order] for name in COLUMNS), tasks=joined.tasks)
    assert same(in_order.take(slice(0, until + 1)), first(jobs.blocks(), until + 1))


def test_each_dispatcher_receives_a_poisson_process() -> None:
    """False alarm: 1e-5."""
    arrivals = first(workload().for_dispatcher(1), 20_000).arrival
    assert stats.kstest(np.diff(arrivals), Exponential(mean=3 / 8).cdf).pvalue > 1e-5


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "jobs.csv"
    path.write_text("arrival,size,type\n0,1.5,b\n1,2.5,a\n3,0.5,b\n")
    return str(path)


def test_recorded_sizes_and_types_are_used(file: str) -> None:
    jobs = workload(arrivals=Trace(file=file), type_names=["a", "b", "c"], rate=None)
    (block,) = jobs.blocks()
    assert block.job.tolist() == [0, 1, 2]
    assert block.arrival.tolist() == [0, 1, 3]
    assert block.size.tolist() == [1.5, 2.5, 0.5]
    assert block.job_type.tolist() == [1, 0, 1]
    assert [len(block) for block in jobs.blocks(size=2)] == [2, 1]


def test_recording_that_repeats_repeats_sizes_and_types(file: str) -> None:
    jobs = workload(arrivals=Trace(file=file, repeat=True), type_names=["a", "b", "c"], rate=2.0)
    block = first(jobs.blocks(), 10_000)
    assert block.size[:7].tolist() == [1.5, 2.5, 0.5, 1.5, 2.5, 0.5, 1.5]
    assert block.size[9999] == 1.5
    assert block.job_type[[9997, 9998, 9999]].tolist() == [0, 1, 1]
    assert 9999 / block.arrival[-1] == pytest.approx(2, rel=1e-3)


def test_sizes_and_types_are_drawn_where_the_recording_has_none(tmp_path: Path) -> None:
    path = tmp_path / "times.csv"
    path.write_text("arrival\n" + "\n".join(map(str, range(5000))) + "\n")
    jobs = first(workload(arrivals=Trace(file=str(path)), size=CYCLE, rate=None).blocks(), 5000)
    assert same(jobs, first(workload(size=CYCLE).blocks(), 5000), ["job", "job_type", "size", "dispatcher"])


def test_recorded_types_must_be_types_of_the_workload(file: str) -> None:
    with pytest.raises(ValueError, match="the type in row 1 is 'b', but the workload's types are '0', '1', '2'"):
        workload(arrivals=Trace(file=file))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type_probabilities": [0.5, 0.4]}, "must be at least 0 and sum to 1, but are .0.5, 0.4."),
        ({"type_probabilities": [1.5, -0.5]}, "must be at least 0 and sum to 1"),
        ({"type_probabilities": []}, "must be at least 0 and sum to 1"),
        ({"type_names": ["a"]}, "there are 3 types, but 1 names for them"),
        ({"dispatchers": 0}, "at least one dispatcher, but are 0"),
        ({"rate": None}, "an arrival rate must be given: only a trace has one by itself"),
    ],
)
def test_bad_arguments_are_refused_with_the_reason(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        workload(**change)


def test_there_is_no_such_dispatcher() -> None:
    with pytest.raises(ValueError, match="there is no dispatcher 3: they are 0 to 2"):
        next(workload().for_dispatcher(3))


def test_generating_jobs_loads_neither_scipy_nor_pyarrow() -> None:
    # A cluster's processes would start slowly.
    code = """
import sys
from testbed.workload import distributions as d
from testbed.workload.arrivals import MarkovModulatedPoisson
from testbed.workload.workload import Workload
arrivals = MarkovModulatedPoisson(rates=(1.0, 2.0), sojourns=(1.0, 1.0))
for size in (d.Exponential(), d.Erlang(2), d.Hypoexponential(wanted_scv=0.3), d.Hyperexponential(4.0), d.Lognormal(2.0),
             d.PhaseType((1.0,), ((-1.0,),)), d.Pareto(2.0, 1.0), d.BoundedPareto(1.0, 1.0, 9.0), d.Weibull(0.5),
             d.Uniform(0.0, 1.0), d.Deterministic(), d.Empirical(values=(1.0, 2.0))):
    next(Workload(arrivals, size, [1.0], 1.0, 1, 1, 0).blocks())
print(sorted({name.split(".")[0] for name in sys.modules} & {"scipy", "pyarrow", "matplotlib"}))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
