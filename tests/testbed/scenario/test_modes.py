"""The mode of a scenario, and what follows from it."""

from __future__ import annotations

from typing import Any

import pytest

from testbed.scenario import Scenario, load
from testbed.scenario.modes import (
    MODES,
    Mode,
    has_copies,
    has_tasks,
    mode_of,
    recovers,
    servers_talk,
    tasks_move,
    traits_of,
)

TASKS = {"workload.tasks": 2}


def scenario(name: str = "quickstart", **settings: Any) -> Scenario:
    return load(name).with_settings({"variants": [], **{key.replace("__", "."): of for key, of in settings.items()}})


@pytest.mark.parametrize(
    ("settings", "mode"),
    [
        ({}, Mode.DIRECT),
        ({"cluster.pools.main.buffer": 5}, Mode.DIRECT),  # a job of one task is whole by itself
        (TASKS, Mode.DIRECT),
        (TASKS | {"cluster.pools.main.buffer": 5}, Mode.SLOT_RESERVATION),
        ({"dispatch": {"policy": "late-binding"}}, Mode.LATE_BINDING),
        ({"dispatch": {"policy": "redundancy-d"}}, Mode.COPIES),
        ({"dispatch": {"policy": "redundancy-d", "d": 1}}, Mode.DIRECT),
        ({"dispatch": {"policy": "tied"}}, Mode.COPIES),
        ({"dispatch": {"policy": "static"}, "cluster.pools.main.queue": "central"}, Mode.CENTRAL_QUEUES),
    ],
)
def test_each_scenario_is_in_one_mode(settings: dict[str, Any], mode: Mode) -> None:
    found = scenario(**settings)
    assert mode_of(found) is mode
    assert traits_of(found) is MODES[mode]
    assert has_copies(found) == (mode in (Mode.COPIES, Mode.CENTRAL_QUEUES))
    assert has_tasks(found) == ("workload.tasks" in settings)
    assert servers_talk(found) == (found.dispatch.policy == "tied")
    assert not tasks_move(found)


def test_every_mode_has_its_row() -> None:
    assert set(MODES) == set(Mode)
    assert [mode for mode, traits in MODES.items() if not traits.binds_servers] == [Mode.DIRECT]


def test_servers_that_move_tasks_talk_to_each_other() -> None:
    found = load("stealing")
    assert tasks_move(found)
    assert servers_talk(found)
    assert recovers(scenario(**{"cluster.on_failure": "redispatch"}))
