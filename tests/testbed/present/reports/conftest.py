"""A reader of pages; runs on the twin, and on a made-up cluster: the twin's, with every response time longer."""

from __future__ import annotations

import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.core.records import Measurements, ProcessReport
from testbed.measure.summary import Summary, summarise
from testbed.runs.nominal import nominal
from testbed.runs.run_folder import RunFolder
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


VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Reads a page, and insists that what is opened is closed; keeps its tables, ids, links and texts."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tables: dict[str, list[list[str]]] = {}
        self._rows: list[list[str]] = []
        self._caption = ""
        self.text = ""
        self.feed(html)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        self.tags.append((tag, values))
        self.ids += [values["id"] or ""] if "id" in values else []
        self.links += [values[name] or "" for name in ("href", "src", "xlink:href", "action", "data") if name in values]
        if tag == "table":
            self._rows, self._caption = [], ""
        if tag == "tr":
            self._rows.append([])
        if tag in ("td", "th"):
            self._rows[-1].append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open[-1] == tag, f"</{tag}> where {self.open[-1]} is open"
        self.open.pop()
        if tag == "table":
            self.tables[self._caption] = self._rows

    def handle_data(self, data: str) -> None:
        self.text += data
        if "caption" in self.open:
            self._caption += data
        elif self.open and self.open[-1] in ("td", "th"):
            self._rows[-1][-1] += data


@pytest.fixture(scope="session")
def read_page() -> Callable[[str], Reader]:
    """Read a page that must need nothing but itself, and whose every link must lead somewhere in it."""

    def read(html: str) -> Reader:
        reader = Reader(html)
        assert len(reader.ids) == len(set(reader.ids))
        assert all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
        assert not {tag for tag, _ in reader.tags} & {"script", "link", "iframe", "object", "img"}
        assert not re.search(r"@import|https?:|//[a-z]", html)
        assert all(place in {f"#{i}" for i in reader.ids} for place in re.findall(r"url\(([^)]*)\)", html))
        return reader

    return read
