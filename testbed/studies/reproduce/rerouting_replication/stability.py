"""How much each policy can carry, against the speed of the wrong pool and against what is known of the types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from matplotlib.figure import Figure

from testbed.core.records import Measurements
from testbed.scenario import Scenario
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.rerouting_replication.standard_example import (
    FINITE_VARIANCE,
    IDENTICAL,
    INDEPENDENT,
    POLICIES,
    POLICY_MEANING,
    SIZES,
    SIZES_MEANING,
    bound,
    scenario,
    service_used,
)
from testbed.studies.reproduce.study import RESOLVING_AFFINITY, Point, Row, Settings, Study, shown, value_of

BOUND = "stability_bound"
R_SLOW = 0.2  # where the knowledge of the types is varied


class _Stability(Study):
    """What the studies of stability bounds have in common."""

    paper = RESOLVING_AFFINITY
    quantities: ClassVar = {
        BOUND: "the largest rate of arrivals per server and time unit (the mean size) that can be carried; the twin's "
        "is 1/(E[B_1] + E[B_2]), which for two pools alike is the least of n_i/E[B_i] per server, from the processing "
        "time B_i that jobs used in pool i at half of that rate",
        "used_in_pool_one": "E[B_1] in time units, with the thresholds and the assignment that reach the bound",
        "used_in_pool_two": "E[B_2]",
    }
    tabulated = (BOUND,)

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        """Return what jobs used in each pool, and the rate at which that fills both."""
        one, two = service_used(scenario, measurements)
        return {BOUND: 1 / (one + two), "used_in_pool_one": one, "used_in_pool_two": two}

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say how far theory and reference are apart, and why some have no mark of the twin."""
        theory = {_place(row): row.value for row in rows if row.source == "theory"}
        gaps = [abs(row.value - theory[_place(row)]) for row in rows if row.source == "reference"]
        found = [f"theory and reference differ by at most {max(gaps):.1g}, in {len(gaps)} numbers"] if gaps else []
        return [
            *found,
            "Pareto(10/9) sizes have no variance: a mean over 10^5 of them is not reliable. The twin has marks only "
            "where the least of two independent sizes counts",
        ]


class StabilitySlowSpeed(_Stability):
    """The bound of every policy against the speed of a job in the pool that is wrong for it."""

    name = "rerouting-replication-stability"
    shows = (
        "stability bound against the slow speed for rerouting, replication, no and full redundancy and known sizes, "
        "types unknown (the figures of the paper's sections 3 and 4)"
    )
    takes = "5 minutes"
    columns: ClassVar = {
        "sizes": SIZES_MEANING,
        "policy": f"{POLICY_MEANING}; Known: types are known, sizes are not, no redundancy",
        "first_type": "probability of the type that is fast in pool one",
        "r_slow": "speed of a job in the pool that is slow for it; 1 in the other",
    }

    def points(self, quick: bool) -> list[Point]:
        """Return all policies, a line of r_slow = 0.05 to 1 with the table's four; and one unequal mix of types."""
        table = (0.2, 0.5) if quick else (0.1, 0.2, 0.5, 0.8)
        line = () if quick else tuple(i / 20 for i in range(1, 21))
        found = [
            self._point(sizes, policy, r_slow, quick, line=r_slow not in table)
            for sizes in SIZES
            for policy in POLICIES
            for r_slow in sorted({*table, *line})
        ]
        mixed = [
            {"sizes": IDENTICAL, "policy": policy, "first_type": 0.7, "r_slow": 0.2}
            for policy in ("ZRed", "Known", "KS")
        ]
        return found + [Point(settings) for settings in mixed]

    def _point(self, sizes: str, policy: str, r_slow: float, quick: bool, *, line: bool) -> Point:
        settings: Settings = {"sizes": sizes, "policy": policy, "first_type": 0.5, "r_slow": r_slow}
        simulated = (0.2,) if quick else (0.2, 0.5)
        if r_slow not in simulated or policy not in FINITE_VARIANCE.get(sizes, ()):
            return Point(settings, line=line)
        on_cluster = r_slow == 0.2 and sizes == IDENTICAL and policy in ("ZRed", "Rer", "Rep")
        return Point(
            settings,
            twin=_moderate(policy, sizes, r_slow, quick),
            cluster=_moderate(policy, sizes, r_slow, quick, on_cluster=True) if on_cluster else None,
        )

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the bound and, for types alike, what is then used in each pool, which is the same."""
        first_type = float(settings["first_type"])
        policy, sizes, r_slow = str(settings["policy"]), str(settings["sizes"]), float(settings["r_slow"])
        return _per_server(bound(policy, sizes, r_slow, first_type=first_type).rate, alike=first_type == 0.5)

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return one plot with a panel for each distribution of sizes."""
        figure = curves(
            [row for row in rows if row.settings["first_type"] == 0.5],
            BOUND,
            x="r_slow",
            by=("policy",),
            panel="sizes",
            share_y=False,
            x_label="slow speed r_slow",
            y_label="stability bound (jobs per server and time unit)",
            caption="Two pools of equal numbers of servers, speeds 1 and r_slow, two types, equally likely and "
            "unknown; mean size 1; best thresholds at each point. Known: the types are known, no redundancy. "
            "Reference: closed forms and check values.",
        )
        return {"stability-bound": figure}


