"""Stealing and sharing at the same overall probe rate: the mean response time, and the tail."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.measure.probes import overall_probe_rate
from testbed.measure.summary import measured_window
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import UTILISATION, completed_jobs, mean_response_time, utilised
from testbed.studies.reproduce.stealing_sharing.settings import SIZES, balanced
from testbed.studies.reproduce.study import STEALING_SHARING, Point, Row, Settings, Study
from testbed.theory.stealing_sharing import MeanField, Moved, Policy, mean_field, probe_rate_for

OVERALL = 0.5
LOADS = (0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55, 0.6, 0.65, 0.7, 0.75, 0.8, 0.85, 0.9, 0.93)
SIMULATED = (0.6, 0.8, 0.9)
RESPONSE, TAIL, RATE = "mean_response_time", "response_time_tail", "overall_probe_rate"
POLICIES: tuple[Policy, ...] = ("stealing", "sharing")


class ResponseTime(Study):
    """E[T] against the load: the lines cross where the regions meet."""

    name = "stealing-sharing-response-time"
    paper = STEALING_SHARING
    shows = (
        "the mean response time against the load at 0.5 probes per server and time unit, for SCV 1/5, 1 and 5: sharing "
        "is best at low load, stealing at high load"
    )
    takes = "10 minutes"
    columns: ClassVar = {"size": "law of the sizes", "policy": "stealing or sharing", "load": "load"}
    quantities: ClassVar = {
        RESPONSE: "E[T] in mean sizes; theory: the mean field, twin: 1000 servers (quick: 200), cluster: 200",
        RATE: "probes per server and time unit, with the clocks' rate of the mean field",
        **UTILISATION,
    }
    tabulated = (RESPONSE, RATE)
    controls: ClassVar = {RESPONSE: ("utilisation", "load")}

    def points(self, quick: bool) -> list[Point]:
        """Return the theory's loads, and the twin at three of them."""
        return [_point(size, policy, load, quick) for size in list(SIZES)[:3] for policy in POLICIES for load in LOADS]

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the mean field's mean response time and overall probe rate."""
        policy = _policy(settings)
        found = _mean_field(policy, float(settings["load"]), str(settings["size"]))
        return {RESPONSE: found.mean_response_time, RATE: found.overall_probe_rate(policy)}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the mean response time, the overall probe rate and the utilisation."""
        window = measured_window(measurements, scenario.run.warmup, scenario.horizon)
        return {
            RESPONSE: mean_response_time(scenario, measurements),
            RATE: overall_probe_rate(measurements, scenario.servers, window) or 0.0,
            **utilised(scenario, measurements),
        }

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return one plot with a panel for each size."""
        figure = curves(
            rows,
            RESPONSE,
            x="load",
            by=("policy",),
            panel="size",
            log_y=True,
            x_label="load",
            y_label="mean response time E[T] (mean sizes)",
            caption=f"{OVERALL} probes per server and time unit, clock rates from the mean field; Poisson arrivals. "
            "Twin: N = 1000 (quick: 200); cluster: N = 200. Where lam²/(1 − lam) is below that, sharing can't use all "
            "its probes, and no task waits.",
        )
        return {"response-time": figure}


class ResponseTimeTail(Study):
    """P(T > t): which waiting task moves does not change the mean, but the tail."""

    name = "stealing-sharing-tails"
    paper = STEALING_SHARING
    shows = (
        "P(T > t) at load 0.8, SCV 5 and 0.5 probes per server and time unit: stealing and sharing, of the newest "
        "waiting task or of the oldest"
    )
    takes = "5 minutes"
    columns: ClassVar = {
        "policy": "stealing or sharing",
        "moves": "which waiting task moves",
        "t": "time since the arrival, in mean sizes",
    }
    quantities: ClassVar = {TAIL: "P(T > t); theory: the mean field, twin: 1000 servers (quick: 200), cluster: 200"}

    def points(self, quick: bool) -> list[Point]:
        """Return all times; those of a policy share its runs."""
        moved: tuple[Moved, ...] = ("newest", "oldest")
        found = []
        for policy in POLICIES:
            for moves in moved:
                twin = cluster = None
                if not quick or policy == "stealing":  # sharing takes longer to settle
                    twin = _scenario("H2(5, 0.5)", policy, 0.8, quick, moves=moves)
                if moves == "newest":
                    cluster = _scenario("H2(5, 0.5)", policy, 0.8, False, moves=moves, on_cluster=True)
                for t in (1.0, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 40.0):
                    found.append(Point({"policy": policy, "moves": moves, "t": t}, twin=twin, cluster=cluster))
        return found

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the mean field's tail."""
        moves: Moved = "oldest" if settings["moves"] == "oldest" else "newest"
        found = _mean_field(_policy(settings), 0.8, "H2(5, 0.5)")
        return {TAIL: found.response_time_tail(float(settings["t"]), moves)}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return the fraction of the jobs that took longer."""
        (response,) = completed_jobs(scenario, measurements, "response")
        return {TAIL: float((response > float(settings["t"])).mean())}

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return the tails on a logarithmic scale."""
        figure = curves(
            rows,
            TAIL,
            x="t",
            by=("policy", "moves"),
            log_y=True,
            label=lambda settings: f"{settings['policy']}, {settings['moves']} moves",
            x_label="t (mean sizes)",
            y_label="P(T > t)",
            caption=f"Load 0.8, H2(5, 0.5) sizes, {OVERALL} probes per server and time unit, Poisson arrivals. Twin: "
            "N = 1000 (quick: 200); cluster: N = 200; × are check values.",
        )
        return {"tails": figure}


def _policy(settings: Settings) -> Policy:
    return "stealing" if settings["policy"] == "stealing" else "sharing"


def _mean_field(policy: Policy, load: float, size: str) -> MeanField:
    return mean_field(load, SIZES[size], probe_rate_for(policy, load, SIZES[size], OVERALL))


def _point(size: str, policy: Policy, load: float, quick: bool) -> Point:
    settings: Settings = {"size": size, "policy": policy, "load": load}
    simulated = load in SIMULATED and (not quick or (load < 0.9 and size == "Erlang-5"))
    if not simulated:
        return Point(settings, line=load not in SIMULATED)
    cluster = _scenario(size, policy, load, False, on_cluster=True) if load == 0.8 else None
    return Point(settings, twin=_scenario(size, policy, load, quick), cluster=cluster)


def _scenario(
    size: str, policy: Policy, load: float, quick: bool, *, moves: Moved = "newest", on_cluster: bool = False
) -> Scenario:
    rate = probe_rate_for(policy, load, SIZES[size], OVERALL)
    assert math.isfinite(rate), "these loads are high enough for sharing to use all its probes"
    return balanced(policy, load, SIZES[size], rate, quick, moves=moves, on_cluster=on_cluster)
