"""A real Prometheus, with the configuration in deploy/, and real clusters that it watches."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.cluster.metrics.discovery import TargetGroup, serve_discovery

ROOT = Path(__file__).resolve().parent.parent.parent
DEPLOY = ROOT / "deploy"

INSTALL = "Prometheus is not installed: apt-get install prometheus (Debian, Ubuntu), or from prometheus.io"

Samples = list[tuple[dict[str, str], list[tuple[float, float]]]]


def program(name: str) -> str:
    """Find a program of Prometheus; where there is none the test is skipped, except in continuous integration."""
    found = shutil.which(name)
    if found is None:
        if os.environ.get("CI"):
            pytest.fail(INSTALL)
        pytest.skip(INSTALL)
    return found


@pytest.fixture(scope="session")
def promtool() -> str:
    return program("promtool")


class Prometheus:
    """A Prometheus on a port of its own.

    It looks for the targets of runs in the folder ``runs``, and is told over HTTP of those and of others ``elsewhere``.
    """

    def __init__(self, folder: Path) -> None:
        self.runs, self.elsewhere = folder / "runs", folder / "elsewhere"
        self.runs.mkdir()
        self.elsewhere.mkdir()
        self._log = folder / "prometheus.log"
        # As in the container: the configuration looks for runs two folders above itself.
        configuration = shutil.copytree(DEPLOY / "prometheus", folder / "etc" / "prometheus")
        settings = configuration / "prometheus.yml"
        discovery = f"127.0.0.1:{serve_discovery(self._all_targets)}"
        settings.write_text(settings.read_text().replace("127.0.0.1:9787", discovery))
        command = [
            program("prometheus"),
            f"--config.file={settings}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--web.listen-address=127.0.0.1:0",
            "--enable-feature=exemplar-storage",
        ]
        with self._log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=log)
        address = re.compile(r'msg="Listening on" address=(\S+)')
        self.until(lambda: "Server is ready" in self._log.read_text(), 60)
        found = address.search(self._log.read_text())
        assert found is not None, self._log.read_text()
        self.address = found[1]

    def _all_targets(self) -> list[TargetGroup]:
        groups = []
        for path in [*self.runs.glob("targets-*.json"), *self.elsewhere.glob("targets-*.json")]:
            with contextlib.suppress(FileNotFoundError):
                groups += msgspec.json.decode(path.read_bytes(), type=list[TargetGroup])
        return groups

    def until(self, condition: Callable[[], object], seconds: float) -> None:
        """Wait until something holds, while Prometheus runs."""
        end = time.monotonic() + seconds
        while not condition():
            assert self.process.poll() is None, self._log.read_text()
            assert time.monotonic() < end, f"not so within {seconds} s"
            time.sleep(0.05)

    def ask(self, path: str, **parameters: str | float) -> Any:
        """Ask the HTTP interface and return the data of its answer."""
        url = f"http://{self.address}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        with urllib.request.urlopen(url, timeout=30) as answer:
            return json.load(answer)["data"]

    def at(self, query: str, when: float) -> dict[tuple[tuple[str, str], ...], float]:
        """Return the values of an instant query at a time, by their labels."""
        result = self.ask("query", query=query, time=when)["result"]
        return {tuple(sorted(sample["metric"].items())): float(sample["value"][1]) for sample in result}

    def over(self, query: str, start: float, end: float) -> Samples:
        """Return the series of a query over a time, at each second."""
        result = self.ask("query_range", query=query, start=start, end=end, step=1)["result"]
        return [(series["metric"], [(when, float(value)) for when, value in series["values"]]) for series in result]

    def end(self) -> None:
        """End Prometheus."""
        self.process.kill()
        self.process.wait()


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    server = Prometheus(tmp_path_factory.mktemp("prometheus"))
    try:
        yield server
    finally:
        server.end()


class Watched:
    """A ``testbed run`` of a scenario that is watched by a Prometheus."""

    def __init__(self, scenario: Path, runs: Path) -> None:
        self.name = scenario.stem
        self._output = scenario.with_suffix(".log")
        self._runs = runs
        command = [sys.executable, "-m", "testbed", "run", str(scenario), "--output", str(runs), "--quiet"]
        command += ["--hold", "60"]
        with self._output.open("w") as output:
            self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)

    @property
    def label(self) -> str:
        """The run's name in labels: that of its folder."""
        (folder,) = self._runs.glob(f"{self.name}-*/")
        return folder.name

    def is_up(self) -> bool:
        """Whether the run has told where its metrics are."""
        return self.is_over() or any(self._runs.glob(f"targets-{self.name}-*.json"))

    def is_over(self) -> bool:
        """Whether the run has come to its end; it must not have failed."""
        status = self.process.poll()
        assert status in (None, 0), self._output.read_text()
        return status == 0

    def kill(self, name: str) -> None:
        """Kill one of the cluster's processes."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                parent = int(re.findall(r"PPid:\t(\d+)", (entry / "status").read_text())[0])
                command = (entry / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if parent == self.process.pid and name.encode() in command:
                os.kill(int(entry.name), signal.SIGKILL)
                return
        raise AssertionError(f"no process {name}")

    @property
    def summaries(self) -> list[dict[str, Any]]:
        """What the run says of itself."""
        (path,) = self._runs.glob(f"{self.name}-*/summary.json")
        return list(json.loads(path.read_text()))

    def end(self) -> None:
        """End the run, if it still goes on; its processes end with it."""
        self.process.terminate()
        self.process.wait()


@pytest.fixture(scope="module")
def watch(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Watched]]:
    """Start a run of a scenario, given as TOML, in a folder where Prometheus finds it."""
    folder = tmp_path_factory.mktemp("scenarios")
    started: list[Watched] = []

    def start(name: str, text: str, runs: Path) -> Watched:
        path = folder / f"{name}.toml"
        path.write_text(f'name = "{name}"\n{text}')
        started.append(Watched(path, runs))
        return started[-1]

    try:
        yield start
    finally:
        for run in started:
            run.end()
