"""Central queues on the virtual runtime without message delay: the paper's rules to the digit."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from functools import partial
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from servers.central_queue import CentralPool
from servers.pool_agent import PoolAgent
from servers.pool_server import PoolServer
from servers.thresholds import Rules
from testbed.core.agent import Agent
from testbed.core.messages import Admit, CopyEnded, JobDone, Message
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.records import Occupancy
from testbed.core.rows import CopyRecord
from testbed.runtime.virtual import VirtualRuntime
from testbed.theory.rerouting_replication import Model, Replicate, Reroute, processing_time
from testbed.workload.distributions import Exponential

TRACE = tomllib.loads((Path(__file__).parent / "exact_trace.toml").read_text())
SPEEDS = ((1.0, 0.5), (0.5, 1.0))  # rows pools, columns types


class Client(Agent):
    """In the place of a dispatcher: notes what becomes of its jobs."""

    HANDLES: ClassVar[dict[type[Message], str]] = {JobDone: "on_job_done", CopyEnded: "on_copy"}

    def __init__(self, env: VirtualRuntime, address: int) -> None:
        super().__init__(env, address)
        self.departures: dict[int, float] = {}
        self.done: dict[int, JobDone] = {}
        self.copies: dict[int, list[CopyRecord]] = defaultdict(list)

    def on_job_done(self, done: JobDone) -> None:
        assert done.job not in self.departures, "a job departs once"
        self.departures[done.job] = self.env.now
        self.done[done.job] = done

    def on_copy(self, ended: CopyEnded) -> None:
        self.copies[ended.record.job].append(ended.record)


class System:
    """Pools at the first addresses, then a client, then the pool agent."""

    def __init__(self, servers: tuple[int, ...], rules: Rules, speeds: Any = SPEEDS, seed: int = 1) -> None:
        self.runtime = VirtualRuntime(seed)
        meter = Occupancy()
        pools, first = [], 0
        for index, count in enumerate(servers):
            pools.append(CentralPool(index, first, count, speeds[index]))
            for address in range(first, first + count):
                self.runtime.add(PoolServer(self.runtime, address, speeds=speeds[index], meter=meter))
            first += count
        self.client = Client(self.runtime, first)
        self.agent = PoolAgent(self.runtime, first + 1, pools=pools, rules=rules)
        self.runtime.add(self.client)
        self.runtime.add(self.agent)

    def enter_at(self, when: float, job: int, job_type: int, pool: int, sizes: list[float], **more: Any) -> None:
        message = Admit(self.agent.address, self.client.address, job, job_type, pool, sizes, **more)
        self.runtime.call_at(when, partial(self.runtime.send, message))

    def run(self) -> Client:
        self.runtime.start()
        self.runtime.run()
        assert self.agent.waiting == 0
        return self.client

    def used(self, job: int, pools: int = 2) -> list[float]:
        """Processing time of a job in each pool."""
        copies = self.client.copies[job]
        return [sum(copy.received for copy in copies if copy.pool == pool) for pool in range(pools)]


@pytest.mark.parametrize("row", TRACE["rows"], ids=lambda row: f"{row['action']} {row['tau']} {row['servers']}")
def test_the_exact_trace_of_the_sheet(row: dict[str, Any]) -> None:
    system = System(tuple(row["servers"]), Rules(row["action"], thresholds=row["tau"]))
    for number, job in enumerate(TRACE["jobs"]):
        system.enter_at(job["arrival"], number, job["type"], job["start"], job["sizes"])
    client = system.run()
    departures = [client.departures[job] for job in range(len(TRACE["jobs"]))]
    assert departures == pytest.approx(row["departures"], abs=1e-12)
    if row["tau"] == [2.0, 1.6]:
        for job, expected in enumerate(TRACE["processing"][row["action"]]):
            assert system.used(job) == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("action", ["reroute", "replicate"])
@pytest.mark.parametrize("servers", [(1, 1), (3, 3), (2, 5)])
@pytest.mark.parametrize("tau", [(0.7, 1.2), (0.0, 0.0), (0.0, inf), (inf, 0.4)])
@pytest.mark.parametrize("dependence", ["identical", "independent"])
def test_each_job_uses_the_processing_time_that_its_sizes_and_thresholds_say(
    action: Any, servers: tuple[int, int], tau: tuple[float, float], dependence: Any
) -> None:
    """Whatever the queues do (section 3 of the sheet); and of pairs both copies run for the same time."""
    rng = np.random.default_rng(7)
    jobs = 400
    system = System(servers, Rules(action, thresholds=tau))
    model = Model(servers, (0.5, 0.5), SPEEDS, Exponential(), dependence)
    policy = Reroute() if action == "reroute" else Replicate()
    arrivals = np.cumsum(rng.exponential(1.2 / min(servers), jobs))
    job_types, starts = rng.integers(0, 2, jobs).tolist(), rng.integers(0, 2, jobs).tolist()
    sizes = rng.exponential(1.0, (jobs, 2))
    if dependence == "identical":
        sizes[:, 1] = sizes[:, 0]
    for job in range(jobs):
        system.enter_at(float(arrivals[job]), job, job_types[job], starts[job], sizes[job].tolist())
    client = system.run()
    assert len(client.departures) == jobs
    for job in range(jobs):
        expected = processing_time(
            model, policy, (starts[job], 1 - starts[job]), job_types[job], sizes[job].tolist(), [tau[starts[job]]]
        )
        assert system.used(job) == pytest.approx(list(expected), abs=1e-9)
        copies = client.copies[job]
        assert len(copies) == client.done[job].copies
        assert [copy.copy for copy in sorted(copies, key=lambda copy: copy.copy)] == list(range(len(copies)))
        assert sum(copy.outcome == CopyOutcome.WON for copy in copies) == 1
        assert all(
            copy.state_at_cancellation == StateAtCancellation.IN_SERVICE and copy.delay == 0.0
            for copy in copies
            if copy.outcome == CopyOutcome.SUPERSEDED
        )
        response = client.departures[job] - arrivals[job]
        assert response == pytest.approx(client.done[job].wait + client.done[job].service, abs=1e-9)


def test_a_job_of_its_own_thresholds_keeps_to_them() -> None:
    system = System((1, 1), Rules("reroute", thresholds=(inf, inf)))
    system.enter_at(0.0, 0, 0, 1, [3.0, 3.0], thresholds=[0.25])
    client = system.run()
    assert client.departures[0] == pytest.approx(0.25 + 3.0)
    assert [copy.outcome for copy in client.copies[0]] == [CopyOutcome.REROUTED, CopyOutcome.WON]


def test_several_thresholds_go_back_and_forth_with_the_same_sizes() -> None:
    """n thresholds: 0.5 in pool 0, 0.8 in pool 1, then in pool 0 until the end; every visit starts from zero."""
    system = System((1, 1), Rules("reroute", by_visit=((0.5, 0.8), (inf,)), hops=2))
    system.enter_at(0.0, 0, 0, 0, [0.9, 1.0])
    client = system.run()
    assert system.used(0) == pytest.approx([0.5 + 0.9, 0.8])
    assert client.departures[0] == pytest.approx(0.5 + 0.8 + 0.9)


def test_carried_over_work_counts_in_the_next_pool() -> None:
    reroute = System((1, 1), Rules("reroute", thresholds=(0.5, inf), carry_over=True))
    reroute.enter_at(0.0, 0, 0, 0, [2.0, 2.0])
    reroute.run()
    assert reroute.used(0) == pytest.approx([0.5, (2.0 - 0.5) / 0.5])
    replicate = System((1, 1), Rules("replicate", thresholds=(inf, 0.5), carry_over=True))
    replicate.enter_at(0.0, 0, 0, 1, [2.0, 2.0])
    replicate.run()
    assert replicate.used(0) == pytest.approx([1.75, 0.5 + 1.75]), "0.25 of 2 is done when the replica starts"


def test_three_pools_are_visited_in_order() -> None:
    speeds = ((1.0,), (1.0,), (1.0,))
    system = System((1, 1, 1), Rules("reroute", thresholds=(0.1, 0.2, 0.3), hops=2), speeds)
    system.enter_at(0.0, 0, 0, 1, [5.0, 5.0, 5.0])
    client = system.run()
    assert [copy.pool for copy in client.copies[0]] == [1, 2, 0]
    assert system.used(0, 3) == pytest.approx([5.0, 0.2, 0.3])


def test_a_random_target_is_one_of_the_pools_not_yet_visited_each_as_often() -> None:
    """The least frequent of 3 targets in 3000 draws, 1000 expected: below 880 with probability below 1e-5."""
    speeds = ((1.0,),) * 4
    system = System((50, 50, 50, 50), Rules("reroute", thresholds=(0.1,) * 4, target="random"), speeds)
    for job in range(3000):
        system.enter_at(job * 1.0, job, 0, 0, [1.0] * 4)
    client = system.run()
    targets = [client.copies[job][1].pool for job in range(3000)]
    assert set(targets) == {1, 2, 3}
    assert min(targets.count(pool) for pool in (1, 2, 3)) > 880


def test_a_job_that_a_pool_cannot_serve_leaves_it_at_its_threshold() -> None:
    system = System((1, 1), Rules("reroute", thresholds=(0.5, inf)), speeds=((0.0,), (1.0,)))
    system.enter_at(0.0, 0, 0, 0, [1.0, 1.0])
    assert system.run().departures[0] == pytest.approx(1.5)
    system = System((1, 1), Rules("replicate", thresholds=(0.5, inf)), speeds=((0.0,), (1.0,)))
    system.enter_at(0.0, 0, 0, 0, [1.0, 1.0])
    assert system.run().departures[0] == pytest.approx(1.5)


def test_the_order_of_one_pool_without_thresholds_is_first_come_first_served() -> None:
    """Departures of a queue with three servers, against the recursion of Kiefer and Wolfowitz."""
    rng = np.random.default_rng(3)
    jobs = 300
    arrivals, sizes = np.cumsum(rng.exponential(0.4, jobs)), rng.exponential(1.0, jobs)
    system = System((3,), Rules(), speeds=((1.0,),))
    for job in range(jobs):
        system.enter_at(float(arrivals[job]), job, 0, 0, [float(sizes[job])])
    client = system.run()
    free = [0.0] * 3
    for job in range(jobs):
        first = free.index(min(free))
        free[first] = max(free[first], float(arrivals[job])) + float(sizes[job])
        assert client.departures[job] == pytest.approx(free[first], abs=1e-9)
