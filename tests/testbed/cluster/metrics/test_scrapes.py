"""What Prometheus sees of a live cluster: both formats parse, and the last scrape agrees with the final report."""

from __future__ import annotations

import http.client
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest
from prometheus_client.metrics_core import Metric
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_text

import testbed
from testbed.cluster.controller import Controller
from testbed.cluster.snapshot import Snapshot
from testbed.core.outcomes import JobOutcome
from testbed.core.records import RESPONSE_BUCKETS, Measurements
from testbed.runs.display import Silent
from testbed.scenario import decode

pytestmark = pytest.mark.cluster

OPENMETRICS = "application/openmetrics-text; version=1.0.0"
TIME_UNIT = 0.01
KINDS = ("assign", "done", "dropped", "probe", "probe_reply")


def scrape(target: str, accept: str = "text/plain") -> tuple[str, str]:
    """Return the type and the text of /metrics."""
    connection = http.client.HTTPConnection(target, timeout=10)
    connection.request("GET", "/metrics", headers={"Accept": accept})
    response = connection.getresponse()
    assert response.status == 200
    text = response.read().decode()
    connection.close()
    return response.headers["Content-Type"], text


class Scraped:
    """The metrics of a process at one time, by name and labels."""

    def __init__(self, families: Iterator[Metric]) -> None:
        self.families = {family.name: family for family in families}

    def samples(self, name: str, **labels: str) -> list[Any]:
        return [
            sample
            for family in self.families.values()
            for sample in family.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        ]

    def value(self, name: str, **labels: str) -> float:
        return float(sum(sample.value for sample in self.samples(name, **labels)))


def parse(text: str) -> Scraped:
    return Scraped(parse_text(text))


def scrape_open(target: str) -> tuple[str, Scraped]:
    kind, text = scrape(target, OPENMETRICS)
    return kind, Scraped(parse_openmetrics(text))


class Observer:
    """Scrapes every process at each look; ``first`` and ``last`` are the scrapes by process name."""

    def __init__(self) -> None:
        self.first: dict[str, Scraped] = {}
        self.last: dict[str, Scraped] = {}
        self.open: dict[str, tuple[str, Scraped]] = {}
        self.open_at_end: dict[str, tuple[str, Scraped]] = {}

    def __call__(self, controller: Controller) -> None:
        names = [member.name for member in controller.members]
        targets = {group.labels["process"]: group.targets[0] for group in controller.metrics_targets()}
        assert list(targets) == names
        self.last = {name: parse(scrape(target)[1]) for name, target in targets.items()}
        if not self.first:
            self.first = self.last
            self.open = {name: scrape_open(target) for name, target in targets.items()}
        self.open_at_end = {name: scrape_open(target) for name, target in targets.items()}


@pytest.fixture(scope="module")
def run() -> tuple[Observer, Measurements]:
    import trio

    scenario = decode(
        {
            "name": "scraped",
            "seed": 5,
            "run": {"time_unit": "10ms", "warmup": 10, "duration": 60},
            "cluster": {"dispatchers": 2, "nodes": 2, "pools": [{"servers": 6, "buffer": 2}]},
            "workload": {"load": 0.8},
            "dispatch": {"policy": "power-of-d"},
        }
    )
    observer = Observer()
    labels = {"run": "scraped", "variant": "power-of-d", "replication": "0"}
    controller = Controller(scenario, 0, labels=labels, observe=observer)
    return observer, trio.run(controller.run)


