"""The arrival processes that a scenario can name, as one union tagged by ``kind``. Times are in time units.

There is one arrival stream for the whole cluster. A process is given the rate that the scenario asks for; what the
process itself says (gaps, intensities, a recording) fixes only its shape.
"""

from __future__ import annotations

import bisect
import itertools
import math
from typing import Annotated, Protocol

import numpy as np
from msgspec import Meta

from testbed.workload.checked import Checked
from testbed.workload.distribution import FloatArray
from testbed.workload.distributions import Deterministic, Distribution, Exponential
from testbed.workload.traces import Recording, read_recording


class ArrivalStream(Protocol):
    """Arrival times, block by block."""

    def next(self, n: int, /) -> FloatArray:
        """Return the next ``n`` arrival times in increasing order, shape (n,); fewer once a recording has ended."""


class Process(Checked, frozen=True):
    """Base of all arrival processes."""

    @property
    def natural_rate(self) -> float | None:
        """Jobs per time unit that the process has by itself; None if it takes any rate."""
        return None

    def gap_distribution(self, rate: float) -> Distribution | None:
        """Return the distribution of the gaps between arrivals if these are independent and alike, else None.

        The first arrival then comes one such gap after time 0.
        """
        return None

    def stream(self, rate: float | None, rng: np.random.Generator) -> ArrivalStream:
        """Return the arrivals at ``rate`` jobs per time unit. Raises ValueError for a rate that is not positive."""
        gaps = self.gap_distribution(_positive(rate))
        assert gaps is not None  # a process without such gaps overrides this method
        return RenewalStream(gaps, rng)


class Poisson(Process, frozen=True, tag="poisson"):
    """Poisson arrivals. Jobs dispatched uniformly at random then reach each dispatcher as a Poisson process too."""

    def gap_distribution(self, rate: float) -> Exponential:
        """Return the exponential distribution with mean 1 / rate."""
        return Exponential(mean=1 / rate)


class DeterministicArrivals(Process, frozen=True, tag="deterministic"):
    """One arrival every 1 / rate time units."""

    def gap_distribution(self, rate: float) -> Deterministic:
        """Return the distribution with all its mass on 1 / rate."""
        return Deterministic(value=1 / rate)

    def stream(self, rate: float | None, rng: np.random.Generator) -> ArrivalStream:
        """Return arrivals at 1 / rate, 2 / rate, ...; ``rng`` is not used."""
        return DeterministicStream(_positive(rate))


class Renewal(Process, frozen=True, tag="renewal"):
    """Independent gaps of any distribution, scaled to the rate."""

    gap: Annotated[
        Distribution, Meta(description="distribution of the gaps; only its shape counts, its mean becomes 1 / rate")
    ]

    def gap_distribution(self, rate: float) -> Distribution:
        """Return ``gap`` scaled to the mean 1 / rate."""
        return self.gap.scaled(1 / (rate * self.gap.mean))


class MarkovModulatedPoisson(Process, frozen=True, tag="mmpp"):
    """Poisson arrivals whose rate follows a Markov chain of phases, started in its stationary distribution.

    The rates are scaled together so that their stationary mean is the rate asked for; the switching is in time units
    and is not scaled, so that bursts last as long at any load and in any cluster.
    """

    rates: Annotated[
        tuple[float, ...], Meta(min_length=2, description="arrival rate in each phase; only their ratios count")
    ]
    sojourns: Annotated[
        tuple[float, ...] | None,
        Meta(
            description="mean time spent in each phase, in time units; the next phase is any other with equal chance; "
            "instead of `switching`"
        ),
    ] = None
    switching: Annotated[
        tuple[tuple[float, ...], ...] | None,
        Meta(
            description="rows of rates from phase to phase, per time unit; the diagonal is 0, or minus the row's sum; "
            "instead of `sojourns`"
        ),
    ] = None

    def __post_init__(self) -> None:
        super().__post_init__()
        phases = len(self.rates)
        if phases < 2:
            raise ValueError("`rates` must have at least 2 phases; with one the process is kind 'poisson'")
        for i, rate in enumerate(self.rates):
            if not (math.isfinite(rate) and rate >= 0):
                raise ValueError(f"`rates[{i}]` must be a finite number of at least 0, but is {rate!r}")
        if not sum(self.rates) > 0:
            raise ValueError("`rates` has only zeros: some phase must have arrivals")
        if (self.sojourns is None) == (self.switching is None):
            raise ValueError("an mmpp needs either `sojourns` or `switching`, and not both")
        if self.sojourns is not None:
            if len(self.sojourns) != phases:
                raise ValueError(f"`sojourns` must have {phases} entries, as `rates` has, but has {len(self.sojourns)}")
            for i, sojourn in enumerate(self.sojourns):
                if not (math.isfinite(sojourn) and sojourn > 0):
                    raise ValueError(f"`sojourns[{i}]` must be a finite number greater than 0, but is {sojourn!r}")
        if self.switching is not None:
            _check_switching(self.switching, phases)

    def generator_matrix(self) -> FloatArray:
        """Return the generator of the phases, shape (n, n), its rows summing to 0."""
        phases = len(self.rates)
        if self.sojourns is not None:
            matrix = np.tile(1 / ((phases - 1) * np.array(self.sojourns))[:, None], (1, phases))
        else:
            matrix = np.array(self.switching, dtype=np.float64)
        np.fill_diagonal(matrix, 0.0)
        np.fill_diagonal(matrix, -matrix.sum(axis=1))
        return matrix

    def stationary(self) -> FloatArray:
        """Return the stationary distribution of the phases, shape (n,)."""
        generator = self.generator_matrix()
        phases = len(generator)
        system = np.vstack([generator.T, np.full(phases, np.abs(generator).max())])
        right = np.zeros(phases + 1)
        right[-1] = np.abs(generator).max()
        solution = np.clip(np.linalg.lstsq(system, right, rcond=None)[0], 0.0, None)
        result: FloatArray = solution / solution.sum()
        return result

    def phase_rates(self, rate: float) -> FloatArray:
        """Return the arrival rate in each phase, shape (n,), scaled to the stationary mean ``rate``."""
        rates = np.array(self.rates, dtype=np.float64)
        result: FloatArray = rates * (rate / float(self.stationary() @ rates))
        return result

    def stream(self, rate: float | None, rng: np.random.Generator) -> ArrivalStream:
        """Return the arrivals at the mean rate ``rate``. Raises ValueError for a rate that is not positive."""
        return MarkovModulatedStream(self.generator_matrix(), self.stationary(), self.phase_rates(_positive(rate)), rng)


