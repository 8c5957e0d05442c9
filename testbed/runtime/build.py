"""The agents of a scenario, built the same way for both runtimes.

Servers have addresses 0..N-1 in the order of the pools, dispatchers N..N+D-1, and the agent of the central queues N+D.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Final, cast

import numpy as np

from dispatchers.admission import CentralQueues
from dispatchers.copying import Copying
from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.placement import DirectPlacement, Placement
from dispatchers.policy import Policy
from dispatchers.recovery import Recovery
from dispatchers.slot_reservation import SlotReservation
from servers.balancer import Balancer
from servers.copy_server import CopyServer
from servers.late_binding_server import LateBindingServer
from servers.pool_server import PoolServer
from servers.server import Server
from servers.slot_reserving_server import SlotReservingServer
from servers.task_server import TaskServer
from servers.triggers import SharingClock, SharingOnArrival, StealingClock, StealingWhenIdle
from testbed.core.agent import Environment, Timer
from testbed.core.records import Occupancy
from testbed.core.streams import generator
from testbed.core.trace_recorder import TraceRecorder
from testbed.runtime.central_queues import build_knowledge, build_rational, pool_agent_address
from testbed.runtime.delay import Delay
from testbed.runtime.loop import EventLoop
from testbed.scenario import Balance, Scenario
from testbed.scenario.modes import PlacementKind, ServerKind, has_copies, has_tasks, recovers, tasks_move, traits_of
from testbed.workload.distributions import Deterministic
from testbed.workload.workload import Block, Workload

SLICES = 100  # slices of the measured window in which occupancy is kept

SERVERS: Final[dict[ServerKind, type[TaskServer[Any]]]] = {
    ServerKind.PLAIN: Server,
    ServerKind.LATE_BINDING: LateBindingServer,
    ServerKind.SLOT_RESERVING: SlotReservingServer,
    ServerKind.COPIES: CopyServer,
}


def build_servers(
    env: Environment, scenario: Scenario, servers: Iterable[int], meter: Occupancy
) -> list[TaskServer[Any] | PoolServer]:
    """Return the server agents at the given addresses; ``meter`` keeps how long they spend at each queue length."""
    reports = scenario.policy_class.idle_reports
    dispatchers = range(scenario.servers, scenario.servers + scenario.cluster.dispatchers)
    wanted = set(servers)
    server_class = SERVERS[traits_of(scenario).server]
    built: list[TaskServer[Any] | PoolServer] = []
    address = 0
    for pool in scenario.cluster.pools:
        speeds = [job_type.speed.get(pool.name, 1.0) for job_type in scenario.workload.types]
        for _ in range(pool.servers):
            if address in wanted and pool.queue == "central":
                built.append(PoolServer(env, address, speeds=speeds, meter=meter, chains=not has_delay(scenario)))
            elif address in wanted:
                server = server_class(
                    env,
                    address,
                    speeds=speeds,
                    meter=meter,
                    idle_report_to=dispatchers if reports else (),
                    dispatchers=dispatchers if recovers(scenario) else (),
                    **({} if pool.buffer is None else {"buffer": pool.buffer}),
                )
                if scenario.balance is not None and isinstance(server, Server):
                    server.attach(build_balancer(server, scenario, scenario.balance, meter))
                built.append(server)
            address += 1
    meter.servers.extend(built)
    return built


def build_balancer(server: Server, scenario: Scenario, balance: Balance, tally: Occupancy) -> Balancer:
    """Return the balancer of a server, with the triggers that the scenario asks for."""
    balancer = Balancer(
        server,
        servers=scenario.servers,
        tally=tally,
        recovers=recovers(scenario),
        half=balance.steal == "half",
        choices=balance.victim_choices,
        newest=balance.moves == "newest",
    )
    steals, shares = balance.policy != "sharing", balance.policy != "stealing"
    if balance.max_probes is not None:
        if steals:
            balancer.triggers.append(StealingWhenIdle(balancer, balance.max_probes))
        if shares:
            balancer.triggers.append(SharingOnArrival(balancer, balance.max_probes))
        return balancer
    if balance.probe_rate is None:
        raise ValueError("overall_probe_rate must be made a probe_rate first (testbed.runs.probe_rate.calibrated)")
    if steals:
        balancer.triggers.append(StealingClock(balancer, balance.probe_rate))
    if shares:
        balancer.triggers.append(SharingClock(balancer, balance.sharing_probe_rate or balance.probe_rate))
    return balancer


def policy_of(scenario: Scenario) -> type[Policy]:
    """Return the class of the scenario's policy, which testbed.scenario knows as a protocol only."""
    return cast("type[Policy]", scenario.policy_class)


