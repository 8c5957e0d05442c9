"""The errors of limits over the number of servers, with the fits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from testbed.validate.result import LIMIT, CaseResult, Validation

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures(result: Validation) -> dict[str, Figure]:
    """Return a plot for each case with a limit, by file name without its ending."""
    return {_file_name(case.name): _over_servers(case) for case in result.cases if case.finding(LIMIT) is not None}


def _file_name(name: str) -> str:
    return "".join(c if c.isalnum() or c in "-_." else "-" for c in name)


def _over_servers(case: CaseResult) -> Figure:
    """Draw the twin's error against 1/N, where b/N is a straight line, and the fit with what it tends to."""
    import numpy as np
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    from testbed.reproduce.plots import COLOURS, PANEL, STYLE

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
