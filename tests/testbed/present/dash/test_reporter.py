"""A run tells its page how it goes, and never waits for it."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable
from typing import Any

import pytest

from testbed.cluster.snapshot import Snapshot
from testbed.present.dash import reporter as reporters
from testbed.present.dash.reporter import PageReporter
from testbed.present.dash.serving import Place
from testbed.runs.display import Silent

Make = Callable[..., Snapshot]


class Seen(Silent):
    """Keeps what it is shown."""

    def __init__(self) -> None:
        self.shown: list[object] = []

    def announce(self, text: str) -> None:
        self.shown.append(text)

    def show(self, snapshot: Snapshot) -> None:
        self.shown.append(snapshot)


class Stalled:
    """Stands in for the page's process: it never reads."""

    def __init__(self, command: list[str], *, stdin: int, **settings: Any) -> None:
        self._input = socket.socket(fileno=os.dup(stdin))

    def wait(self, timeout: float | None = None) -> int:
        self._input.close()
        return 0


def test_a_page_that_does_not_read_delays_nothing(snapshot: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reporters.subprocess, "Popen", Stalled)
    monkeypatch.setattr(reporters, "LAST_UPDATE_SECONDS", 0.05)
    terminal = Seen()
    big = snapshot(queue_lengths=[3] * 1_000_000)  # larger than any socket's buffer
    with PageReporter(terminal, Place.open(), "tiny") as reporter:
        start = time.monotonic()
        for _ in range(100):
            reporter.show(big)
        reporter.announce("hello")
        assert time.monotonic() - start < 20  # it would be for ever
    assert terminal.shown == [big] * 100 + ["hello"]
