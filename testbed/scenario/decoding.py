"""From the tables of a scenario file to a Scenario and back, and the tables under other settings.

What is decoded here is one scenario by itself; testbed.scenario.scenario_files decodes its variants and its sweep too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from testbed.scenario.consistency import check
from testbed.scenario.document import child, document_info, document_type, struct_of, to_mapping, to_scenario
from testbed.scenario.errors import ScenarioError, explain, not_finite, suggestion
from testbed.scenario.policies import policies
from testbed.scenario.settings import Dispatch, Scenario


def decode_alone(mapping: Mapping[str, Any]) -> Scenario:
    """Return the scenario that the tables of a file describe, checked except for its variants and its sweep.

    Raises ScenarioError.
    """
    found = not_finite(mapping)
    if found is not None:
        raise found
    try:
        document = msgspec.convert(mapping, document_type())
        # Once more, because msgspec checks no defaults: a fraction may have a whole number as its default, and would be
        # written and read as different numbers.
        document = msgspec.convert(msgspec.to_builtins(document), document_type())
    except msgspec.ValidationError as error:
        raise explain(error, mapping) from None
    scenario = to_scenario(document)
    check(scenario)
    return scenario


def tables(scenario: Scenario) -> dict[str, Any]:
    """Return the tables of a scenario; raises ScenarioError for one built in Python that a file could not hold."""
    _check_dispatch(scenario.dispatch)
    try:
        return to_mapping(scenario)
    except (TypeError, ValueError, OverflowError):
        raise ScenarioError("holds a Python object that a scenario file could not hold") from None


def _check_dispatch(dispatch: object) -> None:
    """Check that the parameters are the policy's own; an unknown policy is left to msgspec."""
    if not isinstance(dispatch, Dispatch) or not isinstance(dispatch.policy, str):
        raise ScenarioError("must be a Dispatch(policy, parameters)", key="dispatch")
    policy = policies().get(dispatch.policy)
    if policy is not None and type(dispatch.parameters) is not policy.Parameters:
        raise ScenarioError(
            f"the parameters must be the policy's own, {policy.__name__}.Parameters", key="dispatch.parameters"
        )


def changed_tables(scenario: Scenario, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the tables of ``scenario`` with other values at dotted keys; see Scenario.with_settings."""
    mapping = tables(scenario)
    if "dispatch" in settings and isinstance(settings["dispatch"], Mapping):
        mapping["dispatch"] = {}
    for key, value in settings.items():
        _begin_kind(mapping, key, value)
    for key, other in (("load", "rate"), ("rate", "load")):
        if f"workload.{key}" in settings and f"workload.{other}" not in settings:
            mapping["workload"].pop(other, None)
    for key, value in settings.items():
        _set(mapping, key, value)
    return mapping


def _begin_kind(mapping: dict[str, Any], key: str, value: object) -> None:
    """Empty the table whose policy or kind gets another value: its other keys belong to the present one.

    Names such as ``d`` or ``mean`` recur in policies and distributions, with other meanings, types and defaults.
    """
    way, _, tag = key.rpartition(".")
    struct, table = table_at(mapping, way)
    if struct is not None and struct.tag_field == tag and table[tag] != value:
        table.clear()
        table[tag] = value


def table_at(mapping: dict[str, Any], key: str) -> tuple[inspect.StructType | None, Any]:
    """Return the table at a dotted key with its type; the type is None where there is no table yet."""
    info: inspect.Type | None = document_info()
    table: Any = mapping
    way = key.split(".") if key else []
    for at, step in enumerate(way):
        place: str | int = _index(table, step, ".".join(way[:at])) if isinstance(table, list) else step
        info = None if info is None else child(info, place, table)
        table = table[place] if isinstance(place, int) else table.get(place)
        if not isinstance(table, dict | list):
            return None, None
    return (None if info is None else struct_of(info, table)), table


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
