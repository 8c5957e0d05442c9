"""Whatever a scenario file holds, reading it ends in a valid Scenario or in one clear line."""

from __future__ import annotations

import copy
import datetime
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from testbed.scenario import Scenario, ScenarioError, decode, load, resolved

FULL = """
name = "full"
seed = 7
[run]
time_unit = "20ms"
warmup = "auto"
duration = 300
replications = 2
drain = 10
[cluster]
dispatchers = 2
nodes = 3
transport = "tcp"
message_delay = { kind = "uniform", low = 0.1, high = 0.2 }
[[cluster.pools]]
name = "fast"
servers = 4
buffer = 10
[[cluster.pools]]
name = "slow"
servers = 6
[workload]
load = 0.7
arrivals = { kind = "renewal", gap = { kind = "erlang", phases = 2 } }
size = { kind = "hyperexponential", scv = 4.0, f = 0.5, mean = 1.0 }
[[workload.types]]
name = "a"
probability = 0.25
speed = { fast = 2.0, slow = 0.5 }
[[workload.types]]
name = "b"
probability = 0.75
[dispatch]
policy = "power-of-d"
d = 2
replacement = true
timeout = 3.0
[[variants]]
name = "no probes"
set = { "dispatch.policy" = "random", "cluster.pools.fast.servers" = 5 }
[[variants]]
name = "busy"
set = { "workload.load" = 0.9, "workload.types.a.speed.fast" = 3.0 }
"""

MOVING = """
name = "moving"
[cluster]
on_failure = "redispatch"
[[cluster.pools]]
name = "a"
servers = 2
queue = "central"
[[cluster.pools]]
name = "b"
servers = 3
queue = "central"
[workload]
rate = 0.3
dependence = 0.5
[[workload.types]]
name = "one"
probability = 0.5
speed = { a = 0, b = 0.5 }
[[workload.types]]
name = "two"
probability = 0.5
[dispatch]
policy = "static"
knows = { revealed = 0.5 }
[dispatch.assignment]
one = { b = 1 }
two = { a = 0.5, b = 0.5 }
unknown = { a = 0.25, b = 0.75 }
[threshold]
action = "reroute"
tau = { a = [1, "inf"], b = ["inf", 2] }
hops = 2
target = "cyclic"
[[variants]]
name = "pairs"
set = { "threshold.action" = "replicate", "threshold.tau" = { a = 0, b = "inf" }, "threshold.hops" = 1 }
"""

# No "$" and no letters but these, so that the error's own words can be looked at.
texts = st.text("ab.[]- 0'\n\\é", max_size=6) | st.sampled_from(
    ["random", "jiq", "poisson", "trace", "empirical", "pareto", "auto", "per-server", "1s", "kind", "file", "policy"]
)
numbers = (
    st.integers(-3, 3)
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.sampled_from([1e308, 5e-324, -1e-9, 1e-300, 0.0])
)
scalars = numbers | texts | st.booleans() | st.just(datetime.date(2024, 2, 29))
junk = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3), max_leaves=5
)


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All ways to a value inside nested tables and lists."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, item in items for found in [(*way, key), *places(item, (*way, key))]]


@st.composite
def mutated(draw: st.DrawFn) -> dict[str, Any]:
    mapping = tomllib.loads(draw(st.sampled_from([FULL, MOVING])))
    for _ in range(draw(st.integers(1, 3))):
        ways = places(mapping)
        if not ways:
            break
        *way, last = draw(st.sampled_from(ways))
        parent: Any = mapping
        for step in way:
            parent = parent[step]
        match draw(st.sampled_from(["remove", "replace", "number", "add", "misspell", "double"])):
            case "remove":
                del parent[last]
            case "replace":
                parent[last] = draw(junk)
            case "number":
                parent[last] = draw(numbers)
            case "add" if isinstance(parent, dict):
                parent[draw(texts)] = draw(junk)
            case "misspell" if isinstance(parent, dict):
                parent[last[:-1]] = parent.pop(last)
            case "double" if isinstance(parent, list):
                parent.append(copy.deepcopy(parent[last]))
    return mapping


def check_line(error: ScenarioError) -> None:
    line = str(error)
    assert line.startswith("some.toml: ")
    assert line.isprintable()
    assert "$" not in line
    assert not re.search(r"Traceback|NoneType|<class|Error\b|\b(dict|str|int|tuple)\b", line)


@settings(max_examples=400)
@given(mutated())
def test_a_mutated_scenario_is_valid_or_gives_one_clear_line(mapping: dict[str, Any]) -> None:
    try:
        scenario = decode(mapping, source="some.toml")
    except ScenarioError as error:
        check_line(error)
    else:
        assert isinstance(scenario, Scenario)
        assert decode(tomllib.loads(resolved(scenario))) == scenario
        assert 0 < scenario.rate < float("inf")


@settings(max_examples=150)
@given(
    position=st.integers(0, len(FULL) - 1), removed=st.integers(0, 3), inserted=st.text("\"'=[]{}#\n,.0ax", max_size=3)
)
def test_a_file_with_a_slip_of_the_pen_is_valid_or_gives_one_clear_line(
    tmp_path_factory: pytest.TempPathFactory, position: int, removed: int, inserted: str
) -> None:
    file = Path(tmp_path_factory.getbasetemp()) / "slip.toml"
    file.write_text(FULL[:position] + inserted + FULL[position + removed :])
    try:
        assert isinstance(load(file), Scenario)
    except ScenarioError as error:
        check_line(ScenarioError(error.problem, key=error.key, value=error.value, source="some.toml"))


def test_the_scenarios_that_are_mutated_are_valid() -> None:
    assert decode(tomllib.loads(FULL)).servers == 10
    assert decode(tomllib.loads(MOVING)).servers == 5
