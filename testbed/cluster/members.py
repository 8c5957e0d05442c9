"""The processes of a cluster as its controller sees them: which they are, how they start, what they have said."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import trio

from testbed.cluster.connecting import Address
from testbed.cluster.control import CONTROL_ENV, Channel, FromProcess, Progress, Ready, Records, Report
from testbed.tracing.recorder import TraceEvent

if TYPE_CHECKING:
    from testbed.scenario import Scenario

LAST_LINES = 8


class Role(NamedTuple):
    """What a process is: a dispatcher's, a node with servers from the first to before the last, or the pool agent's."""

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
    records: list[Records] = field(default_factory=list)
    events: list[TraceEvent] = field(default_factory=list)
    report: Report | None = None
    heard_out: trio.Event = field(default_factory=trio.Event)  # all that it sent has been read
    ended: bool = False  # as a process, and heard out

    def last_lines(self) -> str:
        """Return the last lines that the process wrote."""
        lines = self.log.read_text(errors="replace").splitlines()[-LAST_LINES:]
        return "".join(f"\n    {line}" for line in lines) if lines else " It wrote nothing."


def node_ranges(servers: int, nodes: int) -> list[tuple[int, int]]:
    """Split servers 0..servers-1 over ``nodes`` processes as evenly as can be: a range (first, last + 1) for each."""
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


async def launch(number: int, role: Role, folder: Path, address: Address, token: str) -> Member:
    """Start a process, which writes its log into ``folder``; ``address`` is the controller's, ``token`` the secret."""
    control = msgspec.json.encode((address, token, number)).decode()
    log = folder / f"{role.name}.log"
    # Numerical libraries would start a thread per core in every process.
    threads = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with log.open("wb") as output:
        process = await trio.lowlevel.open_process(
            # -P: a file in the user's folder that is called like a module must not be taken for it. The name is
            # for those who look at a list of processes.
            [sys.executable, "-P", "-m", "testbed.cluster.process", role.name],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **threads, CONTROL_ENV: control},
            process_group=0,  # Ctrl-C in a terminal is for the controller
        )
    return Member(number, *role, process, log)
