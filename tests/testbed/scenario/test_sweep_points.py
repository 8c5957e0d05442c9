"""The points of a sweep: which there are, and what is said of those that can't be."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.scenario import Scenario, ScenarioError, Sweep, decode, load, resolved, sweep_points, variants

BASE: dict[str, Any] = {
    "name": "swept",
    "cluster": {"pools": [{"servers": 4}]},
    "workload": {"load": 0.5},
    "dispatch": {"policy": "power-of-d", "d": 2},
    "variants": [{"name": "random", "set": {"dispatch.policy": "random"}}],
}


def swept(grid: object = None, points: object = None, **others: Any) -> Scenario:
    sweep = {key: value for key, value in (("grid", grid), ("points", points)) if value is not None}
    return decode({**BASE, **others, "sweep": sweep})


def settings(scenario: Scenario) -> list[dict[str, Any]]:
    return [dict(point.settings) for point in sweep_points(scenario)]


def test_a_grid_has_every_combination_its_last_key_changing_fastest() -> None:
    scenario = swept({"workload.load": [0.4, 0.8], "dispatch.d": [2, 3, 4]})
    assert settings(scenario) == [{"workload.load": rate, "dispatch.d": d} for rate in (0.4, 0.8) for d in (2, 3, 4)]
    last = sweep_points(scenario)[-1]
    assert (last.scenario.load, last.scenario.dispatch.parameters.d) == (0.8, 4)
    assert str(last) == "workload.load = 0.8, dispatch.d = 4"


def test_points_are_settings_that_belong_together_and_go_with_every_point_of_a_grid() -> None:
    points = [{"cluster.pools.main.servers": 10, "workload.rate": 5}, {"cluster.pools.main.servers": 20}]
    assert settings(swept(points=points)) == points
    both = settings(swept({"dispatch.d": [2, 3]}, points))
    assert both == [{**point, "dispatch.d": d} for point in points for d in (2, 3)]


def test_each_point_has_the_variants_and_neither_it_nor_they_have_a_sweep() -> None:
    for point in sweep_points(swept({"workload.load": [0.4, 0.8]})):
        assert point.scenario.sweep is None
        assert [name for name, _ in variants(point.scenario)] == ["power-of-d", "random"]
        assert {one.load for _, one in variants(point.scenario)} == {point.settings["workload.load"]}
    alone = swept({"workload.load": [0.4]}, variants=[])
    assert [one.sweep for _, one in variants(alone)] == [None]


def test_a_scenario_without_a_sweep_has_no_points() -> None:
    assert sweep_points(decode(BASE)) == []


def test_a_sweep_survives_the_way_into_a_file_and_back() -> None:
    scenario = swept({"workload.size": [{"kind": "deterministic"}, {"kind": "exponential"}]}, [{"dispatch.d": 3}])
    assert decode(tomllib.loads(resolved(scenario))) == scenario
    assert msgspec.structs.replace(decode(BASE), sweep=Sweep(grid={"dispatch.d": [1]})).sweep == Sweep(
        grid={"dispatch.d": [1]}
    )


def test_in_toml_a_grid_is_a_table_and_points_are_tables(tmp_path: Path) -> None:
    file = tmp_path / "swept.toml"
    file.write_text("""
name = "swept"
[[cluster.pools]]
servers = 4
[workload]
load = 0.5
[dispatch]
policy = "power-of-d"
[sweep.grid]
"dispatch.d" = [2, 3]
[[sweep.points]]
"workload.load" = 0.4
[[sweep.points]]
"workload.load" = 0.8
""")
    assert len(sweep_points(load(file))) == 4


def test_files_of_a_sweep_are_looked_for_from_the_scenario_s_folder(tmp_path: Path) -> None:
    for name, size in (("small", 1), ("large", 3)):
        (tmp_path / f"{name}.csv").write_text(f"size\n{size}\n{size}\n")
    size = 'size = { kind = "empirical", file = "small.csv" }'
    text = f"""
name = "files"
[[cluster.pools]]
servers = 4
[workload]
load = 0.5
{size}
[dispatch]
policy = "random"
[sweep.grid]
"workload.size.file" = ["small.csv", "large.csv"]
"""
    (tmp_path / "files.toml").write_text(text)
    points = sweep_points(load(tmp_path / "files.toml"))
    assert [point.scenario.workload.size.mean for point in points] == [1.0, 3.0]


@pytest.mark.parametrize(
    ("grid", "points", "problem"),
    [
        (None, None, "sweep: has no points; give [sweep.grid] with the values of a key"),
        ({}, [{}], "sweep: has no points"),
        ({"workload.load": 0.5}, None, "sweep.grid.'workload.load' = 0.5: must be a list of 1 or more items"),
        (
            {"workload": {"load": [0.5]}},
            None,
            "sweep.grid.workload: must be a list of 1 or more items, each any value (dotted keys in quotes",
        ),
        ({"workload.load": []}, None, "sweep.grid.'workload.load' = []: must be a list of 1 or more"),
        (
            {"workload.load": [0.5, -1]},
            None,
            "sweep (workload.load = -1): workload.load = -1: must be a number above 0",
        ),
        ({"workload.lod": [0.5]}, None, 'sweep (workload.lod = 0.5): workload.lod: unknown key; did you mean "load"?'),
        ({"dispatch.d": [2, 0]}, None, "sweep (dispatch.d = 0): dispatch.d = 0: must be a number of at least 1 ("),
        ({"cluster.pools.man.servers": [5]}, None, 'there is no "man" in cluster.pools; did you mean "main"?'),
        ({"workload.load": [0.5, 0.7, 0.5]}, None, "sweep: has the point workload.load = 0.5 twice"),
        ({"seed": [1, 2]}, None, "sweep.grid: a sweep can't set seed: it is the same at all points"),
        ({"run.replications": [1, 2]}, None, "sweep.grid: a sweep can't set run.replications"),
        (None, [{"workload.load": 0.4}, {"variants": []}], "sweep.points[1]: a sweep can't set variants"),
        ({"dispatch.d": [2]}, [{"dispatch.d": 3}], "sweep.points[0]: sets dispatch.d, and so does sweep.grid"),
        ({"dispatch.policy": ["jiq"]}, None, "variants[0] (random): sets dispatch.policy, and so does the sweep"),
        ({"dispatch.policy": ["random"]}, None, 'variants[0].name = "random": this name is taken'),
    ],
)
def test_what_can_t_be_is_said_with_its_place(grid: object, points: object, problem: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        swept(grid, points)
    assert problem in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_variant_of_another_policy_does_not_follow_a_parameter_of_the_same_name() -> None:
    with pytest.raises(ScenarioError) as raised:
        swept({"dispatch.timeout": [2, 3]}, variants=[{"name": "all", "set": {"dispatch.policy": "jsq"}}])
    assert str(raised.value) == (
        "scenario: variants[0] (all): sets dispatch.policy, which has a timeout of its own, and the sweep sets "
        "dispatch.timeout, which this variant would not follow; sweep dispatch.policy together with dispatch.timeout "
        "instead"
    )
    same = swept({"dispatch.d": [2, 3]}, variants=[{"name": "late", "set": {"dispatch.policy": "power-of-d"}}])
    assert [dict(variants(point.scenario))["late"].dispatch.parameters.d for point in sweep_points(same)] == [2, 3]
    assert len(sweep_points(swept({"dispatch.d": [2, 3]}))) == 2  # random has no such parameter