def test_the_last_scrape_agrees_with_the_final_report(run: tuple[Observer, Measurements]) -> None:
    observer, measured = run
    assert measured.failure is None
    reports = {process.name: process for process in measured.processes}
    assert set(observer.last) == set(reports) == {"dispatcher-0", "dispatcher-1", "node-0", "node-1"}
    for name, scraped in observer.last.items():
        report = reports[name]
        assert scraped.value("testbed_sent_messages_total") == report.messages_sent > 0
        assert scraped.value("testbed_received_messages_total") == report.messages_received > 0
        assert scraped.value("testbed_sent_bytes_total") == report.bytes_sent
        assert scraped.value("testbed_rejected_frames_total") == report.rejected_frames == 0
        # One timer may have come after the last scrape: the one that notes the processor time.
        assert report.timers - 2 <= scraped.value("testbed_timer_lateness_seconds_count") <= report.timers
    columns = measured.columns
    for index in range(2):
        scraped = observer.last[f"dispatcher-{index}"]
        mine = columns["dispatcher"] == index
        jobs = int(mine.sum())
        completed = mine & (columns["outcome"] == JobOutcome.COMPLETED)
        assert scraped.value("testbed_jobs_arrived_total") == jobs > 100
        assert scraped.value("testbed_jobs_total", outcome="completed") == completed.sum()
        assert scraped.value("testbed_jobs_total", outcome="dropped") == jobs - completed.sum() > 0
        assert scraped.value("testbed_jobs_total", outcome="lost") == 0
        assert scraped.value("testbed_tasks_total") == jobs
        assert scraped.value("testbed_jobs_in_system") == 0
        assert scraped.value("testbed_probes_total") == columns["probes"][mine].sum()
        assert scraped.value("testbed_response_time_seconds_count") == completed.sum()
        responses = columns["response"][completed] * TIME_UNIT
        assert scraped.value("testbed_response_time_seconds_sum") == pytest.approx(responses.sum())
        assert scraped.value("testbed_dispatch_lag_seconds_count") == jobs
        assert scraped.value("testbed_dispatch_lag_seconds_sum") == pytest.approx(
            columns["lag"][mine].sum() * TIME_UNIT
        )
        inherent = columns["inherent"][completed] * TIME_UNIT
        for name_of, values in (
            ("response_time", responses),
            ("inherent_delay", inherent),
            ("queueing_delay", np.maximum(responses - inherent, 0.0)),
        ):
            assert scraped.value(f"testbed_{name_of}_seconds_sum") == pytest.approx(values.sum())
            for sample in scraped.samples(f"testbed_{name_of}_seconds_bucket"):
                bound = float(sample.labels["le"])
                assert sample.value == pytest.approx((values <= bound * (1 + 1e-12)).sum(), abs=1)  # a value on a bound
    sent = {
        kind: sum(s.value("testbed_sent_messages_total", kind=kind) for s in observer.last.values()) for kind in KINDS
    }
    assert sent["assign"] == sum(columns["tasks"]) == sent["done"] + sent["dropped"]
    assert sent["probe"] == sent["probe_reply"] == columns["probes"].sum()
    assert sum(sent.values()) == sum(report.messages_sent for report in reports.values())
    found = {
        found: sum(s.value("testbed_probes_answered_total", found=found) for s in observer.last.values())
        for found in ("idle", "busy")
    }
    assert found["idle"] + found["busy"] == sent["probe"]
    assert min(found.values()) > 0


def test_servers_are_on_nodes_and_empty_in_the_end(run: tuple[Observer, Measurements]) -> None:
    observer, _ = run
    for name in ("node-0", "node-1"):
        last = observer.last[name]
        assert last.value("testbed_servers") == 3
        assert last.value("testbed_tasks_at_servers") == 0
        assert last.value("testbed_busy_servers") == 0
        assert last.value("testbed_longest_queue_length") == 0
        assert last.value("testbed_servers_with_queue_length_at_least", tasks="1") == 0
        assert last.samples("testbed_jobs_total") == []
    assert observer.last["dispatcher-0"].samples("testbed_servers") == []


def test_histograms_are_cumulative_and_end_in_infinity(run: tuple[Observer, Measurements]) -> None:
    observer, _ = run
    for scraped in [*observer.first.values(), *observer.last.values()]:
        for family in scraped.families.values():
            if family.type == "histogram":
                buckets = [sample for sample in family.samples if sample.name.endswith("_bucket")]
                counts = [sample.value for sample in buckets]
                bounds = [float(sample.labels["le"]) for sample in buckets]
                assert counts == sorted(counts)
                assert bounds == sorted(set(bounds))
                assert bounds[-1] == float("inf")
                assert scraped.value(f"{family.name}_count") == counts[-1]
                assert len(buckets) < 165  # each is a series in Prometheus
    bounds = [
        float(sample.labels["le"])
        for sample in observer.last["dispatcher-0"].samples("testbed_response_time_seconds_bucket")
    ]
    assert bounds[0] == pytest.approx(RESPONSE_BUCKETS[0] * TIME_UNIT)
    assert bounds[-2] >= RESPONSE_BUCKETS[1] * TIME_UNIT


