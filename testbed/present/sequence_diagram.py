"""A job's history as a sequence diagram: a lifeline for each agent, an arrow for each message, time downwards.

Rows are events in order of time, and not a time scale, since the durations of probes and services differ by factors of
a thousand. Each row gives its time. An arrow slopes if other events happened before its message was delivered. A filled
bar is a service, a hollow bar is waiting.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from typing import Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from testbed.runs.job_history import Step

ROW: Final = 0.27  # inches
COLUMN: Final = 1.9
BAR: Final = 0.05  # half the width of a bar, in columns
_SENT, _DELIVERED = 0, 1


def draw(steps: Sequence[Step], title: str) -> str:
    """Return the diagram of a job's history as the text of an SVG file: the same for the same history."""
    columns = {place: i for i, place in enumerate(_places(steps))}
    rows = _rows(steps)
    count = max(rows.values()) + 1
    text = io.StringIO()
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "testbed", "font.family": "DejaVu Sans", "font.size": 8}):
        figure = Figure(figsize=(COLUMN * len(columns) + 1.2, ROW * (count + 3)))
        axes = figure.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.set_xlim(-0.8, len(columns) - 0.2)
        axes.set_ylim(count + 0.5, -2.5)
        axes.text(-0.7, -2.0, f"{title}: time in time units since its arrival", fontsize=10, va="center")
        for place, x in columns.items():
            axes.plot([x, x], [-0.5, count], color="0.6", linewidth=0.8, zorder=0)
            axes.text(x, -0.9, place, ha="center", va="center", fontweight="bold")
        for i, step in enumerate(steps):
            row = rows[i, _SENT]
            axes.text(-0.7, row, f"{step.time - steps[0].time:.4f}", va="center", family="monospace", color="0.3")
            x = columns[step.place]
            if step.to is not None:
                _arrow(axes, (x, row), (columns[step.to], rows.get((i, _DELIVERED))), step.what)
            else:
                if step.until is not None:
                    _bar(axes, x, row, _row_at(step.until, steps, rows), waiting=step.what.startswith("waits"))
                axes.plot([x], [row], "o", color="black", markersize=3)
                _label(axes, x + 0.08, row, step.what, "left")
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None, "Title": title})
    return text.getvalue()


def _places(steps: Sequence[Step]) -> list[str]:
    """Return the agents: the dispatcher, the agent of the central queues, and the servers in order of appearance."""
    places = dict.fromkeys(place for step in steps for place in (step.place, step.to) if place is not None)
    return sorted(places, key=lambda place: 0 if place.startswith("dispatcher") else 1 if place == "pools" else 2)


def _rows(steps: Sequence[Step]) -> dict[tuple[int, int], int]:
    """Return the row of each step, by its index, and of each message's delivery: the same row if nothing is between."""
    instants = [(step.time, i, _SENT) for i, step in enumerate(steps)]
    instants += [(step.delivered, i, _DELIVERED) for i, step in enumerate(steps) if step.delivered is not None]
    rows: dict[tuple[int, int], int] = {}
    row = -1
    last: tuple[int, int] | None = None
    for _, i, phase in sorted(instants):
        if not (phase == _DELIVERED and last == (i, _SENT)):
            row += 1
        rows[i, phase] = row
        last = i, phase
    return rows


def _row_at(time: float, steps: Sequence[Step], rows: dict[tuple[int, int], int]) -> int:
    """Return the row of the first step at ``time`` or later."""
    return min((rows[i, _SENT] for i, step in enumerate(steps) if step.time >= time - 1e-9), default=max(rows.values()))


def _arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float | None], what: str) -> None:
    x, row = start
    to, delivered = end
    if delivered is None:  # lost on its way: half an arrow, and a cross
        half = (x + to) / 2
        axes.plot([x, half], [row, row], linestyle="--", color="black", linewidth=1.0)
        axes.plot([half], [row], "x", color="black")
        _label(axes, half, row - 0.32, f"{what} (never delivered)", "center")
        return
    axes.annotate(
        "",
        xy=(to, delivered),
        xytext=(x, row),
        arrowprops={"arrowstyle": "-|>", "linewidth": 1.0, "color": "#0072B2", "shrinkA": 0, "shrinkB": 0},
    )
    # Near the sender, where the arrows of one row do not cross yet.
    _label(axes, x + 0.3 * (to - x), row + 0.3 * (delivered - row) - 0.32, what, "center")


def _bar(axes: Axes, x: float, first: float, last: float, *, waiting: bool) -> None:
    axes.add_patch(
        Rectangle(
            (x - BAR, first),
            2 * BAR,
            max(last - first, 0.2),
            facecolor="white" if waiting else "#E69F00",
            edgecolor="black",
            linestyle="--" if waiting else "-",
            linewidth=0.8,
            zorder=1,
        )
    )


def _label(axes: Axes, x: float, y: float, text: str, align: str) -> None:
    box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.6}
    axes.text(x, y, text, ha=align, va="center", fontsize=7, bbox=box)
