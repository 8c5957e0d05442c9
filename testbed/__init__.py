"""A load-balancing testbed: real dispatcher and server processes, compared with queueing theory.

    >>> import testbed
    >>> scenario = testbed.Scenario.from_file("quickstart").with_settings({"run.duration": 100})
    >>> result = testbed.run(scenario, where="twin")
    >>> result["random"].summary.response.mean  # in time units
    5.1...

The names below are imported at first use: the processes of a cluster need only a few of them, and start faster
without the others.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from testbed import theory
    from testbed.runs.experiment import run
    from testbed.runs.result import Result
    from testbed.scenario import Scenario, ScenarioError
    from testbed.studies.sweep.result import SweepResult
    from testbed.studies.sweep.sweeping import sweep
    from testbed.theory.predict import predict

__all__ = ["Result", "Scenario", "ScenarioError", "SweepResult", "predict", "run", "sweep", "theory"]

_HOME = {
    "Result": "testbed.runs.result",
    "Scenario": "testbed.scenario",
    "ScenarioError": "testbed.scenario",
    "SweepResult": "testbed.studies.sweep.result",
    "predict": "testbed.theory.predict",
    "run": "testbed.runs.experiment",
    "sweep": "testbed.studies.sweep.sweeping",
}


def __getattr__(name: str) -> object:
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name == "theory":
        return import_module("testbed.theory")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
