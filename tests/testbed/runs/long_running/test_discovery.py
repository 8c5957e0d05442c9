"""Where Prometheus finds a long-running cluster: by file, and by HTTP on a port that may be chosen."""

from __future__ import annotations

import json
import socket
import urllib.request
from typing import Any

import pytest

from testbed.runs.long_running import clusters, connect

pytestmark = pytest.mark.cluster


def test_targets_are_found_by_file_and_over_http(place: Any) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        refused = place.up("--http-sd", str(port))
        assert refused.returncode in (1, 2)
        assert (
            f"port {port} for service discovery: Address already in use; choose another one with --http-sd"
            in refused.stderr
        )
        assert "Traceback" not in refused.stderr
    started = place.up("--http-sd", str(port))
    assert started.returncode == 0, started.stderr
    (state,) = clusters()
    assert state.http_sd == f"http://127.0.0.1:{port}/"
    with urllib.request.urlopen(state.http_sd, timeout=10) as answer:
        assert answer.headers["Content-Type"] == "application/json"
        groups = json.load(answer)
    (file,) = place.runs.glob("targets-*.json")
    assert json.loads(file.read_text()) == groups
    assert [group["labels"]["process"] for group in groups] == ["dispatcher-0", "dispatcher-1", "node-0", "node-1"]
    assert {group["labels"]["run"] for group in groups} == {file.name.removeprefix("targets-").removesuffix(".json")}
    assert {group["labels"]["cluster"] for group in groups} == {"small"}
    with connect("small") as client:
        client.down()
