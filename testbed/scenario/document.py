"""A scenario as a file has it, where ``[dispatch]`` is one flat table.

The type of that table depends on the policies that are installed: it is a union with one struct per policy, told apart
by the key ``policy``. msgspec then checks a policy's parameters, and documents them, like any other key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Annotated, Any, Union, get_type_hints

import msgspec
from msgspec import inspect

from testbed.scenario.policies import policies
from testbed.scenario.settings import Dispatch, Scenario


@cache
def document_type() -> type[msgspec.Struct]:
    """Return the struct that a scenario file is decoded into: Scenario's keys, with the flat ``[dispatch]``."""
    tables = tuple(
        msgspec.defstruct(
            f"{name} policy",
            [],
            bases=(policy.Parameters,),
            tag_field="policy",
            tag=name,
            frozen=True,
            forbid_unknown_fields=True,
            namespace={"__doc__": (policy.__doc__ or "").partition("\n\n")[0]},
        )
        for name, policy in policies().items()
    )
    hints = get_type_hints(Scenario, include_extras=True)
    hints["dispatch"] = Annotated[Union[tables], *hints["dispatch"].__metadata__]  # noqa: UP007 (built at run time)
    fields = [(f.name, hints[f.name], _default(f)) for f in msgspec.structs.fields(Scenario)]
    return msgspec.defstruct("Scenario", fields, kw_only=True, frozen=True, forbid_unknown_fields=True)


def _default(field: msgspec.structs.FieldInfo) -> Any:
    if field.default_factory is not msgspec.NODEFAULT:
        return msgspec.field(default_factory=field.default_factory)
    return field.default


def to_scenario(document: Any) -> Scenario:
    """Turn a decoded file into a Scenario."""
    values = msgspec.structs.asdict(document)
    name = values["dispatch"].__struct_config__.tag
    parameters = policies()[name].Parameters(**msgspec.structs.asdict(values["dispatch"]))
    return Scenario(**{**values, "dispatch": Dispatch(name, parameters)})


def to_mapping(scenario: Scenario) -> dict[str, Any]:
    """Return the scenario as the tables of a file, with every default that has a value filled in."""
    values = msgspec.structs.asdict(scenario)
    dispatch = values["dispatch"]
    values["dispatch"] = {"policy": dispatch.policy, **msgspec.to_builtins(dispatch.parameters)}
    plain: dict[str, Any] = _without_none(msgspec.to_builtins(values))
    return plain


def _without_none(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_none(item) for key, item in value.items() if item is not None}
    return [_without_none(item) for item in value] if isinstance(value, list) else value


# What follows reads the types that msgspec.inspect describes, for the errors and for the documentation.


@cache
def document_info() -> inspect.StructType:
    """Return msgspec's description of document_type()."""
    info = inspect.type_info(document_type())
    assert isinstance(info, inspect.StructType)
    return info


def description(info: inspect.Type) -> str:
    """Return the description that a type is annotated with, or an empty string."""
    if isinstance(info, inspect.Metadata):
        return str((info.extra_json_schema or {}).get("description", "")) or description(info.type)
    if isinstance(info, inspect.UnionType):
        return next(filter(None, map(description, info.types)), "")
    return ""


def alternatives(info: inspect.Type) -> list[inspect.Type]:
    """Return the types that a value may have, None left out."""
    if isinstance(info, inspect.Metadata):
        return alternatives(info.type)
    if isinstance(info, inspect.UnionType):
        return [found for option in info.types for found in alternatives(option)]
    return [] if isinstance(info, inspect.NoneType) else [info]


def structs(info: inspect.Type) -> list[inspect.StructType]:
    """Return the tables that a value may be."""
    return [option for option in alternatives(info) if isinstance(option, inspect.StructType)]


def struct_of(info: inspect.Type, value: object) -> inspect.StructType | None:
    """Return the table that ``value`` is meant to be, by its tag (``kind``, ``policy``) where there are several."""
    if not isinstance(value, Mapping):
        return None
    for struct in structs(info):
        if struct.tag_field is None or value.get(struct.tag_field) == struct.tag:
            return struct
    return None


def known_keys(struct: inspect.StructType) -> list[str]:
    """Return the keys of a table, its tag first."""
    tag = [struct.tag_field] if struct.tag_field else []
    return tag + [field.encode_name for field in struct.fields]


def child(info: inspect.Type, step: str | int, value: object) -> inspect.Type | None:
    """Return the type of the element of ``value`` under a key or an index; None if there is no such element."""
    struct = struct_of(info, value)
    if struct is not None:
        return next((field.type for field in struct.fields if field.encode_name == step), None)
    for option in alternatives(info):
        if isinstance(option, inspect.ListType | inspect.VarTupleType) and isinstance(step, int):
            return option.item_type
        if isinstance(option, inspect.TupleType) and isinstance(step, int) and step < len(option.item_types):
            return option.item_types[step]
        if isinstance(option, inspect.DictType):
            return option.value_type
    return None


def places(name: str) -> Iterator[str]:
    """Yield the tables that have a key ``name``, the ones that depend on a kind or a policy left out."""
    yield from _places(document_info(), name, "")


def _places(info: inspect.Type, name: str, table: str) -> Iterator[str]:
    for struct in structs(info):
        if struct.tag_field is not None:
            continue
        for field in struct.fields:
            at = f"{table}.{field.encode_name}".lstrip(".")
            if field.encode_name == name:
                yield f"[{table}]" if table else "the top level"
            for option in alternatives(field.type):
                if isinstance(option, inspect.ListType):
                    yield from _places(option.item_type, name, at)
                else:
                    yield from _places(option, name, at)


def words(info: inspect.Type) -> str:
    """Say in words what values a type allows."""
    options = alternatives(info)
    tables = [option for option in options if isinstance(option, inspect.StructType) and option.tag_field]
    said = [_words(option) for option in options if option not in tables]
    if tables:
        said.append(f"a table with {tables[0].tag_field} = " + quoted(str(table.tag) for table in tables))
    return " or ".join(said)


def quoted(names: Iterator[str]) -> str:
    """Join names, each in quotes."""
    return ", ".join(f'"{name}"' for name in names)


def _words(info: inspect.Type) -> str:
    if isinstance(info, inspect.FloatType | inspect.IntType):
        kind = "a number" if isinstance(info, inspect.FloatType) else "a whole number"
        limits = (("above", info.gt), ("of at least", info.ge), ("below", info.lt), ("of at most", info.le))
        bounds = " and ".join(f"{word} {limit:,.15g}" for word, limit in limits if limit is not None)
        return f"{kind} {bounds.replace('and of', 'and')}".rstrip()
    if isinstance(info, inspect.BoolType):
        return "true or false"
    if isinstance(info, inspect.LiteralType):
        return " or ".join(f'"{value}"' for value in info.values)
    if isinstance(info, inspect.ListType | inspect.VarTupleType):
        items = structs(info.item_type)
        least = f"of {info.min_length} or more" if info.min_length else "of"
        return f"a list {least} tables" if items else f"a list {least} items, each {words(info.item_type)}"
    if isinstance(info, inspect.TupleType):
        return f"a list of {len(info.item_types)} items, each {words(info.item_types[0])}"
    if isinstance(info, inspect.DictType):
        value = words(info.value_type)
        if isinstance(info.key_type, inspect.LiteralType):
            return f"a table of {' or '.join(map(str, info.key_type.values))}, each {value}"
        return f"a table, each value {value}" if value != "any value" else "a table"
    if isinstance(info, inspect.StructType):
        return "a table"
    return "a string" if isinstance(info, inspect.StrType) else "any value"
