"""A scenario under other settings: dotted keys, and the variants of a scenario."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from testbed.scenario.document import to_mapping
from testbed.scenario.errors import ScenarioError, suggestion
from testbed.scenario.reading import decode
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
            found[variant.name] = with_settings(base, variant.set)
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


def with_settings(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return ``scenario`` with other values at dotted keys; see Scenario.with_settings."""
    mapping = to_mapping(scenario)
    if "dispatch" in settings and isinstance(settings["dispatch"], Mapping):
        mapping["dispatch"] = {}
    if "dispatch.policy" in settings:
        mapping["dispatch"] = _kept(mapping["dispatch"], settings["dispatch.policy"])
    for key, other in (("load", "rate"), ("rate", "load")):
        if f"workload.{key}" in settings and f"workload.{other}" not in settings:
            mapping["workload"].pop(other, None)
    for key, value in settings.items():
        _set(mapping, key, value)
    return decode(mapping)


def _kept(dispatch: Mapping[str, Any], policy: object) -> dict[str, Any]:
    """Return the keys of ``[dispatch]`` that another policy knows too."""
    from dispatchers.registry import policies

    if not isinstance(policy, str) or policy not in policies():
        return {}
    known = [field.encode_name for field in msgspec.structs.fields(policies()[policy].Parameters)]
    return {key: value for key, value in dispatch.items() if key in known}


def _set(mapping: dict[str, Any], key: str, value: object) -> None:
    """Set ``value`` at a dotted key in place; None takes the key away. Tables on the way are made as needed."""
    *way, last = key.split(".")
    target: Any = mapping
    for at, step in enumerate(way):
        if isinstance(target, list):
            target = target[_index(target, step, ".".join(way[:at]))]
        else:
            target = target.setdefault(step, {})
        if not isinstance(target, dict | list):
            whole = ".".join(way[: at + 1])
            raise ScenarioError(f"{whole} is not a table; set {whole} as a whole", key=key)
    if isinstance(target, list):
        target[_index(target, last, ".".join(way))] = value
    elif value is None:
        target.pop(last, None)
    else:
        target[last] = value


def _index(items: list[Any], step: str, key: str) -> int:
    """Return the index of the item of a list that ``step`` numbers or names."""
    if step.isascii() and step.isdigit() and len(step) < 10 and int(step) < len(items):
        return int(step)
    names = [str(item.get("name")) for item in items if isinstance(item, dict) and "name" in item]
    if step in names:
        return names.index(step)
    listed = f"; names: {', '.join(names)}" if names else ""
    raise ScenarioError(
        f'there is no "{step}" in {key}{suggestion(step, names)} (it has the indices 0 to {len(items) - 1}{listed})',
        key=f"{key}.{step}",
    )
