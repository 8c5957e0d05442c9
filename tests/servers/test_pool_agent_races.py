"""Central queues under arbitrary delays and crashes."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from functools import partial
from math import inf, isnan
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from servers.central_queue import CentralPool
from servers.pool_agent import PoolAgent
from servers.pool_server import PoolServer
from servers.thresholds import Rules
from testbed.core.agent import Agent, Environment
from testbed.core.copy_life import State
from testbed.core.messages import Admit, CopyEnded, JobDone, Message, Stop
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.records import Occupancy
from testbed.core.rows import CopyRecord
from testbed.testing.network import Network


@dataclass(frozen=True)
class Case:
    """A small system; all that is left to chance in it follows from ``seed``."""

    servers: tuple[int, ...]
    rules: Rules
    jobs: int = 12
    crashes: tuple[tuple[int, int], ...] = ()  # ranges of servers, counted among all
    spread: float = 1.0  # mean time between arrivals
    delay: float = 0.5  # 0: messages overtake all timers; towards 1: timers overtake all messages
    seed: int = 0


class Client(Agent):
    """In the place of a dispatcher."""

    HANDLES: ClassVar[dict[type[Message], str]] = {JobDone: "on_job_done", CopyEnded: "on_copy"}

    def __init__(self, env: Environment, address: int) -> None:
        super().__init__(env, address)
        self.done: dict[int, JobDone] = {}
        self.copies: dict[int, list[CopyRecord]] = {}

    def on_job_done(self, done: JobDone) -> None:
        assert done.job not in self.done, "a job is completed once"
        self.done[done.job] = done

    def on_copy(self, ended: CopyEnded) -> None:
        self.copies.setdefault(ended.record.job, []).append(ended.record)


class Pools(Network):
    """Pools at the first addresses, then two clients, then the pool agent."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.seed, case.delay)
        self.case = case
        self.ignored = 0  # Stops that met nothing
        speeds = [tuple(self.rng.choice([0.5, 1.0, 2.0]) for _ in range(2)) for _ in case.servers]
        self.servers: dict[int, PoolServer] = {}
        pools, first = [], 0
        for index, count in enumerate(case.servers):
            pools.append(CentralPool(index, first, count, speeds[index]))
            for address in range(first, first + count):
                self.servers[address] = PoolServer(
                    self.environment(address), address, speeds=speeds[index], meter=Occupancy()
                )
            first += count
        self.clients = [Client(self.environment(address), address) for address in (first, first + 1)]
        self.agent = PoolAgent(self.environment(first + 2), first + 2, pools=pools, rules=case.rules)
        for agent in (*self.servers.values(), *self.clients, self.agent):
            self.add(agent)
        when = 0.0
        for job in range(case.jobs):
            when += self.rng.expovariate(1.0 / case.spread)
            client = self.rng.choice(self.clients).address
            sizes = [self.rng.choice([0.0, 0.1, 1.0, 1.0, 3.0, 10.0]) for _ in case.servers]
            pool = self.rng.randrange(len(case.servers))
            admission = Admit(self.agent.address, client, job, self.rng.randrange(2), pool, sizes)
            self.call_at(client, when, partial(self.send, admission))

    def deliver(self, message: Message) -> None:
        if isinstance(message, Stop):
            server = self.servers[message.to]
            self.ignored += not server.queue_length or server._serving.copy != message.copy
        super().deliver(message)

    def finished(self) -> bool:
        return sum(len(client.done) for client in self.clients) == self.case.jobs

    def check(self) -> None:
        if not any(self.channels.values()) and not any(self._notices.values()):
            self.check_at_rest()

    def check_at_rest(self) -> None:
        """With no message on its way, servers and pool agent agree, and nobody idles beside work."""
        for pool in self.agent._pools:
            assert not (pool.idle and pool.line), "a server idles while its pool's queue holds a job"
            for server in pool.idle:
                assert self.servers[server].queue_length == 0
            for server, copy in pool.serving.items():
                assert self.servers[server].queue_length == 1
                assert self.servers[server]._serving.copy == copy.number
                assert copy.server == server
                assert copy.state in (State.SERVED, State.PAIRED)
                assert not copy.job.done, "a job holds a server after its completion"
                if copy.state is State.PAIRED:
                    assert copy.partner is not None
                    assert copy.partner.state is State.PAIRED, "replicas in service come in pairs"
        for copy in self.agent._pairs:
            assert copy.target is not None
            assert not (self.agent._pools[copy.pool].has_room and self.agent._pools[copy.target].has_room)


def run(case: Case) -> Pools:
    network = Pools(case)
    network.run(case.crashes, network.finished, network.check)
    return network


