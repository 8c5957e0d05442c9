"""What is wrong with a scenario, in one line: file, key, value, problem, remedy."""

from __future__ import annotations

import datetime
import json
import math
import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any

import msgspec

from testbed.scenario.document import (
    child,
    description,
    document_info,
    document_type,
    known_keys,
    places,
    quoted,
    struct_of,
    structs,
    words,
)

_LONGEST_VALUE = 60
_MISSING: Any = object()

Steps = tuple[str | int, ...]


class ScenarioError(Exception):
    """A scenario that can't be run. Its message is one line for the person who wrote the scenario.

    ``source`` is the file (or another name of where the scenario came from), ``key`` the dotted key at fault, or "".
    """

    def __init__(self, problem: str, *, key: str = "", value: object = _MISSING, source: str = "scenario") -> None:
        self.problem = " ".join(problem.split())
        self.key = key
        self.value = value
        self.source = source
        shown = "" if value is _MISSING else shown_value(value)
        place = f"{key} = {shown}" if shown else key
        text = ": ".join(filter(None, (source, place, self.problem)))
        super().__init__("".join(c if c.isprintable() else repr(c)[1:-1] for c in text))

    def moved(self, *, source: str, inside: str = "") -> ScenarioError:
        """Return the same error as found in ``source``; its key becomes part of the problem with ``inside``."""
        if not inside:
            return ScenarioError(self.problem, key=self.key, value=self.value, source=source)
        place = str(self).removeprefix(f"{self.source}: ")
        return ScenarioError(place, key=inside, source=source)


def shown_value(value: object) -> str:
    """Show a value as TOML writes it, shortened; an empty string for a table, which would be too long."""
    if isinstance(value, Mapping):
        return ""
    if isinstance(value, datetime.date | datetime.time):
        text = value.isoformat()
    elif isinstance(value, float) and not math.isfinite(value):
        text = str(value)
    else:
        try:
            text = json.dumps(value, ensure_ascii=False)
        except (TypeError, ValueError):
            return ""
    return text if len(text) <= _LONGEST_VALUE else text[:_LONGEST_VALUE] + "..."


def dotted(steps: Iterable[str | int]) -> str:
    """Join the steps to a value into a key: ``cluster.pools[0].servers``."""
    key = ""
    for step in steps:
        key += f"[{step}]" if isinstance(step, int) else f".{step}" if re.fullmatch(r"[\w-]+", step) else f".{step!r}"
    return key.removeprefix(".")


def suggestion(name: object, known: Iterable[str]) -> str:
    """Return ``; did you mean "..."?`` for the nearest known name, or an empty string when none is near."""
    near = get_close_matches(str(name), list(known), n=1, cutoff=0.55)
    return f'; did you mean "{near[0]}"?' if near else ""


def not_finite(mapping: object) -> ScenarioError | None:
    """Return an error for the first number that is infinite or not a number, or the first key that isn't a string."""
    for steps, value in _leaves(mapping, ()):
        if isinstance(value, float) and not math.isfinite(value):
            remedy = ', or "inf" in quotes' if "tau" in steps and value == math.inf else ""
            return ScenarioError(f"must be a finite number{remedy}", key=dotted(steps), value=value)
        if value is _MISSING:
            return ScenarioError("keys must be strings", key=dotted(steps))
    return None


def _leaves(value: object, steps: Steps) -> Iterable[tuple[Steps, object]]:
    if isinstance(value, Mapping):
        for key, item in value.items():
            if isinstance(key, str):
                yield from _leaves(item, (*steps, key))
            else:
                yield (*steps, str(key)), _MISSING
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield from _leaves(item, (*steps, index))
    else:
        yield steps, value


_PLACE = re.compile(r"(.*?)(?: - at (?:`key` in )?`\$(.*)`)?", re.DOTALL)
_STEP = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")


