"""Statistics of the copies of jobs: service used in each pool, useful and wasted, and outcomes of cancellations."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
from scipy import stats

from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.measure.statistics import Interval

CONFIDENCE = 0.95

Columns = Mapping[str, npt.NDArray[Any]]


@dataclass(frozen=True)
class NominalPool:
    """A pool of the scenario; ``requirement`` is E[B_i], its service requirement by the theory, None if unknown.

    With ``carries_over`` the service of a copy that leaves is not lost to its job.
    """

    name: str
    servers: int
    requirement: float | None
    carries_over: bool = False


class PoolUse(msgspec.Struct, frozen=True, kw_only=True):
    """The service that jobs used in a pool, in time units per job, over the jobs that came in the window and completed.

    ``service_requirement`` is its mean over these jobs; one that never visited the pool counts 0. Jobs use service
    independently of each other, so its interval is Student's. It is the sum of ``useful`` service, of copies that
    completed their jobs, and service ``wasted_by_rerouting`` and ``wasted_by_losing``. ``effective_load`` is the
    service requirement times the scenario's arrival rate, per server. The theory's values are None where it has none.
    ``completed_share`` is the fraction of the jobs that were completed there.
    """

    name: str
    servers: int
    service_requirement: Interval
    useful: float | None
    wasted_by_rerouting: float | None
    wasted_by_losing: float | None
    effective_load: Interval
    theory_service_requirement: float | None
    theory_effective_load: float | None
    completed_share: float | None = None


class Cancellations(msgspec.Struct, frozen=True, kw_only=True):
    """Outcomes of the copies of the jobs that came in the window.

    ``copies_per_job``, ``preemptions_per_job`` and ``cancellations_per_job`` are means over the jobs that completed;
    all else is about all copies that have ended. ``by_outcome`` counts these by outcome, ``by_state`` the cancelled
    ones by their state at cancellation. ``delay_p50`` and ``delay_p99`` are quantiles, in time units, of the time from
    a copy's end, or the report of its start where that cancels, to the report that another has stopped.
    """

    copies_per_job: float | None
    preemptions_per_job: float | None
    cancellations_per_job: float | None = None
    by_outcome: dict[str, int] = msgspec.field(name="by_fate")
    by_state: dict[str, int] = msgspec.field(name="by_met")
    delay_p50: float | None
    delay_p99: float | None


def pool_uses(
    jobs: Columns, copies: Columns, pools: Sequence[NominalPool], rate: float, window: tuple[float, float]
) -> list[PoolUse]:
    """Return the service used in each pool by the jobs that came in ``window`` and completed.

    ``jobs`` and ``copies``: the records of the whole run; ``rate``: jobs per time unit, from the scenario.
    """
    numbers = _completed(jobs, copies, window)
    row, known = _rows(numbers, copies)
    known &= ~np.isnan(copies["received"])
    used = np.zeros((len(numbers), len(pools)))
    np.add.at(used, (row[known], copies["pool"][known]), copies["received"][known])
    won_in = np.bincount(copies["pool"][known & (copies["fate"] == CopyOutcome.WON)], minlength=len(pools))
    by_outcome = np.zeros((len(CopyOutcome), len(pools)))
    np.add.at(by_outcome, (copies["fate"][known], copies["pool"][known]), copies["received"][known])
    found = []
    for i, pool in enumerate(pools):
        requirement = _interval(used[:, i])
        won, lost, rerouted, _ = by_outcome[:, i]
        if pool.carries_over:
            won, rerouted = won + rerouted, 0.0
        load = rate / pool.servers
        found.append(
            PoolUse(
                name=pool.name,
                servers=pool.servers,
                service_requirement=requirement,
                useful=_per_job(won, len(numbers)),
                wasted_by_rerouting=_per_job(rerouted, len(numbers)),
                wasted_by_losing=_per_job(lost, len(numbers)),
                effective_load=msgspec.structs.replace(
                    requirement,
                    mean=_times(requirement.mean, load),
                    half_width=_times(requirement.half_width, load),
                ),
                theory_service_requirement=pool.requirement,
                theory_effective_load=_times(pool.requirement, load),
                completed_share=_per_job(won_in[i], len(numbers)),
            )
        )
    return found


def cancellations(jobs: Columns, copies: Columns, window: tuple[float, float]) -> Cancellations:
    """Return the outcomes of the copies of the jobs that came in ``window``, from the records of the whole run."""
    completed = _completed(jobs, copies, window)
    _, of_completed = _rows(completed, copies)
    _, known = _rows(np.sort(jobs["job"][_in_window(jobs, window)]), copies)
    outcome, state, delay = (copies[name][known] for name in ("fate", "met", "delay"))
    delay = delay[np.isfinite(delay)]
    p50, p99 = (float(np.quantile(delay, p)) if len(delay) else None for p in (0.5, 0.99))
    return Cancellations(
        copies_per_job=_per_job(float(of_completed.sum()), len(completed)),
        preemptions_per_job=_per_job(float(copies["preemptions"][of_completed].sum()), len(completed)),
        cancellations_per_job=_per_job(
            float(np.count_nonzero(copies["met"][of_completed] != StateAtCancellation.NOT_CANCELLED)), len(completed)
        ),
        by_outcome={code.label: int(np.count_nonzero(outcome == code)) for code in CopyOutcome},
        by_state={
            code.label: int(np.count_nonzero(state == code))
            for code in StateAtCancellation
            if code is not StateAtCancellation.NOT_CANCELLED
        },
        delay_p50=p50,
        delay_p99=p99,
    )


def _in_window(jobs: Columns, window: tuple[float, float]) -> npt.NDArray[np.bool_]:
    inside: npt.NDArray[np.bool_] = (jobs["arrival"] >= window[0]) & (jobs["arrival"] < window[1])
    return inside


def _completed(jobs: Columns, copies: Columns, window: tuple[float, float]) -> npt.NDArray[Any]:
    """Return the sorted numbers of the jobs that came in ``window`` and were completed by a copy that has a record.

    A long-running cluster keeps the latest records of each table: the copies of its oldest jobs are gone.
    """
    done = jobs["job"][_in_window(jobs, window) & (jobs["outcome"] == JobOutcome.COMPLETED)]
    found: npt.NDArray[Any] = np.intersect1d(done, copies["job"][copies["fate"] == CopyOutcome.WON])
    return found


def _rows(numbers: npt.NDArray[Any], copies: Columns) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.bool_]]:
    """Return for each copy where its job is among the sorted ``numbers``, and whether it is there."""
    row = np.searchsorted(numbers, copies["job"])
    known = row < len(numbers)
    known[known] = numbers[row[known]] == copies["job"][known]
    return row, known


def _interval(values: npt.NDArray[np.float64]) -> Interval:
    n = len(values)
    half_width = None
    if n > 1:
        half_width = float(stats.t.ppf((1 + CONFIDENCE) / 2, n - 1) * values.std(ddof=1) / math.sqrt(n))
    mean = float(values.mean()) if n else None
    return Interval(mean=mean, half_width=half_width, confidence=CONFIDENCE, effective_samples=n, reliable=n > 1)


def _per_job(total: float, jobs: int) -> float | None:
    return float(total) / jobs if jobs else None


def _times(value: float | None, factor: float) -> float | None:
    return None if value is None else value * factor
