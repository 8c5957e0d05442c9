"""Scenarios: what to run, as a typed and validated TOML file, or built in Python."""

from testbed.scenario.balance import Balance
from testbed.scenario.errors import ScenarioError
from testbed.scenario.expect import Expect
from testbed.scenario.reference import json_schema, reference_markdown
from testbed.scenario.scenario_files import decode, load, resolved, shipped
from testbed.scenario.settings import (
    ClusterSettings,
    Dispatch,
    JobType,
    Pool,
    RunSettings,
    Scenario,
    Variant,
    WorkloadSettings,
)
from testbed.scenario.sweep import Sweep
from testbed.scenario.sweep_points import SweepPoint, sweep_points
from testbed.scenario.threshold import Threshold
from testbed.scenario.variants import variants

__all__ = [
    "Balance",
    "ClusterSettings",
    "Dispatch",
    "Expect",
    "JobType",
    "Pool",
    "RunSettings",
    "Scenario",
    "ScenarioError",
    "Sweep",
    "SweepPoint",
    "Threshold",
    "Variant",
    "WorkloadSettings",
    "decode",
    "json_schema",
    "load",
    "reference_markdown",
    "resolved",
    "shipped",
    "sweep_points",
    "variants",
]
