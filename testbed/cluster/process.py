"""One process of a cluster, which hosts servers (a node), a dispatcher, or the pool agent.

The controller starts it as ``python -m testbed.cluster.process``. The controller's address and the run's secret are in
an environment variable, because other users can read command lines. The process ends when it has reported, and when its
control connection ends: without a controller there is no process.
"""

from __future__ import annotations

import gc
import os
import shutil
import sys
from pathlib import Path

import msgspec
import trio

from testbed.cluster.connecting import accept_connections, connect, listen
from testbed.cluster.control import (
    CONTROL_ENV,
    FROM_CONTROLLER,
    Change,
    Channel,
    Drain,
    Finish,
    FromController,
    Hello,
    Linked,
    Peers,
    Ready,
    Setup,
    Start,
)
from testbed.cluster.hosted import Hosted
from testbed.cluster.metrics.process_metrics import ProcessMetrics
from testbed.cluster.metrics.serving import MetricsServer
from testbed.cluster.peers import PeerConnections
from testbed.cluster.reporting import Reporter
from testbed.core.messages import VERSION, ProtocolError
from testbed.scenario.modes import servers_talk

HOLD_LOOK_SECONDS = 0.02


class ClusterProcess:
    """One process under the controller's direction: its agents, their connections, its metrics and reports."""

    def __init__(self, setup: Setup, token: str, number: int, channel: Channel[FromController]) -> None:
        self._setup = setup
        self._number = number
        self._channel = channel
        self._hosted = Hosted(setup)
        self._metrics_server = MetricsServer()
        hello = Hello(VERSION, token, number, self._hosted.addresses)
        self._peers = PeerConnections(self._hosted.runtime, self._hosted.scenario, hello)
        self._reporter = Reporter(self._hosted, self._peers, channel)

    def _start(self, start: Start) -> None:
        # All present objects live as long as the run; garbage collection need not traverse them again and again.
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 100)
        self._hosted.start(start.at, start.since)

    async def _finish(self, finish: Finish) -> None:
        """Stop arrivals, end the records, send them and the report."""
        self._hosted.stop_arrivals()
        self._reporter.note_end()
        self._hosted.close(finish.down_servers)
        self._metrics_server.final = True
        held = self._metrics_server.watched if finish.hold is None else finish.hold
        await self._reporter.finish(held)
        if held:
            await self._hold()

    async def _hold(self) -> None:
        """Wait until the last metrics have been read, or the controller has gone."""
        async with trio.open_nursery() as nursery:

            async def leave() -> None:
                await self._channel.receive()
                self._tidy_up()
                nursery.cancel_scope.cancel()

            nursery.start_soon(leave)
            while not self._metrics_server.read:
                await trio.sleep(HOLD_LOOK_SECONDS)
            nursery.cancel_scope.cancel()

    def _talks_to(self, node: int) -> bool:
        """Return whether this process connects to the node process of that number.

        Dispatchers and the pool agent talk to all nodes. Nodes talk to each other where tasks move or copies are tied,
        over one connection for each pair, and a node to itself: every message crosses a socket, also between two
        servers of one process.
        """
        return self._setup.servers is None or (servers_talk(self._hosted.scenario) and node <= self._number)

    async def _link(self, peers: Peers, nursery: trio.Nursery) -> None:
        addresses = [address for number, address in peers.nodes.items() if self._talks_to(number)]
        if self._setup.dispatcher is not None:
            addresses.extend(peers.pools.values())
        for address in addresses:
            try:
                await self._peers.link(address, nursery)
            except (OSError, ProtocolError) as error:
                if self._setup.pace is None:
                    raise
                # In a long-running cluster the controller restarts it, and sends its new address.
                print(f"cannot connect to {address}: {error}", file=sys.stderr)

    async def run(self) -> None:
        """Follow the controller's messages until Finish, or until the controller has gone."""
        listener, address = listen(self._hosted.scenario.cluster.transport, Path(self._setup.folder), str(self._number))
        self._metrics_server.start(ProcessMetrics(self._hosted, self._peers, self._metrics_server))
        await self._channel.send(Ready(address, self._metrics_server.port))
        finish: Finish | None = None
        async with trio.open_nursery() as nursery:
            nursery.start_soon(accept_connections, listener, nursery, self._peers.serve)
            while (message := await self._channel.receive()) is not None:
                if isinstance(message, Peers):
                    await self._link(message, nursery)
                    await self._channel.send(Linked())
                elif isinstance(message, Start):
                    nursery.start_soon(self._hosted.runtime.run_timers)
                    nursery.start_soon(self._reporter.run)
                    self._start(message)
                elif isinstance(message, Change):
                    self._hosted.change(message)
                elif isinstance(message, Drain):
                    self._hosted.stop_arrivals()
                elif isinstance(message, Finish):
                    finish = message
                    break
            self._peers.finishing = True  # the ends of connections are no deaths from here on
            # The agents stop before the records end: a task that ends later would find its job gone.
            nursery.cancel_scope.cancel()
        if finish is not None:
            await self._finish(finish)
        else:
            self._tidy_up()

    def _tidy_up(self) -> None:
        """Remove the controller's folder, which it can't do itself when it was killed."""
        shutil.rmtree(self._setup.folder, ignore_errors=True)


async def main() -> None:
    """Connect to the controller, receive the setup, and run."""
    raw_address, token, number = msgspec.json.decode(
        os.environ[CONTROL_ENV], type=tuple[str | tuple[str, int], str, int]
    )
    sock = await connect(raw_address)
    channel: Channel[FromController] = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(sock)), FROM_CONTROLLER)
    await channel.send(Hello(VERSION, token, number))
    setup = await channel.receive()
    if isinstance(setup, Setup):
        await ClusterProcess(setup, token, number, channel).run()
    await channel.aclose()


if __name__ == "__main__":
    trio.run(main)
