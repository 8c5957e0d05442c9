"""Traced jobs of a run folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pyarrow.parquet as pq

from testbed.core.trace_recorder import TraceEvent
from testbed.runs.job_history import Job, Names, Step, history
from testbed.runs.run_folder import OutputError, read_run

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class TracedRun:
    """The traced jobs of one variant in one replication: their events in the order of time, and their records."""

    variant: str
    names: Names
    events: dict[int, list[TraceEvent]]
    jobs: dict[int, Job]

    def history(self, job: int) -> list[Step]:
        """Return the history of a job. Raises OutputError for one that was not traced."""
        if job not in self.jobs:
            near = sorted(sorted(self.jobs, key=lambda other: abs(other - job))[:4])
            raise OutputError(
                f"job {job} of {self.variant} was not traced; those near it that were: {', '.join(map(str, near))}. "
                "Exemplars name traced jobs; run.traced = 1 traces all"
            )
        return history(self.jobs[job], self.events[job], self.names)


def traced_run(folder: Path, variant: str | None, replication: int, twin: bool) -> TracedRun:
    """Read the traced jobs of a run: those of the cluster, or of its twin, or whichever was run.

    ``variant`` is None for the first one. Raises OutputError when there is none.
    """
    scenario, _ = read_run(folder)
    of_twin = twin or not (folder / "jobs.parquet").exists()
    events_file = folder / ("twin_events.parquet" if of_twin else "events.parquet")
    if not events_file.exists():
        wanted = "of the twin, which `testbed twin` runs" if twin else "; run it again"
        raise OutputError(
            f"{folder}: no job was traced {wanted}, with run.traced in the scenario: the fraction of jobs to trace, "
            "such as 0.01"
        )
    events = pq.read_table(events_file)
    variants = events["variant"].unique().to_pylist()
    chosen = variants[0] if variant is None else variant
    events = _of_run(events, chosen, replication)
    if not events.num_rows:
        raise OutputError(
            f"{events_file}: no traced job of variant {chosen!r} in replication {replication}; there are variants "
            f"{', '.join(variants)}"
        )
    by_job: dict[int, list[TraceEvent]] = {}
    for row in events.select(list(TraceEvent.__struct_fields__)).to_pylist():
        event = TraceEvent(**row)
        by_job.setdefault(event.job, []).append(event)
    jobs = _of_run(pq.read_table(folder / ("twin.parquet" if of_twin else "jobs.parquet")), chosen, replication)
    jobs = jobs.filter(pc.is_in(jobs["job"], pc.unique(events["job"])))
    return TracedRun(
        variant=chosen,
        names=Names(scenario.servers, scenario.cluster.dispatchers, [pool.name for pool in scenario.pools]),
        events=by_job,
        jobs={
            row["job"]: Job(
                row["job"],
                row["dispatcher"],
                row["arrival"],
                row["dispatch_lag"],
                row["response_time"],
                row["outcome"],
            )
            for row in jobs.to_pylist()
        },
    )


def _of_run(table: pa.Table, variant: str, replication: int) -> pa.Table:
    return table.filter(pc.and_(pc.equal(table["variant"], variant), pc.equal(table["replication"], replication)))
