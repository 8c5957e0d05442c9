"""The JSON Schema and the reference say of each key what the settings' types say."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from typing import Any

from testbed.scenario import json_schema, reference_markdown
from testbed.scenario.policies import policies


def properties(schema: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """All keys of all tables in a schema, with what it says of them."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        for part in schema.values():
            yield from properties(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from properties(part)


def test_the_committed_reference_is_what_the_code_generates() -> None:
    committed = (files("testbed") / "docs" / "scenario.md").read_text(encoding="utf-8")
    assert committed == reference_markdown(), "run: python -m testbed.scenario > testbed/docs/scenario.md"


def test_every_key_of_the_schema_is_described() -> None:
    tags = ("kind", "policy")
    bare = [key for key, said in properties(json_schema()) if key not in tags and "description" not in str(said)]
    assert bare == []


def test_every_key_of_the_schema_is_in_the_reference() -> None:
    rows = reference_markdown()
    for key, _ in properties(json_schema()):
        assert f"| `{key}` |" in rows or f"`{key} = " in rows


def test_dispatch_is_one_of_the_installed_policies_with_their_parameters() -> None:
    schema = json_schema()
    definitions = schema["$defs"]
    dispatch = definitions["Scenario"]["properties"]["dispatch"]
    tables = [definitions[option["$ref"].rpartition("/")[2]] for option in dispatch["oneOf"]]
    found = {table["properties"]["policy"]["enum"][0]: set(table["properties"]) - {"policy"} for table in tables}
    assert found == {name: set(policy.Parameters.__struct_fields__) for name, policy in policies().items()}
    assert all(table["additionalProperties"] is False for table in tables)
    assert all(table["description"] for table in tables)


def test_the_schema_refuses_unknown_keys_everywhere() -> None:
    tables = [table for table in json_schema()["$defs"].values() if table.get("type") == "object"]
    assert [table["title"] for table in tables if table.get("additionalProperties", True) is not False] == []
