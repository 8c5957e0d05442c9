"""What a scenario asks for: the work of a job is nominal only where its sizes alone decide it."""

from __future__ import annotations

import math
from typing import Any

import pytest

from testbed.runs.nominal import nominal
from testbed.scenario import Scenario, decode


def two_pools(**changes: Any) -> Scenario:
    pools = [{"name": name, "servers": 2, "queue": "central"} for name in ("a", "b")]
    return decode(
        {
            "name": "two pools",
            "cluster": {"pools": pools},
            "workload": {"rate": 2.0, "dependence": "independent"},
            "dispatch": {"policy": "static"},
        }
    ).with_settings({key.replace("__", "."): value for key, value in changes.items()})


def test_equal_pools_make_the_load_and_the_work_of_a_job_nominal() -> None:
    found = nominal(two_pools())
    assert found.load == pytest.approx(2.0 / 4)
    assert found.work_scv == pytest.approx(1.0)


@pytest.mark.parametrize("action", ["reroute", "replicate"])
def test_thresholds_leave_the_work_of_a_job_to_be_measured(action: str) -> None:
    found = nominal(two_pools(threshold={"action": action, "tau": 1}))
    assert found.load is None
    assert math.isinf(found.work_scv)
