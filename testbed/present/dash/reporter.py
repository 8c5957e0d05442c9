"""Tells the page of a run how it goes, without ever waiting for it."""

from __future__ import annotations

import queue
import socket
import subprocess
import sys
import threading
from types import TracebackType

import msgspec

from testbed.cluster.control import CONTROL_FRAME_LIMIT
from testbed.cluster.snapshot import Snapshot
from testbed.core.messages import Encoder
from testbed.measure.summary import Summary
from testbed.present.dash.process import Conclude, Ended, Serve, Show
from testbed.present.dash.serving import LAST_WORD_SECONDS, Place
from testbed.runs.display import Display
from testbed.runs.long_running.cluster import PageOrder

WAITING = 8  # messages for the page's process; when it is behind so far, snapshots are left out


def start_page(
    place: Place, title: str, *, cluster: str | None = None
) -> tuple[subprocess.Popen[bytes], socket.socket]:
    """Start a process that serves a page, of a standing cluster where ``cluster`` names one; return it and its input.

    ``place`` is its own from then on. It ends when its input is closed, or when the cluster has ended.
    """
    ours, theirs = socket.socketpair()
    descriptor = place.sock.fileno()
    with theirs, place.sock:
        ours.sendall(Encoder().frame(Serve(title, descriptor, place.host, place.token, cluster)))
        # In a session of its own: Ctrl-C is for the run, whose last figures the page is still to show.
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


class PageReporter:
    """A display that shows a run on a page, and passes everything on to another display.

    The page is served by a process of its own, at ``place``. A thread writes to it, so that a page that does not keep
    up costs the run nothing but its own snapshots.
    """

    def __init__(self, beside: Display, place: Place, title: str) -> None:
        self._beside = beside
        self._place = place
        self._title = title
        self._waiting: queue.Queue[msgspec.Struct | None] = queue.Queue(WAITING)
        self._encoder = Encoder(CONTROL_FRAME_LIMIT)

    def __enter__(self) -> PageReporter:
        self._process, self._socket = start_page(self._place, self._title)
        self._thread = threading.Thread(target=self._write, name="page", daemon=True)
        self._thread.start()
        self._beside.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._beside.__exit__(kind, error, trace)
        self._put(Ended("the run has ended" if error is None else f"the run has failed: {error}"), LAST_WORD_SECONDS)
        self._put(None, LAST_WORD_SECONDS)
        self._thread.join(LAST_WORD_SECONDS)
        self._socket.close()
        try:
            self._process.wait(2 * LAST_WORD_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def announce(self, text: str) -> None:
        """Show a line of text, beside the page only."""
        self._beside.announce(text)

    def show(self, snapshot: Snapshot) -> None:
        """Show the present state."""
        self._beside.show(snapshot)
        self._put(Show(snapshot))

    def conclude(self, summary: Summary) -> None:
        """Show what a run came to."""
        self._beside.conclude(summary)
        self._put(Conclude(summary), LAST_WORD_SECONDS)

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
                    broken = True  # its process is gone; the run goes on
