"""How the numbers of a report were produced: settings, command, seed, versions and machine."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from testbed.present.reports.page import Facts, Folded, Listing, Section, Text
from testbed.runs.run_folder import OutputError
from testbed.scenario import Scenario


def read_environment(folder: Path) -> dict[str, Any]:
    """Return the contents of ``environment.json``. Raises OutputError if it can't be read, or the run has not ended."""
    path = folder / "environment.json"
    try:
        found = json.loads(path.read_bytes())
    except OSError as error:
        raise OutputError(
            f"{path}: {error.strerror}; every run, sweep and validation writes this file: copy the whole folder, or "
            "run again"
        ) from None
    except ValueError as error:
        raise OutputError(f"{path}: damaged ({error}); copy the folder again, or run again") from None
    if not isinstance(found, dict) or not {"python", "platform", "packages", "started"} <= found.keys():
        raise OutputError(f"{path}: not in this version's format; make the report with the version that made the run")
    if found.get("seconds") is None:
        raise OutputError(f"{folder}: the run has not finished; wait until it ends, or run it again if it was killed")
    return found


def settings(scenario: Scenario, swept: Sequence[tuple[str, str]] = ()) -> Section:
    """Return the section with the main settings of the scenario."""
    workload, run = scenario.workload, scenario.run
    pools = ", ".join(
        f"{pool.servers} servers in {pool.name}" + (" with a central queue" if pool in scenario.central_pools else "")
        for pool in scenario.pools
    )
    delay = scenario.cluster.message_delay
    warmup = run.warmup if run.warmup == "auto" else f"{run.warmup:g}"
    pairs = [
        ("servers", pools),
        ("dispatchers", str(scenario.cluster.dispatchers)),
        ("load", _load(scenario)),
        *([("speeds", speeds)] if (speeds := _speeds(scenario)) else []),
        ("arrivals", _distribution(workload.arrivals)),
        ("sizes", _distribution(workload.size)),
        *([("tasks per job", _distribution(workload.tasks))] if workload.task_numbers.most > 1 else []),
        *(
            [("types", ", ".join(f"{t.name} ({t.probability:.3g})" for t in workload.types))]
            if workload.types[1:]
            else []
        ),
        *([("message delay", str(delay) if isinstance(delay, int | float) else _distribution(delay))] if delay else []),
        ("policy", scenario.dispatch.policy),
        *[
            ("variants", "; ".join(f"{v.name}: {_assigned(v.set)}" for v in scenario.variants))
            for _ in scenario.variants[:1]
        ],
        *swept,
        ("time unit", run.time_unit),
        ("warm-up, duration", f"{warmup}, {run.duration:g} time units"),
        ("replications", str(run.replications)),
        ("seed", str(scenario.seed)),
    ]
    return Section("Settings", [Facts(pairs)])


def _load(scenario: Scenario) -> str:
    """Return the load; where the capacity is not one server of speed 1 for each, also what it is a fraction of."""
    load = f"{scenario.load:.4g}"
    if not _speeds(scenario):
        return load
    if scenario.workload.load_per == "server":
        return f"{load} of one server of speed 1"
    return f"{load} of the capacity, which is {scenario.load_unit:.4g} per server"


def _speeds(scenario: Scenario) -> str:
    """Return the speeds that are not 1, by type and pool."""
    types = scenario.workload.types
    return "; ".join(
        (f"{t.name}: " if types[1:] else "") + ", ".join(f"{speed:g} in {pool}" for pool, speed in t.speed.items())
        for t in types
        if any(speed != 1 for speed in t.speed.values())
    )


def reproduction(folder: Path, command: str, environment: dict[str, Any]) -> Section:
    """Return the section on how to reproduce the numbers."""
    scenario = (folder / "scenario.toml").read_text(encoding="utf-8")
    return Section(
        "How to reproduce it",
        [
            Text("Save the scenario below as scenario.toml, and run this command:"),
            Listing(command),
            Folded("scenario.toml, with all defaults", [Listing(scenario)]),
            made_with(environment),
        ],
    )


def made_with(environment: dict[str, Any]) -> Facts:
    """Return the time, the machine and the software versions of the run."""
    packages = environment["packages"]
    return Facts(
        [
            ("started", f"{environment['started']}; took {environment['seconds']:.0f} s"),
            ("machine", f"{environment['cores']} cores; {environment['platform']}"),
            ("Python", " ".join(environment["python"].split())),
            ("versions", ", ".join(f"{name} {version}" for name, version in packages.items())),
        ]
    )


def _distribution(value: Any) -> str:
    """Return a distribution or process with its parameters, named as in a scenario."""
    found = msgspec.to_builtins(value)
    if not isinstance(found, dict):
        return str(found)
    kind = found.pop("kind", "")
    parts = [f"{key} {part}" for key, part in found.items() if part is not None]
    return ", ".join(part for part in [str(kind), *parts] if part)


def _assigned(values: dict[str, Any]) -> str:
    return ", ".join(f"{key} = {value}" for key, value in values.items())
