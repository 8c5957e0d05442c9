"""A run's jobs: when they arrive, of which type and size they are, and which dispatcher receives them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from testbed.core.streams import generator
from testbed.workload.arrivals import ArrivalProcess, Trace
from testbed.workload.distribution import FloatArray
from testbed.workload.distributions import Distribution
from testbed.workload.task_numbers import FixedNumber, TaskNumbers

IntArray = npt.NDArray[np.int64]

Dependence = float | Literal["identical", "independent"]

ONE_TASK = FixedNumber(value=1)
_NO_SIZES = np.empty(0)

_DRAWN = 4096  # jobs, or sizes, drawn at a time
_TASKS = 1 << 17  # in a block, unless one job has more: many tasks must not fill the memory


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Some jobs in order of arrival; all arrays but ``size`` have shape (jobs,)."""

    job: IntArray  # number of the job, from 0
    arrival: FloatArray  # intended arrival time, in time units
    job_type: IntArray  # index of its type
    size: FloatArray  # (tasks of all jobs,) of each job's tasks, or (jobs, replicas); in time units at speed 1
    dispatcher: IntArray  # index of the dispatcher that receives it
    tasks: IntArray  # how many it has

    def __len__(self) -> int:
        return len(self.job)

    def take(self, which: slice | npt.NDArray[np.bool_]) -> Block:
        """Return the jobs at a slice or under a mask."""
        size = self.size
        if len(size) == len(self.job):
            size = size[which]
        else:
            wanted = np.zeros(len(self.job), dtype=np.bool_)
            wanted[which] = True
            size = size[np.repeat(wanted, self.tasks)]
        return Block(
            self.job[which], self.arrival[which], self.job_type[which], size, self.dispatcher[which], self.tasks[which]
        )

    def sizes(self) -> Iterator[Sequence[float]]:
        """Yield the sizes of each job's tasks, or replicas."""
        flat = self.size.tolist()
        if self.size.ndim == 2:
            yield from flat
        elif len(flat) == len(self.job):
            yield from zip(flat)
        else:
            start = 0
            for end in np.cumsum(self.tasks).tolist():
                yield flat[start:end]
                start = end

    @classmethod
    def joined(cls, blocks: Sequence[Block]) -> Block:
        """Return the jobs of all blocks, one after the other."""
        return cls(
            *(np.concatenate([getattr(block, field.name) for block in blocks]) for field in dataclasses.fields(cls))
        )


