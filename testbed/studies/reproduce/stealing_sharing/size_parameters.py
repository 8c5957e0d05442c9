"""The parameters of the paper's hyperexponential sizes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.studies.reproduce.study import STEALING_SHARING, Point, Row, Settings, Study
from testbed.workload.distributions import Hyperexponential


class SizeParameters(Study):
    """What SCV and f make of the two types of jobs. A table without a plot."""

    name = "stealing-sharing-sizes"
    paper = STEALING_SHARING
    shows = "the parameters of hyperexponential sizes of mean 1, by SCV and by the share f of the work in short jobs"
    takes = "seconds"
    columns: ClassVar = {
        "scv": "squared coefficient of variation of the sizes",
        "f": "fraction of the work (not of the jobs) that type-1 jobs, the short ones, bring",
    }
    quantities: ClassVar = {
        "alpha_1": "fraction of the jobs that are short",
        "mu_1": "rate of the short jobs, per time unit; their mean size is 1/mu_1",
        "mu_2": "rate of the long jobs, per time unit",
    }

    def points(self, quick: bool) -> list[Point]:
        """Return the combinations of SCV and f."""
        return [Point({"scv": scv, "f": f}) for scv in (5.0, 25.0) for f in (0.1, 0.5, 0.9)]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the parameters."""
        size = Hyperexponential(scv=float(settings["scv"]), f=float(settings["f"]))
        alpha_1, _, mu_1, mu_2 = size.parameters
        return {"alpha_1": alpha_1, "mu_1": mu_1, "mu_2": mu_2}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return none."""
        return {}
