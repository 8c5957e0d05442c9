"""The controller: runs one scenario on a cluster of processes of this machine, and collects what they measured.

How long the run goes on, and what the death of a process means, is up to its lifetime (testbed.cluster.lifetime). A
failure names the process, how it ended and the last lines that it wrote.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from testbed.cluster.collected import Records, RecordsInMemory, collect
from testbed.cluster.control import Finish, FromProcess, Progress, Setup, Start
from testbed.cluster.lifetime import Lifetime, UntilHorizon
from testbed.cluster.members import Member
from testbed.cluster.metrics.discovery import TargetGroup
from testbed.cluster.processes import Processes
from testbed.cluster.snapshot import Theory
from testbed.core.records import Measurements
from testbed.scenario import resolved

if TYPE_CHECKING:
    from testbed.scenario import Scenario

REPORT_SECONDS = 30.0
START_IN_SECONDS = 0.1
OBSERVE_SECONDS = 0.2

#: Prometheus reads once a minute unless it is configured otherwise.
HOLD_SECONDS = 65.0


class Controller:
    """One run of a scenario without variants.

    ``labels`` are put on the series of its metrics, next to which ``theory`` is shown. ``lifetime`` decides when the
    run is over, by default at the scenario's horizon. At the end the processes wait up to ``hold`` seconds until their
    last metrics have been read; by default HOLD_SECONDS if Prometheus has read them before, otherwise not at all.
    ``announce`` is given lines about that; ``save`` is given the measurements before, because whoever runs this may be
    killed while it waits. ``observe`` is called with the controller about four times a second while the run goes on.
    ``records`` keeps the records; in memory by default. ``logs`` is the folder of the processes' logs; by default a
    temporary one.
    """

    def __init__(
        self,
        scenario: Scenario,
        replication: int,
        *,
        labels: dict[str, str],
        theory: Theory | None = None,
        lifetime: Lifetime | None = None,
        hold: float | None = None,
        save: Callable[[Measurements], Awaitable[None]] | None = None,
        announce: Callable[[str], object] = lambda text: None,
        observe: Callable[[Controller], object] = lambda controller: None,
        records: Records | None = None,
        logs: Path | None = None,
    ) -> None:
        self.scenario = scenario
        self.theory = theory
        self.incidents: list[str] = []
        self.started = False
        self.origin = 0.0  # time 0 on the monotonic clock
        self.processes = Processes(scenario, logs, setup=self._setup, received=self._received, died=self._died)
        self._replication = replication
        self._labels = labels
        self._lifetime: Lifetime = lifetime or UntilHorizon()
        self._hold = hold
        self._save = save
        self._announce = announce
        self._observe = observe
        self._records: Records = records or RecordsInMemory()

    # --- its state ---

    @property
    def members(self) -> list[Member]:
        """The processes."""
        return self.processes.members

    @property
    def failure(self) -> str | None:
        """What went wrong, if anything did."""
        return self.processes.failure

    @property
    def progress(self) -> list[Progress]:
        """The latest progress report of each process that has sent one."""
        return [member.progress for member in self.members if member.progress is not None]

    @property
    def time(self) -> float:
        """The present model time; 0 before the start."""
        return (time.monotonic() - self.origin) / self.scenario.run.time_unit_seconds if self.origin else 0.0

    @property
    def drained(self) -> bool:
        """Whether no job arrives any more and none is left, by the dispatchers' latest reports."""
        latest = [member.progress for member in self.members if member.dispatcher is not None]
        return all(
            report is not None and report.arrivals_over and not (report.in_system or report.awaiting_cancellation)
            for report in latest
        )

    @property
    def all_nodes_dead(self) -> bool:
        """Whether no process with servers is alive."""
        return not any(member.alive for member in self.members if member.servers is not None)

    def metrics_targets(self) -> list[TargetGroup]:
        """Return where each process's /metrics are, and the labels of its series."""
        policy = self.scenario.dispatch.policy
        return [
            TargetGroup(
                [f"127.0.0.1:{member.ready.metrics_port}"],
                {"job": "testbed", **self._labels, "policy": policy, "process": member.name},
            )
            for member in self.members
            if member.ready is not None
        ]

    # --- the run ---

    def stop(self) -> None:
        """End the run now and keep what was measured. Call it from within trio."""
        self.processes.interrupted = True
        self.processes.notify()

    async def run(self) -> Measurements:
        """Run the scenario. Raises ClusterError when the cluster does not come up.

        The result is empty when the run was stopped before it began (``started`` is false).
        """
        async with self.processes.opened():
            await self.processes.start()
            if not self.processes.over:
                await self._watch()
            if self.started:
                await self._have_reports()
            measurements = collect(
                self.members,
                self.scenario,
                self._records,
                until=self._lifetime.arrivals_end(self),
                rejected=self.processes.rejected,
                failure=self.failure,
                incidents=self.incidents,
            )
            if self.started:
                if self._save is not None:
                    await self._save(measurements)
                await self._hold_metrics()
        return measurements

    async def _watch(self) -> None:
        """Start the run and wait for its end."""
        self.origin = time.monotonic() + START_IN_SECONDS
        await self.processes.send_all(Start(self.origin))
        self.started = True
        observe_at = 0.0

        def is_over() -> bool:
            nonlocal observe_at
            if trio.current_time() >= observe_at:
                observe_at = trio.current_time() + OBSERVE_SECONDS
                self._observe(self)
            return self._lifetime.is_over(self)

        with trio.move_on_after(self._lifetime.longest(self.scenario)):
            await self.processes.until(is_over)
        self._observe(self)

    async def _have_reports(self) -> None:
        """Have all processes that are left report, and wait for the reports."""
        down = [member.servers for member in self.members if not member.alive and member.servers is not None]
        await self.processes.send_all(Finish(down, hold=None if self._hold is None else self._hold > 0))
        with trio.move_on_after(REPORT_SECONDS) as scope:
            while any(member.report is None and not member.ended for member in self.members):
                await self.processes.wait()
        if scope.cancelled_caught:
            silent = ", ".join(member.name for member in self.members if member.report is None)
            self.processes.fail(f"no report after {REPORT_SECONDS:.0f} s from {silent}")

    async def _hold_metrics(self) -> None:
        """Wait until the last metrics have been read: the processes that hold them end then."""
        holding = [member for member in self.members if member.report is not None and member.report.held]
        if not holding or self.processes.interrupted:
            return
        seconds = HOLD_SECONDS if self._hold is None else self._hold
        self._announce(f"the last metrics wait up to {seconds:g} s for Prometheus to read them (Ctrl-C: no longer)")
        began = trio.current_time()
        with trio.move_on_after(seconds):
            while not self.processes.interrupted and any(not member.ended for member in holding):
                await self.processes.wait()
        unread = ", ".join(member.name for member in holding if not member.ended)
        self._announce(
            f"the last metrics were not read: {unread}"
            if unread
            else f"the last metrics were read after {trio.current_time() - began:.1f} s"
        )

    # --- what the processes ask for and report ---

    def _setup(self, member: Member) -> Setup:
        setup = Setup(
            name=member.name,
            scenario=resolved(self.scenario),
            replication=self._replication,
            dispatcher=member.dispatcher,
            servers=member.servers,
            pools=member.pools,
            folder=str(self.processes.folder),
            theory=self.theory if member.dispatcher == 0 else None,
            restarts=member.restarts,
            lost=member.lost,
        )
        return self._lifetime.setup(self, setup)

    def _received(self, member: Member, message: FromProcess) -> None:
        member.take(message, self._records)
        del member.events[: -self._lifetime.most_events]

    async def _died(self, member: Member, how: str) -> None:
        await self._lifetime.died(self, member, how)
