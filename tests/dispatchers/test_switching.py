"""Going over from one policy to another: a job belongs to the policy under which it arrived."""

from __future__ import annotations

from typing import Any

import pytest

from dispatchers.least_outstanding import LeastOutstanding
from dispatchers.policy import NoParameters
from dispatchers.power_of_d import PowerOfD
from testbed.core.messages import Assign, Done, Probe, ProbeReply

HERE = 4


@pytest.fixture
def desk(open_desk: Any) -> Any:
    """A dispatcher that probes two servers for each job."""
    return open_desk(PowerOfD, PowerOfD.Parameters(d=2), switches=True)


def to_least_outstanding(desk: Any, first_job: int) -> LeastOutstanding:
    policy = LeastOutstanding(NoParameters(), desk.dispatcher.view)
    desk.dispatcher.switch(policy, first_job)
    return policy


def probes(desk: Any, job: int) -> list[Probe]:
    return [probe for probe in desk.of(Probe) if probe.job == job]


def answer(desk: Any, probe: Probe, queue_length: int) -> None:
    desk.tell(ProbeReply(HERE, probe.to, probe.job, queue_length, probe.round))


def server_of(desk: Any, job: int) -> int | None:
    return next((task.to for task in desk.of(Assign) if task.job == job), None)


def test_a_job_that_waits_for_replies_is_placed_by_the_policy_that_has_asked(desk: Any) -> None:
    desk.arrive(0)
    to_least_outstanding(desk, 1)
    desk.arrive(1)
    assert server_of(desk, 1) is not None
    assert server_of(desk, 0) is None
    first, second = probes(desk, 0)
    answer(desk, first, 5)
    answer(desk, second, 1)
    assert server_of(desk, 0) == second.to
    assert probes(desk, 1) == []


def test_each_policy_counts_its_own_jobs(desk: Any) -> None:
    desk.arrive(0)
    for probe in probes(desk, 0):
        answer(desk, probe, 0)
    policy = to_least_outstanding(desk, 1)
    for job in range(1, 5):
        desk.arrive(job)
    assert sorted(server_of(desk, job) or 0 for job in range(1, 5)) == [0, 1, 2, 3]
    server = server_of(desk, 0)
    assert server is not None
    desk.tell(Done(HERE, server, 0, 0, 0.0, 1.0))  # a job of the former policy: nobody's count goes down
    assert policy._counts == [1, 1, 1, 1]
    desk.tell(Done(HERE, server_of(desk, 3) or 0, 3, 0, 0.0, 1.0))
    assert sorted(policy._counts) == [0, 1, 1, 1]
    assert desk.records.count == 2


def test_a_former_policy_is_forgotten_with_its_last_job_and_late_replies_are_for_nobody(desk: Any) -> None:
    dispatcher = desk.dispatcher
    dispatcher.arrive(0, 0, (1.0,))
    former = dispatcher.policy
    newer = to_least_outstanding(desk, 1)
    assert dispatcher.policies.all() == [former, newer]
    first, second = probes(desk, 0)
    answer(desk, first, 0)
    answer(desk, second, 0)
    server = server_of(desk, 0)
    assert server is not None
    desk.tell(Done(HERE, server, 0, 0, 0.0, 1.0))
    assert dispatcher.policies.all() == [newer]
    newest = PowerOfD(PowerOfD.Parameters(d=2), dispatcher.view)
    dispatcher.switch(newest, 1)
    dispatcher.arrive(1, 0, (1.0,))
    # The newest policy's first probe round has the number that the former one's first had.
    assert probes(desk, 1)[0].round == first.round
    answer(desk, first, 0)
    answer(desk, second, 0)
    assert server_of(desk, 1) is None
    for probe in probes(desk, 1):
        answer(desk, probe, 3)
    assert server_of(desk, 1) is not None