def check(case: Case) -> None:
    network = run(case)
    done = {job: one for client in network.clients for job, one in client.done.items()}
    copies = {job: ended for client in network.clients for job, ended in client.copies.items()}
    assert sorted(done) == list(range(case.jobs)), "each job is completed"
    assert sum(len(client.done) for client in network.clients) == case.jobs, "... once"
    for job, one in done.items():
        ended = copies[job]
        assert sorted(copy.copy for copy in ended) == list(range(one.copies)), "each copy ends once"
        assert [copy.outcome for copy in ended].count(CopyOutcome.WON) == 1
        for copy in ended:
            assert (copy.outcome == CopyOutcome.SUPERSEDED) <= (
                copy.state_at_cancellation != StateAtCancellation.NOT_CANCELLED
            )
            assert (
                isnan(copy.delay) == (copy.state_at_cancellation == StateAtCancellation.NOT_CANCELLED)
                or copy.outcome == CopyOutcome.DIED
            )
            assert copy.outcome == CopyOutcome.DIED or copy.received >= 0
            assert copy.wait >= 0
        if not case.crashes:
            assert all(copy.outcome != CopyOutcome.DIED for copy in ended)
            assert [copy.outcome for copy in ended].count(CopyOutcome.REROUTED) <= (
                case.rules.hops if case.rules.action == "reroute" else 0
            )
            assert one.copies <= (2 if case.rules.action == "replicate" else case.rules.hops + 1)
    assert not network.agent._copies
    assert not network.agent._pairs
    assert network.agent.waiting == 0
    assert all(server.queue_length == 0 for address, server in network.servers.items() if address not in network.dead)


thresholds = st.sampled_from([0.0, 0.05, 0.5, 2.0, inf])


@st.composite
def cases(draw: st.DrawFn, crashes: bool) -> Case:
    servers = tuple(draw(st.lists(st.integers(1, 3), min_size=2, max_size=3)))
    rules = Rules(
        draw(st.sampled_from(["reroute", "replicate"])),
        thresholds=[draw(thresholds) for _ in servers],
        hops=draw(st.integers(1, len(servers) - 1)),
        target=draw(st.sampled_from(["cyclic", "random"])),
        carry_over=draw(st.booleans()),
    )
    groups: tuple[tuple[int, int], ...] = ()
    if crashes:
        total = sum(servers)
        cuts = sorted(draw(st.sets(st.integers(1, total - 1), min_size=1, max_size=2)))
        nodes = [(first, last - 1) for first, last in zip([0, *cuts], [*cuts, total], strict=True)]
        groups = tuple(draw(st.permutations(nodes))[1:])
    return Case(
        servers,
        rules,
        jobs=draw(st.integers(1, 25)),
        crashes=groups,
        spread=draw(st.sampled_from([0.1, 1.0])),
        delay=draw(st.sampled_from([0.1, 0.5, 0.9])),
        seed=draw(st.integers(0, 2**32)),
    )


limits = settings(max_examples=120, suppress_health_check=list(HealthCheck))


@limits
@example(Case((3, 2, 1), Rules("replicate", (0.5, inf, 0.5), target="random"), 24, (), 1.0, 0.1, 501))
@given(cases(crashes=False))
def test_each_job_completes_once_whatever_the_delays(case: Case) -> None:
    check(case)


@limits
@example(Case((2, 2, 1), Rules("replicate", (inf, 0.05, 0.05), (), 2, "random", True), 17, ((4, 4),), 0.1, 0.1, 1323))
@given(cases(crashes=True))
def test_each_job_completes_once_whatever_the_delays_and_whoever_dies(case: Case) -> None:
    check(case)


def test_the_races_that_matter_do_happen() -> None:
    """Else the tests above show nothing: cancellations that come too late, stops that meet nothing, dead replicas."""
    states: Counter[int] = Counter()
    outcomes: Counter[int] = Counter()
    ignored = preempted = 0
    for seed in range(150):
        crashes = ((0, 0), (3, 3)) if seed % 2 else ()
        rules = Rules("replicate", thresholds=(0.0 if seed % 3 else 0.5, 0.05))
        network = run(Case((2, 3), rules, jobs=25, crashes=crashes, spread=0.1, seed=seed))
        ignored += network.ignored
        preempted += network.agent.preemptions
        for client in network.clients:
            for ended in client.copies.values():
                states.update(copy.state_at_cancellation for copy in ended)
                outcomes.update(copy.outcome for copy in ended)
    assert states[StateAtCancellation.ALREADY_DONE] > 10
    assert states[StateAtCancellation.IN_SERVICE] > 100
    assert outcomes[CopyOutcome.DIED] > 10
    assert ignored > 10
    assert preempted > 100


@pytest.mark.parametrize("action", ["reroute", "replicate"])
def test_a_pool_that_dies_whole_leaves_its_jobs_to_the_others(action: Any) -> None:
    for seed in range(40):
        check(Case((2, 2), Rules(action, thresholds=(0.5, 0.1)), crashes=((0, 1),), spread=0.2, seed=seed))
