"""Copies on the queues of several servers under arbitrary delays and crashes: policies, dispatchers and servers."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatchers.copying import Copying
from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.live_servers import LiveServers
from dispatchers.recovery import Recovery
from servers.copy_server import CopyServer
from testbed.core.copy_life import OPEN
from testbed.core.messages import AssignCopy, CancelCopy, Message
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords, JobRecords, Occupancy
from testbed.scenario.policies import policies
from testbed.testing.network import Network

SIZES = (0.01, 0.1, 1.0, 5.0)
SPEEDS = (1.0, 0.5)  # by type


@dataclass(frozen=True)
class Case:
    """A small system; all that is left to chance in it follows from ``seed``."""

    servers: int
    dispatchers: int
    jobs: int
    policy: str
    parameters: dict[str, Any] = field(default_factory=dict)
    crashes: int = 0
    delay: float = 0.5  # as of a Network
    seed: int = 0


class Cluster(Network):
    """Servers of copies, and dispatchers that place them."""

    def __init__(self, case: Case) -> None:
        super().__init__(case.seed, case.delay)
        self.case = case
        self.arrived = 0
        self.jobs = JobRecords(1)
        self.copies = CopyRecords(1)
        self.sizes: dict[int, tuple[int, list[float]]] = {}  # by job: its type, and the sizes of its copies
        self.both_started = 0  # peers that obeyed or ignored one that had started too
        self.assigned: dict[int, list[AssignCopy]] = defaultdict(list)
        kind = policies()[case.policy]
        parameters = kind.Parameters(**case.parameters)
        self.most = kind.copies(parameters)
        addresses = range(case.servers, case.servers + case.dispatchers)
        self.servers = [
            CopyServer(
                self.environment(address),
                address,
                speeds=SPEEDS,
                meter=Occupancy(),
                dispatchers=addresses if case.crashes else (),
            )
            for address in range(case.servers)
        ]
        pools = [PlacedPool("one", 0, 0, 1, False), PlacedPool("rest", 1, 1, case.servers - 1, False)]
        self.dispatchers = []
        self.copying: list[Copying] = []
        for index, address in enumerate(addresses):
            jobs = Jobs(
                self.environment(address),
                address,
                Surroundings(index, case.servers, pools),
                DispatcherRecords(self.jobs, copies=self.copies),
            )
            live = LiveServers(jobs) if case.crashes else None
            placement = Copying(jobs, live, cancels_on_start=kind.cancels_on_start(parameters))
            self.copying.append(placement)
            recovery = Recovery(placement) if case.crashes else None
            self.dispatchers.append(Dispatcher(placement, partial(kind, parameters), recovery))
        for agent in (*self.servers, *self.dispatchers):
            self.add(agent)

    def send(self, message: Message) -> None:
        if isinstance(message, AssignCopy):
            self.assigned[message.job].append(message)
        super().send(message)

    def deliver(self, message: Message) -> None:
        super().deliver(message)
        if isinstance(message, CancelCopy):
            server = self.servers[message.to]
            copy = server._copies.get((message.dispatcher, message.number))
            if copy is not None:
                assert message.by > message.copy, "a server keeps a copy that it was told to give up"
                assert copy.task is server._clock.task, "a copy waits that was told to give up"
                self.both_started += 1

    def run_case(self) -> None:
        case, rng = self.case, self.rng
        when = 0.0
        for job in range(case.jobs):
            when += rng.expovariate(case.servers * 0.4)
            dispatcher = rng.choice(self.dispatchers)
            self.sizes[job] = rng.randrange(2), [rng.choice(SIZES) for _ in range(self.most)]
            self.call_at(dispatcher.address, when, partial(self.arrive, dispatcher, job))
        self.run(self.groups(case.servers, case.crashes), self.finished, self.check)

    def arrive(self, dispatcher: Dispatcher, job: int) -> None:
        self.arrived += 1
        dispatcher.arrive(job, *self.sizes[job])

    def finished(self) -> bool:
        return self.arrived == self.case.jobs and not any(
            d.in_system or d.placement.awaiting_cancellation for d in self.dispatchers
        )

    def check(self) -> None:
        """A live server serves its oldest copy; a job has at most so many copies, on distinct servers."""
        for server in self.servers:
            assert server.queue_length == len(server._copies)
            started = [copy.task is server._clock.task for copy in server._copies.values()]
            assert started == [True, *[False] * (len(started) - 1)][: len(started)]
        for placement in self.copying:
            for copies in placement.copies.values():
                at = [copy.server for copy in copies if copy.state in OPEN]
                assert len(at) == len(set(at)) <= self.most
        if not self.case.crashes:
            assert all(len(copies) <= self.most for copies in self.assigned.values())


def check(case: Case) -> Cluster:
    """Run a case, and check its end: every job once, every copy once, nothing left behind."""
    cluster = Cluster(case)
    cluster.run_case()
    jobs, copies = cluster.jobs.columns(), cluster.copies.columns()
    assert sorted(jobs["job"].tolist()) == list(range(case.jobs)), "each job ends once"
    assert set(jobs["outcome"].tolist()) == {JobOutcome.COMPLETED}
    for dispatcher in cluster.dispatchers:
        assert dispatcher.jobs.done_twice == 0
    for placement in cluster.copying:
        assert placement.copies == {}
    for server in cluster.servers:
        if server.address not in cluster.dead:
            assert (server.queue_length, server.cancelled_ahead) == (0, set())
    by_job: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for row in zip(*(column.tolist() for column in copies.values()), strict=True):
        record = dict(zip(copies, row, strict=True))
        by_job[record["job"]].append(record)
    work = dict(zip(jobs["job"].tolist(), jobs["work"].tolist(), strict=True))
    for job, records in by_job.items():
        check_copies(cluster, job, sorted(records, key=lambda record: record["copy"]), work[job])
    return cluster


def check_copies(cluster: Cluster, job: int, records: list[dict[str, Any]], work: float) -> None:
    """Check the records of all copies of a job."""
    assigned = sorted(cluster.assigned[job], key=lambda message: message.copy)
    assert [record["copy"] for record in records] == [message.copy for message in assigned] == [*range(len(assigned))]
    assert Counter(record["fate"] for record in records)[CopyOutcome.WON] == 1
    assert math.isclose(work, sum(r["received"] for r in records if r["fate"] != CopyOutcome.DIED), abs_tol=1e-9)
    job_type, sizes = cluster.sizes[job]
    for record, message in zip(records, assigned, strict=True):
        assert record["server"] == message.to
        assert record["pool"] == (message.to > 0)
        service = message.size / SPEEDS[job_type]
        assert message.size in sizes
        if record["fate"] == CopyOutcome.DIED:
            assert message.to in cluster.dead
            assert math.isnan(record["received"])
            continue
        if record["fate"] == CopyOutcome.WON or record["met"] == StateAtCancellation.ALREADY_DONE:
            assert record["received"] == service
        elif record["met"] == StateAtCancellation.IN_SERVICE:
            assert 0 <= record["received"] <= service + 1e-9
        else:
            assert record["met"] in (StateAtCancellation.QUEUED, StateAtCancellation.NOT_YET_ARRIVED)
            assert record["received"] == 0
        assert record["fate"] == CopyOutcome.WON or (
            record["fate"] == CopyOutcome.SUPERSEDED and record["met"] != StateAtCancellation.NOT_CANCELLED
        )


POLICIES: list[tuple[str, dict[str, Any]]] = [
    ("hedge", {"delay": 0.0}),
    ("hedge", {"delay": 0.4}),
    ("hedge", {"delay": 4.0}),
    ("redundancy-d", {}),
    ("redundancy-d", {"d": 4}),
    ("redundancy-d", {"cancel": "on-start"}),
    ("redundancy-d", {"d": 4, "cancel": "on-start"}),
    ("tied", {}),
]


def cases(crashes: st.SearchStrategy[int]) -> st.SearchStrategy[Case]:
    return st.builds(
        lambda policy, **rest: Case(policy=policy[0], parameters=policy[1], **rest),
        policy=st.sampled_from(POLICIES),
        servers=st.integers(2, 6),
        dispatchers=st.integers(1, 2),
        jobs=st.integers(1, 40),
        crashes=crashes,
        delay=st.sampled_from([0.0, 0.2, 0.5, 0.8]),
        seed=st.integers(0, 2**32 - 1),
    )


EXAMPLES = settings(suppress_health_check=[HealthCheck.too_slow])


@EXAMPLES
@given(cases(st.just(0)))
def test_every_job_is_done_once_and_every_copy_ends_in_one_record(case: Case) -> None:
    cluster = check(case)
    assert CopyOutcome.DIED not in cluster.copies.columns()["fate"]


@EXAMPLES
@given(cases(st.integers(1, 3)))
def test_no_job_is_lost_or_done_twice_when_servers_die(case: Case) -> None:
    check(case)


def test_the_races_that_the_protocol_is_for_are_met() -> None:
    met: dict[str, Counter[tuple[int, int]]] = defaultdict(Counter)
    both_started = again = 0
    for seed in range(10):
        for policy, parameters in (
            ("tied", {}),
            ("redundancy-d", {"d": 3}),
            ("redundancy-d", {"d": 3, "cancel": "on-start"}),
            ("hedge", {"delay": 0.2}),
        ):
            rest: dict[str, Any] = {"servers": 5, "dispatchers": 2, "jobs": 40, "seed": seed}
            cluster = check(Case(policy=policy, parameters=parameters, **rest))
            copies = cluster.copies.columns()
            met[parameters.get("cancel", policy)].update(
                zip(copies["fate"].tolist(), copies["met"].tolist(), strict=True)
            )
            both_started += cluster.both_started
            died = check(Case(policy=policy, parameters=parameters, crashes=2, **rest))
            again += sum(d.jobs.dispatched_again for d in died.dispatchers)
    for policy in ("tied", "redundancy-d", "on-start", "hedge"):
        assert (
            min(
                met[policy][CopyOutcome.SUPERSEDED, how]
                for how in (
                    StateAtCancellation.QUEUED,
                    StateAtCancellation.IN_SERVICE,
                    StateAtCancellation.ALREADY_DONE,
                )
            )
            >= 3
        ), policy
    assert met["tied"][CopyOutcome.SUPERSEDED, StateAtCancellation.NOT_YET_ARRIVED] >= 3
    assert (
        met["on-start"][CopyOutcome.WON, StateAtCancellation.ALREADY_DONE] >= 3
    )  # done before it could be told that another had started
    assert min(both_started, again) >= 3