def build_dispatcher(
    env: Environment, scenario: Scenario, index: int, records: DispatcherRecords, *, switches: bool = False
) -> Dispatcher:
    """Return the dispatcher agent of that index; ``switches`` says whether its policy may be replaced."""
    surroundings = Surroundings(
        index=index,
        servers=scenario.servers,
        pools=scenario.pools,
        types=[job_type.name for job_type in scenario.workload.types],
        rational=build_rational(scenario),
    )
    jobs = Jobs(env, scenario.servers + index, surroundings, records, build_knowledge(env, scenario, index))
    policy, parameters = policy_of(scenario), scenario.dispatch.parameters
    placement = build_placement(
        traits_of(scenario).placement,
        jobs,
        LiveServers(jobs) if recovers(scenario) else None,
        cancels_on_start=policy.cancels_on_start(parameters),
        pool_agent=pool_agent_address(scenario),
    )
    recovery = Recovery(placement, tasks_move=tasks_move(scenario)) if recovers(scenario) else None
    return Dispatcher(placement, partial(policy, parameters), recovery, switches=switches)


def build_placement(
    kind: PlacementKind,
    jobs: Jobs,
    live: LiveServers | None,
    *,
    cancels_on_start: bool = False,
    pool_agent: int | None = None,
) -> Placement:
    """Return a placement of a dispatcher's jobs; copies may cancel on start, and central queues have an agent."""
    match kind:
        case PlacementKind.DIRECT:
            return DirectPlacement(jobs, live)
        case PlacementKind.SLOT_RESERVATION:
            return SlotReservation(jobs, live)
        case PlacementKind.COPYING:
            return Copying(jobs, live, cancels_on_start=cancels_on_start)
        case PlacementKind.CENTRAL_QUEUES:
            assert pool_agent is not None, "central queues need their agent"
            return CentralQueues(jobs, live, pool_agent=pool_agent)


def build_workload(scenario: Scenario, replication: int) -> Workload:
    """Return the scenario's jobs: the same for every policy and in both runtimes."""
    return Workload(
        scenario.workload.arrivals,
        scenario.workload.size,
        [job_type.probability for job_type in scenario.workload.types],
        scenario.rate,
        scenario.cluster.dispatchers,
        scenario.seed,
        replication,
        type_names=[job_type.name for job_type in scenario.workload.types],
        tasks=scenario.workload.task_numbers,
        replicas=scenario.replicas,
        dependence=scenario.workload.dependence,
        pools=[pool.name for pool in scenario.central_pools],
    )


def has_delay(scenario: Scenario) -> bool:
    """Return whether messages take time in the model."""
    delay = scenario.cluster.message_delay
    return not isinstance(delay, (int, float)) or delay > 0


def build_delay(scenario: Scenario, replication: int, process: str) -> Delay | None:
    """Return the extra message delay drawn by one process, or None where the scenario has none."""
    if not has_delay(scenario):
        return None
    delay = scenario.cluster.message_delay
    distribution = Deterministic(delay) if isinstance(delay, (int, float)) else delay
    return Delay(distribution.sample, generator(scenario.seed, replication, f"message delay/{process}"))


def build_trace(scenario: Scenario) -> TraceRecorder | None:
    """Return what records the messages of traced jobs, or None where no job is traced."""
    return TraceRecorder(scenario.run.traced) if scenario.run.traced else None


def expected_jobs(scenario: Scenario) -> int:
    """Return about how many jobs arrive in a run, with room to spare; records are preallocated for that many."""
    mean = scenario.rate * scenario.horizon
    return int(mean + 6 * mean**0.5)


