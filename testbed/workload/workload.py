"""A run's jobs: when they arrive, of which type and size they are, and which dispatcher receives them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from testbed.streams import generator
from testbed.workload.arrivals import ArrivalProcess, Trace
from testbed.workload.distributions import Distribution
from testbed.workload.law import FloatArray
from testbed.workload.task_numbers import FixedNumber, TaskNumbers

IntArray = npt.NDArray[np.int64]

ONE_TASK = FixedNumber(value=1)
_NO_SIZES = np.empty(0)

_DRAWN = 4096  # jobs, or sizes, drawn at a time
_TASKS = 1 << 17  # in a block, but for a job that has more by itself: many tasks must not fill the memory


@dataclasses.dataclass(frozen=True, slots=True)
class Block:
    """Some jobs in order of arrival; all arrays but ``size`` have shape (jobs,)."""

    job: IntArray  # number of the job, from 0
    arrival: FloatArray  # intended arrival time, in time units
    kind: IntArray  # index of its type
    size: FloatArray  # (tasks of all jobs,): of each job's tasks, in time units at speed 1
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
            self.job[which], self.arrival[which], self.kind[which], size, self.dispatcher[which], self.tasks[which]
        )

    def sizes(self) -> Iterator[Sequence[float]]:
        """Yield the sizes of each job's tasks."""
        flat = self.size.tolist()
        if len(flat) == len(self.job):
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
    leaves the others as they are: two policies, cluster sizes or size laws meet the same arrivals. Every dispatcher
    generates all jobs and picks its own; a uniformly random choice makes D Poisson streams out of one.

    Args:
        arrivals: the arrival process of the whole cluster.
        size: law of the sizes; not used if ``arrivals`` is a trace with sizes.
        type_probabilities: probability of each job type, summing to 1; not used if the trace has types.
        rate: jobs per time unit for the whole cluster; None, for a trace only, to take its times as they are.
        dispatchers: how many dispatchers there are.
        seed: the run's seed.
        replication: index of the replication.
        type_names: names of the types, by which a trace may call them; by default they have only indices.
        tasks: law of the number of tasks of a job; one where a trace has sizes.

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
        self._recorded_sizes: FloatArray | None = None
        self._recorded_kinds: IntArray | None = None
        if isinstance(arrivals, Trace):
            names = type_names if type_names is not None else [str(i) for i in range(len(probabilities))]
            self._recorded_sizes = arrivals.recording.size
            self._recorded_kinds = arrivals.recording.type_indices(names)
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

        These have one length always: how some laws use the generator depends on how many values are drawn at once.
        """
        arrivals, sizes, types, dispatchers, numbers = (
            generator(self._seed, self._replication, name)
            for name in ("arrivals", "sizes", "types", "dispatchers", "tasks")
        )
        stream = self._arrivals.stream(self._rate, arrivals)
        first = 0
        while True:
            arrival = stream.next(_DRAWN)
            n = len(arrival)
            if n == 0:
                return
            job = np.arange(first, first + n)
            if self._recorded_kinds is None:
                kind = np.searchsorted(self._cumulated, types.random(_DRAWN)[:n], side="right")
            else:
                kind = self._recorded_kinds[job % len(self._recorded_kinds)]
            dispatcher = (dispatchers.random(_DRAWN)[:n] * self._dispatchers).astype(np.int64)
            tasks = self._tasks.sample(numbers, _DRAWN)[:n]
            if self._recorded_sizes is None:
                yield from self._with_sizes(Block(job, arrival, kind, _NO_SIZES, dispatcher, tasks), sizes)
            else:
                recorded = self._recorded_sizes[job % len(self._recorded_sizes)]
                yield Block(job, arrival, kind, recorded, dispatcher, tasks)
            first += n

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
                block.kind[piece],
                size[:wanted],
                block.dispatcher[piece],
                block.tasks[piece],
            )
            left = size[wanted:]
            start, drawn = stop, int(ends[stop - 1])
