"""A study: the points of a figure or table, and what is computed at each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario

Setting = str | int | float
#: A point's coordinates, by the names of the study's columns.
Settings = Mapping[str, Setting]
#: Where a number comes from. A "reference" number was computed or measured by others, and ships with the package.
Source = Literal["theory", "twin", "cluster", "reference"]
SOURCES: tuple[Source, ...] = ("theory", "twin", "cluster", "reference")

PARALLEL_JOBS = "Weng and Wang 2021, Achieving zero asymptotic queueing delay for parallel jobs"
STEALING_SHARING = (
    "Van Houdt 2019, Randomized work stealing versus sharing in large-scale systems with non-exponential job sizes"
)
RESOLVING_AFFINITY = (
    "Raaijmakers, Borst and Boxma 2020, Threshold-based rerouting and replication for resolving job-server affinity "
    "relations"
)


@dataclass(frozen=True)
class Point:
    """A point of a study.

    ``settings``: its coordinates. ``twin``: the scenario that the twin runs ``run.replications`` times, if any. Points
    with an equal scenario share its runs. ``cluster``: the scenario that ``--cluster`` runs on real processes.
    ``line``: whether the point only draws the theory's line in a plot, and is not in the table.
    """

    settings: Settings
    twin: Scenario | None = None
    cluster: Scenario | None = None
    line: bool = False

    def __str__(self) -> str:
        return ", ".join(f"{name.replace('_', ' ')} {shown(value)}" for name, value in self.settings.items())


@dataclass(frozen=True)
class Row:
    """One number: ``value`` of a quantity at a point, from a source.

    ``half_width``: of the 95 % confidence interval over ``replications``; for a reference, its stated accuracy.
    ``verdict``: of the cluster's runs.
    """

    settings: Settings
    quantity: str
    source: Source
    value: float
    half_width: float | None = None
    replications: int = 0
    verdict: str = ""
    line: bool = field(default=False, compare=False)


class Study(ABC):
    """A figure or table of a paper. ``testbed.studies.reproduce`` explains how to write one.

    ``name``: on the command line; ``shows``: what it computes, and which figure or table that is; ``takes``: about how
    long, on two cores. ``columns``: the meaning of each setting; ``quantities``: the meaning of each quantity, with its
    unit. ``tabulated``: the quantities in the printed table (default: all); ``hidden``: the settings that it leaves
    out. ``controls``: for a quantity, another measured quantity that is correlated with it, and the setting that is the
    other's true mean: the noise that both have in common is then removed (testbed.measure.control_variate).
    """

    name: ClassVar[str]
    paper: ClassVar[str]
    shows: ClassVar[str]
    takes: ClassVar[str]
    columns: ClassVar[Mapping[str, str]]
    quantities: ClassVar[Mapping[str, str]]
    tabulated: ClassVar[Sequence[str] | None] = None
    hidden: ClassVar[Sequence[str]] = ()
    controls: ClassVar[Mapping[str, tuple[str, str]]] = {}

    @abstractmethod
    def points(self, quick: bool) -> list[Point]:
        """Return the points; ``quick`` asks for few points and short runs, below 20 seconds in total."""

    def theory(self, settings: Settings) -> Mapping[str, float]:
        """Return the theory's numbers at a point, by quantity; none where there is no theory."""
        return {}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> Mapping[str, float]:
        """Return what one run measured for a point, by quantity. Called in the process that made the run."""
        raise NotImplementedError(f"{self.name} has points with scenarios, but no measure()")

    @abstractmethod
    def figures(self, rows: Sequence[Row]) -> Mapping[str, Figure]:
        """Return the plots by file name, without its ending; ``testbed.studies.reproduce.curves`` draws them."""

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Return remarks for readers of the table."""
        return []


def shown(value: Setting) -> str:
    """Write a setting in few characters."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def value_of(rows: Sequence[Row], quantity: str, source: Source, **settings: Any) -> float | None:
    """Return the value of the row with these settings (others may have any value); None where there is none."""
    for row in rows:
        if row.quantity == quantity and row.source == source and settings.items() <= row.settings.items():
            return row.value
    return None
