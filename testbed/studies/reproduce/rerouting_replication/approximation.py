"""How far the paper's approximation of the mean latency is off, by threshold and load."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import UTILISATION, mean_response_time, utilised
from testbed.studies.reproduce.rerouting_replication.case import (
    COLUMNS,
    LOAD_MEANING,
    R_SLOW,
    SIZES_OF,
    TAU_MEANING,
    Case,
)
from testbed.studies.reproduce.study import RESOLVING_AFFINITY, Point, Row, Settings, Study

ERROR, STRETCHED_ERROR = "error", "stretched_error"
THRESHOLDS = (0.0, 0.5, 1.0, 2.0, 4.0, math.inf)
#: Jobs that are simulated for a point, over all replications. At high load a mean takes most to settle: fewer points.
JOBS = {0.5: 1.5e5, 0.7: 3e5, 0.9: 8e5}
AT_HIGH_LOAD = (0.5, 2.0)
NAMES = {(ERROR, "Rer"): "rerouting", (ERROR, "Rep"): "replication", (STRETCHED_ERROR, "Rep"): "replication, stretched"}


class ApproximationError(Study):
    """The approximation compared with the twin, for two single servers."""

    name = "rerouting-replication-approximation"
    paper = RESOLVING_AFFINITY
    shows = (
        "error of the Pollaczek-Khinchine approximation of the mean latency for two single servers by threshold and "
        f"effective load, at slow speed {R_SLOW}"
    )
    takes = "7 minutes"
    columns: ClassVar = {
        **COLUMNS,
        "load": LOAD_MEANING,
        "tau": TAU_MEANING,
    }
    quantities: ClassVar = {
        ERROR: "the approximation over the measured mean latency, minus 1, in percent",
        STRETCHED_ERROR: "the same of the approximation with unreplicated service stretched by the copies that preempt",
        **UTILISATION,
    }
    tabulated = (ERROR, STRETCHED_ERROR)
    hidden = ("servers",)
    controls: ClassVar = dict.fromkeys((ERROR, STRETCHED_ERROR), ("utilisation", "load"))

    def points(self, quick: bool) -> list[Point]:
        """Return thresholds 0 to infinity at three loads with types unknown, and one case of partly known types."""
        return [
            _point({"servers": 1, "replicas": replicas, "policy": policy, "q": q, "load": load, "tau": tau}, quick)
            for q, load, replicas, policy, tau in (
                *(
                    (0.5, load, replicas, policy, tau)
                    for replicas in (tuple(SIZES_OF)[:1] if quick else SIZES_OF)
                    for policy in ("Rer", "Rep")
                    for load in ((0.5, 0.7) if quick else JOBS)
                    for tau in ((0.5, 2.0) if quick else THRESHOLDS)
                ),
                (0.8, 0.7, "identical", "Rer", 0.5),
            )
        ]

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return how far the approximations are from the mean latency, and the utilisation."""
        case, latency = _case(settings), mean_response_time(scenario, measurements)
        found = {ERROR: 100 * (case.latency() / latency - 1), **utilised(scenario, measurements)}
        if case.can_be_stretched:
            found[STRETCHED_ERROR] = 100 * (case.latency(stretched=True) / latency - 1)
        return found

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return one plot with a panel for each load."""
        finite = [row for row in rows if row.settings["q"] == 0.5 and math.isfinite(float(row.settings["tau"]))]
        figure = curves(
            finite,
            ERROR,
            x="tau",
            by=("policy", "replicas"),
            panel="load",
            x_label="threshold τ (time units of received processing)",
            y_label="approximate over measured mean latency, − 1 (%)",
            caption=f"Two single servers, speeds 1 and {R_SLOW}, two types, equally likely and unknown; exponential "
            "sizes of mean 1. Pollaczek-Khinchine approximation. Reference: against other simulations.",
        )
        return {"approximation-error": figure}

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say between what the errors lie, and where they are from."""
        found = []
        for (quantity, policy), name in NAMES.items():
            errors = [
                row.value
                for row in rows
                if (row.source, row.quantity, row.settings["policy"]) == ("twin", quantity, policy)
            ]
            if errors:
                found.append(f"{name}: the approximation is off by {min(errors):+.0f} % to {max(errors):+.0f} %")
        return [
            *found,
            "rerouted jobs come in bunches, which the approximation takes for a Poisson stream: for small thresholds "
            "it is far too low. That copies preempt is not in it either; stretched, it is mostly too high",
        ]


def _case(settings: Settings) -> Case:
    values: dict[str, Any] = dict(settings)
    return Case.with_load(**values)


def _point(settings: Settings, quick: bool) -> Point:
    load, tau = float(settings["load"]), float(settings["tau"])
    if math.isinf(tau) or (load == 0.9 and tau not in AT_HIGH_LOAD):
        return Point(settings)  # an infinite threshold is no redundancy, of which the formula is exact
    return Point(settings, twin=_case(settings).scenario(1.5e4 if quick else JOBS[load], 5 if quick else 8))
