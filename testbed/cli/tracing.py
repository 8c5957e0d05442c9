"""The command ``testbed trace``."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from testbed.cli.app import app, fail

if TYPE_CHECKING:
    from rich.table import Table

    from testbed.runs.traced_jobs import TracedRun

MOST_LISTED = 40


@app.command()
def trace(
    run_folder: Annotated[Path, typer.Argument(metavar="RUN", help="the folder of a run with run.traced")],
    job: Annotated[int | None, typer.Argument(help="a traced job's number, as exemplars give it; none: list")] = None,
    variant: Annotated[str | None, typer.Option(help=r"the variant \[default: the first]")] = None,
    replication: Annotated[int, typer.Option(min=0, help="the replication, from 0")] = 0,
    twin: Annotated[bool, typer.Option("--twin", help="as it went on the twin")] = False,
    svg: Annotated[
        Path | None, typer.Option(help=r"where to draw the sequence diagram \[default: trace-JOB.svg in the folder]")
    ] = None,
) -> None:
    """Show what happened to a job, message by message, as a table and as a sequence diagram.

    Without a job, list the traced jobs, the slowest first. Exit status: 0, or 2 for bad input.
    """
    from testbed.present.sequence_diagram import draw
    from testbed.runs.run_folder import OutputError, replace_file
    from testbed.runs.traced_jobs import traced_run

    console = Console()
    try:
        traced = traced_run(run_folder, variant, replication, twin)
        if job is None:
            console.print(_jobs_table(traced))
            return
        steps = traced.history(job)
    except OutputError as error:
        fail(error)
    console.print(_steps_table(traced, job))
    path = svg or run_folder / f"trace-{job}.svg"
    try:
        replace_file(path, draw(steps, f"Job {job}, {traced.variant}").encode())
    except OSError as error:
        fail(f"{path}: {error.strerror}; choose a file that you may write with --svg")
    console.print(f"sequence diagram: {path}", highlight=False, markup=False, soft_wrap=True)


def _steps_table(traced: TracedRun, job: int) -> Table:
    from testbed.runs.tables import new_table

    table = new_table(f"job {job} of {traced.variant}: times in time units, from its arrival")
    table.add_column("time", justify="right")
    table.add_column("where")
    table.add_column("what")
    table.add_column("heard after", justify="right")
    steps = traced.history(job)
    for step in steps:
        where = step.place if step.to is None else f"{step.place} → {step.to}"
        delay = "" if step.to is None else "never" if step.delivered is None else f"{step.delivered - step.time:.4f}"
        table.add_row(f"{step.time - steps[0].time:.4f}", where, step.what, delay)
    return table


def _jobs_table(traced: TracedRun) -> Table:
    from testbed.runs.tables import new_table, number

    slowest = sorted(traced.jobs.values(), key=lambda job: -(job.response or 0.0))
    table = new_table(f"traced jobs of {traced.variant}: {min(len(slowest), MOST_LISTED)} of {len(slowest)}")
    for heading in ("job", "response time", "outcome", "messages"):
        table.add_column(heading, justify="left" if heading in ("outcome", "messages") else "right")
    for job in slowest[:MOST_LISTED]:
        kinds = Counter(event.kind for event in traced.events[job.number] if not event.heard)
        said = ", ".join(f"{count} {kind.replace('_', ' ')}" for kind, count in sorted(kinds.items()))
        table.add_row(str(job.number), number(job.response, 4), job.outcome, said)
    return table