class StabilityKnowledge(_Stability):
    """The bound of every policy against how often the dispatcher sends a job to the pool that suits it."""

    name = "rerouting-replication-knowledge"
    shows = (
        f"stability bound against the knowledge of types, at slow speed {R_SLOW}: the dispatcher knows the right type "
        "with probability q, or knows it for sure with probability phi = 2 q - 1 (the figures on partly known types)"
    )
    takes = "4 minutes"
    columns: ClassVar = {
        "sizes": SIZES_MEANING,
        "policy": POLICY_MEANING,
        "signal": "noisy: the dispatcher gets the right type with probability q, else the other one; revealed: it gets "
        "the type with probability phi, else nothing. With both it can send a fraction q of jobs where they are fast",
        "q": "probability of the right type; 1/2: nothing is known, 1: types are known",
        "phi": "2 q - 1",
    }

    def points(self, quick: bool) -> list[Point]:
        """Return all policies, a line of q = 0.5 to 1 with either signal, and the table's q in between."""
        table = (0.8,) if quick else (0.5, 0.65, 0.8, 0.95, 1.0)
        line = (0.5, 1.0) if quick else tuple(round(0.5 + i / 20, 2) for i in range(11))
        return [
            self._point(sizes, policy, signal, q, quick, line=q not in table)
            for signal in ("noisy", "revealed")
            for sizes in ((IDENTICAL, INDEPENDENT) if quick else SIZES)
            for policy in POLICIES
            if policy != "Known"
            for q in sorted({*table, *line})
        ]

    def _point(self, sizes: str, policy: str, signal: str, q: float, quick: bool, *, line: bool) -> Point:
        settings: Settings = {"sizes": sizes, "policy": policy, "signal": signal, "q": q, "phi": round(2 * q - 1, 12)}
        simulated = policy in ("ZRed", "Rer", "Rep") and policy in FINITE_VARIANCE.get(sizes, ()) and q == 0.8
        return Point(
            settings,
            twin=_moderate(policy, sizes, R_SLOW, quick, signal=signal, q=q) if simulated else None,
            line=line,
        )

    def theory(self, settings: Settings) -> dict[str, float]:
        """Return the bound, and what is then used in each pool."""
        q, signal = float(settings["q"]), str(settings["signal"])
        return _per_server(bound(str(settings["policy"]), str(settings["sizes"]), R_SLOW, signal, q).rate, alike=True)

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        """Return a plot for each signal, with a panel for each distribution of sizes."""
        axes = {
            "noisy": ("q", "probability q that the dispatcher knows the right type, else the wrong one"),
            "revealed": ("phi", "probability φ that the dispatcher knows the type, else nothing"),
        }
        return {
            f"stability-bound-{signal}": self._figure(rows, signal, x, label) for signal, (x, label) in axes.items()
        }

    def _figure(self, rows: Sequence[Row], signal: str, x: str, label: str) -> Figure:
        return curves(
            [row for row in rows if row.settings["signal"] == signal],
            BOUND,
            x=x,
            by=("policy",),
            panel="sizes",
            share_y=False,
            x_label=label,
            y_label="stability bound (jobs per server and time unit)",
            caption=f"Two pools of equal numbers of servers, speeds 1 and {R_SLOW}, two types, equally likely; mean "
            "size 1; best assignment and thresholds at each point."
            + (" Reference: closed forms and check values." if signal == "noisy" else ""),
        )

    def remarks(self, rows: Sequence[Row]) -> list[str]:
        """Say also where the two signals part."""
        gains = [
            (row.value / noisy - 1, row)
            for row in rows
            if row.settings["signal"] == "revealed" and row.source == "theory" and row.quantity == BOUND
            if (noisy := value_of(rows, BOUND, "theory", **{**row.settings, "signal": "noisy"})) is not None
        ]
        found = super().remarks(rows)
        if gains:
            gain, row = max(gains, key=lambda pair: pair[0])
            at = row.settings
            found.append(
                "a revealed type with phi = 2 q - 1 is worth at least as much as a noisy one with q; most more for "
                f"{at['policy']}, {at['sizes']}, q = {shown(at['q'])}: {100 * gain:.1f} %. For replication it can then "
                "be best to have all jobs of unknown type start in one and the same pool, with a threshold of its own"
            )
        return found


def _moderate(
    policy: str,
    sizes: str,
    r_slow: float,
    quick: bool,
    *,
    signal: str = "noisy",
    q: float = 0.5,
    on_cluster: bool = False,
) -> Scenario:
    """Return runs at half of the largest rate, with the thresholds that reach it."""
    best = bound(policy, sizes, r_slow, signal, q)
    jobs = (300 if quick else 1e3) if on_cluster else 2e3 if quick else 8e4  # of a replication
    rate = best.rate / 2
    return scenario(
        policy,
        sizes,
        r_slow,
        best.thresholds,
        best.assignment,
        load=rate / 10,
        signal=signal,
        q=q,
        warmup=20.0,
        duration=jobs / rate,
        replications=2 if on_cluster else 3 if quick else 5,
    )


def _per_server(rate: float, *, alike: bool) -> dict[str, float]:
    """Return the bound per server; where the pools are alike, both are full at once: n_i = rate E[B_i]."""
    used = dict.fromkeys(("used_in_pool_one", "used_in_pool_two"), 5 / rate) if alike else {}
    return {BOUND: rate / 10, **used}


def _place(row: Row) -> tuple[str, ...]:
    return (row.quantity, *map(str, row.settings.values()))
