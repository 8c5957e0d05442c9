"""The points of a scenario's sweep."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from typing import Any

import msgspec

from testbed.scenario.decoding import changed_tables, decode_alone, table_at, tables
from testbed.scenario.document import known_keys
from testbed.scenario.errors import ScenarioError, shown_value
from testbed.scenario.settings import Scenario
from testbed.scenario.sweep import Sweep
from testbed.scenario.variants import variants

#: What is the same at all points: the seed and the replications too, so that points differ by their settings alone.
_FIXED = ("name", "seed", "variants", "sweep", "expect", "run.replications")


@dataclass(frozen=True)
class SweepPoint:
    """One point: its settings, by dotted key, and the scenario with its variants under them."""

    settings: Mapping[str, Any]
    scenario: Scenario

    def __str__(self) -> str:
        return described(self.settings)


def described(settings: Mapping[str, Any]) -> str:
    """Write settings in one line."""
    return ", ".join(f"{key} = {shown_value(value) or value}" for key, value in settings.items())


def sweep_points(scenario: Scenario) -> list[SweepPoint]:
    """Return the points of a scenario's sweep in order, the last key of the grid changing fastest; none without one.

    Raises ScenarioError for a point that is no valid scenario.
    """
    if scenario.sweep is None:
        return []
    base = msgspec.structs.replace(scenario, sweep=None)
    found: list[SweepPoint] = []
    for settings in _combinations(scenario.sweep):
        if any(settings == other.settings for other in found):
            raise ScenarioError(f"has the point {described(settings)} twice; give each once", key="sweep")
        try:
            point = decode_alone(changed_tables(base, settings))
            variants(point)
            found.append(SweepPoint(settings, point))
        except ScenarioError as error:
            raise error.moved(source="scenario", inside=f"sweep ({described(settings)})") from None
    _check_variants(scenario, found)
    return found


def _combinations(sweep: Sweep) -> Iterator[dict[str, Any]]:
    if not sweep.grid and not any(sweep.points):
        raise ScenarioError(
            'has no points; give [sweep.grid] with the values of a key, as in "workload.load" = [0.5, 0.7, 0.9], or '
            "[[sweep.points]]",
            key="sweep",
        )
    for place, key in [*(("sweep.grid", key) for key in sweep.grid), *_keys(sweep.points)]:
        if key in _FIXED or key.partition(".")[0] in _FIXED:
            raise ScenarioError(f"a sweep can't set {key}: it is the same at all points", key=place)
        if place != "sweep.grid" and key in sweep.grid:
            raise ScenarioError(f"sets {key}, and so does sweep.grid; give it in one of the two", key=place)
    for together in sweep.points or [{}]:
        for values in product(*sweep.grid.values()):
            yield {**together, **dict(zip(sweep.grid, values, strict=True))}


def _keys(points: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for index, point in enumerate(points):
        for key in point:
            yield f"sweep.points[{index}]", key


def _check_variants(scenario: Scenario, points: list[SweepPoint]) -> None:
    """Refuse a variant that would be the same at all points.

    It sets what the sweep sets, or it sets another policy (or kind) that has a parameter of the same name as the one
    that the sweep sets: parameters belong to their policy.
    """
    swept = {key for point in points for key in point.settings}
    for index, variant in enumerate(scenario.variants):
        place = f"variants[{index}] ({variant.name})"
        for key in variant.set:
            if key in swept:
                raise ScenarioError(
                    f"sets {key}, and so does the sweep, whose points this variant would not follow; leave it to one "
                    "of the two",
                    key=place,
                )
            table, _, tag = key.rpartition(".")
            struct, now = table_at(changed_tables(scenario, variant.set), table)
            if struct is None or struct.tag_field != tag or now[tag] == table_at(tables(scenario), table)[1][tag]:
                continue
            for name in known_keys(struct):
                if f"{table}.{name}" in swept:
                    raise ScenarioError(
                        f"sets {key}, which has a {name} of its own, and the sweep sets {table}.{name}, which this "
                        f"variant would not follow; sweep {key} together with {table}.{name} instead",
                        key=place,
                    )
