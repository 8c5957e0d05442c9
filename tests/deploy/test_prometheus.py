"""A real Prometheus watches real clusters: all targets come up, every panel has data, and means agree."""

from __future__ import annotations

import json
import math
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(500)]

DASHBOARDS = Path(__file__).resolve().parent.parent.parent / "deploy" / "grafana" / "dashboards"

MACHINE = """
seed = 1
[run]
time_unit = "40ms"
warmup = 0
duration = {duration}
"""

#: Servers that move tasks, and dispatchers that probe: two variants, one after the other.
MOVING = """
[cluster]
dispatchers = 2
nodes = 1
pools = [{ name = "main", servers = 10 }]
[workload]
load = 0.7
size = { kind = "hyperexponential", scv = 3.0, f = 0.5 }
[dispatch]
policy = "random"
[balance]
policy = "stealing"
probe_rate = 2.0
[[variants]]
name = "power of two, sharing"
set = { "dispatch.policy" = "power-of-d", "balance.policy" = "sharing" }
"""

#: Pools with central queues, and jobs that reach a threshold.
POOLS = """
[cluster]
nodes = 1
pools = [{ name = "one", servers = 5, queue = "central" }, { name = "two", servers = 5, queue = "central" }]
[workload]
load = 0.3
types = [
    { name = "a", probability = 0.5, speed = { two = 0.2 } },
    { name = "b", probability = 0.5, speed = { one = 0.2 } },
]
[dispatch]
policy = "static"
[threshold]
"""

#: One node of two will be killed.
DYING = """
[cluster]
nodes = 2
on_failure = "redispatch"
pools = [{ name = "main", servers = 4 }]
[workload]
load = 0.3
[dispatch]
policy = "jiq"
"""

SCENARIOS = {
    "dying": MACHINE.format(duration=100_000) + DYING,
    "moving": MACHINE.format(duration=200) + MOVING,
    "rerouting": MACHINE.format(duration=300) + POOLS + 'action = "reroute"\ntau = 3.8\n',
    "replication": MACHINE.format(duration=300) + POOLS + 'action = "replicate"\ntau = 1.5\n',
}


class Seen(NamedTuple):
    """What was watched: runs by name, and when. The run "dying", which is known over HTTP only, still goes on."""

    runs: dict[str, Any]
    start: float
    end: float


@pytest.fixture(scope="module")
def seen(prometheus: Any, watch: Callable[..., Any]) -> Seen:
    start = time.time()
    runs: dict[str, Any] = {}
    for name, text in SCENARIOS.items():
        runs[name] = watch(name, text, prometheus.elsewhere if name == "dying" else prometheus.runs)
        # The next one when this one is up: a machine that is busy with all of them at once takes too long.
        prometheus.until(runs[name].is_up, 120)

    def over() -> bool:
        scraped = [target["scrapeUrl"] for target in prometheus.ask("targets", state="active")["activeTargets"]]
        assert len(scraped) == len(set(scraped))  # once each, though most are found in two ways
        return {name for name, run in runs.items() if run.is_over()} == runs.keys() - {"dying"}

    prometheus.until(over, 400)
    prometheus.until(lambda: prometheus.at(f'up{{run="{runs["dying"].label}"}}', time.time()), 60)
    time.sleep(1.5)  # for the rules to see the last scrape
    return Seen(runs, start, time.time())


def filled(query: str, run: str, seen: Seen) -> str:
    """Put into a query what Grafana would put in for its variables; ``run`` is the name of a run here."""
    for name, value in {
        "$run": seen.runs[run].label,
        "$variant": ".+",
        "$__rate_interval": "4s",
        "$__range": f"{math.ceil(seen.end - seen.start)}s",
    }.items():
        query = query.replace(name, value)
    assert "$" not in query
    return query


def panels() -> list[Any]:
    """Return a test parameter for each panel of each dashboard."""
    return [
        pytest.param(dashboard, panel, id=f"{path.stem}: {panel['title']}")
        for path in sorted(DASHBOARDS.glob("*.json"))
        for dashboard in [json.loads(path.read_text())]
        for panel in dashboard["panels"]
        if panel["type"] != "row"
    ]


def test_all_targets_come_up(prometheus: Any, seen: Seen) -> None:
    up = {
        (series["run"], series["variant"], series["process"]): max(value for _, value in values)
        for series, values in prometheus.over('up{job="testbed"}', seen.start, seen.end)
    }
    of_pools = ["dispatcher-0", "node-0", "pools"]
    wanted = {
        ("moving", "random+stealing"): ["dispatcher-0", "dispatcher-1", "node-0"],
        ("moving", "power of two, sharing"): ["dispatcher-0", "dispatcher-1", "node-0"],
        ("rerouting", "static+reroute"): of_pools,
        ("replication", "static+replicate"): of_pools,
        ("dying", "jiq"): ["dispatcher-0", "node-0", "node-1"],
    }
    assert up == {
        (seen.runs[run].label, variant, process): 1.0
        for (run, variant), processes in wanted.items()
        for process in processes
    }


