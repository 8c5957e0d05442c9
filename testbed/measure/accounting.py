"""Conservation of jobs: arrived = completed + dropped + lost + still in the system (testbed/docs/architecture.md,
rule 9)."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from testbed.core.outcomes import JobOutcome


class Accounting(msgspec.Struct, frozen=True, kw_only=True):
    """The numbers of a run's jobs by outcome. ``problems`` has a sentence for each error in them."""

    arrived: int
    completed: int
    dropped: int
    lost: int
    in_system: int
    problems: list[str]

    @property
    def balanced(self) -> bool:
        """Whether every job is accounted for, once."""
        return not self.problems


def check(
    columns: Mapping[str, npt.NDArray[Any]], arrived: int, unrecorded: Mapping[str, int] = MappingProxyType({})
) -> Accounting:
    """Count the records by outcome and compare them with the number of jobs that arrived.

    ``columns``: the records of the whole run, shape (jobs,) each. ``arrived``: the dispatchers' own count of arrivals,
    which does not come from the records. ``unrecorded``: numbers of jobs without a record, by outcome: those of a
    dispatcher that has died, and those of a long-running cluster that are too old to be kept.
    """
    outcome = columns["outcome"]
    recorded = [int(np.count_nonzero(outcome == code)) for code in JobOutcome]
    counts = [count + unrecorded.get(code.label, 0) for code, count in zip(JobOutcome, recorded, strict=True)]
    problems = []
    if sum(counts) != arrived:
        parts = " + ".join(f"{count} {name}" for count, name in zip(counts, JobOutcome.labels(), strict=True))
        problems.append(f"{arrived} jobs arrived, but the records hold {sum(counts)}: {parts}")
    if unknown := len(outcome) - sum(recorded):
        problems.append(f"{unknown} records have an outcome that does not exist")
    jobs, times = np.unique(columns["job"], return_counts=True)
    if len(twice := jobs[times > 1]):
        problems.append(f"{len(twice)} jobs are recorded more than once, the first is job {twice[0]}")
    without = (outcome == JobOutcome.COMPLETED) & ~np.isfinite(columns["response"])
    if np.any(without):
        problems.append(f"{int(np.count_nonzero(without))} completed jobs have no response time")
    completed, dropped, lost, in_system = counts
    return Accounting(
        arrived=arrived, completed=completed, dropped=dropped, lost=lost, in_system=in_system, problems=problems
    )
