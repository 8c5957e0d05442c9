"""What a study asks the engine to run, and what it does with the results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from testbed.core.records import Measurements
from testbed.runs.experiment import Where
from testbed.runs.result import VariantRun
from testbed.scenario import Scenario

T = TypeVar("T")
#: Reduces what a run of the twin measured to what a study needs. Called in the process that made the run.
Measure = Callable[[Scenario, Measurements], T]


@dataclass(frozen=True)
class Run:
    """A run to make of a scenario without variants.

    ``name`` is for messages, ``key`` for the study. ``work``: how long the run takes, in any unit that all runs of the
    study share. ``doing``: shown while it is made.
    """

    name: str
    scenario: Scenario
    replication: int = 0
    where: Where = "twin"
    key: Any = None
    variant: str = ""
    work: float = 1.0
    doing: str = ""

    def __str__(self) -> str:
        return self.name


class StudyRuns(Protocol[T]):
    """The runs of a sweep, a validation or a reproduction, and their results."""

    @property
    def measure(self) -> Measure[T]:
        """Reduces the measurements of a run of the twin. Worker processes must be able to unpickle it."""

    def batches(self) -> Iterator[Sequence[Run]]:
        """Yield the runs to make. The next batch is asked for when the results of the last one are kept."""

    def keep_twin(self, run: Run, value: T) -> None:
        """Keep what ``measure`` returned for a run of the twin."""

    def keep_cluster(self, run: Run, made: VariantRun) -> None:
        """Keep the result of a run on real processes."""
