"""The connections of a cluster's process to the others, which carry the agents' messages."""

from __future__ import annotations

import socket
import sys
from typing import TYPE_CHECKING

import trio

from testbed.cluster.connecting import Address, connect, read_hello, receive_hello
from testbed.cluster.control import Hello
from testbed.core.messages import Encoder, ProtocolError
from testbed.runtime.connection import Connection
from testbed.runtime.realtime import RealTimeRuntime

if TYPE_CHECKING:
    from testbed.scenario import Scenario


class PeerConnections:
    """The connections of the process whose Hello is ``me``. After ``finishing`` is set, their ends are no deaths."""

    def __init__(self, runtime: RealTimeRuntime, scenario: Scenario, me: Hello) -> None:
        self._runtime = runtime
        self._scenario = scenario
        self._me = me
        self._greeting = Encoder().frame(me)
        self.connections: list[Connection] = []
        self.rejected_frames = 0
        self.finishing = False
        self._down: set[tuple[int, int]] = set()  # ranges of servers

    async def serve(self, peer: socket.socket) -> None:
        """Serve a connection from another process; close that of an unauthenticated peer."""
        hello = await receive_hello(peer)
        if hello is None or not self._is_known(hello):
            self._reject("a peer that is no process of this run")
            peer.close()
            return
        try:
            peer.send(self._greeting)
        except OSError:  # it has closed
            peer.close()
            return
        # None for the far end of the process's connection to itself: agents send on the near end, and receive here.
        await self._converse(Connection(peer), hello.agents if hello.process != self._me.process else None)

    def _is_known(self, hello: Hello) -> bool:
        return hello.version == self._me.version and hello.token == self._me.token

    def _reject(self, why: object) -> None:
        self.rejected_frames += 1
        print(f"closed a connection: {why}", file=sys.stderr)

    async def link(self, address: Address, nursery: trio.Nursery) -> None:
        """Connect to the process at ``address``."""
        peer = await connect(address)
        peer.send(self._greeting)
        hello = await read_hello(peer)
        if hello is None or not self._is_known(hello):
            raise ProtocolError(f"no process of this run listens at {address}")
        nursery.start_soon(self._converse, Connection(peer), hello.agents)

    async def _converse(self, connection: Connection, addresses: tuple[int, int] | None) -> None:
        """Serve a connection until it ends; ``addresses`` is the range of the agents behind it."""
        self.connections.append(connection)
        self._runtime.link(connection, range(*addresses) if addresses else ())
        if addresses in self._down:
            self._down.remove(addresses)
            self._runtime.servers_up(addresses[0], addresses[1] - 1)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(connection.run_writer)
                await self._runtime.receive(connection)
                nursery.cancel_scope.cancel()
        except* ProtocolError as errors:
            self._reject(errors.exceptions[0])
        finally:
            self._runtime.unlink(connection)
            connection.close()
            if addresses and addresses[0] < self._scenario.servers and not self.finishing:
                self._down.add(addresses)
                self._runtime.servers_down(addresses[0], addresses[1] - 1)
