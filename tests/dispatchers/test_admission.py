"""A pool with a central queue beside one whose servers have queues of their own: every job's copies are recorded."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import isnan
from typing import Any

import pytest

from dispatchers.admission import CentralQueues
from dispatchers.static import Static, StaticParameters
from testbed.core.messages import Admit, Assign, CopyEnded, Done, JobDone
from testbed.core.outcomes import CopyOutcome, JobOutcome, StateAtCancellation
from testbed.core.placed_pool import PlacedPool
from testbed.core.records import CopyRecords
from testbed.core.rows import CopyRecord

SERVERS = 6  # 0 and 1 of pool "central", 2 to 5 of pool "own"
HERE, AGENT = SERVERS, SERVERS + 1
POOLS = [PlacedPool("central", 0, 0, 2, central=True), PlacedPool("own", 1, 2, 4, central=False)]


@pytest.fixture
def desk_for(open_desk: Any) -> Callable[..., Any]:
    """Open the desk of a dispatcher that gives each pool its share of the jobs."""

    def make(central: float, own: float) -> Any:
        copies = CopyRecords(1)
        desk = open_desk(
            Static,
            StaticParameters(assignment={"central": central, "own": own}),
            servers=SERVERS,
            recovers=True,
            pools=POOLS,
            copies=copies,
            place=partial(CentralQueues, pool_agent=AGENT),
        )
        desk.copies = copies
        return desk

    return make


def ended(job: int, order: int, outcome: CopyOutcome) -> CopyEnded:
    state = StateAtCancellation.NOT_CANCELLED
    return CopyEnded(HERE, AGENT, CopyRecord(job, order, 0, 1, 0.5, 2.0, 0, outcome, state))


def rows(desk: Any, *names: str) -> list[tuple[Any, ...]]:
    columns = desk.copies.columns()
    return list(zip(*(columns[name].tolist() for name in names), strict=True))


def test_a_job_of_a_server_with_a_queue_of_its_own_is_one_copy_that_wins(desk_for: Callable[..., Any]) -> None:
    desk = desk_for(0.0, 1.0)
    server = desk.arrive()
    desk.tell(Done(HERE, server, 0, 0, 0.25, 3.0, 2))
    assert rows(desk, "job", "copy", "pool", "server", "wait", "received") == [(0, 0, 1, server, 0.25, 3.0)]
    assert rows(desk, "preemptions", "fate", "met", "end") == [
        (0, CopyOutcome.WON, StateAtCancellation.NOT_CANCELLED, 0.0)
    ]
    assert isnan(desk.copies.columns()["delay"][0])
    jobs = desk.records.columns()
    assert [jobs[name].tolist() for name in ("outcome", "work", "wait", "position")] == [
        [JobOutcome.COMPLETED],
        [3.0],
        [0.25],
        [2],
    ]
    assert desk.dispatcher.placement.awaiting_cancellation == 0
    desk.tell(Done(HERE, server, 0, 0, 0.25, 3.0))
    assert (desk.dispatcher.jobs.done_twice, desk.copies.count) == (1, 1)


def test_a_job_that_died_with_such_a_server_has_a_record_of_that_before_its_next_copy(
    desk_for: Callable[..., Any],
) -> None:
    desk = desk_for(0.0, 1.0)
    dead = desk.arrive()
    desk.lost(dead)
    server = desk.placed[-1]
    desk.tell(Done(HERE, server, 0, 0, 0.0, 1.0))
    assert rows(desk, "copy", "server", "fate") == [(0, dead, CopyOutcome.DIED), (1, server, CopyOutcome.WON)]
    assert [isnan(received) for (received,) in rows(desk, "received")] == [True, False]


def test_what_dies_with_such_a_server_is_never_placed_on_a_server_of_a_central_queue(
    desk_for: Callable[..., Any],
) -> None:
    """Those take jobs from their pool's queue alone. Of six servers three are dead: half would have gone there."""
    desk = desk_for(0.0, 1.0)
    for job in range(40):
        desk.arrive(job)
    desk.lost(3, 5)
    assert len(desk.placed) > 60
    assert set(desk.placed[40:]) == {2}
    desk.lost(0, 1)
    desk.dispatcher.on_up(0, 1)
    desk.dispatcher.on_up(4, 4)
    for job in range(40, 80):
        desk.arrive(job)
    assert set(desk.placed[-40:]) == {2, 4}


def test_a_job_that_died_with_such_a_server_may_join_a_central_queue(desk_for: Callable[..., Any]) -> None:
    desk = desk_for(0.5, 0.5)
    for job in range(40):
        desk.arrive(job)
    admitted = {admission.job for admission in desk.of(Admit)}
    desk.lost(2, 5)
    moved = sorted({admission.job for admission in desk.of(Admit)} - admitted)
    assert moved == []
    desk.dispatcher.on_up(2, 2)
    moved = sorted({admission.job for admission in desk.of(Admit)} - admitted)
    assert len(moved) > 5
    job, other = moved[:2]
    desk.tell(
        ended(job, 0, CopyOutcome.REROUTED), ended(job, 1, CopyOutcome.WON), JobDone(HERE, AGENT, job, 1, 2, 0.5, 2.0)
    )
    assert [row[1:] for row in rows(desk, "job", "copy", "fate") if row[0] == job] == [
        (0, CopyOutcome.DIED),
        (1, CopyOutcome.REROUTED),
        (2, CopyOutcome.WON),
    ]
    jobs = desk.records.columns()
    assert (jobs["job"].tolist(), jobs["work"].tolist(), desk.dispatcher.placement.awaiting_cancellation) == (
        [job],
        [4.0],
        0,
    )
    # The others are in the central queue now, whatever becomes of the server where they were.
    desk.dispatcher.close(lambda server: server >= 2)
    jobs = desk.records.columns()
    assert jobs["outcome"][jobs["job"] == other].tolist() == [JobOutcome.IN_SYSTEM]
    at_two = {task.job for task in desk.of(Assign)} - set(moved)
    assert set(jobs["outcome"][[number in at_two for number in jobs["job"]]].tolist()) == {JobOutcome.LOST}