def expected_tasks(scenario: Scenario) -> int:
    """Return about how many records of tasks a run makes: none where a job is one task."""
    return int(expected_jobs(scenario) * scenario.workload.task_numbers.mean) if has_tasks(scenario) else 0


def expected_copies(scenario: Scenario) -> int:
    """Return about how many records of copies a run makes: none where jobs have no copies."""
    return int(expected_jobs(scenario) * scenario.replicas) if has_copies(scenario) else 0


def slice_edges(scenario: Scenario) -> list[float]:
    """Return the boundaries of the occupancy slices: SLICES in the measured window, equally wide ones before it."""
    horizon = scenario.horizon
    duration = scenario.run.duration
    before = round((horizon - duration) / duration * SLICES)
    head = np.linspace(0.0, horizon - duration, before + 1)[:-1] if before or horizon > duration else np.empty(0)
    return [*head.tolist(), *np.linspace(horizon - duration, horizon, SLICES + 1).tolist()]


class Source:
    """The arrivals of one dispatcher: an open loop that hands over each job at its intended arrival time.

    The next arrival never waits for the cluster. A late process hands jobs over late, with their intended times.
    """

    def __init__(self, env: EventLoop, dispatcher: Dispatcher, blocks: Iterable[Block], until: float) -> None:
        self._env = env
        self._arrive = dispatcher.arrive
        self._until = until
        self._blocks = blocks
        self._jobs: Iterator[tuple[int, float, int, Sequence[float]]] = iter(())
        self._job: tuple[int, float, int, Sequence[float]] | None = None
        self._time: Callable[[float], float] | None = None
        self._timer = Timer(lambda: None)
        self.ended = False

    @staticmethod
    def _unroll(blocks: Iterable[Block], since: float) -> Iterator[tuple[int, float, int, Sequence[float]]]:
        for block in blocks:
            if block.arrival[0] < since:
                block = block.take(block.arrival >= since)
            yield from zip(
                block.job.tolist(), block.arrival.tolist(), block.job_type.tolist(), block.sizes(), strict=True
            )

    def start(self, since: float = 0.0) -> None:
        """Schedule the first arrival, leaving out all that come before ``since``, a time of the workload."""
        self._jobs = self._unroll(self._blocks, since)
        self._schedule()

    def stop(self) -> None:
        """Let no further job arrive."""
        self.ended = True

    def change_pace(self, time: Callable[[float], float]) -> None:
        """From now on have what arrives at t in the workload arrive at ``time(t)``, which must not be past."""
        self._time = time
        if self._job is not None and not self.ended:
            self._timer.cancel()
            self._timer = self._env.call_last(time(self._job[1]), self._hand_over)

    @property
    def next_job(self) -> int | None:
        """The number of the job that comes next; None when no more come."""
        return self._job[0] if self._job is not None else None

    def _schedule(self) -> None:
        job = self._job = next(self._jobs, None)
        if job is None or job[1] >= self._until:
            self.ended = True
        else:
            when = job[1] if self._time is None else self._time(job[1])
            self._timer = self._env.call_last(when, self._hand_over)

    def _hand_over(self) -> None:
        job = self._job
        if self.ended or job is None:
            return
        self._arrive(job[0], job[2], job[3])
        self._schedule()


def slice_forever(env: Environment, occupancy: Occupancy, width: float, since: float) -> None:
    """Have ``occupancy`` close a slice at each multiple of ``width`` from ``since`` on, for ever."""

    def close(number: int) -> None:
        occupancy.close_slice(number * width)
        env.call_at((number + 1) * width, lambda: close(number + 1))

    first = math.ceil(since / width)
    env.call_at(first * width, lambda: close(first))


def schedule_slices(env: Environment, occupancy: Occupancy, edges: list[float]) -> None:
    """Have ``occupancy`` close its slices at ``edges``."""

    def at(edge: float) -> Callable[[], None]:
        return lambda: occupancy.close_slice(edge)

    for edge in edges:
        env.call_at(edge, at(edge))