class Trace(Process, frozen=True, tag="trace", dict=True):
    """Arrivals from a recording in a CSV or Parquet file, and the jobs' sizes and types if it has those columns.

    A job's sizes in pools with central queues may stand in columns called ``size_`` and the pool's name.

    Time is counted from the first arrival. The file's times are time units, unless the scenario gives a rate: then they
    are stretched to it. The file is read when it is first needed, and once; whatever is wrong with it is a ValueError.
    """

    file: Annotated[str, Meta(description="CSV or Parquet file; 'sample' is the recording that is shipped")]
    repeat: Annotated[bool, Meta(description="start over when the recording ends, instead of ending the arrivals")] = (
        False
    )
    arrival: Annotated[str, Meta(description="column of the arrival times, in increasing order")] = "arrival"
    size: Annotated[str, Meta(description="column of the sizes, in time units; 'size' may be absent")] = "size"
    type: Annotated[str, Meta(description="column of the types, names or indices; 'type' may be absent")] = "type"

    @property
    def recording(self) -> Recording:
        """What the file holds. Raises ValueError, naming file, column and row, when it is unfit."""
        cache = self.__dict__
        if "recording" not in cache:
            cache["recording"] = read_recording(
                self.file,
                self.arrival,
                self.size,
                self.type,
                optional={field for field, name in (("size", self.size), ("type", self.type)) if name == field},
            )
        result: Recording = cache["recording"]
        return result

    @property
    def natural_rate(self) -> float:
        """Jobs per time unit in the file: their number over the time until the recording starts over."""
        recording = self.recording
        return len(recording.arrival) / recording.period

    def stream(self, rate: float | None, rng: np.random.Generator) -> ArrivalStream:
        """Return the recorded arrivals, stretched to ``rate`` unless it is None; ``rng`` is not used."""
        stretch = 1.0 if rate is None else self.natural_rate / _positive(rate)
        recording = self.recording
        return TraceStream(recording.arrival * stretch, recording.period * stretch, self.repeat)


ArrivalProcess = Poisson | DeterministicArrivals | Renewal | MarkovModulatedPoisson | Trace


class RenewalStream:
    """Sums of independent gaps."""

    def __init__(self, gaps: Distribution, rng: np.random.Generator) -> None:
        self._gaps = gaps
        self._rng = rng
        self._last = 0.0

    def next(self, n: int) -> FloatArray:
        """Return the next ``n`` arrival times, shape (n,)."""
        if n == 0:
            return np.empty(0)
        times = self._gaps.sample(self._rng, n)
        times[0] += self._last
        np.cumsum(times, out=times)
        self._last = float(times[-1])
        return times


