"""Shows a run on a page without ever waiting for the page."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
from types import TracebackType
from typing import Self

import msgspec
from typing_extensions import override

from testbed.cluster.control import CONTROL_FRAME_LIMIT
from testbed.cluster.snapshot import Snapshot
from testbed.core.messages import Encoder
from testbed.measure.summary import Summary
from testbed.present.dash.process import Conclude, Ended, Serve, Show
from testbed.present.dash.serving import LAST_UPDATE_SECONDS, Place
from testbed.runs.display import Display
from testbed.runs.long_running.cluster import PageOrder

WAITING = 8  # messages for the page's process; snapshots are dropped while so many wait


def start_page(
    place: Place, title: str, *, cluster: str | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process that serves the page of a run, or of a long-running ``cluster``; return it and its input.

    The process takes over ``place``. It ends when its input is closed, or when the cluster has ended.
    """
    ours, theirs = socket.socketpair()
    descriptor = place.sock.fileno()
    with theirs, place.sock:
        ours.sendall(Encoder().frame(Serve(title, descriptor, place.host, place.token, cluster)))
        # In its own session: Ctrl-C should reach the run only, whose results the page is still to show.
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "testbed.present.dash.process"],
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            pass_fds=[descriptor],
            start_new_session=True,
        )
    return process, ours


def start_cluster_page(cluster: str, order: PageOrder) -> tuple[subprocess.Popen[bytes], str]:
    """Start the process that serves a long-running cluster's page; return it and the page's address."""
    place = Place(socket.socket(fileno=order.descriptor), order.host, order.token)
    address = place.address_without_token
    process, feed = start_page(place, cluster, cluster=cluster)
    feed.close()  # it follows the cluster over the control socket
    return process, address


class PageReporter(Display):
    """A display that shows a run on a page, and passes everything on to another display, ``terminal``.

    A separate process serves the page, at ``place``. A thread writes to it, so that a page that does not keep up misses
    snapshots, and does not delay the run.
    """

    def __init__(self, terminal: Display, place: Place, title: str) -> None:
        self._terminal = terminal
        self._place = place
        self._title = title
        self._waiting: queue.Queue[msgspec.Struct | None] = queue.Queue(WAITING)
        self._encoder = Encoder(CONTROL_FRAME_LIMIT)

    @override
    def __enter__(self) -> Self:
        self._process, self._socket = start_page(self._place, self._title)
        self._thread = threading.Thread(target=self._write, name="page", daemon=True)
        self._thread.start()
        self._terminal.__enter__()
        return self

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._terminal.__exit__(kind, error, trace)
        self._put(Ended("the run has ended" if error is None else f"the run has failed: {error}"), LAST_UPDATE_SECONDS)
        self._put(None, LAST_UPDATE_SECONDS)
        self._thread.join(LAST_UPDATE_SECONDS)
        self._socket.close()
        try:
            self._process.wait(2 * LAST_UPDATE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    @override
    def announce(self, text: str) -> None:
        self._terminal.announce(text)

    @override
    def show(self, snapshot: Snapshot) -> None:
        self._terminal.show(snapshot)
        self._put(Show(snapshot))

    @override
    def conclude(self, summary: Summary) -> None:
        self._terminal.conclude(summary)
        self._put(Conclude(summary), LAST_UPDATE_SECONDS)

    def _put(self, message: msgspec.Struct | None, seconds: float = 0.0) -> None:
        try:
            self._waiting.put(message, block=seconds > 0, timeout=seconds)
        except queue.Full:
            return

    def _write(self) -> None:
        broken = False
        while (message := self._waiting.get()) is not None:
            if not broken:
                try:
                    self._socket.sendall(self._encoder.frame(message))
                except OSError:
                    broken = True  # the page's process has ended; the run continues
