"""Cases of the suite cut down to the time of a test."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from testbed.scenario import Expect
from testbed.studies.validate import Case, built_in

SUITE = {case.name: case for case in built_in(quick=True)}


@pytest.fixture
def one_size() -> Callable[..., Case]:
    """The case of that name on the twin at one number of servers, within a share of what theory says there."""

    def make(name: str, within: float = 0.0, **settings: Any) -> Case:
        dotted = {key.replace("__", "."): value for key, value in settings.items()}
        scenario = SUITE[name].scenario.with_settings({"run.replications": 12, **dotted})
        return replace(
            SUITE[name], scenario=scenario, servers=(), cluster=None, expect=Expect(within=within, on=["twin"])
        )

    return make
