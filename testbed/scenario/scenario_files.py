"""Reading scenarios from TOML files, and writing them back."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any

import tomli_w

from testbed.scenario.decoding import changed_tables, decode_alone
from testbed.scenario.document import to_mapping
from testbed.scenario.errors import ScenarioError, suggestion
from testbed.scenario.settings import Scenario
from testbed.scenario.sweep_points import sweep_points
from testbed.scenario.variants import variants
from testbed.workload.traces import SAMPLE

#: What tomllib says, and what the author can do about it.
_REMEDIES = (
    ("Invalid value", 'a string needs quotes, as in policy = "random"'),
    ("Expected '='", "a line is a table's header in brackets, or key = value"),
    ("Expected newline or end of document", "put one key = value on a line; a string needs quotes"),
    ("Cannot overwrite a value", "this key has a value already: keep one of the two"),
    ("Cannot declare", "this table is there already: put its keys together under one header"),
    ("Unterminated string", "close the string with the quote that it begins with"),
    ("Illegal character", "a string ends on the line where it begins, and holds no control characters"),
    ("Unclosed array", "close the list with ]"),
    ("Unclosed inline table", "close the table with }"),
    ("Invalid initial character", "a key is made of letters, digits, - and _, or is quoted"),
)
_TABLE_NAME = re.compile(r"\('([^()]*?)',?\)")  # tomllib shows a table's name as Python's tuple
_AT_LINE = re.compile(r"(.*) \(at line (\d+), column (\d+)\)", re.DOTALL)


def shipped() -> dict[str, str]:
    """Return the text of each scenario that comes with the testbed, by name."""
    folder = files("testbed") / "scenario" / "shipped"
    suffix = ".toml"
    names = sorted(entry.name.removesuffix(suffix) for entry in folder.iterdir() if entry.name.endswith(suffix))
    return {name: (folder / f"{name}{suffix}").read_text(encoding="utf-8") for name in names}


def load(path: str | Path) -> Scenario:
    """Read a scenario from a TOML file, or a shipped one by its name (``load("quickstart")``).

    Files that the scenario names are looked for from its own folder. Raises ScenarioError.
    """
    file = Path(path)
    source = str(path)
    if not file.exists() and source in shipped():
        return decode(_parse(shipped()[source], source), source=source)
    try:
        text = file.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        names = list(shipped())
        raise ScenarioError(
            f"there is no such file{suggestion(file.stem, names)} (scenarios that come with the testbed, by name: "
            f"{', '.join(names)})",
            source=source,
        ) from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"is not UTF-8 (byte {error.start}); save it as UTF-8", source=source) from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise ScenarioError(f"can't be read: {reason}; give a TOML file", source=source) from None
    return decode(_parse(text, source), source=source, folder=file.parent)


def _parse(text: str, source: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except RecursionError:
        raise ScenarioError("is nested too deeply; a scenario has tables three deep", source=source) from None
    except ValueError as error:
        match = _AT_LINE.fullmatch(str(error))
        what = match[1] if match else str(error).replace("at end of document", "at the end of the file")
        what = _TABLE_NAME.sub(lambda name: "[" + name[1].replace("', '", ".") + "]", what)
        place = f"line {match[2]}, column {match[3]}: " if match else ""
        remedy = next((f"; {remedy}" for begin, remedy in _REMEDIES if what.startswith(begin)), "; correct the TOML")
        raise ScenarioError(f"{place}{what[:1].lower()}{what[1:]}{remedy}", source=source) from None


def decode(mapping: Mapping[str, Any], source: str = "scenario", folder: Path | None = None) -> Scenario:
    """Return the scenario that the tables of a file describe, checked as a whole, with its variants and its sweep.

    ``source`` names the file in errors; relative paths in the scenario are taken from ``folder``, by default the
    present one. Raises ScenarioError.
    """
    mapping = _anchored(mapping, (folder or Path()).absolute())
    try:
        scenario = decode_alone(mapping)
        variants(scenario)
        sweep_points(scenario)
    except ScenarioError as error:
        raise error.moved(source=source) from None
    return scenario


def with_settings(scenario: Scenario, settings: Mapping[str, Any]) -> Scenario:
    """Return ``scenario`` with other values at dotted keys; see Scenario.with_settings."""
    return decode(changed_tables(scenario, settings))


def _anchored(value: Any, folder: Path) -> Any:
    """Return tables with each ``file``, also one set by a dotted key, as an absolute path."""
    if isinstance(value, list):
        return [_anchored(item, folder) for item in value]
    if not isinstance(value, Mapping):
        return value
    return {key: _anchored_item(key, item, folder) for key, item in value.items()}


def _anchored_item(key: str, item: Any, folder: Path) -> Any:
    if key.rpartition(".")[2] == "file":
        if isinstance(item, list):  # the files of a sweep
            return [_anchored_item(key, file, folder) for file in item]
        if isinstance(item, str) and item != SAMPLE:
            return str(folder / item)
    return _anchored(item, folder)


def resolved(scenario: Scenario) -> str:
    """Return the scenario as TOML with its defaults filled in; decoding it gives an equal scenario."""
    return tomli_w.dumps(to_mapping(scenario))
