"""Tiny sweeps, and summaries with the mean response times that a test asks for."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import msgspec
import pytest

from testbed.measure.summary import Summary
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.studies.sweep.plan import FinishedRun
from testbed.studies.sweep.sweeping import twin_summary

TINY: dict[str, Any] = {
    "name": "tiny",
    "seed": 5,
    "run": {"time_unit": "5ms", "warmup": 0, "duration": 10, "replications": 2},
    "cluster": {"nodes": 1, "pools": [{"servers": 4}]},
    "workload": {"load": 0.5},
    "dispatch": {"policy": "random"},
    "variants": [{"name": "jsq", "set": {"dispatch.policy": "jsq"}}],
    "sweep": {"grid": {"workload.load": [0.4, 0.6, 0.8]}},
}


@cache
def _summary() -> Summary:
    scenario = decode({**TINY, "variants": [], "sweep": {"points": [{"workload.load": 0.4}]}})
    return twin_summary(scenario, simulate(scenario))


@pytest.fixture
def tiny() -> Callable[..., Scenario]:
    """A scenario with a sweep of three points, with the settings that are given."""
    return lambda settings=(): decode(TINY).with_settings(dict(settings))


@pytest.fixture
def finished() -> Callable[..., FinishedRun]:
    """A run of the twin that came to the mean response time that is given."""

    def make(point: int, variant: str, replication: int, mean: float | None) -> FinishedRun:
        response = msgspec.structs.replace(_summary().response, mean=mean)
        summary = msgspec.structs.replace(_summary(), variant=variant, replication=replication, response=response)
        return FinishedRun(point=point, variant=variant, replication=replication, twin=summary)

    return make
