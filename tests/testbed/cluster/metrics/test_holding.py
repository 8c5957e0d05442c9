"""The last metrics of a run are not lost: processes stay until Prometheus has read them, or a grace time is over."""

from __future__ import annotations

import http.client
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest
from prometheus_client.parser import text_string_to_metric_families

import testbed
from testbed.cluster.metrics.discovery import TargetGroup, serve_discovery
from testbed.cluster.snapshot import Snapshot
from testbed.runs.display import Silent
from testbed.scenario import Scenario, decode


def scenario() -> Scenario:
    return decode(
        {
            "name": "short",
            "run": {"time_unit": "10ms", "warmup": 5, "duration": 20},
            "cluster": {"nodes": 1, "pools": [{"servers": 4}]},
            "workload": {"load": 0.5},
            "dispatch": {"policy": "random"},
        }
    )


def scrape(target: str, headers: dict[str, str]) -> str:
    connection = http.client.HTTPConnection(target, timeout=30)
    connection.request("GET", "/metrics", headers=headers)
    text = connection.getresponse().read().decode()
    connection.close()
    return text


PROMETHEUS = {"X-Prometheus-Scrape-Timeout-Seconds": "10"}


class Scraper(Silent):
    """Finds the targets by their file. ``while_running`` are the headers of a scrape of all at the first look.

    Reads them once more, ``at_the_end``, when it is announced that the last metrics wait.
    """

    def __init__(self, output: Path, while_running: dict[str, str] | None, at_the_end: bool) -> None:
        self._output = output
        self._while_running = while_running
        self._at_the_end = at_the_end
        self.announced: list[str] = []
        self.texts: list[str] = []
        self._threads: list[threading.Thread] = []

    def _targets(self) -> list[TargetGroup]:
        (path,) = self._output.glob("targets-*.json")
        return msgspec.json.decode(path.read_bytes(), type=list[TargetGroup])

    def show(self, snapshot: Snapshot) -> None:
        if self._while_running is not None:
            for group in self._targets():
                scrape(group.targets[0], self._while_running)
            self._while_running = None

    def announce(self, text: str) -> None:
        self.announced.append(text)
        if self._at_the_end and "wait" in text:
            for group in self._targets():
                thread = threading.Thread(target=self._read, args=(group.targets[0],))
                thread.start()
                self._threads.append(thread)

    def _read(self, target: str) -> None:
        self.texts.append(scrape(target, PROMETHEUS))

    def values(self, name: str) -> list[Any]:
        for thread in self._threads:
            thread.join()
        families = [family for text in self.texts for family in text_string_to_metric_families(text)]
        return [sample.value for family in families for sample in family.samples if sample.name == name]


@pytest.mark.cluster
@pytest.mark.parametrize(("while_running", "hold"), [(None, 60.0), (PROMETHEUS, None)])
def test_a_run_that_prometheus_reads_ends_when_it_has_read_the_last_values(
    tmp_path: Path, while_running: dict[str, str] | None, hold: float | None
) -> None:
    scraper = Scraper(tmp_path, while_running, at_the_end=True)
    result = testbed.run(scenario(), output=tmp_path, watcher=scraper, hold=hold)
    accounting = result["random"].summary.accounting
    assert scraper.values("testbed_jobs_arrived_total") == [accounting.arrived]
    assert scraper.values("testbed_response_time_seconds_count") == [accounting.completed]
    assert [text.split(" after")[0] for text in scraper.announced[1:]] == ["the last metrics were read"]
    assert "Prometheus" in scraper.announced[0]


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("while_running", "hold", "announced"),
    [
        (None, None, []),
        ({}, None, []),  # someone with a browser
        (PROMETHEUS, 0.0, []),
        (None, 0.1, ["the last metrics wait", "the last metrics were not read: dispatcher-0, node-0"]),
    ],
)
def test_a_run_that_nobody_reads_does_not_wait_for_long(
    tmp_path: Path, while_running: dict[str, str] | None, hold: float | None, announced: list[str]
) -> None:
    scraper = Scraper(tmp_path, while_running, at_the_end=False)
    result = testbed.run(scenario(), output=tmp_path, watcher=scraper, hold=hold)
    assert result.failures == []
    assert [text.split(" up to")[0] for text in scraper.announced] == announced


def test_discovery_by_http_says_where_the_targets_are_now() -> None:
    groups = [TargetGroup(["127.0.0.1:9000"], {"process": "node-0"})]
    port = serve_discovery(lambda: groups)

    def ask() -> list[TargetGroup]:
        connection = http.client.HTTPConnection(f"127.0.0.1:{port}", timeout=10)
        connection.request("GET", "/targets")
        response = connection.getresponse()
        assert response.status == 200
        assert response.headers["Content-Type"] == "application/json"
        found = msgspec.json.decode(response.read(), type=list[TargetGroup])
        connection.close()
        return found

    assert ask() == groups
    groups.append(TargetGroup(["127.0.0.1:9001"], {"process": "node-1"}))
    assert ask() == groups