def test_targets_of_runs_that_are_over_are_dropped(prometheus: Any, seen: Seen) -> None:
    def runs() -> set[str]:
        return {target["labels"]["run"] for target in prometheus.ask("targets", state="active")["activeTargets"]}

    prometheus.until(lambda: runs() == {seen.runs["dying"].label}, 15)


@pytest.mark.parametrize(("dashboard", "panel"), panels())
def test_every_query_of_every_panel_returns_data(prometheus: Any, seen: Seen, dashboard: Any, panel: Any) -> None:
    assert panel["targets"]
    for target in panel["targets"]:
        values = [
            value
            for run in seen.runs
            for _, series in prometheus.over(filled(target["expr"], run, seen), seen.start, seen.end)
            for _, value in series
        ]
        assert any(math.isfinite(value) for value in values), target["expr"]


def test_examples_of_response_times_name_jobs(prometheus: Any, seen: Seen) -> None:
    panels = json.loads((DASHBOARDS / "cluster.json").read_text())["panels"]
    (heatmap,) = (panel for panel in panels if panel["type"] == "heatmap")
    (target,) = heatmap["targets"]
    assert target["exemplar"] is True
    query = filled(target["expr"], "moving", seen)
    found = prometheus.ask("query_exemplars", query=query, start=seen.start, end=seen.end)
    assert {series["seriesLabels"]["variant"] for series in found} == {"random+stealing", "power of two, sharing"}
    assert all(example["labels"]["job"].isdigit() for series in found for example in series["exemplars"])


def test_what_can_be_chosen_is_what_was_run(prometheus: Any, seen: Seen) -> None:
    for path in DASHBOARDS.glob("*.json"):
        variables = {v["name"]: v for v in json.loads(path.read_text())["templating"]["list"]}
        asked = re.fullmatch(r"query_result\((.+)\)", variables["run"]["query"])
        assert asked is not None
        query, choice = asked[1], variables["run"]["regex"].strip("/")

        def runs(query: str = query, choice: str = choice) -> list[str]:
            # Grafana looks for the regular expression in what each result comes to as text, best first.
            until_now = seen._replace(end=time.time())
            results = prometheus.ask("query", query=filled(query, "moving", until_now), time=until_now.end)["result"]
            texts = [", ".join(f'{name}="{value}"' for name, value in one["metric"].items()) for one in results]
            return [match[1] for match in (re.search(choice, text) for text in texts) if match is not None]

        assert sorted(runs()) == sorted(run.label for run in seen.runs.values())
        # The query looks at every fifth second: until the next, a run that has just ended looks like one that goes on.
        prometheus.until(lambda runs=runs: runs()[0] == seen.runs["dying"].label, 15)
        asked = re.fullmatch(r"label_values\((.+), variant\)", variables["variant"]["query"])
        assert asked is not None
        query = filled(asked[1], "moving", seen)
        series = prometheus.ask("series", **{"match[]": query, "start": seen.start, "end": seen.end})
        assert {one["variant"] for one in series} == {"random+stealing", "power of two, sharing"}


def side_by_side(prometheus: Any, seen: Seen, run: str, column: str) -> dict[str, float]:
    """Return a column of the dashboard that has variants side by side, after the end of the run."""
    panels = json.loads((DASHBOARDS / "policies.json").read_text())["panels"]
    (table,) = (panel for panel in panels if panel["type"] == "table")
    (organized,) = (t["options"] for t in table["transformations"] if t["id"] == "organize")
    names = {column: name for name, column in organized["renameByName"].items()}
    (expr,) = (t["expr"] for t in table["targets"] if f"Value #{t['refId']}" == names[column])
    return {
        dict(labels)["variant"]: value for labels, value in prometheus.at(filled(expr, run, seen), seen.end).items()
    }


@pytest.mark.parametrize("run", ["moving", "rerouting", "replication"])
def test_mean_response_times_agree_with_the_runs_own_summaries(prometheus: Any, seen: Seen, run: str) -> None:
    summaries = {summary["variant"]: summary for summary in seen.runs[run].summaries}
    assert side_by_side(prometheus, seen, run, "mean response time") == pytest.approx(
        {name: found["response"]["mean"] * found["time_unit_seconds"] for name, found in summaries.items()}, rel=0.01
    )
    assert side_by_side(prometheus, seen, run, "messages per job") == pytest.approx(
        {name: found["messages_per_job"] for name, found in summaries.items()}, rel=0.01
    )
    assert side_by_side(prometheus, seen, run, "jobs") == {
        name: found["accounting"]["arrived"] for name, found in summaries.items()
    }


def test_a_process_that_is_killed_raises_an_alert(prometheus: Any, seen: Seen) -> None:
    query = 'ALERTS{alertname="TestbedProcessGone", alertstate="firing"}'
    assert prometheus.at(query, time.time()) == {}
    seen.runs["dying"].kill("node-1")
    prometheus.until(lambda: prometheus.at(query, time.time()), 60)
    ((labels, _),) = prometheus.at(query, time.time()).items()
    assert dict(labels).items() >= {"run": seen.runs["dying"].label, "process": "node-1"}.items()
