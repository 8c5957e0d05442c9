"""The variants of a scenario: the same workload under other settings."""

from __future__ import annotations

import msgspec

from testbed.scenario.decoding import changed_tables, decode_alone
from testbed.scenario.errors import ScenarioError
from testbed.scenario.settings import Scenario

_FIXED = ("name", "seed", "variants", "sweep", "expect")  # what a variant may not set: it is the same workload


def variants(scenario: Scenario) -> list[tuple[str, Scenario]]:
    """Return what a scenario runs, as (name, scenario without variants and sweep).

    First the scenario itself, under its policies' name (``own_name``), then each variant. Raises ScenarioError for a
    variant that is no valid scenario, and for a name that is taken.
    """
    name = own_name(scenario)
    if not scenario.variants and scenario.sweep is None:
        return [(name, scenario)]
    base = msgspec.structs.replace(scenario, variants=[], sweep=None)
    found = {name: base}
    for index, variant in enumerate(scenario.variants):
        if variant.name in found:
            raise ScenarioError(
                "this name is taken (the scenario itself runs under its policy's name); give each variant its own",
                key=f"variants[{index}].name",
                value=variant.name,
            )
        place = f"variants[{index}] ({variant.name})"
        for key in variant.set:
            if key.partition(".")[0] in _FIXED:
                raise ScenarioError(f"a variant can't set {key}: it runs the same scenario", key=place)
        try:
            found[variant.name] = decode_alone(changed_tables(base, variant.set))
        except ScenarioError as error:
            raise error.moved(source="scenario", inside=place) from None
    return list(found.items())


def own_name(scenario: Scenario) -> str:
    """Return the name under which a scenario itself runs: its policy's, with what moves jobs: random+stealing."""
    parts = [scenario.dispatch.policy]
    if scenario.balance is not None:
        parts.append(scenario.balance.policy)
    if scenario.threshold is not None:
        parts.append(scenario.threshold.action)
    return "+".join(parts)
