"""Plots of a validation: all differences with what is allowed, and the errors of limits over N with the fits."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from testbed.studies.plot_style import COLOURS, PANEL, STYLE
from testbed.studies.validate.findings import EMULATION, LIMIT, THEORY, CaseResult
from testbed.studies.validate.result import Validation


def figures(result: Validation) -> dict[str, Figure]:
    """Return a plot for each case with a limit, by file name without its ending."""
    return {_file_name(case.name): over_servers(case) for case in result.cases if case.finding(LIMIT) is not None}


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def differences(result: Validation) -> Figure:
    """Draw the main differences of each case with their intervals, and where the true ones may be."""
    groups = (
        ("twin less theory", (THEORY, LIMIT), "o", COLOURS[0]),
        ("cluster less twin", (EMULATION,), "s", COLOURS[1]),
    )
    band: dict[str, Any] = {"color": "#999999", "linewidth": 5, "alpha": 0.5}
    fails: dict[str, Any] = {"marker": "X", "markersize": 7}
    with rc_context(STYLE):
        figure = Figure(figsize=(PANEL[0], 1.2 + 0.26 * len(result.cases)), layout="constrained")
        axes = figure.subplots()
        for shift, (_, checks, mark, colour) in zip((-0.17, 0.17), groups, strict=True):
            for row, case in enumerate(result.cases):
                for found in case.findings:
                    if found.check not in checks or found.difference is None or found.high is None:
                        continue
                    low, high = found.allowed or (0.0, 0.0)
                    place = row + shift
                    axes.plot([100 * low, 100 * high], [place, place], **band)
                    axes.errorbar(
                        [100 * found.difference],
                        [place],
                        xerr=[100 * (found.high - found.difference)],
                        color=colour,
                        capsize=2.5,
                        **({"marker": mark} if found.passed else fails),
                    )
        axes.axvline(0.0, color="0.35", linewidth=0.8)
        names = [f"{case.name}{'' if case.passed else ': FAIL'}" for case in result.cases]
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.5, -0.5)
        axes.set_xlabel("difference in mean response time [%]")
        made = {found.check for case in result.cases for found in case.findings}
        drawn = [group for group in groups if made & {*group[1]}]
        handles = [Line2D([], [], color=colour, marker=mark, label=label) for label, _, mark, colour in drawn]
        handles.append(Line2D([], [], label="where the truth may be", **band))
        handles.append(Line2D([], [], label="fails", color="black", linestyle="", **fails))
        figure.legend(handles=handles, loc="outside upper left", ncols=4, fontsize="small", columnspacing=1.2)
    return figure


def over_servers(case: CaseResult) -> Figure:
    """Draw the twin's error against 1/N, where b/N is a straight line, and the fit with its limit."""
    limit = case.finding(LIMIT)
    assert limit is not None
    with rc_context(STYLE):
        figure = Figure(figsize=PANEL, layout="constrained")
        axes = figure.subplots()
        inverse = [1 / size.servers for size in case.sizes]
        axes.errorbar(
            inverse,
            [100 * size.error.value for size in case.sizes],
            yerr=[100 * size.error.half_width(0.05) for size in case.sizes],
            linestyle="",
            marker="o",
            capsize=2.5,
            color=COLOURS[0],
            label="twin, ± 95 %",
        )
        if case.fit is not None:
            x = np.linspace(1e-6, max(inverse), 100)
            axes.plot(x, [100 * case.fit.error(1 / v) for v in x], color=COLOURS[0], label="fit of a + b/N + c/N²")
            extrapolation = case.fit.extrapolation
            axes.errorbar(
                [0.0],
                [100 * extrapolation.value],
                yerr=[100 * extrapolation.half_width(0.05)],
                marker="D",
                capsize=2.5,
                color=COLOURS[1],
                label="a, the limit's error, ± 95 %",
            )
        axes.axhline(0.0, color="0.35", linewidth=0.8)
        axes.set_xticks([0.0, *inverse], ["∞", *(str(size.servers) for size in case.sizes)], fontsize="small")
        axes.set_xlabel("number of servers N (drawn at 1/N)")
        axes.set_ylabel("mean response time: twin less theory, %")
        axes.legend()
        axes.set_title(f"{case.name}: {'pass' if case.passed else 'FAIL'}", loc="left")
        figure.supxlabel(f"theory: {case.theory} ({case.kind})", fontsize="small", ha="left", x=0.01, color="0.3")
    return figure
