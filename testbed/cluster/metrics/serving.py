"""The HTTP server of a process's metrics."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, make_server

from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.exposition import ThreadingWSGIServer
from prometheus_client.registry import Collector

#: A scrape thread releases the interpreter after this time when the agents' loop waits for it. Python's default of
#: 5 ms would add to the lateness of timers.
SWITCH_SECONDS = 0.0002

#: A header of Prometheus' requests, which browsers and curl do not send.
PROMETHEUS = "HTTP_X_PROMETHEUS_SCRAPE_TIMEOUT_SECONDS"


class MetricsServer:
    """Serves /metrics on a loopback port that the system chooses, in Prometheus' text format or OpenMetrics.

    ``watched``: whether Prometheus has read them; ``seconds``: the duration of the latest scrape. Set ``final`` when
    the values will not change any more: ``read`` is then whether these last values have been read.
    """

    def __init__(self) -> None:
        self.watched = False
        self.seconds = 0.0
        self.final = False
        self.read = False
        self.registry = CollectorRegistry()
        self._answer = make_wsgi_app(self.registry)
        self.port = 0

    def start(self, collector: Collector) -> None:
        """Serve the metrics of ``collector`` and of the operating system's view of the process, in threads."""
        sys.setswitchinterval(SWITCH_SECONDS)
        self.registry.register(collector)
        ProcessCollector(registry=self.registry)
        server = make_server("127.0.0.1", 0, self._serve, ThreadingWSGIServer, Silent)
        self.port = int(server.server_port)
        threading.Thread(target=server.serve_forever, name="metrics", daemon=True).start()

    def _serve(self, environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
        began = time.perf_counter()
        final = self.final
        body = _Body(self._answer(environ, start_response))
        if environ["PATH_INFO"] == "/metrics":
            self.seconds = time.perf_counter() - began
            body.sent = lambda: self._note(PROMETHEUS in environ, final)
        return body

    def _note(self, by_prometheus: bool, final: bool) -> None:
        self.watched |= by_prometheus
        self.read |= final


class _Body(list[bytes]):
    """A response's body; ``sent`` is called when it has been written."""

    sent: Callable[[], None] | None = None

    def close(self) -> None:
        """Called by the server (PEP 3333) when it has written the body."""
        if self.sent is not None:
            self.sent()


class Silent(WSGIRequestHandler):
    """Logs no requests."""

    def log_message(self, format: str, *arguments: Any) -> None:
        """Log nothing."""
