"""The processes of a cluster as its controller sees them: their roles, how they start, what they have reported."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import numpy as np
import trio

from testbed.cluster.connecting import Address
from testbed.cluster.control import (
    CONTROL_ENV,
    Channel,
    Events,
    FromProcess,
    Linked,
    Progress,
    Ready,
    Records,
    Report,
)
from testbed.core.outcomes import JobOutcome
from testbed.core.records import TABLES, row_type
from testbed.core.trace_recorder import TraceEvent

if TYPE_CHECKING:
    from testbed.cluster import collected
    from testbed.scenario import Scenario

LAST_LINES = 8


class Role(NamedTuple):
    """What a process hosts: a dispatcher, the servers of a range of addresses (a node), or the pool agent."""

    name: str
    dispatcher: int | None = None
    servers: tuple[int, int] | None = None
    pools: bool = False


@dataclass(eq=False)
class Member:
    """A process of the cluster, as the controller sees it."""

    number: int
    name: str
    dispatcher: int | None
    servers: tuple[int, int] | None
    pools: bool
    process: trio.Process
    log: Path
    channel: Channel[FromProcess] | None = None
    ready: Ready | None = None
    linked: bool = False
    progress: Progress | None = None
    uncounted: list[Records] = field(default_factory=list)  # received since its latest report
    recorded: int = 0  # jobs whose record is kept
    events: list[TraceEvent] = field(default_factory=list)
    report: Report | None = None
    all_read: trio.Event = field(default_factory=trio.Event)  # all that it has sent, until its connection ended
    ended: bool = False  # the process, and all that it sent has been read
    restarts: int = 0
    earlier: Progress | None = None  # the totals of its earlier lives
    lost: int = 0  # jobs that were in the system when these ended, or whose record was not sent

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self.process.returncode is None

    @property
    def totals(self) -> Progress | None:
        """Its latest progress report, with the totals of earlier lives."""
        if self.earlier is None or self.progress is None:
            return self.progress or self.earlier
        return added_up(self.earlier, self.progress)

    def take(self, message: FromProcess, records: collected.Records) -> None:
        """Note a message of the process; ``records`` keeps those of the run."""
        if isinstance(message, Ready):
            self.ready = message
        elif isinstance(message, Linked):
            self.linked = True
        elif isinstance(message, Records):
            self.uncounted.append(message)
        elif isinstance(message, Events):
            self.events.extend(message.events)
        elif isinstance(message, Progress):
            self.progress = message
            self._keep_counted(records)
        elif isinstance(message, Report):
            self.report = message
            self._keep_counted(records)

    def _keep_counted(self, records: collected.Records) -> None:
        """Keep the records that its latest report covers."""
        for message in self.uncounted:
            rows = np.frombuffer(message.rows, dtype=row_type(TABLES[message.table]))
            records.add(message.table, rows)
            if message.table == "jobs":
                self.recorded += len(rows)
        self.uncounted.clear()

    def unsent(self) -> int:
        """Return the jobs of a dispatcher that had arrived at its latest progress report, and have no record."""
        return self.progress.arrived - self.recorded if self.progress is not None else 0

    def end_life(self) -> None:
        """Add a dead process's totals to those of earlier lives; the member is then as before the process started."""
        totals, lost = self.totals, self.unsent()
        if totals is not None:
            outcomes = list(totals.outcomes)
            if lost:
                outcomes[JobOutcome.LOST] += lost
            self.earlier = msgspec.structs.replace(
                totals,
                ended=totals.ended + lost,
                in_system=0,
                awaiting_cancellation=0,
                outcomes=outcomes,
                queue_lengths=b"",
                cpu_share=0.0,
            )
        self.lost += lost
        self.recorded = 0
        self.uncounted.clear()
        self.channel = self.ready = self.progress = self.report = None
        self.linked = self.ended = False
        self.all_read = trio.Event()

    def last_lines(self) -> str:
        """Return the last lines that the process wrote."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n    {line}" for line in lines) if lines else " It wrote nothing."


def node_ranges(servers: int, nodes: int) -> list[tuple[int, int]]:
    """Split servers 0..servers-1 as evenly as possible over ``nodes`` processes: a range (first, last + 1) for each."""
    return [(servers * i // nodes, servers * (i + 1) // nodes) for i in range(nodes)]


def node_count(scenario: Scenario) -> int:
    """Return how many node processes the scenario asks for; by default one per core."""
    nodes = scenario.cluster.nodes
    if nodes == "per-server":
        return scenario.servers
    return min(nodes or os.cpu_count() or 1, scenario.servers)


def roles(scenario: Scenario) -> list[Role]:
    """Return the processes of the scenario's cluster: those of the dispatchers, the nodes, and the pool agent's."""
    dispatchers = [Role(f"dispatcher-{i}", dispatcher=i) for i in range(scenario.cluster.dispatchers)]
    ranges = node_ranges(scenario.servers, node_count(scenario))
    nodes = [Role(f"node-{i}", servers=servers) for i, servers in enumerate(ranges)]
    return [*dispatchers, *nodes, *([Role("pools", pools=True)] if scenario.central_pools else [])]


def added_up(first: Progress, second: Progress) -> Progress:
    """Return the second report with the counts of both."""

    def each(one: list[int], other: list[int]) -> list[int]:
        return [a + b for a, b in zip(one, other, strict=True)] if one and other else one or other

    names = {**first.counters, **second.counters}
    return msgspec.structs.replace(
        second,
        arrived=first.arrived + second.arrived,
        ended=first.ended + second.ended,
        responses=each(first.responses, second.responses),
        response_sum=first.response_sum + second.response_sum,
        lag_sum=first.lag_sum + second.lag_sum,
        outcomes=each(first.outcomes, second.outcomes),
        counters={name: first.counters.get(name, 0) + second.counters.get(name, 0) for name in names},
    )


def how_it_ended(code: int) -> str:
    """Return how a process ended, by its return code as in ``subprocess``."""
    return f"was ended by signal {signal.Signals(-code).name}" if code < 0 else f"ended with exit status {code}"


def cannot_start(name: str, error: OSError) -> str:
    """Return why a process can't be started, and where to look."""
    return f"process {name} cannot be started: {error}; look at the limits of this shell (`ulimit -a`)"


async def launch(number: int, role: Role, logs: Path, address: Address, token: str) -> Member:
    """Start a process, which writes its log in ``logs``; ``address`` is the controller's, ``token`` the secret.

    Raises OSError.
    """
    log = logs / f"{role.name}.log"
    return Member(number, *role, await open_process(number, role.name, log, address, token), log)


async def open_process(number: int, name: str, log: Path, address: Address, token: str) -> trio.Process:
    """Start the process of a member. Raises OSError."""
    control = msgspec.json.encode((address, token, number)).decode()
    # Numerical libraries would start a thread per core in every process.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with log.open("ab") as output:
        return await trio.lowlevel.open_process(
            # -P: a file in the user's folder with the name of a module must not be imported instead of it. The name
            # is for people who read a list of processes.
            [sys.executable, "-P", "-m", "testbed.cluster.process", name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **threads, CONTROL_ENV: control},
            process_group=0,  # Ctrl-C in a terminal goes to the controller only
        )
