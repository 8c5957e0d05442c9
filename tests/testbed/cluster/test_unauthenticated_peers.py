"""Connections of unauthenticated peers are closed and counted, and nothing else happens."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from testbed.cluster.connecting import Address
from testbed.cluster.control import Hello
from testbed.cluster.controller import Controller
from testbed.core.messages import FRAME_LIMIT, VERSION, Encoder, Probe
from testbed.core.records import Measurements
from testbed.measure.accounting import check
from testbed.scenario import Scenario

pytestmark = pytest.mark.cluster

frame = Encoder(1 << 24).frame


def knock(address: Address) -> socket.socket:
    sock = socket.socket(socket.AF_UNIX if isinstance(address, str) else socket.AF_INET)
    sock.settimeout(10)
    sock.connect(address)
    return sock


def assert_closed(sock: socket.socket) -> None:
    """Check that the other side has closed, perhaps with words of its own before."""
    with sock:
        try:
            while sock.recv(4096):
                pass
        except ConnectionResetError:
            pass


class UnauthenticatedPeers:
    """Connections to make in the middle of a run, and the number of them that must be counted."""

    def __init__(self) -> None:
        self.open: list[socket.socket] = []
        self.at_node = self.at_controller = 0

    def connect_to_all(self, controller: Controller) -> None:
        node = next(member for member in controller.members if member.servers is not None)
        assert node.ready is not None
        words = [
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x00\x00\x00\x04junk",
            (FRAME_LIMIT + 1).to_bytes(4, "big"),
            b"\x00\x00\x20\x00" + bytes(100),  # within the limit of frames, above that of a first message
            frame(Hello(VERSION, "not the secret", 0)),
            frame([Probe(0, 20, 1)]),  # a message without a first message
            frame(Hello(VERSION + 1, controller.processes.token, 0)) if node else b"",
        ]
        for word in words:
            self.send(node.ready.address, word)
            self.at_node += 1
        for word in words[:-1]:
            self.send(controller_address(controller), word)
            self.at_controller += 1
        # A process of this run that goes mad after a good beginning; 99 is no dispatcher's number.
        for word in (
            b"\xff" * 64,
            (FRAME_LIMIT + 1).to_bytes(4, "big"),
            frame([Probe(19, 20, 1)]) if node.servers == (0, 10) else frame([Probe(0, 20, 1)]),  # not here
            frame([[1, "x", 2, 3]]),
            frame([[1, -1, 2, 3]]),
            frame([[77]]),
        ):
            sock = self.send(node.ready.address, frame(Hello(VERSION, controller.processes.token, 99)))
            assert sock.recv(4) != b""  # it has been let in
            sock.sendall(word)
            self.at_node += 1

    def send(self, address: Address, word: bytes) -> socket.socket:
        sock = knock(address)
        sock.sendall(word)
        self.open.append(sock)
        return sock


def controller_address(controller: Controller) -> Address:
    if controller.scenario.cluster.transport == "unix":
        return str(controller.processes.folder / "controller")
    raise AssertionError("the tests know only where a Unix socket is")


def test_unauthenticated_peers_are_refused_and_counted_and_the_run_goes_on(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
) -> None:
    peers = UnauthenticatedPeers()
    scenario = make_scenario(**{"run.duration": 80})
    measured = run_cluster(scenario, at_time(5.0, peers.connect_to_all))
    assert len(peers.open) == peers.at_node + peers.at_controller > 15
    for sock in peers.open:
        assert_closed(sock)
    assert measured.failure is None
    assert sum(process.rejected_frames for process in measured.processes) == peers.at_node
    assert measured.counters["connections from strangers at the controller"] == peers.at_controller
    accounting = check(measured.columns, measured.counters["jobs arrived"])
    assert accounting.balanced
    assert accounting.completed == accounting.arrived > 500


def test_a_silent_peer_is_not_waited_for(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("testbed.cluster.connecting.HELLO_SECONDS", 0.1)
    silent: list[socket.socket] = []

    def come_in(controller: Controller) -> None:
        silent.append(knock(controller_address(controller)))
        silent[0].sendall(b"\x00\x00")
        silent.extend(knock(m.ready.address) for m in controller.members if m.ready is not None)

    measured = run_cluster(make_scenario(**{"run.duration": 80}), at_time(2.0, come_in))
    for sock in silent:
        assert_closed(sock)
    assert measured.failure is None
    assert measured.counters["connections from strangers at the controller"] == 1
    assert np.all(measured.columns["outcome"] == 0)


def test_the_secret_is_on_no_command_line(
    run_cluster: Callable[..., Measurements],
    make_scenario: Callable[..., Scenario],
    at_time: Callable[..., Callable[[Controller], None]],
) -> None:
    seen: list[bytes] = []

    def look(controller: Controller) -> None:
        assert len(controller.processes.token) >= 32
        seen.extend(Path(f"/proc/{m.process.pid}/cmdline").read_bytes() for m in controller.members)
        assert not any(controller.processes.token.encode() in line for line in seen)

    scenario = make_scenario(**{"run.duration": 5, "run.warmup": 0})
    run_cluster(scenario, at_time(0.0, look))
    assert len(seen) == 3
    assert Controller(scenario, 0, labels={}).processes.token != Controller(scenario, 0, labels={}).processes.token
