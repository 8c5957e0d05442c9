"""Plots of a quantity against a setting.

Theory is a line, the twin a filled mark, the cluster a hollow mark, a reference a cross. Intervals are drawn.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FormatStrFormatter, LogLocator, NullFormatter

from testbed.studies.plot_style import COLOURS, LINES, MARKS, PANEL, STYLE
from testbed.studies.reproduce.study import Row, Setting, shown

MEANING: Final = {
    "theory": "line: theory",
    "twin": "filled: twin",
    "cluster": "hollow: cluster",
    "reference": "×: reference",
}


def curves(
    rows: Sequence[Row],
    quantity: str,
    *,
    x: str,
    by: Sequence[str],
    x_label: str,
    y_label: str,
    caption: str,
    panel: str | None = None,
    log_x: bool = False,
    log_y: bool = False,
    share_y: bool = True,
    label: Callable[[Mapping[str, Setting]], str] | None = None,
    marking: Callable[[Axes, Setting | None], None] | None = None,
) -> Figure:
    """Draw a quantity against a setting: a series for each combination of ``by``, a panel for each value of ``panel``.

    ``x_label`` and ``y_label`` name the axes with their units; ``caption`` states the settings. ``label`` names a
    series from its settings; ``marking`` may draw more into a panel (it is given the panel's value). ``share_y``:
    whether all panels have the same range of values.
    """
    rows = [row for row in rows if row.quantity == quantity]
    panels: list[Setting | None] = list(dict.fromkeys(row.settings[panel] for row in rows)) if panel else [None]
    keys = list(dict.fromkeys(_key(row, by) for row in rows))
    with rc_context(STYLE):
        across = 2 if len(panels) == 4 else max(1, min(3, len(panels)))
        down = max(1, math.ceil(len(panels) / across))
        figure = Figure(figsize=(PANEL[0] * across, PANEL[1] * down), layout="constrained")
        every = figure.subplots(down, across, sharey=share_y, squeeze=False).ravel()[: max(1, len(panels))]
        for axes, value in zip(every, panels or [None], strict=True):
            inside = [row for row in rows if panel is None or row.settings[panel] == value]
            for i, key in enumerate(keys):
                mine = [row for row in inside if _key(row, by) == key]
                name = label(mine[0].settings) if label and mine else ", ".join(map(shown, key))
                _series(axes, mine, x, i, name)
            if panel is not None and value is not None:
                words = value if isinstance(value, str) else f"{panel.replace('_', ' ')} = {shown(value)}"
                axes.set_title(words, loc="left")
            axes.set_xlabel(x_label)
            if log_x:
                axes.set_xscale("log")
                _plain_ticks(axes, sorted({float(row.settings[x]) for row in inside}))
            if log_y:
                axes.set_yscale("log")
                _more_ticks(axes)
            if marking is not None:
                marking(axes, value)
        for axes in every[::across]:
            axes.set_ylabel(y_label)
        _legend(figure, list(every), rows)
        _caption(figure, caption)
    return figure


def _key(row: Row, by: Sequence[str]) -> tuple[Setting, ...]:
    return tuple(row.settings[name] for name in by)


def _series(axes: Axes, rows: Sequence[Row], x: str, index: int, name: str) -> None:
    colour, mark, line = (kinds[index % len(kinds)] for kinds in (COLOURS, MARKS, LINES))
    styles: dict[str, dict[str, Any]] = {
        "theory": {"linestyle": line},
        "twin": {"linestyle": "", "marker": mark},
        "cluster": {"linestyle": "", "marker": mark, "markerfacecolor": "white", "markersize": 8, "zorder": 1.9},
        "reference": {"linestyle": "", "marker": "x", "color": "0.35", "elinewidth": 0.8},
    }
    # The cluster's mark is the twin's, hollow, so that it needs no entry of its own.
    named = ("theory", "twin") if any(row.source in ("theory", "twin") for row in rows) else ("cluster",)
    for source, style in styles.items():
        mine = sorted((row for row in rows if row.source == source), key=lambda row: float(row.settings[x]))
        if not mine:
            continue
        drawn = axes.errorbar(
            [float(row.settings[x]) for row in mine],
            [row.value for row in mine],
            yerr=None if source == "theory" else [row.half_width or 0.0 for row in mine],
            capsize=0 if source == "theory" else 2.5,
            **{"color": colour, **style},
        )
        if source in named:
            drawn.set_label(name)


def _legend(figure: Figure, every: Sequence[Axes], rows: Sequence[Row]) -> None:
    """One entry per series, with its line and its mark; below it what lines and marks stand for."""
    entries: dict[str, Line2D] = {}
    for axes in every:
        handles, names = axes.get_legend_handles_labels()
        for handle, name in zip(handles, names, strict=True):
            drawn: Any = handle[0] if isinstance(handle, ErrorbarContainer) else handle
            entry = entries.setdefault(name, Line2D([], [], color=drawn.get_color(), linestyle="", marker=""))
            if drawn.get_linestyle() not in ("None", "none", ""):
                entry.set_linestyle(drawn.get_linestyle())
            if drawn.get_marker() not in ("None", "none", "", None):
                entry.set_marker(drawn.get_marker())
    sources = list(dict.fromkeys(row.source for row in rows))
    title = "; ".join(text for source, text in MEANING.items() if source in sources)
    if entries:
        figure.legend(
            list(entries.values()), list(entries), loc="outside right upper", title=title, title_fontsize="small"
        )


def _plain_ticks(axes: Axes, values: Sequence[float]) -> None:
    """Have the ticks of a logarithmic axis at the points themselves, where they are few."""
    if 0 < len(values) <= 8:
        axes.set_xticks(values, [f"{value:g}" for value in values])
        axes.minorticks_off()


def _more_ticks(axes: Axes) -> None:
    """Label 2 and 5 too on a logarithmic axis over less than two decades, where powers of ten alone say little."""
    low, high = axes.get_ylim()
    if 0 < low < high < 100 * low:
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axes.yaxis.set_major_formatter(FormatStrFormatter("%g"))
        axes.yaxis.set_minor_formatter(NullFormatter())


def _caption(figure: Figure, caption: str) -> None:
    width = int(figure.get_size_inches()[0] * 17)
    figure.supxlabel("\n".join(textwrap.wrap(caption, width)), fontsize="small", ha="left", x=0.01, color="0.3")