class DeterministicStream:
    """Multiples of 1 / rate, each computed by itself: a running sum would drift."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._count = 0

    def next(self, n: int) -> FloatArray:
        """Return the next ``n`` arrival times, shape (n,)."""
        times = np.arange(self._count + 1, self._count + n + 1) / self._rate
        self._count += n
        return times


class TraceStream:
    """Recorded times, once or over and over, each round one period later than the last."""

    def __init__(self, times: FloatArray, period: float, repeat: bool) -> None:
        self._times = times
        self._period = period
        self._repeat = repeat
        self._count = 0

    def next(self, n: int) -> FloatArray:
        """Return the next ``n`` arrival times, shape (n,), or those that are left."""
        length = len(self._times)
        end = self._count + n if self._repeat else min(self._count + n, length)
        rounds, index = np.divmod(np.arange(self._count, end), length)
        self._count = end
        return self._times[index] + rounds * self._period


class MarkovModulatedStream:
    """Arrivals of a Markov-modulated Poisson process, as a unit-rate Poisson process in operational time.

    Operational time is the integral of the arrival rate: piecewise linear in time, a piece per stay in a phase. The
    unit process's points are drawn in blocks and mapped back through those pieces all at once; only the stays
    themselves, of which there are fewer in any bursty process, are drawn one by one. Stays and points come from
    generators of their own, so that the times don't depend on the blocks in which they are asked for.
    """

    def __init__(
        self, generator: FloatArray, start: FloatArray, phase_rates: FloatArray, rng: np.random.Generator
    ) -> None:
        self._points, stays = rng.spawn(2)
        self._rates = phase_rates.tolist()
        leaving = -generator.diagonal()
        self._mean_stays = (1 / leaving).tolist()
        moves = np.cumsum(generator + np.diag(leaving), axis=1)
        self._moves = [_ending_at_one(row) for row in moves.tolist()]
        self._uniform = (u for _ in itertools.count() for u in stays.random(1024).tolist())
        self._phase = bisect.bisect_right(_ending_at_one(np.cumsum(start).tolist()), next(self._uniform))
        self._point = 0.0  # the last point drawn, in operational time
        self._time = self._operational = 0.0  # up to where stays are drawn, in time and in operational time
        self._pieces = np.empty((3, 0))  # per stay: operational time and time at its start, rate

    def next(self, n: int) -> FloatArray:
        """Return the next ``n`` arrival times, shape (n,)."""
        if n == 0:
            return np.empty(0)
        points = self._points.standard_exponential(n)
        points[0] += self._point
        np.cumsum(points, out=points)
        self._point = float(points[-1])
        self._draw_stays()
        operational, time, rate = self._pieces
        # Stays at rate 0 take no operational time: of those that start at one such time the last, which is found, has
        # a positive rate.
        piece = np.searchsorted(operational, points, side="right") - 1
        times: FloatArray = time[piece] + (points - operational[piece]) / rate[piece]
        self._pieces = self._pieces[:, piece[-1] :]
        return times

    def _draw_stays(self) -> None:
        """Draw stays until they reach beyond the last point."""
        new: list[tuple[float, float, float]] = []
        uniform = self._uniform
        while self._operational <= self._point:
            rate = self._rates[self._phase]
            stay = -self._mean_stays[self._phase] * math.log1p(-next(uniform))
            new.append((self._operational, self._time, rate))
            self._operational += rate * stay
            self._time += stay
            self._phase = bisect.bisect_right(self._moves[self._phase], next(uniform))
        if new:
            self._pieces = np.hstack([self._pieces, np.array(new).T])


def _ending_at_one(cumulated: list[float]) -> list[float]:
    """Return cumulated weights as cumulated probabilities whose end is exactly 1."""
    return [value / cumulated[-1] for value in cumulated]


def _positive(rate: float | None) -> float:
    if rate is None or not (math.isfinite(rate) and rate > 0):
        raise ValueError(f"the arrival rate must be a finite number greater than 0, but is {rate!r}")
    return rate


def _check_switching(switching: tuple[tuple[float, ...], ...], phases: int) -> None:
    if len(switching) != phases or any(len(row) != phases for row in switching):
        raise ValueError(f"`switching` must have {phases} rows of {phases} entries, as `rates` has phases")
    for i, row in enumerate(switching):
        for j, entry in enumerate(row):
            if not math.isfinite(entry) or (i != j and entry < 0):
                raise ValueError(
                    f"`switching[{i}][{j}]` must be a finite rate of at least 0 per time unit, but is {entry!r}"
                )
        leaving = math.fsum(entry for j, entry in enumerate(row) if j != i)
        if row[i] != 0 and abs(row[i] + leaving) > 1e-9 * leaving:
            raise ValueError(f"`switching[{i}][{i}]` must be 0 or {-leaving!r}, minus the row's sum, but is {row[i]!r}")
    for start in range(phases):
        reached, frontier = {start}, [start]
        while frontier:
            i = frontier.pop()
            fresh = [j for j in range(phases) if j not in reached and switching[i][j] > 0]
            reached.update(fresh)
            frontier += fresh
        if len(reached) < phases:
            missing = ", ".join(str(j) for j in range(phases) if j not in reached)
            raise ValueError(
                f"`switching` never leads from phase {start} to phase {missing}: "
                "every phase must be reachable from every other"
            )