class Workload:
    """The jobs of one replication; the same for the same arguments, wherever and however often they are generated.

    Arrivals, sizes, types, dispatchers and numbers of tasks are drawn from named streams, so that a change of one
    leaves the others as they are: two policies, cluster sizes or size distributions meet the same arrivals. Every
    dispatcher generates all jobs and picks its own; a uniformly random choice makes D Poisson streams out of one.

    A job of one task may have several *replicas*, each with a size: for each pool that it may be served in, or for each
    of its copies. The first replica's sizes are those that the job would have without others, so that all policies meet
    the same sizes. The k-th one's come from a stream of their own, drawn whether or not they turn out identical.

    Args:
        arrivals: the arrival process of the whole cluster.
        size: distribution of the sizes; not used if ``arrivals`` is a trace with sizes.
        type_probabilities: probability of each job type, summing to 1; not used if the trace has types.
        rate: jobs per time unit for the whole cluster; None, for a trace only, to take its times as they are.
        dispatchers: how many dispatchers there are.
        seed: the run's seed.
        replication: index of the replication.
        type_names: names of the types, by which a trace may call them; by default they have only indices.
        tasks: distribution of the number of tasks of a job; one where a trace has sizes, and with replicas.
        replicas: how many sizes a job has.
        dependence: of a job's sizes: "identical", "independent", or the probability that they are identical, being
            independent otherwise.
        pools: names of the pools that the sizes are for, by which a trace may have them.

    Raises ValueError for arguments out of range, and for a trace that can't be read.
    """

    def __init__(
        self,
        arrivals: ArrivalProcess,
        size: Distribution,
        type_probabilities: Sequence[float],
        rate: float | None,
        dispatchers: int,
        seed: int,
        replication: int,
        type_names: Sequence[str] | None = None,
        tasks: TaskNumbers = ONE_TASK,
        replicas: int = 1,
        dependence: Dependence = "identical",
        pools: Sequence[str] = (),
    ) -> None:
        probabilities = np.array(type_probabilities, dtype=np.float64)
        if not len(probabilities) or not (probabilities >= 0).all() or abs(math.fsum(probabilities) - 1) > 1e-9:
            raise ValueError(
                f"the types' probabilities must be at least 0 and sum to 1, but are {probabilities.tolist()}"
            )
        if type_names is not None and len(type_names) != len(probabilities):
            raise ValueError(f"there are {len(probabilities)} types, but {len(type_names)} names for them")
        if dispatchers < 1:
            raise ValueError(f"there must be at least one dispatcher, but are {dispatchers}")
        if rate is None and not isinstance(arrivals, Trace):
            raise ValueError("an arrival rate must be given: only a trace has one by itself")
        self._arrivals = arrivals
        self._size = size
        self._tasks = tasks
        self._cumulated = np.cumsum(probabilities)[:-1]
        self._rate = rate
        self._dispatchers = dispatchers
        self._seed = seed
        self._replication = replication
        if replicas < 1 or (replicas > 1 and tasks.most > 1):
            raise ValueError(f"a job of one task has one size or more, but is to have {replicas}")
        self._replicas = replicas
        self._identical = identical_probability(dependence)
        self._recorded_sizes: FloatArray | None = None
        self._recorded_types: IntArray | None = None
        if isinstance(arrivals, Trace):
            names = type_names if type_names is not None else [str(i) for i in range(len(probabilities))]
            self._recorded_sizes = recorded_sizes(arrivals, replicas, dependence, pools)
            self._recorded_types = arrivals.recording.type_indices(names)
            if self._recorded_sizes is not None and tasks.most > 1:
                raise ValueError("the trace has a size for each job, so that a job has one task")

    def blocks(self, size: int = 1024) -> Iterator[Block]:
        """Yield all jobs in order, ``size`` at a time; forever, unless the arrivals are a trace that ends.

        A job's values don't depend on ``size``.
        """
        waiting: list[Block] = []
        count = 0
        for drawn in self._drawn():
            waiting.append(drawn)
            count += len(drawn)
            if count < size:
                continue
            block = Block.joined(waiting)
            whole = count - count % size
            for start in range(0, whole, size):
                yield block.take(slice(start, start + size))
            waiting = [block.take(slice(whole, None))]
            count -= whole
        if count:
            yield Block.joined(waiting)

    def for_dispatcher(self, index: int) -> Iterator[Block]:
        """Yield the jobs that dispatcher ``index`` receives, in blocks of various lengths, none of them empty."""
        if not 0 <= index < self._dispatchers:
            raise ValueError(f"there is no dispatcher {index}: they are 0 to {self._dispatchers - 1}")
        for block in self._drawn():
            own = block.take(block.dispatcher == index)
            if len(own):
                yield own

    def _drawn(self) -> Iterator[Block]:
        """Yield the jobs in the blocks in which they are drawn.

        These have one length always: how some distributions use the generator depends on how many values are drawn at
        once.
        """
        arrivals, sizes, types, dispatchers, numbers = (
            generator(self._seed, self._replication, name)
            for name in ("arrivals", "sizes", "types", "dispatchers", "tasks")
        )
        # Of each replica but the first; a child of a stream depends on its index, not on how many there are.
        replica_sizes = generator(self._seed, self._replication, "replica sizes").spawn(self._replicas - 1)
        coins = generator(self._seed, self._replication, "dependence")
        stream = self._arrivals.stream(self._rate, arrivals)
        first = 0
        while True:
            arrival = stream.next(_DRAWN)
            n = len(arrival)
            if n == 0:
                return
            job = np.arange(first, first + n)
            if self._recorded_types is None:
                job_type = np.searchsorted(self._cumulated, types.random(_DRAWN)[:n], side="right")
            else:
                job_type = self._recorded_types[job % len(self._recorded_types)]
            dispatcher = (dispatchers.random(_DRAWN)[:n] * self._dispatchers).astype(np.int64)
            tasks = self._tasks.sample(numbers, _DRAWN)[:n]
            if self._recorded_sizes is None:
                blocks = self._with_sizes(Block(job, arrival, job_type, _NO_SIZES, dispatcher, tasks), sizes)
                if self._replicas == 1:
                    yield from blocks
                else:
                    (block,) = blocks  # one task each: not more than fit into one
                    yield dataclasses.replace(block, size=self._with_replicas(block.size, replica_sizes, coins))
            else:
                recorded = self._recorded_sizes[job % len(self._recorded_sizes)]
                yield Block(job, arrival, job_type, recorded, dispatcher, tasks)
            first += n

    def _with_replicas(
        self, first: FloatArray, sizes: Sequence[np.random.Generator], coins: np.random.Generator
    ) -> FloatArray:
        """Return the sizes of all replicas, shape (jobs, replicas), of which ``first`` are the first ones'."""
        if self._identical == 1:
            return np.repeat(first[:, None], self._replicas, axis=1)
        n = len(first)
        others = [self._size.sample(rng, _DRAWN)[:n] for rng in sizes]
        if self._identical > 0:
            same = coins.random(_DRAWN)[:n] < self._identical
            others = [np.where(same, first, other) for other in others]
        return np.column_stack([first, *others])

    def _with_sizes(self, block: Block, rng: np.random.Generator) -> Iterator[Block]:
        """Yield the block with its sizes drawn, _DRAWN at a time, in pieces of about _TASKS tasks."""
        ends = np.cumsum(block.tasks)
        left = _NO_SIZES
        start = drawn = 0
        while start < len(block):
            stop = max(start + 1, int(np.searchsorted(ends, drawn + _TASKS, side="right")))
            wanted = int(ends[stop - 1]) - drawn
            draws = [left] + [self._size.sample(rng, _DRAWN) for _ in range(-((len(left) - wanted) // _DRAWN))]
            size = np.concatenate(draws) if len(draws) != 2 or len(left) else draws[1]
            piece = slice(start, stop)
            yield Block(
                block.job[piece],
                block.arrival[piece],
                block.job_type[piece],
                size[:wanted],
                block.dispatcher[piece],
                block.tasks[piece],
            )
            left = size[wanted:]
            start, drawn = stop, int(ends[stop - 1])


def identical_probability(dependence: Dependence) -> float:
    """Return the probability that a job's sizes are identical. Raises ValueError if that is none."""
    if isinstance(dependence, str):
        return 1.0 if dependence == "identical" else 0.0
    if not 0 <= dependence <= 1:
        raise ValueError(f"dependence must be the probability of identical sizes, from 0 to 1, but is {dependence}")
    return dependence


def recorded_sizes(trace: Trace, replicas: int, dependence: Dependence, pools: Sequence[str]) -> FloatArray | None:
    """Return the sizes that a trace has for its jobs, shape (jobs,) or (jobs, replicas); None if they are to be drawn.

    Raises ValueError when the file's sizes are unfit, and when it has them and ``dependence`` says something else.
    """
    recording = trace.recording
    by_pool = recording.sizes(pools)
    if by_pool is not None:
        if identical_probability(dependence) < 1:
            raise ValueError("the trace has the sizes in each pool, dependent as they are: leave dependence out")
        return by_pool if len(pools) > 1 else by_pool[:, 0]
    size = recording.size
    if size is None or replicas == 1:
        return size
    if identical_probability(dependence) < 1:
        raise ValueError(
            "the trace has one size for each job: leave dependence out, or give the trace a column "
            "size_<pool> for each pool"
        )
    return np.repeat(size[:, None], replicas, axis=1)
