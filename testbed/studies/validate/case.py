"""Validation cases: a scenario, what must be true of it, and where it is run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import msgspec

from testbed.runtime.build import expected_jobs, expected_tasks
from testbed.scenario import Expect, Scenario, ScenarioError
from testbed.theory.predict import NoPrediction, Prediction, predict

Place = Literal["twin", "cluster"]
PLACES: tuple[Place, ...] = ("twin", "cluster")

#: The numbers of servers for a case with a limit: in the full suite, and with --quick.
SIZES = (20, 50, 100, 200, 500, 1000)
QUICK_SIZES = (20, 40, 60, 100)
#: Replications on the twin where the scenario does not give a number.
REPLICATIONS = 24
#: A run of more servers is shorter, so that each run has about as many jobs, but its window is at least this long.
LEAST_WINDOW = 20.0


class Expected(NamedTuple):
    """A mean response time, in time units, and the prediction that it comes from; None if the user gave it."""

    mean: float
    prediction: Prediction | None


@dataclass(frozen=True)
class Case:
    """A scenario and what must be true of it.

    ``scenario``: what the twin runs, ``run.replications`` times. ``servers``: the numbers of servers
    from which the limit is extrapolated; empty where theory is for the scenario as it is. ``cluster``: what real
    processes run, once; None if nothing. ``about``: one line for a reader; ``known_error``: the reason for
    ``expect.within``.
    """

    name: str
    about: str
    scenario: Scenario
    expect: Expect
    servers: tuple[int, ...] = ()
    cluster: Scenario | None = None
    known_error: str = ""

    @property
    def twins(self) -> list[Scenario]:
        """The scenarios that the twin runs."""
        if "twin" not in self.expect.on:
            return []
        return [at_size(self.scenario, n) for n in self.servers] or [self.scenario]

    @property
    def whole(self) -> Scenario:
        """The scenario with its ``[expect]``: saved as a file, it is this case, except for the cluster's scenario."""
        expect = msgspec.structs.replace(self.expect, finite_n=list(self.servers) or False)
        return msgspec.structs.replace(self.scenario, expect=expect)

    @property
    def jobs(self) -> int:
        """The jobs, and where jobs have several tasks the tasks, that the twin simulates."""
        return sum((expected_jobs(s) + expected_tasks(s)) * s.run.replications for s in self.twins)

    @property
    def cluster_seconds(self) -> float:
        """The duration of the run on the cluster, without the start of processes."""
        return 0.0 if self.cluster is None else self.cluster.horizon * self.cluster.run.time_unit_seconds

    def expected(self, scenario: Scenario) -> Expected:
        """Return the expected value for a scenario. Raises ScenarioError if there is neither theory nor a number."""
        if self.expect.mean_response_time != "theory":
            return Expected(self.expect.mean_response_time, None)
        prediction = predict(scenario)
        if isinstance(prediction, NoPrediction):
            raise ScenarioError(
                f"no theory: {prediction.reason}; give expect.mean_response_time", key="expect", source=self.name
            )
        return Expected(prediction.mean_response_time, prediction)


def at_size(scenario: Scenario, servers: int) -> Scenario:
    """Return the scenario with N servers at the same load: pools, and dispatchers if there are several, in proportion.

    The measured window shrinks as N grows, so that the number of jobs stays the same, but not below 20 time units.
    Raises ScenarioError if a pool or the dispatchers would not be a whole number.
    """
    factor = servers / scenario.servers
    if math.isclose(factor, 1.0):
        return scenario
    cluster = scenario.cluster
    dispatchers = cluster.dispatchers * factor if cluster.dispatchers > 1 else 1
    settings: dict[str, float | int] = {
        "cluster.dispatchers": _whole(dispatchers, servers, "dispatchers"),
        "workload.load": scenario.load,
        "run.duration": max(scenario.run.duration / factor, LEAST_WINDOW),
    }
    for index, pool in enumerate(cluster.pools):
        settings[f"cluster.pools.{index}.servers"] = _whole(pool.servers * factor, servers, f"pool {pool.name}")
    return scenario.with_settings(settings)


def _whole(value: float, servers: int, what: str) -> int:
    if not math.isclose(value, round(value), abs_tol=1e-9) or round(value) < 1:
        raise ScenarioError(
            f"with {servers} servers {what} would have to be {value:g}; give numbers of servers at which all pools and "
            "several dispatchers keep their proportions",
            key="expect.finite_n",
        )
    return round(value)


def sizes_of(expect: Expect, quick: bool) -> tuple[int, ...]:
    """Return the numbers of servers that an ``[expect]`` asks for."""
    if isinstance(expect.finite_n, bool):
        return () if not expect.finite_n else QUICK_SIZES if quick else SIZES
    return tuple(expect.finite_n)


def places(text: str) -> list[Place]:
    """Read places with a comma between. Raises ValueError."""
    found = [place.strip() for place in text.split(",")]
    known: list[Place] = [place for place in PLACES if place in found]
    if len(known) < len(found):
        raise ValueError(f"on: give one or both of {', '.join(PLACES)}, each once, not {text!r}")
    return known


def only_on(cases: Sequence[Case], places: Sequence[Place]) -> list[Case]:
    """Return the cases restricted to ``places``, without those that run in none of them."""
    found = []
    for case in cases:
        on: list[Place] = [place for place in case.expect.on if place in places]
        if "cluster" in on and case.cluster is None:
            on.remove("cluster")
        if on:
            expect = msgspec.structs.replace(case.expect, on=on)
            cluster = case.cluster if "cluster" in on else None
            found.append(Case(case.name, case.about, case.scenario, expect, case.servers, cluster, case.known_error))
    return found
