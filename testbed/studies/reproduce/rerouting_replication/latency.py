"""Mean latency against the threshold: the paper's approximation, a correction of it, and the twin."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, replace
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

RATE = 0.35  # no redundancy can carry 0.571, full redundancy of identical replicas 0.5
LATENCY, STRETCHED = "mean_latency", "stretched"
THRESHOLDS = (0.0, 0.5, 1.0, 1.5, 2.0, 4.0, math.inf)
LINE = tuple(i / 4 for i in range(25))
#: What others have simulated, at effective load 0.7.
CHECKED = (
    Case(5, "identical", "Rer", 0.5, 0.33513, 1.5),
    Case(5, "identical", "Rep", 0.5, 0.35074, 1.5),
    Case(5, "i.i.d.", "Rer", 0.5, 0.46489, 1.5),
    Case(5, "i.i.d.", "Rep", 0.5, 0.46549, 1.5),
)
NAMES = {"Rer": "rerouting", "Rep": "replication"}


class Latency(Study):
    """Rerouting and replication at one rate of arrivals, and thresholds from 0 to infinity."""

    name = "rerouting-replication-latency"
    paper = RESOLVING_AFFINITY
    shows = (
        f"mean latency against the threshold at slow speed {R_SLOW} and {RATE} arrivals per server and time unit, with "
        "the paper's approximation, for unknown and partly known types, pools of 1 and 5 servers (figures of section 6)"
    )
    takes = "8 minutes"
    columns: ClassVar = {
        **COLUMNS,
        "rate": "arrivals per server and time unit",
        "tau": TAU_MEANING,
        "load": LOAD_MEANING,
    }
    quantities: ClassVar = {
        LATENCY: "mean time from arrival to departure, in time units; theory: the Pollaczek-Khinchine approximation of "
        "the paper, for several servers a two-moment formula in its place",
        STRETCHED: "the same approximation with unreplicated service stretched by the copies that preempt it; for "
        "replication between single servers",
        **UTILISATION,
    }
    tabulated = (LATENCY, STRETCHED)
    hidden = ("load",)
    controls: ClassVar = {LATENCY: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return thresholds 0 to infinity for both numbers of servers, with types unknown and right at q = 0.8."""
        kinds = [(1, 0.5), (5, 0.5)] if quick else [(1, 0.5), (1, 0.8), (5, 0.5), (5, 0.8)]
        table, line = ((0.5, 1.5), LINE[::2]) if quick else (THRESHOLDS, LINE)
        return [
            _point(Case(servers, replicas, policy, q, RATE, tau), quick, line=tau not in table)
            for servers, q in kinds
            for replicas in (tuple(SIZES_OF)[:1] if quick else SIZES_OF)
            for policy in NAMES
            for tau in sorted({*table, *line, math.inf})
        ] + ([] if quick else [_point(case, quick, line=False) for case in CHECKED])

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the approximation and, where it is made for that, its correction."""
        case = _case(settings)
        corrected = {STRETCHED: case.latency(stretched=True)} if case.can_be_stretched else {}
        return {LATENCY: case.latency(), **corrected}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the mean latency and the utilisation."""
        return {LATENCY: mean_response_time(scenario, measurements), **utilised(scenario, measurements)}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return a plot for each number of servers and q, with a panel for each distribution of sizes."""
        kinds = dict.fromkeys((int(row.settings["servers"]), float(row.settings["q"])) for row in rows)
        return {
            f"latency-{servers}-{servers}-{'unknown' if q == 0.5 else 'partly-known'}": _figure(rows, servers, q)
            for servers, q in kinds
        }

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say which threshold is best on the twin."""
        found = []
        for policy, name in NAMES.items():
            mine = [
                row
                for row in rows
                if (row.source, row.quantity) == ("twin", LATENCY)
                and (row.settings["policy"], row.settings["rate"]) == (policy, RATE)
            ]
            for servers, replicas, q in dict.fromkeys(_kind(row) for row in mine):
                best = min((row for row in mine if _kind(row) == (servers, replicas, q)), key=lambda row: row.value)
                found.append(
                    f"{name}, {replicas}, {servers} and {servers} servers, q = {q}: of the simulated thresholds "
                    f"{best.settings['tau']} has the least mean latency, {best.value:.3g}"
                )
        return found


def _figure(rows: Sequence[Row], servers: int, q: float) -> Figure:
    shown = []
    for row in rows:
        at = row.settings
        if (at["servers"], at["q"], at["rate"]) != (servers, q, RATE) or row.quantity not in (LATENCY, STRETCHED):
            continue
        name = NAMES[str(at["policy"])] + (", stretched" if row.quantity == STRETCHED else "")
        drawn = replace(row, quantity=LATENCY, settings={**at, "series": name})
        if math.isfinite(float(at["tau"])):
            shown.append(drawn)
        elif row.source == "theory" and at["policy"] == "Rer":
            ends = (LINE[0], LINE[-1])
            shown += [replace(drawn, settings={**at, "series": "no redundancy", "tau": tau}) for tau in ends]
    formula = "Pollaczek-Khinchine" if servers == 1 else "two-moment M/G/n"
    known = "unknown" if q == 0.5 else f"known right with probability {q}"
    return curves(
        shown,
        LATENCY,
        x="tau",
        by=("series",),
        panel="replicas",
        x_label="threshold τ (time units of received processing)",
        y_label="mean latency E[T] (time units)",
        caption=f"Two pools of {servers} server{'s' * (servers != 1)}, speeds 1 and {R_SLOW}, two types, equally "
        f"likely and {known}; exponential sizes of mean 1; {RATE} arrivals per server and time unit. Theory: {formula} "
        f"approximation{', and stretched by preemptions' * (servers == 1)}.",
    )


def _point(case: Case, quick: bool, *, line: bool) -> Point:
    redundant = math.isfinite(case.tau) or (case.policy == "Rer" and not quick)
    settings = {**asdict(case), "load": case.load}
    if line or not redundant:  # without redundancy both policies are the same
        return Point(settings, line=line)
    on_cluster = (case.servers, case.q, case.replicas, case.tau, case.rate) == (5, 0.5, "identical", 1.5, RATE)
    return Point(
        settings,
        twin=case.scenario(3e4 if quick else 2e5, 5 if quick else 8),
        cluster=case.scenario(500 if quick else 2e3, 2) if on_cluster else None,
    )


def _case(settings: Settings) -> Case:
    values: dict[str, Any] = {name: value for name, value in settings.items() if name != "load"}
    return Case(**values)


def _kind(row: Row) -> tuple[object, ...]:
    return tuple(row.settings[name] for name in ("servers", "replicas", "q"))
