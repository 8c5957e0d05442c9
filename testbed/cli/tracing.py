"""The command ``testbed trace``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from testbed.cli.app import app, fail

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.runs.traced_jobs import TracedRun

MOST_LISTED = 40


@app.command()
def trace(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run with run.traced")],
    job: Annotated[
        int | None, typer.Argument(help="the number of a traced job, as in exemplars; without it, list traced jobs")
    ] = None,
    variant: Annotated[str | None, typer.Option(help=r"the variant \[default: the first]")] = None,
    replication: Annotated[int, typer.Option(min=0, help="the replication, from 0")] = 0,
    twin: Annotated[bool, typer.Option("--twin", help="show the job's history on the twin")] = False,
    svg: Annotated[
        Path | None, typer.Option(help=r"the file for the sequence diagram \[default: trace-JOB.svg in the folder]")
    ] = None,
) -> None:
    """Show the history of a job, message by message, as a table and as a sequence diagram.

    Without a job, list the traced jobs, slowest first. Exit status: 0, or 2 for bad input.
    """
    from testbed.present.sequence_diagram import draw
    from testbed.runs.run_folder import OutputError, replace_file
    from testbed.runs.tables import print_line, print_table, standard_output
    from testbed.runs.traced_jobs import traced_run

    console = standard_output()
    try:
        traced = traced_run(run_folder, variant, replication, twin)
        if job is None:
            print_table(console, _jobs_table(traced))
            return
        steps = traced.history(job)
    except OutputError as error:
        fail(error)
    print_table(console, _steps_table(traced, job))
    path = svg or run_folder / f"trace-{job}.svg"
    try:
        replace_file(path, draw(steps, f"Job {job}, {traced.variant}").encode())
    except OSError as error:
        fail(f"{path}: {error.strerror}; choose a file that you may write with --svg")
    print_line(console, f"sequence diagram: {path}")


def _steps_table(traced: TracedRun, job: int) -> Table:
    from testbed.runs.tables import new_table

    table = new_table(f"job {job} of {traced.variant}: times in time units, from its arrival")
    table.add_column("time", justify="right")
    table.add_column("agents")
    table.add_column("event")
    table.add_column("delay", justify="right")
    steps = traced.history(job)
    for step in steps:
        agents = step.place if step.to is None else f"{step.place} → {step.to}"
        delay = "" if step.to is None else "never" if step.delivered is None else f"{step.delivered - step.time:.4f}"
        table.add_row(f"{step.time - steps[0].time:.4f}", agents, step.what, delay)
    return table


def _jobs_table(traced: TracedRun) -> Table:
    from testbed.runs.tables import new_table, number

    slowest = sorted(traced.jobs.values(), key=lambda job: -(job.response or 0.0))
    table = new_table(
        f"traced jobs of {traced.variant}: the slowest {min(len(slowest), MOST_LISTED)} of {len(slowest)}"
    )
    for heading in ("job", "response time", "outcome", "messages"):
        table.add_column(heading, justify="left" if heading in ("outcome", "messages") else "right")
    for job in slowest[:MOST_LISTED]:
        types = Counter(event.kind for event in traced.events[job.number] if not event.heard)
        messages = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in sorted(types.items()))
        table.add_row(str(job.number), number(job.response, 4), job.outcome, messages)
    return table
