"""Where Prometheus finds the processes of a cluster: service discovery by file (file_sd) and by HTTP (http_sd).

Each process is a target of its own, with labels that say which run it is of: ``job`` ("testbed"), ``run``, ``variant``,
``replication``, ``policy`` and ``process``. Prometheus puts them on every series of the target, also on those that it
adds itself: ``up``, ``scrape_duration_seconds`` and ``process_cpu_seconds_total``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any
from wsgiref.simple_server import make_server

import msgspec
from prometheus_client.exposition import ThreadingWSGIServer

from testbed.cluster.metrics.serving import Silent


class TargetGroup(msgspec.Struct, frozen=True):
    """Targets, as host:port, that have the same labels."""

    targets: list[str]
    labels: dict[str, str]


def encode(groups: Sequence[TargetGroup]) -> bytes:
    """Return the targets as JSON for both types of discovery."""
    return msgspec.json.format(msgspec.json.encode(groups), indent=2)


def targets_file_of(folder: Path) -> Path:
    """Return the file next to a run's folder that lists the metrics targets of its processes."""
    return folder.with_name(f"targets-{folder.name}.json")


def serve_discovery(groups: Callable[[], Sequence[TargetGroup]], port: int = 0) -> int:
    """Serve the present targets for http_sd at any path of a loopback port; return the port.

    ``groups`` is called in threads of its own for each request. The server ends with its process.
    """

    def answer(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        start_response("200 OK", [("Content-Type", "application/json")])
        return [encode(groups())]

    server = make_server("127.0.0.1", port, answer, ThreadingWSGIServer, Silent)
    threading.Thread(target=server.serve_forever, name="discovery", daemon=True).start()
    return int(server.server_port)
