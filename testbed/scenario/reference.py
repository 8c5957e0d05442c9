"""The scenario's JSON Schema and its reference in Markdown, both from the types and descriptions of the settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from msgspec import inspect

from testbed.scenario.document import alternatives, description, document_info, document_type, structs, words

_INTRODUCTION = """# The keys of a scenario

<!-- Written by `python -m testbed.scenario`; the descriptions are in the settings' own types. -->

A scenario is one TOML file. All times are in time units, except `run.time_unit` itself. Paths of files are
relative to the scenario's own folder. `testbed schema` prints the same as a JSON Schema, for editors that check and
complete TOML.
"""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario file; ``dispatch`` is one of the installed policies."""
    schema = {"$schema": "https://json-schema.org/draft/2020-12/schema", **msgspec.json.schema(document_type())}
    found: dict[str, Any] = _exclusive(schema)
    return found


def _exclusive(schema: Any) -> Any:
    """Say ``oneOf`` where a tag tells the tables apart; msgspec says ``anyOf`` and adds OpenAPI's discriminator."""
    if isinstance(schema, list):
        return [_exclusive(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    tagged = "discriminator" in schema
    return {
        "oneOf" if tagged and key == "anyOf" else key: _exclusive(value)
        for key, value in schema.items()
        if key != "discriminator"
    }


def reference_markdown() -> str:
    """Return the reference of all keys: for each table its keys with type, default and description."""
    top = document_info()
    parts = [_INTRODUCTION, "## Top level\n", _table(top.fields)]
    kinds: dict[str, list[inspect.StructType]] = {}
    for heading, struct in _tables("", top, kinds):
        parts += [f"## `{heading}`\n", _first_paragraph(struct) + "\n", _table(struct.fields)]
    for title, tables in kinds.items():
        parts.append(f"## {title}\n")
        for struct in tables:
            parts += [f'### `{struct.tag_field} = "{struct.tag}"`\n', _first_paragraph(struct) + "\n"]
            parts += [_table(struct.fields)] if struct.fields else ["It has no further keys.\n"]
    return "\n".join(parts)


def _tables(
    path: str, table: inspect.StructType, kinds: dict[str, list[inspect.StructType]]
) -> Iterable[tuple[str, inspect.StructType]]:
    """Yield each table below ``table`` with its TOML header; collect in ``kinds`` those told apart by a tag."""
    for field in table.fields:
        at = f"{path}.{field.encode_name}".lstrip(".")
        found = structs(field.type)
        if found and found[0].tag_field:
            kinds.setdefault(_title(found), found)
        elif found:
            yield f"[{at}]", found[0]
            yield from _tables(at, found[0], kinds)
        for option in alternatives(field.type):
            if isinstance(option, inspect.ListType):
                for item in structs(option.item_type):
                    yield f"[[{at}]]", item
                    yield from _tables(at, item, kinds)


def _title(tables: list[inspect.StructType]) -> str:
    tags = {table.tag for table in tables}
    if tables[0].tag_field == "policy":
        return "Policies"
    return "Arrivals" if "poisson" in tags else "Numbers of tasks" if "zipf" in tags else "Distributions"


def _first_paragraph(struct: inspect.StructType) -> str:
    return " ".join((struct.cls.__doc__ or "").partition("\n\n")[0].replace("``", "`").split())


def _table(fields: Iterable[inspect.Field]) -> str:
    rows = ["| key | type | default | description |", "| --- | --- | --- | --- |"]
    for field in fields:
        cells = (f"`{field.encode_name}`", _type(field.type), _default(field), description(field.type))
        rows.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(rows) + "\n"


def _type(info: inspect.Type) -> str:
    tagged = [struct for struct in structs(info) if struct.tag_field]
    if not tagged:
        return words(info)
    title = _title(tagged)
    link = f"one of the [{title.lower()}](#{title.lower().replace(' ', '-')})"
    plain = words(info).partition("a table with ")[0]
    return plain + link


def _default(field: inspect.Field) -> str:
    if field.required:
        return "required"
    factory = field.default_factory
    value = msgspec.to_builtins(field.default if factory is msgspec.NODEFAULT else factory())
    if value is None:
        return ""
    tables = structs(field.type)
    return "all defaults" if tables and tables[0].tag_field is None else f"`{_toml(value)}`"


def _toml(value: object) -> str:
    """Write a value as TOML writes it on one line."""
    if isinstance(value, Mapping):
        items = ", ".join(f"{key} = {_toml(item)}" for key, item in value.items() if item is not None)
        return f"{{ {items} }}" if items else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_toml, value)) + "]"
    return json.dumps(value)
