"""Servers that move tasks under arbitrary delays, reorderings between pairs of agents, and crashes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.placement import DirectPlacement
from dispatchers.recovery import Recovery
from servers.balancer import LATE, MOVED, NO, PROBES, WITHDRAWN, YES, Balancer
from servers.server import Server
from servers.service_clock import ServiceClock
from servers.triggers import SharingClock, SharingOnArrival, StealingClock, StealingWhenIdle
from testbed.core.agent import Timer
from testbed.core.messages import Assign, Done, Message, Offer, Probe, Steal, Transfer, Withdrawn
from testbed.core.outcomes import JobOutcome
from testbed.core.records import JobRecords, Occupancy
from testbed.scenario.policies import policies
from testbed.testing.network import Network


@dataclass(frozen=True)
class Case:
    """A small system; all that is left to chance in it follows from ``seed``."""

    servers: int
    dispatchers: int
    jobs: int
    policy: str = "random"
    parameters: dict[str, Any] = field(default_factory=dict)
    stealing: bool = True
    sharing: bool = False
    max_probes: int | None = None  # None: clocks
    half: bool = False
    choices: int = 1
    newest: bool = True
    crashes: int = 0
    delay: float = 0.5  # 0: messages overtake all timers; towards 1: timers overtake all messages
    seed: int = 0


class WatchedClock(ServiceClock[Assign]):
    """Notes which tasks a server begins to serve."""

    def __init__(self, server: WatchedServer, started: dict[int, list[int]]) -> None:
        super().__init__(server.env, [1.0], server.on_finish)
        self.address = server.address
        self.begun = started

    def start(self, task: Assign, wait: float, position: int, now: float) -> Timer:
        self.begun[task.job].append(self.address)
        return super().start(task, wait, position, now)


class WatchedServer(Server):
    """A server that tells which tasks it has."""

    def tasks(self) -> list[int]:
        waiting = [item[2].job for item in self._waiting]
        assert len(waiting) == max(self.queue_length - 1, 0)
        return [*waiting, self._clock.task.job] if self.queue_length else waiting


class Cluster(Network):
    """Servers that move tasks, and dispatchers."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.seed, case.delay)
        self.case = case
        self.started: dict[int, list[int]] = {job: [] for job in range(case.jobs)}
        self.moves: dict[int, list[int]] = {job: [] for job in range(case.jobs)}
        self.moved = self.late = self.arrived = 0
        self.records = JobRecords(1)
        self.tallies = [Occupancy() for _ in range(case.servers)]
        self.servers = [self._server(address) for address in range(case.servers)]
        kind = policies()[case.policy]
        parameters = dict(case.parameters)
        if parameters.pop("uneven", False):
            parameters["weights"] = tuple(20.0 ** -(address % 3) for address in range(case.servers))
        self.dispatchers = []
        for index in range(case.dispatchers):
            jobs = Jobs(
                self.environment(case.servers + index),
                case.servers + index,
                Surroundings(index, case.servers),
                DispatcherRecords(self.records),
            )
            placement = DirectPlacement(jobs, LiveServers(jobs) if case.crashes else None)
            recovery = Recovery(placement, tasks_move=True) if case.crashes else None
            self.dispatchers.append(Dispatcher(placement, partial(kind, kind.Parameters(**parameters)), recovery))
        for agent in (*self.servers, *self.dispatchers):
            self.add(agent)

    def _server(self, address: int) -> WatchedServer:
        case = self.case
        addresses = range(case.servers, case.servers + case.dispatchers)
        server = WatchedServer(
            self.environment(address),
            address,
            speeds=[1.0],
            meter=self.tallies[address],
            idle_report_to=addresses if policies()[case.policy].idle_reports else (),
            dispatchers=addresses if case.crashes else (),
        )
        server._clock = WatchedClock(server, self.started)
        balancer = Balancer(
            server,
            servers=case.servers,
            tally=self.tallies[address],
            recovers=case.crashes > 0,
            half=case.half,
            choices=case.choices,
            newest=case.newest,
        )
        if case.stealing:
            rate = self.rng.choice([0.3, 3.0, 30.0])
            most = case.max_probes
            balancer.triggers.append(
                StealingClock(balancer, rate) if most is None else StealingWhenIdle(balancer, most)
            )
        if case.sharing:
            rate = self.rng.choice([0.3, 3.0, 30.0])
            most = case.max_probes
            balancer.triggers.append(SharingClock(balancer, rate) if most is None else SharingOnArrival(balancer, most))
        server.attach(balancer)
        return server

    def send(self, message: Message) -> None:
        if isinstance(message, Steal | Offer | Probe):
            assert message.to != message.sender, "a server asks itself"
        super().send(message)

    def deliver(self, message: Message) -> None:
        if isinstance(message, Transfer):
            self.moved += len(message.tasks)
            self.late += len(message.tasks) if self.servers[message.to].queue_length else 0
            for task in message.tasks:
                self.moves[task.job].append(task.moves)
        if isinstance(message, Done):
            in_system = self.dispatchers[message.to - self.case.servers].in_system
            if message.job in in_system:
                at = in_system[message.job].at[message.task]
                assert at == message.sender, "the dispatcher knows where it is"
        super().deliver(message)

    def run_case(self) -> None:
        case, rng = self.case, self.rng
        when = 0.0
        for job in range(case.jobs):
            when += rng.expovariate(case.servers * 1.5)
            dispatcher = rng.choice(self.dispatchers)
            size = rng.choice([0.01, 0.1, 1.0, 5.0])
            self.call_at(dispatcher.address, when, partial(self.arrive, dispatcher, job, size))
        self.run(self.groups(case.servers, case.crashes), self.finished, self.check)

    def arrive(self, dispatcher: Dispatcher, job: int, size: float) -> None:
        self.arrived += 1
        dispatcher.arrive(job, 0, (size,))

    def finished(self) -> bool:
        return self.arrived == self.case.jobs and not any(dispatcher.in_system for dispatcher in self.dispatchers)

    def check(self) -> None:
        """A task is in one place: at a live server, or on its way to one."""
        places = Counter(job for server in self.servers if server.address not in self.dead for job in server.tasks())
        for channel in self.channels.values():
            for message in channel:
                if isinstance(message, Transfer):
                    places.update(task.job for task in message.tasks)
        assert not places or max(places.values()) == 1, f"in two places: {places.most_common(1)}"


