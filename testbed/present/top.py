"""The state of a long-running cluster in a terminal: the snapshot that the live page draws, as text."""

from __future__ import annotations

import time
from collections import deque
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text
from typing_extensions import override

from testbed.cluster.snapshot import Snapshot
from testbed.present.live import Lines
from testbed.runs.display import Silent
from testbed.runs.tables import KINDS, new_table, number, signed_percent

BARS = " ▁▂▃▄▅▆▇█"
MOST_NUMBERS = 60  # in system, in the sparkline
SECONDS = 1.0  # between two redraws


def watch(console: Console) -> Silent:
    """Return a display of snapshots: a picture that is redrawn, or lines if the output is no terminal."""
    return Picture(console) if console.is_terminal else Lines(console)


class Picture(Silent):
    """A picture of the latest snapshot, on the whole terminal."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, screen=True)
        self._numbers: deque[int] = deque(maxlen=MOST_NUMBERS)
        self._next = 0.0
        self._last: RenderableType | None = None

    @override
    def __enter__(self) -> Self:
        self._live.start()
        return self

    @override
    def __exit__(self, *error: object) -> None:
        self._live.stop()
        if self._last is not None:  # the terminal has got its former content back
            self._console.print(self._last)

    @override
    def show(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + SECONDS
            self._numbers.append(snapshot.in_system)
            self._last = picture(snapshot, list(self._numbers), self._console.width)
            self._live.update(self._last, refresh=True)


def picture(snapshot: Snapshot, numbers: list[int], width: int) -> RenderableType:
    """Return a snapshot as text; ``numbers``: the latest numbers in system; ``width``: in characters."""
    parts: list[RenderableType] = [_heading(snapshot), _figures(snapshot), _verdict(snapshot)]
    if numbers:
        parts.append(Text(f"recent number in system: {sparkline(numbers)}  {min(numbers)} to {max(numbers)}"))
    if snapshot.queue_lengths:
        parts.append(_queues(snapshot.queue_lengths, width))
    counters = [f"{name} {count:,}" for name, count in snapshot.counters.items() if count]
    if counters:
        parts.append(Text(f"counters: {', '.join(counters)}"))
    if snapshot.processes:
        parts.append(_processes(snapshot))
    parts += [Text(f"! {incident}", style="yellow") for incident in snapshot.incidents[-5:]]
    return Group(*parts)


def _heading(snapshot: Snapshot) -> Text:
    until = "" if snapshot.horizon is None else f" of {snapshot.horizon:.0f}"
    bound = "" if snapshot.theory is None else f" (stability bound {snapshot.theory.stability_bound:.3g})"
    return Text.assemble(
        (f"{snapshot.scenario}: {snapshot.name}", "bold"),
        f"  policy {snapshot.policy}, {snapshot.servers} servers, load {snapshot.load:.3g}{bound}, "
        f"time {snapshot.time:.0f}{until} units of {1000 * snapshot.time_unit_seconds:g} ms",
    )


def _figures(snapshot: Snapshot) -> Table:
    table = new_table("")
    for heading in ("", "mean", "±", "p50", "p99", "p99.9", "jobs"):
        table.add_column(heading, justify="left" if not heading else "right")
    table.title = None
    named = (
        (f"since {snapshot.since:.0f}", snapshot.responses),
        (f"last {snapshot.recent_seconds:.0f} s", snapshot.recent),
    )
    for name, responses in named:
        quantiles = (number(responses.quantile(p), 2) for p in (0.5, 0.99, 0.999))
        mean, half_width = number(responses.mean), number(responses.half_width, 2)
        table.add_row(f"response time {name}", mean, half_width, *quantiles, f"{responses.count:,}")
    theory = snapshot.theory
    if theory is not None and theory.mean is not None and theory.kind is not None:
        quantiles = (number(theory.quantiles.get(p), 2) for p in (0.5, 0.99, 0.999))
        table.add_row(f"theory ({KINDS.get(theory.kind, theory.kind)})", number(theory.mean), "", *quantiles, "")
        if snapshot.responses.mean is not None:
            difference = signed_percent(snapshot.responses.mean / theory.mean - 1)
            table.add_row("difference from theory", difference, "", "", "", "", "")
    table.caption = (
        f"{snapshot.jobs_per_second:,.0f} jobs/s, {snapshot.in_system} in system, "
        f"{number(snapshot.probes_per_job, 2)} probes and {number(snapshot.messages_per_job, 2)} messages per job"
    )
    return table


def _queues(lengths: list[int], width: int) -> Text:
    """Return a bar for each server, or for each group of neighbours, so that all bars fit into two lines."""
    room = max(20, 2 * width)
    size = -(-len(lengths) // room)
    groups = [lengths[i : i + size] for i in range(0, len(lengths), size)]
    per_bar = "" if size == 1 else f" ({size} servers per bar)"
    idle = sum(length == 0 for length in lengths)
    bars = sparkline([sum(group) / len(group) for group in groups])
    return Text(f"queue lengths{per_bar}: {idle} servers idle, longest queue {max(lengths)}\n{bars}")


def sparkline(values: list[int] | list[float]) -> str:
    """Return a bar for each value, with a height relative to the largest; only zero is a blank."""
    most = max(values, default=0)
    if most <= 0:
        return BARS[0] * len(values)
    steps = len(BARS) - 1
    return "".join(BARS[0 if value <= 0 else max(1, round(steps * value / most))] for value in values)


def _verdict(snapshot: Snapshot) -> Text:
    failed = [check for check in snapshot.checks if not check.passed]
    passed = len(snapshot.checks) - len(failed)
    if not failed:
        return Text(f"✔ valid so far: {passed} checks passed", style="green")
    reasons = "".join(f"\n  {check.name} {check.figure} (limit {check.limit}): {check.explanation}" for check in failed)
    return Text(f"✘ suspect: {len(failed)} of {len(snapshot.checks)} checks failed{reasons}", style="bold yellow")


def _processes(snapshot: Snapshot) -> Table:
    table = new_table("")
    table.title = None
    for heading in ("process", "pid", "state", "restarts", "CPU", "timer lateness p50", "p99"):
        table.add_column(heading, justify="left" if heading in ("process", "state") else "right")
    for process in snapshot.processes:
        table.add_row(
            process.name,
            str(process.pid),
            "running" if process.alive else "[bold red]dead[/]",
            str(process.restarts),
            f"{process.cpu_share:.0%}",
            f"{1000 * process.lateness_p50:.2f} ms",
            f"{1000 * process.lateness_p99:.2f} ms",
        )
    return table
