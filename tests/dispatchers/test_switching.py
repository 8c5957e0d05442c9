"""Going over from one policy to another: a job belongs to the policy under which it arrived."""

from __future__ import annotations

from dispatchers.dispatcher import Dispatcher
from dispatchers.least_outstanding import LeastOutstanding
from dispatchers.policy import NoParameters
from dispatchers.power_of_d import PowerOfD
from testbed.measure.records import JobRecords
from testbed.protocol import Assign, Done, Message, Probe, ProbeReply
from testbed.runtime.virtual import VirtualRuntime

HERE = 4


class Desk:
    """A dispatcher of four servers that probes two of them for each job."""

    def __init__(self) -> None:
        self.runtime = VirtualRuntime(1)
        self.sent: list[Message] = []
        self.runtime.send = self.sent.append
        self.records = JobRecords(1)
        self.dispatcher = Dispatcher(
            self.runtime,
            HERE,
            index=0,
            servers=4,
            policy=PowerOfD,
            parameters=PowerOfD.Parameters(d=2),
            ledger=self.records,
        )

    def to_least_outstanding(self, first_job: int) -> LeastOutstanding:
        policy = LeastOutstanding(NoParameters(), self.dispatcher)
        self.dispatcher.switch(policy, first_job)
        return policy

    def tell(self, message: Message) -> None:
        self.dispatcher.handlers[type(message)](message)

    def probes(self, job: int) -> list[Probe]:
        return [message for message in self.sent if isinstance(message, Probe) and message.job == job]

    def answer(self, probe: Probe, queue_length: int) -> None:
        self.tell(ProbeReply(HERE, probe.to, probe.job, queue_length, probe.question))

    def server_of(self, job: int) -> int | None:
        found = [message.to for message in self.sent if isinstance(message, Assign) and message.job == job]
        return found[0] if found else None


def test_a_job_that_waits_for_replies_is_placed_by_the_policy_that_has_asked() -> None:
    desk = Desk()
    desk.dispatcher.arrive(0, 0, (1.0,))
    desk.to_least_outstanding(1)
    desk.dispatcher.arrive(1, 0, (1.0,))
    assert desk.server_of(1) is not None
    assert desk.server_of(0) is None
    first, second = desk.probes(0)
    desk.answer(first, 5)
    desk.answer(second, 1)
    assert desk.server_of(0) == second.to
    assert desk.probes(1) == []


def test_each_policy_counts_its_own_jobs() -> None:
    desk = Desk()
    desk.dispatcher.arrive(0, 0, (1.0,))
    for probe in desk.probes(0):
        desk.answer(probe, 0)
    policy = desk.to_least_outstanding(1)
    for job in range(1, 5):
        desk.dispatcher.arrive(job, 0, (1.0,))
    assert sorted(desk.server_of(job) or 0 for job in range(1, 5)) == [0, 1, 2, 3]
    server = desk.server_of(0)
    assert server is not None
    desk.tell(Done(HERE, server, 0, 0, 0.0, 1.0))  # a job of the former policy: nobody's count goes down
    assert policy._counts == [1, 1, 1, 1]
    desk.tell(Done(HERE, desk.server_of(3) or 0, 3, 0, 0.0, 1.0))
    assert sorted(policy._counts) == [0, 1, 1, 1]
    assert desk.records.count == 2


def test_a_former_policy_is_forgotten_with_its_last_job_and_late_replies_are_for_nobody() -> None:
    desk = Desk()
    dispatcher = desk.dispatcher
    dispatcher.arrive(0, 0, (1.0,))
    former = dispatcher.policy
    newer = desk.to_least_outstanding(1)
    assert dispatcher.policies == [former, newer]
    first, second = desk.probes(0)
    desk.answer(first, 0)
    desk.answer(second, 0)
    server = desk.server_of(0)
    assert server is not None
    desk.tell(Done(HERE, server, 0, 0, 0.0, 1.0))
    assert dispatcher.policies == [newer]
    newest = PowerOfD(PowerOfD.Parameters(d=2), dispatcher)
    dispatcher.switch(newest, 1)
    dispatcher.arrive(1, 0, (1.0,))
    # The newest policy's first question has the number that the former one's first had.
    assert desk.probes(1)[0].question == first.question
    desk.answer(first, 0)
    desk.answer(second, 0)
    assert desk.server_of(1) is None
    for probe in desk.probes(1):
        desk.answer(probe, 3)
    assert desk.server_of(1) is not None
