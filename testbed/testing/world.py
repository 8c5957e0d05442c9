"""A small system on the virtual runtime, with messages that are slow and a server that may die."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from dispatchers.dispatcher import Dispatcher
from servers.copy_server import CopyServer
from servers.slot_reserving_server import SlotReservingServer
from testbed.core.records import JobRecords, Occupancy
from testbed.core.streams import generator
from testbed.runtime.delay import Delay
from testbed.runtime.virtual import VirtualRuntime
from testbed.scenario.modes import MODES, Mode
from testbed.testing.systems import SPEEDS, System
from testbed.testing.watched import WATCHED, Grave, Trial, Watched, WatchedEnvironment, watched_dispatcher

PATIENCE = 1000.0  # time units after the last service could have ended; a job still not placed then counts as lost


def simulate(trial: Trial, system: System, silent: frozenset[int], records: JobRecords) -> list[Dispatcher]:
    """Run the trial's policy in a system whose ``silent`` servers never reply to a probe; return the dispatchers."""
    low, high = system.delay or (0.0, 0.0)

    def delays(rng: np.random.Generator, count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return rng.uniform(low, high, count)

    delay = Delay(delays, generator(system.seed, 0, "message delay")) if system.delay else None
    runtime = VirtualRuntime(system.seed, delay=delay)
    env = WatchedEnvironment(runtime, trial)
    dispatchers = [
        watched_dispatcher(env, system.servers + index, index, trial, records) for index in range(system.dispatchers)
    ]
    addresses = [dispatcher.address for dispatcher in dispatchers]
    server_class = WATCHED[MODES[trial.mode].server]
    meter = Occupancy()
    servers: list[Watched] = []
    for address in range(system.servers):
        server = server_class(
            runtime,
            address,
            speeds=SPEEDS,
            meter=meter,
            idle_report_to=addresses if trial.policy.idle_reports else [],
            dispatchers=addresses if trial.repeats else [],
            **({"buffer": trial.buffer} if trial.mode in (Mode.DIRECT, Mode.SLOT_RESERVATION) else {}),
        )
        server.trial = trial
        server.silent = address in silent
        servers.append(server)
        runtime.add(server)
    for dispatcher in dispatchers:
        runtime.add(dispatcher)
    runtime.start()
    if trial.repeats and system.dies is not None:
        _schedule_death(runtime, system.dies[0], servers, servers[system.dies[1] % system.servers], dispatchers, high)
    when = work = 0.0
    for number, job in enumerate(system.jobs):
        when += job.gap
        work += sum(job.sizes) / SPEEDS[job.job_type]
        dispatcher = dispatchers[job.dispatcher % system.dispatchers]
        sizes = (job.sizes * trial.most_copies)[: trial.most_copies] if trial.mode is Mode.COPIES else job.sizes
        runtime.call_at(when, partial(dispatcher.arrive, number, job.job_type, sizes))
    timeout = getattr(trial.parameters, "timeout", None) or 0.0
    runtime.run(when + work + timeout + PATIENCE)
    for server in servers:
        if isinstance(server, SlotReservingServer) and server.reserved and not server.dead:
            raise trial.broken("leaves slots reserved in the end")
        if isinstance(server, CopyServer) and not server.dead and (server.queue_length or server.cancelled_ahead):
            raise trial.broken("leaves copies, or cancellations of copies that never came, in the end")
    return dispatchers


def _schedule_death(
    runtime: VirtualRuntime,
    when: float,
    servers: list[Watched],
    dying: Watched,
    dispatchers: list[Dispatcher],
    longest_delay: float,
) -> None:
    address = dying.address

    def die() -> None:
        dying.dead = True
        runtime.add(Grave(address))

    def notice() -> None:
        for agent in (*(server for server in servers if server is not dying), *dispatchers):
            agent.on_down(address, address)

    runtime.call_at(when, die)
    # On a connection its end comes after all that was sent on it; messages that leave at one time come in any order.
    runtime.call_at(when + longest_delay + 1e-9, notice)
