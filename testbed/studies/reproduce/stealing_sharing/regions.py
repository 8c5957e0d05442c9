"""Where stealing is best and where sharing is, at the same overall probe rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import ClassVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import queue_length_tail
from testbed.studies.reproduce.stealing_sharing.settings import SIZES, balanced
from testbed.studies.reproduce.study import STEALING_SHARING, Point, Row, Setting, Settings, Study, value_of
from testbed.theory.stealing_sharing import load_boundary, unit_size_load_boundary

EVERY, UNIT = "every size (bound)", "unit size"
BOUNDARY, PENDING = "load_boundary", "pending_excess"
RATES = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.8, 1.0, 1.25, 1.5, 2.0)
TABULATED = (0.0, 0.5, 1.0)
SIMULATED = ("Erlang-5", "exponential", "H2(5, 0.5)")
GOLDEN = (math.sqrt(5) - 1) / 2


class Regions(Study):
    """The boundary of the two regions for several sizes, and the bounds that hold for all of them."""

    name = "stealing-sharing-regions"
    paper = STEALING_SHARING
    shows = (
        "the load above which stealing is best and below which sharing is, against the overall probe rate, for several "
        "SCV and f, with the bounds for all phase-type sizes and the golden ratio, the limit of few probes for "
        "exponential sizes"
    )
    takes = "3 minutes"
    columns: ClassVar = {
        "size": f'law of the sizes; H2(SCV, f) is hyperexponential; "{EVERY}": below it sharing is best for every '
        f'phase-type size; "{UNIT}": above it stealing is (conjectured)',
        "overall_probe_rate": "R_o, probes per server and time unit of either policy; 0: the limit of few probes",
    }
    quantities: ClassVar = {
        BOUNDARY: "lam*, the load at which both policies have the same mean response time",
        PENDING: "P(queue length >= 2) - (1 - load) of 1000 servers (quick: 200) that steal at lam* and R_o; theory: 0",
        "utilisation": "fraction of the servers' time in which they were busy",
    }
    tabulated = (BOUNDARY, PENDING)

    def points(self, quick: bool) -> list[Point]:
        """Return the boundary's points; at two rates the twin checks the condition that defines it."""
        return [
            Point(
                {"size": size, "overall_probe_rate": rate},
                twin=_scenario(size, rate, quick) if _checked(size, rate, quick) else None,
                line=rate not in TABULATED,
            )
            for size in (EVERY, UNIT, *SIZES)
            for rate in RATES
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the boundary."""
        size, rate = str(settings["size"]), float(settings["overall_probe_rate"])
        checked = {PENDING: 0.0} if _checked(size, rate, False) else {}
        return {BOUNDARY: _boundary(size, rate), **checked}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return by how much more servers have a waiting task than are idle, and the utilisation."""
        idle = 1 - queue_length_tail(scenario, measurements, 1)
        return {PENDING: queue_length_tail(scenario, measurements, 2) - idle, "utilisation": 1 - idle}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return the regions' plot."""
        figure = curves(
            rows,
            BOUNDARY,
            x="overall_probe_rate",
            by=("size",),
            x_label="overall probe rate R_o (probes per server and time unit)",
            y_label="load",
            caption="Above a line stealing has the smaller mean response time, below it sharing. Limit of many "
            "servers, Poisson arrivals; × are check values. Dotted: the golden ratio.",
            marking=_mark,
        )
        return {"regions": figure}

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say where the lines begin."""
        start = value_of(rows, BOUNDARY, "theory", size="exponential", overall_probe_rate=0.0)
        unit = value_of(rows, BOUNDARY, "theory", size=UNIT, overall_probe_rate=0.0)
        if start is None or unit is None:
            return []
        return [
            f"with few probes the boundary is {start:.6f} for exponential sizes (the golden ratio: {GOLDEN:.6f}), and "
            f"between 0.5 and {unit:.6f} for all sizes"
        ]


def _checked(size: str, rate: float, quick: bool) -> bool:
    """Whether the twin checks the boundary there; those of SIMULATED that settle soon come first."""
    return size in (SIMULATED[:2] if quick else SIMULATED) and rate in TABULATED[1:]


@cache
def _boundary(size: str, rate: float) -> float:
    if size == EVERY:  # sharing is best for every size iff lam <= 1/2 or R_o >= lam^2 / (1 - lam)
        return max(0.5, (math.sqrt(rate * (rate + 4)) - rate) / 2)
    return unit_size_load_boundary(rate) if size == UNIT else load_boundary(SIZES[size], rate)


def _scenario(size: str, rate: float, quick: bool) -> Scenario:
    load = _boundary(size, rate)
    return balanced("stealing", load, SIZES[size], rate / (1 - load), quick)


def _mark(axes: Axes, panel: Setting | None) -> None:
    axes.axhline(GOLDEN, linestyle=":", linewidth=0.8, color="0.5")
    axes.text(0.97, 0.93, "stealing is best", transform=axes.transAxes, ha="right")
    axes.text(0.97, 0.05, "sharing is best", transform=axes.transAxes, ha="right")