def test_exemplars_are_jobs_of_their_buckets(run: tuple[Observer, Measurements]) -> None:
    observer, measured = run
    columns = measured.columns
    responses = dict(zip(columns["job"].tolist(), (columns["response"] * TIME_UNIT).tolist(), strict=True))
    _, scraped = observer.open_at_end["dispatcher-0"]
    below, count, exemplars = 0.0, 0.0, 0
    for sample in scraped.samples("testbed_response_time_seconds_bucket"):
        bound = float(sample.labels["le"])
        assert (sample.exemplar is not None) == (sample.value > count)
        if sample.exemplar is not None:
            assert below < sample.exemplar.value <= bound
            assert responses[int(sample.exemplar.labels["job"])] == pytest.approx(sample.exemplar.value)
            exemplars += 1
        below, count = bound, sample.value
    assert exemplars > 10


def test_openmetrics_parses_and_says_the_same(run: tuple[Observer, Measurements]) -> None:
    observer, _ = run
    for name, (kind, scraped) in observer.open.items():
        assert kind.startswith("application/openmetrics-text")
        ours = {family for family in observer.first[name].families if family.startswith("testbed_")}
        # In OpenMetrics a counter's family has no suffix.
        assert {family.removesuffix("_total") for family in ours} == {
            family for family in scraped.families if family.startswith("testbed_")
        }


def test_nothing_but_its_target_says_which_run_and_process_a_series_is_of(run: tuple[Observer, Measurements]) -> None:
    observer, _ = run
    for scraped in observer.last.values():
        labels = {label for family in scraped.families.values() for sample in family.samples for label in sample.labels}
        assert not labels & {"job", "run", "variant", "replication", "policy", "process", "instance"}
        assert scraped.value("process_cpu_seconds_total") > 0
        assert 0 < scraped.value("testbed_scrape_duration_seconds") < 60


class Target(msgspec.Struct, forbid_unknown_fields=True):
    """An entry of Prometheus' file_sd format."""

    targets: list[str]
    labels: dict[str, str] = {}


class Reader(Silent):
    """Reads the file of targets at each look, as Prometheus does."""

    def __init__(self, output: Path) -> None:
        self._output = output
        self.seen: list[list[Target]] = []
        self.parsed = 0

    def show(self, snapshot: Snapshot) -> None:
        (path,) = self._output.glob("targets-*.json")
        self.seen.append(msgspec.json.decode(path.read_bytes(), type=list[Target]))
        for group in self.seen[-1]:
            if self.parsed < 3:
                self.parsed += bool(parse(scrape(group.targets[0])[1]).families)


def test_targets_are_where_prometheus_finds_them_while_the_run_goes_on(tmp_path: Path) -> None:
    reader = Reader(tmp_path)
    scenario = decode(
        {
            "name": "targets",
            "run": {"time_unit": "10ms", "warmup": 5, "duration": 20},
            "cluster": {"nodes": 2, "pools": [{"servers": 4}]},
            "workload": {"load": 0.5},
            "dispatch": {"policy": "random"},
            "variants": [{"name": "again", "set": {"workload.load": 0.6}}],
        }
    )
    result = testbed.run(scenario, output=tmp_path, watcher=reader)
    assert reader.seen
    assert reader.parsed == 3
    hosts = {target: group.labels for groups in reader.seen for group in groups for target in group.targets}
    assert all(len(groups) == 3 for groups in reader.seen)
    assert len(hosts) == 6  # each variant has processes of its own
    assert all(host.startswith("127.0.0.1:") for host in hosts)
    assert result.folder is not None
    assert {tuple(labels.items()) for labels in hosts.values()} == {
        (
            ("job", "testbed"),
            ("run", result.folder.name),
            ("variant", variant),
            ("replication", "0"),
            ("policy", "random"),
            ("process", process),
        )
        for variant in ("random", "again")
        for process in ("dispatcher-0", "node-0", "node-1")
    }
    assert not list(tmp_path.glob("targets-*.json"))
