"""The controller: starts the processes of a cluster, runs one variant on them, and collects what they measured.

It keeps every process on a leash. A process that ends before its time ends the run: arrivals stop, the others report,
and the failure names the process, how it ended and the last lines that it wrote. Whatever happens, no process and no
temporary file is left behind.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from testbed.cluster import control
from testbed.cluster.collected import Records, RecordsInMemory, collect
from testbed.cluster.connecting import Address, hear_newcomer, listen, take_newcomers
from testbed.cluster.control import (
    FROM_PROCESS,
    Channel,
    Events,
    Finish,
    FromProcess,
    Linked,
    Peers,
    Progress,
    Ready,
    Report,
    Setup,
    Start,
)
from testbed.cluster.members import Member, cannot_start, how_it_ended, launch, roles
from testbed.cluster.metrics.discovery import TargetGroup
from testbed.cluster.snapshot import Theory
from testbed.core.messages import VERSION, ProtocolError
from testbed.core.records import Measurements
from testbed.scenario import resolved

if TYPE_CHECKING:
    from testbed.scenario import Scenario

READY_SECONDS = 30.0  # for a process to come up, beside PER_PROCESS_SECONDS for each one of the cluster
PER_PROCESS_SECONDS = 3.0
REPORT_SECONDS = 30.0
START_IN_SECONDS = 0.1
GRACE_SECONDS = 5.0  # that a process may be behind the others when the run's time is over
OBSERVE_SECONDS = 0.2

#: Prometheus reads once a minute unless it is told otherwise.
HOLD_SECONDS = 65.0


class ClusterError(Exception):
    """The cluster could not be started."""


class Controller:
    """One run of one variant on a cluster of processes of this machine.

    ``labels`` are put on the series of its metrics, beside which ``theory`` is shown. In the end the processes wait up
    to ``hold`` seconds until their last metrics have been read; by default HOLD_SECONDS if Prometheus has read them
    before, and else not at all. ``announce`` is told of it; before that, ``save`` is given what was measured, for
    whoever runs this may be killed while it waits.
    ``observe`` is called with the controller about four times a second while the run goes on. ``stop()`` ends the run
    early, from any thread of control within trio: arrivals stop, and what was measured is returned. ``records`` keeps
    the records; in memory by default. ``logs`` is the folder of the processes' logs; by default a temporary one.
    """

    def __init__(
        self,
        scenario: Scenario,
        replication: int,
        *,
        labels: dict[str, str],
        theory: Theory | None = None,
        hold: float | None = None,
        save: Callable[[Measurements], Awaitable[None]] | None = None,
        announce: Callable[[str], object] = lambda text: None,
        observe: Callable[[Controller], object] = lambda controller: None,
        records: Records | None = None,
        logs: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self.members: list[Member] = []
        self.failure: str | None = None
        self.incidents: list[str] = []
        self.started = False
        self.interrupted = False
        self.rejected = 0  # connections from strangers
        self._labels = labels
        self._theory = theory
        self._grace = hold
        self._save = save
        self._announce = announce
        self._replication = replication
        self._observe = observe
        self._token = secrets.token_hex(16)
        self._folder = Path()
        self._changed = trio.Event()
        self._finishing = False
        self._records: Records = records or RecordsInMemory()
        self._logs = logs
        self._address: Address = ""
        self._nursery: trio.Nursery

    # --- what an observer may ask ---

    @property
    def progress(self) -> list[Progress]:
        """The last word of each process that has given one."""
        return [member.progress for member in self.members if member.progress is not None]

    def metrics_targets(self) -> list[TargetGroup]:
        """Return where each process's /metrics are, and the labels of its series."""
        return [
            TargetGroup(
                [f"127.0.0.1:{member.ready.metrics_port}"],
                {
                    "job": "testbed",
                    **self._labels,
                    "policy": self.scenario.dispatch.policy,
                    "process": member.name,
                },
            )
            for member in self.members
            if member.ready is not None
        ]

    def stop(self) -> None:
        """End the run now and keep what was measured."""
        self.interrupted = True
        self._notify()

    # --- the run ---

    async def run(self) -> Measurements:
        """Run the variant. Raises ClusterError when the cluster does not come up.

        What it returns is empty when the run was stopped before it began (``started`` is false).
        """
        self._folder = Path(tempfile.mkdtemp(prefix="testbed-"))
        try:
            async with trio.open_nursery() as nursery:
                self._nursery = nursery
                listener, self._address = self._listen()
                nursery.start_soon(take_newcomers, listener, nursery, self._serve)
                try:
                    await self._start_processes()
                    await self._bring_up()
                    if not self._over():
                        await self._watch()
                    if self.started:
                        await self._collect()
                    measurements = self._measurements()
                    if self.started:
                        if self._save is not None:
                            await self._save(measurements)
                        await self._hold()
                finally:
                    self._finishing = True
                    for member in self.members:
                        if member.process.returncode is None:
                            member.process.kill()
                    nursery.cancel_scope.cancel()
                    listener.close()
            return measurements
        finally:
            with trio.CancelScope(shield=True):
                for member in self.members:
                    await member.process.wait()
            shutil.rmtree(self._folder, ignore_errors=True)

    def _measurements(self) -> Measurements:
        return collect(
            self.members,
            self.scenario,
            self._records,
            until=self._until_time(),
            strangers=self.rejected,
            failure=self.failure,
            incidents=self.incidents,
        )

    def _listen(self) -> tuple[socket.socket, Address]:
        try:
            return listen(self.scenario.cluster.transport, self._folder, "controller")
        except OSError as error:
            raise ClusterError(
                f"cannot listen in {self._folder}: {error.strerror or error}; set TMPDIR to a folder with a short path "
                'on a local disk, or use cluster.transport = "tcp"'
            ) from None

    def _until_time(self) -> float:
        """Return when arrivals stop, unless the run ends sooner."""
        return self.scenario.horizon

    async def _start_processes(self) -> None:
        for number, role in enumerate(roles(self.scenario)):
            if self._over():
                return
            try:
                member = await launch(number, role, self._logs or self._folder, self._address, self._token)
            except OSError as error:
                raise ClusterError(cannot_start(role.name, error)) from None
            self.members.append(member)
            self._nursery.start_soon(self._supervise, member)

    async def _supervise(self, member: Member) -> None:
        code = await member.process.wait()
        # A process ends as soon as it has sent its report, which may still be unread then.
        if member.channel is not None:
            await member.heard_out.wait()
        member.ended = True
        self._notify()
        if self._finishing or member.report is not None:
            return
        await self._died(member, how_it_ended(code))

    async def _died(self, member: Member, how: str) -> None:
        """Go on without a process, where that can be, or end."""
        if self.started and member.servers is not None and self.scenario.cluster.on_failure == "redispatch":
            at = max((word.time for word in self.progress), default=0.0)
            self.incidents.append(f"process {member.name} {how} at time {at:.1f}; the run went on without its servers")
            if all(other.process.returncode is not None for other in self.members if other.servers is not None):
                self._fail("all node processes have died")
            self._notify()
            return
        self._fail(f"process {member.name} {how}. Its last lines:{member.last_lines()}")

    def _fail(self, why: str) -> None:
        if self.failure is None:
            self.failure = why
        self._notify()

    async def _serve(self, sock: socket.socket) -> None:
        """Talk with one process, whichever says Hello here."""
        member: Member | None = None
        channel = Channel(trio.SocketStream(trio.socket.from_stdlib_socket(sock)), FROM_PROCESS)
        try:
            hello = await hear_newcomer(sock)
            if hello is None or hello.token != self._token or not 0 <= hello.process < len(self.members):
                self.rejected += 1
                return
            member = self.members[hello.process]
            if hello.version != VERSION:
                self._fail(f"process {member.name} speaks protocol version {hello.version}, this is {VERSION}")
                return
            member.channel = channel
            await channel.send(self._setup(member))
            while (message := await channel.receive()) is not None:
                self._note(member, message)
        except (ProtocolError, trio.BrokenResourceError) as error:
            if member is not None and not self._finishing:
                self._fail(f"the control connection of process {member.name} broke: {error}")
        finally:
            if member is not None:
                member.heard_out.set()
            await channel.aclose()

    def _setup(self, member: Member) -> Setup:
        return Setup(
            name=member.name,
            scenario=resolved(self.scenario),
            replication=self._replication,
            dispatcher=member.dispatcher,
            servers=member.servers,
            pools=member.pools,
            folder=str(self._folder),
            theory=self._theory if member.dispatcher == 0 else None,
            restarts=member.restarts,
            lost=member.lost,
        )

    def _note(self, member: Member, message: FromProcess) -> None:
        if isinstance(message, Ready):
            member.ready = message
        elif isinstance(message, Linked):
            member.linked = True
        elif isinstance(message, Progress):
            member.progress = message
            member.keep_records(self._records)
        elif isinstance(message, control.Records):
            member.uncounted.append(message)
        elif isinstance(message, Events):
            member.events.extend(message.events)
        elif isinstance(message, Report):
            member.report = message
            member.keep_records(self._records)
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = trio.Event()

    def _over(self) -> bool:
        return self.interrupted or self.failure is not None

    async def _until(self, condition: Callable[[], bool]) -> None:
        """Wait until ``condition()`` holds or the run is over."""
        while not (condition() or self._over()):
            await self._changed.wait()

    async def _bring_up(self) -> None:
        seconds = READY_SECONDS + PER_PROCESS_SECONDS * len(self.members)
        with trio.move_on_after(seconds) as scope:
            await self._until(lambda: all(member.ready is not None for member in self.members))
            if not self._over():
                listening = {member: member.ready.address for member in self.members if member.ready is not None}
                await self._tell_all(
                    Peers(
                        nodes={m.number: address for m, address in listening.items() if m.servers is not None},
                        pools={m.number: address for m, address in listening.items() if m.pools},
                    )
                )
                await self._until(lambda: all(member.linked for member in self.members))
        if scope.cancelled_caught:
            silent = [member.name for member in self.members if member.ready is None]
            late = ", ".join(silent or [member.name for member in self.members if not member.linked])
            raise ClusterError(f"not ready after {seconds:.0f} s: {late}; is this machine overloaded?")
        if self.failure is not None:
            raise ClusterError(self.failure)

    async def _watch(self) -> None:
        """Start the run and wait for its end: no more arrivals, and no job left or the drain time over.

        Times are those of the processes, which begin a little later than the controller, each on its own clock: every
        one has to see the horizon, where servers close their last slice of time.
        """
        await self._tell_all(Start(time.monotonic() + START_IN_SECONDS))
        self.started = True
        scenario = self.scenario
        unit = scenario.run.time_unit_seconds
        dispatchers = [member for member in self.members if member.dispatcher is not None]
        next_look = 0.0

        def ended() -> bool:
            nonlocal next_look
            if trio.current_time() >= next_look:
                next_look = trio.current_time() + OBSERVE_SECONDS
                self._observe(self)
            alive = [member for member in self.members if member.process.returncode is None]
            reached = min((member.progress.time if member.progress else 0.0 for member in alive), default=0.0)
            drained = all(
                word is not None and word.arrivals_over and not (word.in_system or word.closing)
                for word in (member.progress for member in dispatchers)
            )
            return reached >= scenario.horizon + (0.0 if drained else scenario.drain)

        with trio.move_on_after((scenario.horizon + scenario.drain) * unit + GRACE_SECONDS):
            await self._until(ended)
        self._observe(self)

    async def _tell_all(self, message: msgspec.Struct) -> None:
        for member in self.members:
            await self._tell(member, message)

    async def _tell(self, member: Member, message: msgspec.Struct) -> None:
        if member.channel is not None and member.process.returncode is None:
            # Where it is gone the supervisor says what became of it.
            with contextlib.suppress(trio.BrokenResourceError, trio.ClosedResourceError):
                await member.channel.send(message)

    async def _collect(self) -> None:
        """Have all processes that are left report, and wait for them."""
        dead = [member for member in self.members if member.process.returncode is not None]
        lost = [member.servers for member in dead if member.servers is not None]
        await self._tell_all(Finish(lost, hold=None if self._grace is None else self._grace > 0))
        with trio.move_on_after(REPORT_SECONDS) as scope:
            while any(member.report is None and not member.ended for member in self.members):
                await self._changed.wait()
        if scope.cancelled_caught:
            silent = ", ".join(member.name for member in self.members if member.report is None)
            self._fail(f"no report after {REPORT_SECONDS:.0f} s from {silent}")

    async def _hold(self) -> None:
        """Wait until the last metrics of the processes have been read: until those that are held have ended."""
        held = [member for member in self.members if member.report is not None and member.report.held]
        if not held or self.interrupted:
            return
        seconds = HOLD_SECONDS if self._grace is None else self._grace
        self._announce(f"the last metrics wait up to {seconds:g} s for Prometheus to read them (Ctrl-C: no longer)")
        began = trio.current_time()
        with trio.move_on_after(seconds):
            while not self.interrupted and any(not member.ended for member in held):
                await self._changed.wait()
        unread = ", ".join(member.name for member in held if not member.ended)
        self._announce(
            f"the last metrics were not read: {unread}"
            if unread
            else f"the last metrics were read after {trio.current_time() - began:.1f} s"
        )
