"""The runs of a sweep: points, variants and replications, their order, and how many replications are enough."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, NamedTuple, get_args

import msgspec

from testbed.measure.statistics import Interval, replication_interval
from testbed.measure.summary import Summary
from testbed.runs.experiment import Where
from testbed.runs.probe_rate import check_calibration
from testbed.runtime.build import expected_jobs, expected_tasks
from testbed.scenario import Scenario, ScenarioError, SweepPoint, sweep_points, variants

#: Where a sweep can get response times from.
Place = Literal["cluster", "twin", "theory"]
MEASURED: Final = ("cluster", "twin")

#: The fewest replications with a target: from fewer, the width of an interval is too uncertain.
FEWEST: Final = 10
#: The most replications with a target.
BUDGET: Final = 100


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """Where a sweep runs, and how precisely.

    ``target``: the largest half-width of the mean response time's 95 % interval at each point and variant, as a
    fraction of the mean; None: ``run.replications`` replications, whatever the result. ``budget``: most replications of
    a point to reach the target.
    """

    on: tuple[Place, ...] = ("twin", "theory")
    target: float | None = None
    budget: int = BUDGET

    def __post_init__(self) -> None:
        for place in self.on:
            if place not in get_args(Place):
                raise ValueError(f"on: there is no {place!r}; give some of {', '.join(get_args(Place))}")
        if not self.on or len(set(self.on)) < len(self.on):
            raise ValueError(f"on: give one or more of {', '.join(get_args(Place))}, each once")
        if self.target is not None and not 0 < self.target < 1:
            raise ValueError(f"target: must be a fraction between 0 and 1, such as 0.01 for 1 %, not {self.target:g}")
        if self.budget < 2:
            raise ValueError(f"budget: must be at least 2 replications, not {self.budget}")

    @property
    def measured(self) -> tuple[Place, ...]:
        """The places where runs are made: "cluster", "twin" or both."""
        return tuple(place for place in MEASURED if place in self.on)

    @property
    def where(self) -> Where:
        """Where each run is made."""
        if "cluster" not in self.on:
            return "twin"
        return "cluster and twin" if "twin" in self.on else "cluster"


class RunKey(NamedTuple):
    """Which run of a sweep: the point by its index, the variant, the replication from 0."""

    point: int
    variant: str
    replication: int

    def __str__(self) -> str:
        return f"point {self.point}, {self.variant}, replication {self.replication + 1}"


class FinishedRun(msgspec.Struct, frozen=True, kw_only=True):
    """A finished run, with its summary from each place where it was made."""

    point: int
    variant: str
    replication: int
    cluster: Summary | None = None
    twin: Summary | None = None

    @property
    def key(self) -> RunKey:
        """Which run it is."""
        return RunKey(self.point, self.variant, self.replication)

    def summary(self, place: str) -> Summary | None:
        """Return the summary from the cluster or from the twin."""
        return self.cluster if place == "cluster" else self.twin


Runs = Mapping[RunKey, FinishedRun]


class Precision(NamedTuple):
    """How precisely the mean response time of a variant at a point is known from one place."""

    point: int
    variant: str
    place: Place
    replications: int
    relative_half_width: float | None  # None: there is no interval, because no job finished
    reached: bool


@dataclass
class Plan:
    """The runs of a sweep. Raises ScenarioError for a scenario without points."""

    scenario: Scenario
    goal: Goal
    points: list[SweepPoint] = field(init=False)
    variants: list[dict[str, Scenario]] = field(init=False)  # of each point

    def __post_init__(self) -> None:
        self.points = sweep_points(self.scenario)
        if not self.points:
            raise ScenarioError(
                'missing; give [sweep.grid] with the values of a key, as in "workload.load" = [0.5, 0.7, 0.9], or '
                "[[sweep.points]]",
                key="sweep",
            )
        self.variants = [dict(variants(point.scenario)) for point in self.points]
        for point, scenarios in zip(self.points, self.variants, strict=True):
            try:
                for scenario in scenarios.values():
                    check_calibration(scenario)
            except ScenarioError as error:
                raise error.moved(source="scenario", inside=f"sweep ({point})") from None

    @property
    def most_replications(self) -> int:
        """The most replications of a point."""
        return max(self.scenario.run.replications, self.goal.budget)

    def can_have(self, key: RunKey) -> bool:
        """Return whether a run can belong to this sweep.

        With a target any replication can: more may have been made before the budget was reduced.
        """
        return (
            0 <= key.point < len(self.points)
            and key.variant in self.variants[key.point]
            and key.replication >= 0
            and (self.goal.target is not None or key.replication < self.scenario.run.replications)
        )

    def scenario_of(self, key: RunKey) -> Scenario:
        """Return the scenario of a run."""
        return self.variants[key.point][key.variant]

    def work(self, key: RunKey) -> float:
        """Return how long a run takes, up to a factor: seconds on the cluster, jobs and tasks on the twin."""
        scenario = self.scenario_of(key)
        if "cluster" in self.goal.on:
            return scenario.horizon * scenario.run.time_unit_seconds
        return expected_jobs(scenario) + expected_tasks(scenario)

    def missing(self, runs: Runs) -> list[RunKey]:
        """Return the runs to make next, given the finished ones; none when the sweep is complete.

        The order is by replication, then by point, then by variant: A B A B, not A A B B, so that a drift of the
        machine affects all alike. With a target, more may be missing once these are made.
        """
        wanted = [self.replications_wanted(point, runs) for point in range(len(self.points))]
        return [
            key
            for replication in range(max(wanted))
            for point, enough in enumerate(wanted)
            if replication < enough
            for key in self._keys(point, replication)
            if key not in runs
        ]

    def _keys(self, point: int, replication: int) -> Iterator[RunKey]:
        for variant in self.variants[point]:
            yield RunKey(point, variant, replication)

    def replications_wanted(self, point: int, runs: Runs) -> int:
        """Return how many replications of a point to make, given the finished runs.

        With a target, ``FEWEST`` are made first. As long as a variant misses the target, more are added: as many as its
        variance asks for, but at most as many again as there are, within the budget. Each step depends only on the
        replications before it, so that an interrupted sweep arrives at the same numbers as one that was not
        interrupted. All variants of a point get the same replications, so that they can be compared in pairs.
        """
        replications = self.scenario.run.replications
        goal = self.goal
        if not goal.measured:
            return 0
        if goal.target is None:
            return replications
        wanted = min(max(replications, FEWEST), goal.budget)
        while wanted < goal.budget and all(key in runs for r in range(wanted) for key in self._keys(point, r)):
            widths = [precision.relative_half_width for precision in self._precisions(point, runs, wanted)]
            factor = max((2.0 if width is None else width / goal.target) ** 2 for width in widths)
            if factor <= 1:
                break
            wanted = min(goal.budget, max(wanted + 1, int(wanted * min(factor, 2.0))))
        return wanted

    def precisions(self, runs: Runs) -> list[Precision]:
        """Return the precision of each mean, by point, variant and place; none without a target."""
        if self.goal.target is None:
            return []
        found: list[Precision] = []
        for point in range(len(self.points)):
            found += self._precisions(point, runs, self.replications_wanted(point, runs))
        return found

    def _precisions(self, point: int, runs: Runs, replications: int) -> Iterator[Precision]:
        for variant in self.variants[point]:
            made = [runs[key] for r in range(replications) if (key := RunKey(point, variant, r)) in runs]
            for place in self.goal.measured:
                mean = over_replications(run.summary(place) for run in made)
                width = None
                if mean.mean and mean.half_width is not None:
                    width = mean.half_width / mean.mean
                target = self.goal.target
                reached = width is not None and target is not None and width <= target
                yield Precision(point, variant, place, len(made), width, reached)


def over_replications(summaries: Iterable[Summary | None]) -> Interval:
    """Return the mean response time over replications with Student's interval."""
    return replication_interval([None if summary is None else summary.response.mean for summary in summaries])