def check(case: Case) -> Cluster:
    network = Cluster(case)
    network.run_case()
    columns = network.records.columns()
    assert sorted(columns["job"].tolist()) == list(range(case.jobs)), "each job ends once"
    assert np.all(columns["outcome"] == JobOutcome.COMPLETED)
    assert all(dispatcher.jobs.done_twice == 0 for dispatcher in network.dispatchers)
    live = [server for server in network.servers if server.address not in network.dead]
    for job, places in network.started.items():
        assert sum(place not in network.dead for place in places) <= 1, f"job {job} is served twice: {places}"
        if not case.crashes:
            assert len(places) == 1
    for server in live:
        balancer = server._balancer
        assert balancer is not None
        assert server.queue_length == 0
        assert (balancer.exchanges, balancer._surveys, balancer._promised_to) == ({}, {}, None)
        counts = network.tallies[server.address].counts
        assert counts[PROBES] == counts[YES] + counts[NO]
        assert counts[WITHDRAWN] + counts[LATE] <= counts[YES] + counts[MOVED]
    total = np.sum([tally.counts for tally in network.tallies], axis=0)
    assert (total[MOVED], total[LATE]) == (network.moved, network.late)
    assert total[WITHDRAWN] == network.sent[Withdrawn]
    if case.choices == 1:  # else the questions are probes of queue lengths, and offers
        in_vain = total[PROBES] - network.sent[Steal] - network.sent[Offer]
        assert in_vain >= 0 if case.crashes else in_vain == 0
    if case.policy == "least-outstanding":
        for dispatcher in network.dispatchers:
            counts = [dispatcher.policy._counts[server.address] for server in live]
            assert counts == [0] * len(live)
    for dispatcher in network.dispatchers:
        if dispatcher.recovery is not None:
            assert not dispatcher.recovery._awaited
    return network


POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("random", {}),
    ("random", {"uneven": True}),  # long queues beside idle servers: tasks move often
    ("round-robin", {}),
    ("least-outstanding", {}),
    ("jiq", {}),
    ("power-of-d", {}),
    ("power-of-d", {"timeout": 0.3}),
    ("jsq", {"timeout": 0.3}),
]


def cases(crashes: st.SearchStrategy[int], chosen: list[tuple[str, dict[str, Any]]]) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda policy, triggers, **rest: Case(
            policy=policy[0],
            parameters=policy[1],
            stealing=triggers != "sharing",
            sharing=triggers != "stealing",
            **rest,
        ),
        policy=st.sampled_from(chosen),
        triggers=st.sampled_from(["stealing", "sharing", "hybrid"]),
        servers=st.integers(2, 6),
        dispatchers=st.integers(1, 2),
        jobs=st.integers(1, 40),
        max_probes=st.none() | st.integers(1, 4),
        half=st.booleans(),
        choices=st.integers(1, 3),
        newest=st.booleans(),
        crashes=crashes,
        delay=st.sampled_from([0.0, 0.2, 0.5, 0.8]),
        seed=st.integers(0, 2**32 - 1),
    )


EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(cases(st.just(0), POLICIES))
def test_every_task_is_in_one_place_and_is_served_once(case: Case) -> None:
    check(case)


@EXAMPLES
@given(cases(st.integers(1, 3), POLICIES))
def test_no_task_is_lost_or_served_twice_when_servers_die(case: Case) -> None:
    check(case)


def test_the_races_that_the_protocol_is_for_are_met() -> None:
    late = withdrawn = twice = again = 0
    for seed in range(30):
        settings_ = {"servers": 4, "dispatchers": 2, "jobs": 40, "sharing": True, "half": seed % 2 == 0, "seed": seed}
        network = check(Case(parameters={"uneven": True}, **settings_))
        late += network.late
        withdrawn += network.sent[Withdrawn]
        twice += sum(max(ticket) > 1 for ticket in network.moves.values() if ticket)
        died = check(Case(crashes=2, **settings_))
        again += sum(dispatcher.jobs.dispatched_again for dispatcher in died.dispatchers)
    assert min(late, withdrawn, twice, again) >= 10
