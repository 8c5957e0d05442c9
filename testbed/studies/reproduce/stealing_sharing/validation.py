"""How exact the mean field is for a thousand servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import UTILISATION, mean_response_time, utilised
from testbed.studies.reproduce.stealing_sharing.settings import SERVERS, SIZES, balanced
from testbed.studies.reproduce.study import STEALING_SHARING, Point, Row, Settings, Study
from testbed.theory.stealing_sharing import MeanField, mean_field

NAMES = {0.2: "Erlang-5", 5.0: "H2(5, 0.5)", 25.0: "H2(25, 0.5)"}
#: Cases that settle soon.
QUICK = ((0.8, 0.2, 2.5), (0.8, 5.0, 10.0))
RESPONSE, ERROR = "mean_response_time", "excess"


class Validation(Study):
    """27 cases of the mean field, against its own cluster."""

    name = "stealing-sharing-validation"
    paper = STEALING_SHARING
    shows = (
        "27 cases of the mean field against N = 1000 servers: loads 0.5, 0.8, 0.9 by SCV 1/5, 5, 25 by probe rates 1, "
        "2.5, 10 (the validation table). At equal probe rate stealing and sharing are the same chain; here "
        "servers steal"
    )
    takes = "25 minutes"
    columns: ClassVar = {
        "load": "load",
        "scv": "squared coefficient of variation of the sizes: Erlang-5, or hyperexponential with f = 1/2",
        "probe_rate": "r, probes per time unit of an idle server",
    }
    quantities: ClassVar = {
        RESPONSE: "E[T] in mean sizes; theory: the mean field",
        ERROR: "(E[T] of 1000 servers - mean field)/mean field in percent; theory: what the 1/N correction predicts",
        **UTILISATION,
    }
    tabulated = (RESPONSE, ERROR)
    controls: ClassVar = {RESPONSE: ("utilisation", "load"), ERROR: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return the 27 cases."""
        return [
            Point(
                {"load": load, "scv": scv, "probe_rate": rate},
                twin=balanced("stealing", load, SIZES[name], rate, quick)
                if not quick or (load, scv, rate) in QUICK
                else None,
            )
            for load in (0.5, 0.8, 0.9)
            for scv, name in NAMES.items()
            for rate in (1.0, 2.5, 10.0)
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the mean field's mean response time, and the 1/N correction's error in percent."""
        found = _mean_field(settings)
        correction = found.finite_size_correction().mean_response_time / SERVERS
        return {RESPONSE: found.mean_response_time, ERROR: 100 * correction / found.mean_response_time}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the mean response time, by how much it exceeds the mean field's, and the utilisation."""
        response = mean_response_time(scenario, measurements)
        limit = _mean_field(settings).mean_response_time
        return {
            RESPONSE: response,
            ERROR: 100 * (response / limit - 1),
            **utilised(scenario, measurements),
        }

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return the error against the probe rate."""
        figure = curves(
            rows,
            ERROR,
            x="probe_rate",
            by=("scv",),
            panel="load",
            log_x=True,
            label=lambda settings: f"SCV {settings['scv']}",
            x_label="probe rate r (per idle server and time unit)",
            y_label="E[T] above the mean field (%)",
            caption=f"N = {SERVERS} servers (quick: 200), Poisson arrivals. Theory: the 1/N correction of the mean "
            "field.",
        )
        return {"excess": figure}


def _mean_field(settings: Settings) -> MeanField:
    load, scv, rate = (float(settings[name]) for name in ("load", "scv", "probe_rate"))
    return mean_field(load, SIZES[NAMES[scv]], rate)
