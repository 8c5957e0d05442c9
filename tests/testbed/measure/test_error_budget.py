"""The parts of the mean response time add up to it, and each is what the records and reports say."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from testbed.measure.error_budget import PARTS, ErrorBudget, error_budget, mean_budget
from testbed.measure.summary import summarise

UNIT = 0.02


@pytest.fixture
def emulated(simulate_run):
    """Measurements in which jobs lose 0.01 to the machine, of which 0.0005 to dispatch and 0.0002 to a timer."""
    run = simulate_run(load=0.5, horizon=100.0)
    columns = run.columns | {"response": run.columns["response"] + 0.01, "overhead": run.columns["overhead"] + 0.01}
    node, dispatcher = run.processes
    processes = [
        msgspec.structs.replace(node, messages_sent=300, sent_after_mean=8e-6, delivered_after_mean=2e-6),
        msgspec.structs.replace(dispatcher, name="dispatcher-0", sent_after_mean=4e-6, delivered_after_mean=1e-6),
    ]
    return msgspec.structs.replace(run, columns=columns, processes=processes)


def summary_of(measurements, make_nominal):
    return summarise(
        measurements, make_nominal(load=0.5), variant="random", replication=0, time_unit_seconds=UNIT, window=(10, 100)
    )


def test_each_part_is_what_was_recorded_and_together_they_are_the_mean_response_time(emulated, make_nominal):
    summary = summary_of(emulated, make_nominal)
    budget = error_budget(summary, round_trips=2, message_delay=0.001)
    jobs = emulated.columns
    inside = (jobs["arrival"] >= 10) & (jobs["arrival"] < 100)
    assert budget.service == pytest.approx(jobs["inherent"][inside].mean())
    assert budget.queueing == pytest.approx(jobs["wait"][inside].mean())
    assert budget.dispatch_delay == pytest.approx(0.0005)
    assert budget.timer_lateness == pytest.approx(0.0002)
    # Two messages from each side, of which a job waits for both, and their delivery at both ends: in time units.
    assert budget.event_loop_lag == pytest.approx((2 * (8e-6 + 4e-6) + 2e-6 + 1e-6) / UNIT)
    assert budget.message_delay == pytest.approx(2 * 2 * 0.001)
    assert budget.rest == pytest.approx(0.01 - 0.0005 - 0.0002 - budget.event_loop_lag - 0.004)
    assert budget.total == pytest.approx(summary.response.mean, rel=1e-14)
    assert tuple(PARTS) == ErrorBudget.__struct_fields__


def test_of_a_twin_nothing_goes_to_a_machine(emulated, make_nominal):
    twin = msgspec.structs.replace(
        emulated,
        source="twin",
        processes=[],
        columns=emulated.columns | dict.fromkeys(("lag", "lateness"), np.zeros(len(emulated.columns["job"]))),
    )
    budget = error_budget(summary_of(twin, make_nominal), round_trips=1, message_delay=0.005)
    assert (budget.dispatch_delay, budget.timer_lateness, budget.event_loop_lag) == (0, 0, 0)
    assert budget.message_delay == 0.01
    assert budget.rest == pytest.approx(0, abs=1e-12)


def test_replications_are_averaged_part_by_part_and_a_run_without_jobs_has_none(emulated, make_nominal):
    summary = summary_of(emulated, make_nominal)
    budget = error_budget(summary, round_trips=1, message_delay=0)
    slower = msgspec.structs.replace(budget, rest=budget.rest + 0.5)
    assert mean_budget([budget, slower]).rest == pytest.approx(budget.rest + 0.25)
    assert mean_budget([budget, slower]).total == pytest.approx(budget.total + 0.25)
    assert mean_budget([]) is None
    nothing = msgspec.structs.replace(summary, response=msgspec.structs.replace(summary.response, mean=None))
    assert error_budget(nothing, round_trips=1, message_delay=0) is None
