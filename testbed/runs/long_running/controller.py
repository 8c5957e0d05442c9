"""The controller of a cluster that stands until it is told to go.

Beside what every controller does it looks after its processes. One that dies is started again, with the same agents at
the same addresses:

* a node's servers come back empty. Dispatchers have dispatched again what these had (dispatchers.recovery), and use
  them again as soon as they are connected;
* a dispatcher goes on with its arrivals from then on. The jobs that it had are lost with it, and counted; their tasks
  are served to their end, for nobody.

Where a dispatcher's death leaves something at servers that only it could take away (places held, reservations, copies,
jobs in central queues) the cluster ends, and so it does when a process dies again and again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import trio

from testbed.cluster.collected import Records
from testbed.cluster.control import Change, Drain, FromProcess, Pace, Peers, Setup, Start
from testbed.cluster.controller import OBSERVE_SECONDS, READY_SECONDS, START_IN_SECONDS, Controller
from testbed.cluster.members import Member, cannot_start, open_process
from testbed.cluster.snapshot import Theory
from testbed.core.records import Measurements
from testbed.scenario import resolved
from testbed.scenario.modes import traits_of

if TYPE_CHECKING:
    from testbed.scenario import Scenario

MOST_RESTARTS = 5  # of one process within RESTART_SECONDS: it would die again
RESTART_SECONDS = 60.0
LEAD_SECONDS = 0.5  # from a change to when it holds: every process has heard of it by then
MOST_INCIDENTS = 100
MOST_EVENTS = 100_000  # of traced jobs, by process


class LongRunningController(Controller):
    """Runs a scenario's cluster until ``drain`` or ``stop``; see Controller for the arguments."""

    def __init__(
        self,
        scenario: Scenario,
        *,
        labels: dict[str, str],
        theory: Theory,
        save: Callable[[Measurements], Awaitable[None]],
        announce: Callable[[str], object],
        observe: Callable[[Controller], object],
        records: Records,
        logs: Path,
    ) -> None:
        super().__init__(
            scenario,
            0,
            labels=labels,
            theory=theory,
            save=save,
            announce=announce,
            observe=observe,
            records=records,
            logs=logs,
        )
        self.pace = Pace()
        self._workload = scenario  # whose streams all arrivals come from, at whatever pace
        self._origin = 0.0
        self._draining: float | None = None  # since this model time
        self._deaths: dict[int, deque[float]] = {}
        self._reviving = trio.Lock()

    @property
    def time(self) -> float:
        """The present model time."""
        return (time.monotonic() - self._origin) / self.scenario.run.time_unit_seconds if self._origin else 0.0

    # --- what it is told ---

    async def drain(self) -> None:
        """Stop arrivals; the run ends when no job is left, or after the scenario's drain time."""
        if not self.started:
            self.stop()
        elif self._draining is None:
            self._draining = self.time
            await self._tell_all(Drain())

    async def change(self, scenario: Scenario, theory: Theory) -> float:
        """Have the cluster go on with the load and the policy of ``scenario``; return the model time when it does.

        ``theory`` is what its metrics are shown beside from now on.
        """
        at = self.time + LEAD_SECONDS / scenario.run.time_unit_seconds
        pace = policy = None
        if scenario.rate != self.scenario.rate:
            stretch = self._workload.rate / scenario.rate
            self.pace = pace = Pace(at, self.pace.stream_time(at), stretch)
        if scenario.dispatch != self.scenario.dispatch:
            policy = resolved(scenario)
        self.scenario, self._theory = scenario, theory
        await self._tell_all(Change(at, theory, pace, policy))
        return at

    # --- the run ---

    def _setup(self, member: Member) -> Setup:
        # The streams are those of the scenario as it was, which the pace refers to.
        workload = {"load": self._workload.workload.load, "rate": self._workload.workload.rate}
        scenario = msgspec.structs.replace(
            self.scenario, workload=msgspec.structs.replace(self.scenario.workload, **workload)
        )
        return msgspec.structs.replace(super()._setup(member), scenario=resolved(scenario), standing=self.pace)

    def _note(self, member: Member, message: FromProcess) -> None:
        super()._note(member, message)
        del member.events[:-MOST_EVENTS]

    async def _watch(self) -> None:
        self._origin = time.monotonic() + START_IN_SECONDS
        await self._tell_all(Start(self._origin))
        self.started = True
        next_look = 0.0

        def ended() -> bool:
            nonlocal next_look
            if trio.current_time() >= next_look:
                next_look = trio.current_time() + OBSERVE_SECONDS
                self._observe(self)
            if self._draining is None:
                return False
            words = [member.progress for member in self.members if member.dispatcher is not None]
            drained = all(
                word is not None and word.arrivals_over and not (word.in_system or word.closing) for word in words
            )
            return drained or self.time > self._draining + self.scenario.drain

        await self._until(ended)
        self._observe(self)

    def _until_time(self) -> float:
        return self.time if self._draining is None else self._draining

    # --- deaths ---

    async def _died(self, member: Member, how: str) -> None:
        if not self.started or self._draining is not None:
            self._fail(f"process {member.name} {how}. Its last lines:{member.last_lines()}")
            return
        why = self._hopeless(member)
        if why is not None:
            self._fail(f"process {member.name} {how}: {why}. Its last lines:{member.last_lines()}")
            return
        lost = member.unsent()
        what = f"; {lost} jobs were lost with it" if member.dispatcher is not None else ""
        self.incidents.append(f"process {member.name} {how} at time {self.time:.1f}{what}; it is started again")
        self._announce(self.incidents[-1])
        del self.incidents[:-MOST_INCIDENTS]
        member.bury()
        member.restarts += 1
        self._notify()
        async with self._reviving:
            if not self._over() and not self._finishing:
                await self._revive(member)

    def _hopeless(self, member: Member) -> str | None:
        """Return why the cluster can't go on after the death of a process, or None."""
        deaths = self._deaths.setdefault(member.number, deque(maxlen=MOST_RESTARTS))
        if len(deaths) == MOST_RESTARTS and deaths[0] > trio.current_time() - RESTART_SECONDS:
            return f"it has died {MOST_RESTARTS + 1} times within {RESTART_SECONDS:.0f} s"
        deaths.append(trio.current_time())
        if member.pools:
            return "the jobs in central queues are gone with it"
        if member.dispatcher is not None and traits_of(self.scenario).binds_servers:
            return "servers hold for it what only it can take away"
        if member.servers is not None and all(
            other.process.returncode is not None for other in self.members if other.servers is not None
        ):
            return "all node processes have died"
        return None

    async def _revive(self, member: Member) -> None:
        """Start a process again, and have the others connect to it."""
        try:
            member.process = await open_process(member.number, member.name, member.log, self._address, self._token)
        except OSError as error:
            member.ended = True
            self._fail(cannot_start(member.name, error))
            return
        self._nursery.start_soon(self._supervise, member)
        with trio.move_on_after(READY_SECONDS) as scope:
            await self._until_alive(member, lambda: member.ready is not None)
            if member.ready is None or member.channel is None:
                return
            nodes = {
                other.number: other.ready.address
                for other in self.members
                if other.servers is not None and other.ready is not None and other.process.returncode is None
            }
            pools = {other.number: other.ready.address for other in self.members if other.pools and other.ready}
            await self._tell(member, Peers(nodes, pools))
            await self._until_alive(member, lambda: member.linked)
            await self._tell(member, Start(self._origin, max(0.0, self.time)))
            if member.servers is not None:
                news = Peers({member.number: member.ready.address}, {})
                for other in self.members:
                    if other is not member and other.linked:
                        await self._tell(other, news)
        if scope.cancelled_caught:
            self._fail(f"process {member.name} did not come up again within {READY_SECONDS:.0f} s")

    async def _until_alive(self, member: Member, condition: Callable[[], bool]) -> None:
        await self._until(lambda: condition() or member.process.returncode is not None)
