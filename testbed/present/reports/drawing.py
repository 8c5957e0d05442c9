"""Plots for a page: drawn in the common style of all plots, as SVG with the page's colours.

A page may be light or dark. Text and axes have the page's text colour, hollow marks its background colour. The page
defines a colour for each series, which is readable on either background.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from testbed.studies.plot_style import COLOURS, MARKS, PANEL, STYLE
from testbed.theory.steady_state import Tail

Array = npt.NDArray[np.float64]

SMALLEST_TAIL: Final = 1e-5
#: The colours of figures, and the page's colours that replace them.
_ON_PAGE: Final = {
    **{colour.lower(): f"var(--c{i})" for i, colour in enumerate(COLOURS[:-1])},
    "#000000": "currentColor",
    "#ffffff": "var(--page)",
    "#4c4c4c": "var(--faint)",  # captions
    "#595959": "var(--faint)",  # lines at zero
}


def inline_svg(figure: Figure, name: str) -> str:
    """Return a figure as an SVG element for a page. ``name`` makes its identifiers unique in the page."""
    text = io.StringIO()
    with rc_context({**STYLE, "svg.hashsalt": name}):
        figure.patch.set_visible(False)
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'\s(?:xmlns(?::\w+)?|version)="[^"]*"', "", svg)
    svg = re.sub(
        r'(<svg[^>]*?) width="[^"]*"', r"\1", re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1), count=1
    )
    svg = svg.replace("xlink:href", "href")
    svg = re.sub(r'\bid="', f'id="{name}-', svg)
    svg = re.sub(r'href="#', f'href="#{name}-', svg)
    svg = re.sub(r"url\(#", f"url(#{name}-", svg)
    for colour, on_page in _ON_PAGE.items():
        svg = svg.replace(colour, on_page)
    # matplotlib gives glyphs no colour: they would be black.
    return svg.replace("<svg ", '<svg aria-hidden="true" focusable="false" fill="currentColor" ', 1).strip()


@dataclass
class Series:
    """The data of one variant: by source, "cluster" or "twin", and from theory."""

    name: str
    response: Mapping[str, Array]  # response times of the measured jobs
    number: Mapping[str, Array]  # jobs in the system, averaged between successive edges
    tail: Tail | None
    number_in_theory: float | None


#: The line style of each source; the colour is that of the series.
SOURCE_LINES: Final[dict[str, dict[str, Any]]] = {
    "cluster": {"linestyle": "-", "linewidth": 1.8},
    "twin": {"linestyle": "--", "linewidth": 1.3},
    "theory": {"linestyle": ":", "linewidth": 1.6},
}


def tails(series: Sequence[Series]) -> Figure:
    """Draw P(response time > t) of each variant on the cluster, on the twin and in theory, on a logarithmic scale."""

    def draw(axes: Axes) -> None:
        for i, one in enumerate(series):
            colour = COLOURS[i % len(COLOURS)]
            longest = 0.0
            for source, response in one.response.items():
                ordered = np.sort(response)
                fraction = 1 - np.arange(1, len(ordered) + 1) / len(ordered)
                kept = _thinned(len(ordered) - 1)
                axes.plot(ordered[kept], fraction[kept], color=colour, **SOURCE_LINES[source], **_marks(one, source, i))
                longest = max(longest, float(ordered[-1])) if len(ordered) else longest
            if one.tail is not None and longest:
                times = np.linspace(0, longest, 200)
                values = np.array([one.tail(float(t)) for t in times])
                shown = values >= SMALLEST_TAIL
                axes.plot(times[shown], values[shown], color=colour, **SOURCE_LINES["theory"])
        axes.set_yscale("log")
        axes.set_xlim(left=0)
        axes.set_xlabel("response time t [time units]")
        axes.set_ylabel("P(response time > t)")
        _legends(axes, series, theory=any(one.tail is not None for one in series))

    return _figure(draw)


def numbers(series: Sequence[Series], edges: Array, warmup: float) -> Figure:
    """Draw the number of jobs in the system over time; the warm-up is shaded."""

    def draw(axes: Axes) -> None:
        for i, one in enumerate(series):
            colour = COLOURS[i % len(COLOURS)]
            for source, number in one.number.items():
                middles = (edges[:-1] + edges[1:]) / 2
                axes.plot(middles, number, color=colour, **SOURCE_LINES[source], **_marks(one, source, i))
            if one.number_in_theory is not None:
                axes.axhline(one.number_in_theory, color=colour, **SOURCE_LINES["theory"])
        if warmup > 0:
            axes.axvspan(0, warmup, color="black", alpha=0.07, linewidth=0)
        axes.set_xlim(0, edges[-1])
        axes.set_ylim(bottom=0)
        axes.set_xlabel("time [time units]")
        axes.set_ylabel("jobs in the system")
        _legends(axes, series, theory=any(one.number_in_theory is not None for one in series))

    return _figure(draw)


@dataclass(frozen=True)
class Difference:
    """A relative difference in mean response time, with the half-width of its interval if that is known."""

    variant: str
    between: str
    value: float
    half_width: float | None


def differences(found: Sequence[Difference]) -> Figure:
    """Draw differences in mean response time with their intervals: a row for each variant, a mark for each pair."""

    def draw(axes: Axes) -> None:
        variants = list(dict.fromkeys(one.variant for one in found))
        pairs = list(dict.fromkeys(one.between for one in found))
        for k, between in enumerate(pairs):
            mine = [one for one in found if one.between == between]
            place = [variants.index(one.variant) + 0.22 * (k - (len(pairs) - 1) / 2) for one in mine]
            axes.errorbar(
                [100 * one.value for one in mine],
                place,
                xerr=[100 * (one.half_width or 0.0) for one in mine],
                linestyle="",
                marker=MARKS[k],
                color=COLOURS[k],
                capsize=2.5,
                label=between,
            )
        axes.axvline(0, color="black", linewidth=0.8)
        axes.set_yticks(range(len(variants)), variants)
        axes.set_ylim(len(variants) - 0.5, -0.5)
        axes.set_xlabel("difference in mean response time [%]")
        axes.figure.legend(loc="outside upper left", ncols=2, fontsize="small")

    return _figure(draw)


def _figure(draw: Callable[[Axes], None]) -> Figure:
    with rc_context(STYLE):
        figure = Figure(figsize=PANEL, layout="constrained")
        draw(figure.subplots())
    return figure


def _legends(axes: Axes, series: Sequence[Series], *, theory: bool) -> None:
    sources = list(dict.fromkeys(source for one in series for source in one.response))
    if theory:
        sources.append("theory")
    handles = [
        Line2D([], [], color=COLOURS[i % len(COLOURS)], marker=MARKS[i % len(MARKS)], markersize=4, label=one.name)
        for i, one in enumerate(series)
    ]
    handles += [Line2D([], [], color="black", label=source, **SOURCE_LINES[source]) for source in sources]
    axes.figure.legend(handles=handles, loc="outside upper left", ncols=3, fontsize="small")


def _marks(one: Series, source: str, index: int) -> dict[str, Any]:
    """Return a few marks for a variant's first line, so that readers can tell it from others without colour."""
    if source != next(iter(one.response)):
        return {}
    return {"marker": MARKS[index % len(MARKS)], "markevery": 0.13, "markersize": 4}


def _thinned(count: int, points: int = 400) -> npt.NDArray[np.intp]:
    """Return about ``points`` of ``count`` indices, densest towards the end, where a tail's logarithm changes fast."""
    if count <= points:
        return np.arange(max(count, 0))
    left = np.unique(np.geomspace(1, count, points).astype(np.intp))
    evenly = np.linspace(0, count - 1, points).astype(np.intp)
    return np.unique(np.concatenate((count - left, evenly)))
