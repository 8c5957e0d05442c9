"""Folders of runs on the twin, and of runs on a made-up cluster: the twin's, with every response time longer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.measure.records import Measurements, ProcessReport
from testbed.measure.summary import Summary, summarise
from testbed.nominal import nominal
from testbed.run_folder import RunFolder
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode, variants

TINY: dict[str, Any] = {
    "name": "tiny report",
    "seed": 3,
    "run": {"time_unit": "20ms", "warmup": 10, "duration": 60},
    "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
    "workload": {"load": 0.6},
    "dispatch": {"policy": "random"},
    "variants": [{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}],
}


def process(name: str) -> ProcessReport:
    return ProcessReport(
        name=name,
        seconds=1.4,
        cpu_seconds=0.2,
        timers=100,
        lateness_mean=1e-4,
        lateness_p50=1e-4,
        lateness_p99=2e-4,
        lateness_max=3e-4,
        messages_sent=100,
        messages_received=100,
        bytes_sent=1000,
        rejected_frames=0,
        exact_timers=True,
        peak_queue_bytes=0,
        sent_after_mean=4e-5,
        delivered_after_mean=1e-5,
    )


def emulated(twin: Measurements, longer: float) -> Measurements:
    """The same run as a cluster might have measured it: each job takes ``longer`` outside its server."""
    columns = twin.columns | {
        "response": twin.columns["response"] + longer,
        "overhead": twin.columns["overhead"] + longer,
        "lag": twin.columns["lag"] + longer / 4,
        "lateness": twin.columns["lateness"] + longer / 5,
    }
    return msgspec.structs.replace(
        twin, source="cluster", columns=columns, processes=[process("dispatcher-0"), process("node-0")]
    )


def made(
    parent: Path, *, longer: float | None = None, with_twin: bool = False, settings: dict[str, Any] | None = None
) -> Path:
    """Make a run's folder: of the twin alone, or of a cluster on which jobs take ``longer``, and its twin's."""
    scenario: Scenario = decode(TINY).with_settings(settings or {})
    summaries: list[Summary] = []
    with RunFolder(scenario, parent, 1000) as folder:
        for replication in range(scenario.run.replications):
            for name, variant in variants(scenario):
                twin = simulate(variant, replication)
                runs = [twin] if longer is None else [emulated(twin, longer), *([twin] if with_twin else [])]
                for run in runs:
                    folder.add_jobs(run, name, replication, ["default"])
                    summaries.append(
                        summarise(
                            run,
                            nominal(variant),
                            variant=name,
                            replication=replication,
                            time_unit_seconds=variant.run.time_unit_seconds,
                            window=(10.0, 70.0),
                            twin=twin if run is not twin and with_twin else None,
                        )
                    )
        folder.write_summaries(summaries)
    return folder.path


@pytest.fixture(scope="session")
def make_run() -> Callable[..., Path]:
    return made


@pytest.fixture(scope="session")
def run_of_both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run on the made-up cluster, 0.1 time units longer a job, beside its twin."""
    return made(tmp_path_factory.mktemp("both"), longer=0.1, with_twin=True)
