"""Replaying a finished run on the twin."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from testbed.measure import summary as summaries
from testbed.measure.pathwise import compare
from testbed.measure.summary import summarise
from testbed.measure.verdict import with_emulation_error
from testbed.runs.nominal import nominal
from testbed.runs.probe_rate import with_probe_rate
from testbed.runs.result import Result, VariantRun
from testbed.runs.run_folder import (
    OutputError,
    copies_table,
    events_table,
    jobs_table,
    read_jobs,
    read_run,
    replace_file,
    tasks_table,
)
from testbed.runtime.twin import simulate
from testbed.scenario import variants
from testbed.theory.predict import predict


def replay(folder: Path) -> Result:
    """Run the twin of every run on the cluster that ``folder`` holds, and compare the two job by job.

    Adds the twins' records and summaries to the folder, and the comparison to each summary of the cluster
    (testbed.measure.pathwise). Raises OutputError when there is nothing to replay.
    """
    scenario, found = read_run(folder)
    on_cluster = [summary for summary in found if summary.source == "cluster"]
    if not on_cluster:
        raise OutputError(
            f"{folder}: holds no run on the cluster, only the twin's; there is nothing to compare it with"
        )
    by_name = dict(variants(scenario))
    result = Result(scenario, folder, list(by_name))
    tables: dict[str, list[pa.Table]] = {}
    for summary in on_cluster:
        variant = by_name.get(summary.variant)
        if variant is None:
            raise OutputError(
                f"{folder / 'summary.json'}: has a run of {summary.variant!r}, which is no variant of scenario.toml "
                "next to it; one of the two is from another run"
            )
        if summary.calibration is not None:
            variant = with_probe_rate(variant, summary.calibration.probe_rate)
        types = [job_type.name for job_type in variant.workload.types]
        measurements = simulate(variant, summary.replication)
        of_run = summary.variant, summary.replication
        tables.setdefault("twin.parquet", []).append(jobs_table(measurements, *of_run, types))
        if measurements.tasks:
            tables.setdefault("twin_tasks.parquet", []).append(tasks_table(measurements, *of_run))
        if measurements.copies:
            pools = [pool.name for pool in variant.pools]
            tables.setdefault("twin_copies.parquet", []).append(copies_table(measurements, *of_run, pools))
        jobs = read_jobs(folder / "jobs.parquet", summary.variant, summary.replication, types)
        if measurements.events:
            tables.setdefault("twin_events.parquet", []).append(events_table(measurements, *of_run))
        pathwise = compare(jobs, measurements.columns, summary.window)
        twin = summarise(
            measurements,
            nominal(variant),
            variant=summary.variant,
            replication=summary.replication,
            time_unit_seconds=summary.time_unit_seconds,
            window=summary.window,
            prediction=summary.prediction,
            calibration=summary.calibration,
        )
        result.runs.append(
            VariantRun(
                summary.variant,
                summary.replication,
                variant,
                predict(variant),
                cluster=msgspec.structs.replace(
                    summary, pathwise=pathwise, verdict=with_emulation_error(summary.verdict, pathwise)
                ),
                twin=twin,
                twin_measurements=measurements,
            )
        )
    for name, parts in tables.items():
        with pq.ParquetWriter(folder / name, parts[0].schema, compression="zstd") as writer:
            for part in parts:
                writer.write_table(part)
    both = [summary for run in result.runs for summary in (run.cluster, run.twin) if summary is not None]
    replace_file(folder / "summary.json", summaries.encode(both))
    return result