def explain(error: msgspec.ValidationError, mapping: Mapping[str, Any]) -> ScenarioError:
    """Turn msgspec's error into one for the scenario's author.

    msgspec says where the fault is, as ``$.cluster.pools[0].servers``. What is wrong there is found again from the
    value and the type at that place, so that it can be said in the file's terms, with the nearest known names. Only
    the message of a check in a struct's own ``__post_init__`` is passed on.
    """
    match = _PLACE.fullmatch(str(error))
    assert match is not None
    steps: Steps = ()
    info: Any = document_info()
    about = ""
    value: Any = mapping
    for name, index in _STEP.findall(match[2] or ""):
        step = name or (_culprit(error, mapping, steps, value) if index == "..." else int(index))
        inner = value.get(step, _MISSING) if isinstance(value, Mapping) else value[step]
        if inner is _MISSING or child(info, step, value) is None:
            break  # the place is a table's tag: what is wrong with it is seen from the table
        info, value = child(info, step, value), inner
        about = description(info) or about
        steps = (*steps, step)
    if error.__cause__ is not None:
        return ScenarioError(match[1].replace("`", ""), key=dotted(steps))
    if isinstance(value, Mapping) and structs(info):
        return _wrong_table(info, value, steps)
    # With a pattern, "a string" would not say what is wrong: the description does.
    wanted = words(info) + (f" ({about})" if about else "")
    return ScenarioError(f"must be {wanted}", key=dotted(steps), value=value)


def _culprit(error: Exception, mapping: Mapping[str, Any], steps: Steps, table: Mapping[str, Any]) -> str:
    """Return the key of ``table`` at fault, which msgspec writes as ``[...]``: the one that fails alone as well."""
    for key in table:
        try:
            msgspec.convert(_with(mapping, steps, {key: table[key]}), document_type())
        except msgspec.ValidationError as alone:
            if str(alone) == str(error):
                return key
    return next(iter(table))


def _with(value: Any, steps: Steps, new: object) -> Any:
    if not steps:
        return new
    changed: Any = dict(value) if isinstance(value, Mapping) else list(value)
    changed[steps[0]] = _with(value[steps[0]], steps[1:], new)
    return changed


def _wrong_table(info: Any, table: Mapping[str, Any], steps: Steps) -> ScenarioError:
    """Say which key of a table is unknown or missing, or which kind it should be of."""
    struct = struct_of(info, table)
    if struct is None:
        return _wrong_tag(info, table, steps)
    known = known_keys(struct)
    for key in table:
        if key not in known:
            return _unknown_key(key, known, steps, struct.tag_field and f' of {struct.tag_field} "{struct.tag}"')
    for field in struct.fields:
        if field.required and field.encode_name not in table:
            about = description(field.type)
            wanted = words(field.type) + (f" ({about})" if about else "")
            return ScenarioError(f"missing; must be {wanted}", key=dotted((*steps, field.encode_name)))
    return ScenarioError(f"must be {words(info)}", key=dotted(steps))


def _wrong_tag(info: Any, table: Mapping[str, Any], steps: Steps) -> ScenarioError:
    tables = [struct for struct in structs(info) if struct.tag_field is not None]
    tag_field = tables[0].tag_field or ""
    tags = [str(struct.tag) for struct in tables]
    key = dotted((*steps, tag_field))
    if tag_field in table:
        tag = table[tag_field]
        return ScenarioError(
            f"unknown {tag_field}{suggestion(tag, tags)} (known: {', '.join(tags)})", key=key, value=tag
        )
    for name in table:
        if get_close_matches(name, [tag_field], cutoff=0.55):
            known = dict.fromkeys(key for struct in tables for key in known_keys(struct))
            return _unknown_key(name, list(known), steps, None)
    return ScenarioError(f"missing; must be one of {quoted(iter(tags))}", key=key)


def _unknown_key(key: str, known: list[str], steps: Steps, of: str | None) -> ScenarioError:
    hint = suggestion(key, known)
    elsewhere = [] if hint else list(places(key))
    if elsewhere:
        hint = f"; it belongs in {' or '.join(elsewhere)}"
    return ScenarioError(f"unknown key{hint} (known keys{of or ''}: {', '.join(known)})", key=dotted((*steps, key)))
