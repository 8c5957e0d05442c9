import math
from functools import partial

import pytest

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.placement import DirectPlacement
from dispatchers.policy import NoParameters, Policy
from testbed.core.messages import Done, Dropped
from testbed.core.records import JobRecords
from testbed.runtime.virtual import VirtualRuntime


class PlacesAllTasks(Policy):
    """Task i of a job goes to server i."""

    name = "all tasks"
    source = "a test"

    def __init__(self, parameters, dispatcher):
        super().__init__(parameters, dispatcher)
        self.finished = []

    def place(self, job):
        self.place_tasks(job, 1)

    def place_tasks(self, job, tasks):
        for server in range(tasks):
            self.dispatcher.assign(job, server)

    def on_done(self, done):
        self.finished.append((done.job, done.sender))


@pytest.fixture
def dispatcher():
    runtime = VirtualRuntime(1)
    runtime.send = lambda message: None  # tests answer in place of the servers
    jobs = Jobs(runtime, 9, Surroundings(0, 9), DispatcherRecords(JobRecords(1)))
    return Dispatcher(DirectPlacement(jobs), partial(PlacesAllTasks, NoParameters()))


def at(dispatcher, when, action):
    dispatcher.env.call_at(when, action)
    dispatcher.env.run(when)


def tell(dispatcher, message):
    dispatcher.handlers[type(message)](message)


def rows(dispatcher):
    columns = dispatcher.jobs.records.jobs.columns()
    return [dict(zip(columns, row, strict=True)) for row in zip(*(c.tolist() for c in columns.values()), strict=True)]


def test_a_job_is_done_with_its_last_task(dispatcher):
    at(dispatcher, 2.0, partial(dispatcher.arrive, 7, 1, (1.0, 3.0)))
    at(dispatcher, 4.0, partial(tell, dispatcher, Done(9, 0, 7, 0, 0.5, 1.5)))
    assert rows(dispatcher) == []
    at(dispatcher, 6.0, partial(tell, dispatcher, Done(9, 1, 7, 1, 0.25, 3.0)))
    (row,) = rows(dispatcher)
    assert (row["job"], row["type"], row["outcome"], row["arrival"], row["response"]) == (7, 1, 0, 2.0, 4.0)
    assert (row["inherent"], row["wait"]) == (3.0, 0.5)  # the longest of its tasks
    assert row["overhead"] == 4.0 - (0.25 + 3.0)  # of the last one
    assert dispatcher.in_system == {}


def test_a_job_with_a_dropped_task_ends_as_dropped_when_none_of_its_tasks_is_left(dispatcher):
    at(dispatcher, 0.0, partial(dispatcher.arrive, 7, 0, (1.0, 3.0)))
    at(dispatcher, 1.0, partial(tell, dispatcher, Dropped(9, 1, 7, 1)))
    assert rows(dispatcher) == []
    at(dispatcher, 2.0, partial(tell, dispatcher, Done(9, 0, 7, 0, 0.0, 1.0)))
    (row,) = rows(dispatcher)
    assert row["outcome"] == 1
    assert math.isnan(row["response"])
    assert dispatcher.policy.finished == [(7, 1), (7, 0)]  # the policy hears of both


def test_at_the_end_every_job_left_is_lost_or_still_in_the_system(dispatcher):
    for job, tasks in ((0, 1), (1, 2), (2, 0)):
        at(dispatcher, float(job), partial(dispatcher.arrive, job, 0, (1.0,) * tasks))
    dispatcher.close(lambda server: server == 1)
    assert {row["job"]: (row["outcome"], row["server"]) for row in rows(dispatcher)} == {
        0: (3, 0),
        1: (2, 1),
        2: (3, -1),
    }
    assert dispatcher.in_system == {}


def test_probes_are_counted_by_job_and_in_total(bench):
    system = bench("jsq", 4)
    for _ in range(3):
        system.arrive()
    for job in range(3):
        system.finish(job)
    assert system.records.columns()["probes"].tolist() == [4, 4, 4]
    assert system.dispatcher.probes.sent == 12
    assert system.dispatcher.arrived == 3
