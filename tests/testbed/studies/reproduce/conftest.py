"""A study that takes no time: two points that share a scenario, and one of theory alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

import pytest

from testbed.scenario import Scenario, decode
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.measured import mean_response_time, queue_length_tail
from testbed.studies.reproduce.study import Point, Row, Settings, Study

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from testbed.core.records import Measurements


def scenario(duration: float = 200.0, replications: int = 3) -> Scenario:
    return decode(
        {
            "name": "x",
            "run": {"time_unit": "10ms", "warmup": 20, "duration": duration, "replications": replications},
            "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
            "workload": {"load": 0.5},
            "dispatch": {"policy": "random"},
        }
    )


class Tiny(Study):
    """M/M/1 queues: the share of servers with at least so many tasks."""

    name = "tiny"
    paper = "Erlang 1909"
    shows = "the queue lengths of M/M/1 (chapter 1)"
    takes = "a second"
    columns: ClassVar = {"load": "load", "length": "queue length"}
    quantities: ClassVar = {"tail": "share of servers", "mean": "mean response time, in time units"}

    def points(self, quick: bool) -> list[Point]:
        return [
            Point({"load": 0.5, "length": 1}, twin=scenario(), cluster=scenario(30.0, 2)),
            Point({"load": 0.5, "length": 2}, twin=scenario()),
            Point({"load": 0.5, "length": 3}, line=True),
        ]

    def theory(self, settings: Settings) -> dict[str, float]:
        return {"tail": float(settings["load"]) ** int(settings["length"])}

    def measure(self, settings: Settings, scenario: Scenario, measurements: Measurements) -> dict[str, float]:
        length = int(settings["length"])
        return {
            "tail": queue_length_tail(scenario, measurements, length),
            "mean": mean_response_time(scenario, measurements),
        }

    def figures(self, rows: Sequence[Row]) -> dict[str, Figure]:
        figure = curves(
            rows,
            "tail",
            x="length",
            by=("load",),
            x_label="queue length",
            y_label="share of servers",
            caption="M/M/1",
            log_y=True,
        )
        return {"tail": figure}


@pytest.fixture
def study() -> Tiny:
    return Tiny()
