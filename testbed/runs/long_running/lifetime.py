"""The lifetime of a long-running cluster: until it is drained or stopped; its settings can be changed while it runs.

A process that dies is started again, with the same agents at the same addresses:

* a node's servers come back empty. Dispatchers have dispatched their tasks again (dispatchers.recovery), and use the
  servers again as soon as they are connected;
* a dispatcher goes on with its arrivals from then on. The jobs that it had are lost, and counted; their tasks are
  served to their end without effect.

The cluster ends where a dispatcher's death leaves something at servers that only this dispatcher could remove (reserved
slots, reservations, copies, jobs in central queues), and when a process dies again and again.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec
import trio

from testbed.cluster.control import Change, Drain, Pace, Setup, Start
from testbed.cluster.controller import Controller
from testbed.cluster.members import Member
from testbed.cluster.snapshot import Theory
from testbed.scenario import resolved
from testbed.scenario.modes import MODES, mode_of

if TYPE_CHECKING:
    from testbed.scenario import Scenario

MOST_RESTARTS = 5  # of one process within RESTART_SECONDS: it would die again
RESTART_SECONDS = 60.0
LEAD_SECONDS = 0.5  # from a change to when it holds: every process has received it by then
MOST_INCIDENTS = 100
MOST_EVENTS = 100_000  # of traced jobs, by process


class LongRunning:
    """The lifetime of a cluster that starts with ``scenario``; ``announce`` is given a line about each incident."""

    most_events = MOST_EVENTS

    def __init__(self, scenario: Scenario, announce: Callable[[str], object]) -> None:
        self._announce = announce
        self._first = scenario  # all arrivals come from its streams, at whatever pace
        self._pace = Pace()
        self._draining: float | None = None  # since this model time
        self._deaths: dict[int, deque[float]] = {}
        self._restarting = trio.Lock()

    async def drain(self, controller: Controller) -> None:
        """Stop arrivals; the run ends when no job is left, or after the scenario's drain time."""
        if not controller.started:
            controller.stop()
        elif self._draining is None:
            self._draining = controller.time
            await controller.processes.send_all(Drain())

    async def change(self, controller: Controller, scenario: Scenario, theory: Theory) -> float:
        """Have the cluster go on with the load and the policy of ``scenario``; return the model time of the change.

        ``theory`` is shown next to its metrics from now on.
        """
        at = controller.time + LEAD_SECONDS / scenario.run.time_unit_seconds
        pace = policy = None
        if scenario.rate != controller.scenario.rate:
            self._pace = pace = Pace(at, self._pace.stream_time(at), self._first.rate / scenario.rate)
        if scenario.dispatch != controller.scenario.dispatch:
            policy = resolved(scenario)
        controller.scenario = scenario
        controller.theory = theory
        await controller.processes.send_all(Change(at, theory, pace, policy))
        return at

    def setup(self, controller: Controller, setup: Setup) -> Setup:
        """Return the setup with the pace of arrivals and the first workload, to whose streams the pace refers."""
        first = self._first.workload
        workload = msgspec.structs.replace(controller.scenario.workload, load=first.load, rate=first.rate)
        scenario = msgspec.structs.replace(controller.scenario, workload=workload)
        return msgspec.structs.replace(setup, scenario=resolved(scenario), pace=self._pace)

    def longest(self, scenario: Scenario) -> float:
        """Return infinity: only ``drain`` and ``stop`` end the run."""
        return math.inf

    def is_over(self, controller: Controller) -> bool:
        """Return whether the cluster has drained, or the drain time is over."""
        if self._draining is None:
            return False
        return controller.drained or controller.time > self._draining + controller.scenario.drain

    def arrivals_end(self, controller: Controller) -> float:
        """Return when draining began; the present time if it has not begun."""
        return controller.time if self._draining is None else self._draining

    # --- deaths ---

    async def died(self, controller: Controller, member: Member, how: str) -> None:
        """Start the process again, or fail where the cluster can't go on."""
        processes = controller.processes
        may_restart = controller.started and self._draining is None
        fatal = self._fatal(controller, member) if may_restart else None
        if fatal is not None or not may_restart:
            why = "" if fatal is None else f": {fatal}"
            processes.fail(f"process {member.name} {how}{why}. Its last lines:{member.last_lines()}")
            return
        what = f"; {member.unsent()} jobs were lost with it" if member.dispatcher is not None else ""
        incident = f"process {member.name} {how} at time {controller.time:.1f}{what}; it is started again"
        controller.incidents.append(incident)
        self._announce(incident)
        del controller.incidents[:-MOST_INCIDENTS]
        member.end_life()
        member.restarts += 1
        processes.notify()
        async with self._restarting:
            if not processes.over and not processes.ending:
                await processes.restart(member, lambda: Start(controller.origin, max(0.0, controller.time)))

    def _fatal(self, controller: Controller, member: Member) -> str | None:
        """Return why the cluster can't go on after the death of a process, or None."""
        deaths = self._deaths.setdefault(member.number, deque(maxlen=MOST_RESTARTS))
        if len(deaths) == MOST_RESTARTS and deaths[0] > trio.current_time() - RESTART_SECONDS:
            return f"it has died {MOST_RESTARTS + 1} times within {RESTART_SECONDS:.0f} s"
        deaths.append(trio.current_time())
        if member.pools:
            return "the jobs in central queues are lost with it"
        if member.dispatcher is not None and MODES[mode_of(controller.scenario)].binds_servers:
            return "servers hold reservations or copies that only it can release"
        if member.servers is not None and controller.all_nodes_dead:
            return "all node processes have died"
        return None
