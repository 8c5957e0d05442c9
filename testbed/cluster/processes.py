"""The processes of a cluster in the hands of its controller: started, connected with each other, supervised, ended.

Every process is supervised. One that ends before its time is reported to the controller with how it ended. Whatever
happens, no process and no temporary file is left behind.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from testbed.cluster.connecting import Address, accept_connections, listen, receive_hello
from testbed.cluster.control import FROM_PROCESS, Channel, FromProcess, Peers, Setup, Start
from testbed.cluster.members import Member, cannot_start, how_it_ended, launch, open_process, roles
from testbed.core.messages import VERSION, ProtocolError

if TYPE_CHECKING:
    from testbed.scenario import Scenario

READY_SECONDS = 30.0  # for a cluster to come up, and PER_PROCESS_SECONDS more for each of its processes
PER_PROCESS_SECONDS = 3.0


class ClusterError(Exception):
    """The cluster could not be started."""


class Processes:
    """The processes of a scenario's cluster, and whether its run is over: interrupted, or failed for a reason.

    ``setup`` returns what a process is to be; ``received`` is called with each message of a process; ``died`` when a
    process has ended before its time. ``logs`` is the folder of the processes' logs; by default the temporary one.
    """

    def __init__(
        self,
        scenario: Scenario,
        logs: Path | None,
        *,
        setup: Callable[[Member], Setup],
        received: Callable[[Member, FromProcess], None],
        died: Callable[[Member, str], Awaitable[None]],
    ) -> None:
        self.members: list[Member] = []
        self.failure: str | None = None
        self.interrupted = False
        self.ending = False  # from here on no end of a process is a death
        self.rejected = 0  # connections of unauthenticated peers
        self.token = secrets.token_hex(16)
        self.folder = Path()  # temporary, for sockets
        self._scenario = scenario
        self._logs = logs
        self._setup = setup
        self._received = received
        self._died = died
        self._changed = trio.Event()
        self._address: Address = ""
        self._nursery: trio.Nursery

    # --- the state of the run ---

    @property
    def over(self) -> bool:
        """Whether the run has failed or was interrupted."""
        return self.interrupted or self.failure is not None

    def fail(self, why: str) -> None:
        """End the run; the first reason counts."""
        if self.failure is None:
            self.failure = why
        self.notify()

    def notify(self) -> None:
        """Have the conditions that are waited for evaluated again."""
        self._changed.set()
        self._changed = trio.Event()

    async def wait(self) -> None:
        """Wait for the next change: a message, the end of a process, or the end of the run."""
        await self._changed.wait()

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` holds or the run is over."""
        while not (condition() or self.over):
            await self.wait()

    # --- from start to end ---

    @contextlib.asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Be ready for processes within the context; at its end all are killed that are left."""
        self.folder = Path(tempfile.mkdtemp(prefix="testbed-"))
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                listener, self._address = self._listen()
                nursery.start_soon(accept_connections, listener, nursery, self._serve)
                try:
                    yield
                finally:
                    self.ending = True
                    for member in self.members:
                        if member.alive:
                            member.process.kill()
                    nursery.cancel_scope.cancel()
                    listener.close()
        finally:
            with trio.CancelScope(shield=True):
                for member in self.members:
                    await member.process.wait()
            shutil.rmtree(self.folder, ignore_errors=True)

    def _listen(self) -> tuple[socket.socket, Address]:
        try:
            return listen(self._scenario.cluster.transport, self.folder, "controller")
        except OSError as error:
            raise ClusterError(
                f"cannot listen in {self.folder}: {error.strerror or error}; set TMPDIR to a folder with a short path "
                'on a local disk, or use cluster.transport = "tcp"'
            ) from None

    async def start(self) -> None:
        """Start all processes and have them connect, unless the run is interrupted first. Raises ClusterError."""
        for number, role in enumerate(roles(self._scenario)):
            if self.over:
                break
            try:
                member = await launch(number, role, self._logs or self.folder, self._address, self.token)
            except OSError as error:
                raise ClusterError(cannot_start(role.name, error)) from None
            self.members.append(member)
            self._nursery.start_soon(self._supervise, member)
        seconds = READY_SECONDS + PER_PROCESS_SECONDS * len(self.members)
        with trio.move_on_after(seconds) as scope:
            await self.until(lambda: all(member.ready is not None for member in self.members))
            if not self.over:
                await self.send_all(self._listening())
                await self.until(lambda: all(member.linked for member in self.members))
        if scope.cancelled_caught:
            silent = [member.name for member in self.members if member.ready is None]
            late = ", ".join(silent or [member.name for member in self.members if not member.linked])
            raise ClusterError(f"not ready after {seconds:.0f} s: {late}; is this machine overloaded?")
        if self.failure is not None:
            raise ClusterError(self.failure)

    def _listening(self) -> Peers:
        """Return where the living processes with servers, and the pool agent's, listen."""
        addresses = {m: m.ready.address for m in self.members if m.ready is not None and m.alive}
        return Peers(
            nodes={member.number: address for member, address in addresses.items() if member.servers is not None},
            pools={member.number: address for member, address in addresses.items() if member.pools},
        )

    async def restart(self, member: Member, start: Callable[[], Start]) -> None:
        """Start a process that has died again, and connect it with the others; ``start()`` is its start message."""
        try:
            member.process = await open_process(member.number, member.name, member.log, self._address, self.token)
        except OSError as error:
            member.ended = True
            self.fail(cannot_start(member.name, error))
            return
        self._nursery.start_soon(self._supervise, member)
        with trio.move_on_after(READY_SECONDS) as scope:
            await self.until(lambda: member.ready is not None or not member.alive)
            if member.ready is None or member.channel is None:
                return
            await self.send(member, self._listening())
            await self.until(lambda: member.linked or not member.alive)
            await self.send(member, start())
            if member.servers is not None:
                for other in self.members:
                    if other is not member and other.linked:
                        await self.send(other, Peers({member.number: member.ready.address}, {}))
        if scope.cancelled_caught:
            self.fail(f"process {member.name} did not come up again within {READY_SECONDS:.0f} s")

    async def _supervise(self, member: Member) -> None:
        code = await member.process.wait()
        # A process ends as soon as it has sent its report, which may still be unread then.
        if member.channel is not None:
            await member.all_read.wait()
        member.ended = True
        self.notify()
        if not self.ending and member.report is None:
            await self._died(member, how_it_ended(code))

    # --- talking to them ---

    async def send_all(self, message: msgspec.Struct) -> None:
        """Send a message to all processes."""
        for member in self.members:
            await self.send(member, message)

    async def send(self, member: Member, message: msgspec.Struct) -> None:
        """Send a message to a process that is alive."""
        if member.channel is not None and member.alive:
            # If it has gone, its supervision reports how it ended.
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await member.channel.send(message)

    async def _serve(self, sock: socket.socket) -> None:
        """Serve a connection of the process whose Hello arrives on it."""
        member: Member | None = None
        channel = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(sock)), FROM_PROCESS)
        try:
            hello = await receive_hello(sock)
            if hello is None or hello.token != self.token or not 0 <= hello.process < len(self.members):
                self.rejected += 1
                return
            member = self.members[hello.process]
            if hello.version != VERSION:
                self.fail(f"process {member.name} speaks protocol version {hello.version}, this is {VERSION}")
                return
            member.channel = channel
            await channel.send(self._setup(member))
            while (message := await channel.receive()) is not None:
                self._received(member, message)
                self.notify()
        except (ProtocolError, trio.BrokenResourceError) as error:
            if member is not None and not self.ending:
                self.fail(f"the control connection of process {member.name} broke: {error}")
        finally:
            if member is not None:
                member.all_read.set()
            await channel.aclose()
