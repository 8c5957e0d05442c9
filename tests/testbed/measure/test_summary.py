import math

import msgspec
import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.measure.summary import decode, encode, judged_together, measured_window, summarise

SETTINGS = {"variant": "random", "replication": 0, "time_unit_seconds": 0.05}


@pytest.fixture(scope="module")
def run(simulate_run):
    return simulate_run()


@pytest.fixture(scope="module")
def summary(run, make_nominal):
    return summarise(run, make_nominal(), window=(50.0, 300.0), twin=run, prediction={"mean": 10 / 3}, **SETTINGS)


def test_the_numbers_are_those_of_the_measured_jobs(run, summary):
    columns = run.columns
    inside = columns["arrival"] >= 50.0
    assert summary.schema == 1
    assert summary.outcomes == {"completed": int(inside.sum()), "dropped": 0, "lost": 0, "in system": 0}
    assert summary.accounting.arrived == len(inside)
    assert summary.response.mean == pytest.approx(columns["response"][inside].mean())
    assert summary.inherent_mean == pytest.approx(columns["inherent"][inside].mean())
    assert summary.queueing_delay_mean == pytest.approx(columns["wait"][inside].mean())
    assert summary.wait_mean == pytest.approx(columns["wait"][inside].mean())
    assert summary.dispatch_lag_mean == pytest.approx(0.0005)
    assert summary.probes_per_job == summary.probes_per_task == 2.0
    assert summary.messages_per_job == 6.0
    assert summary.drop_share == 0.0
    assert [q.probability for q in summary.response_quantiles] == [0.5, 0.9, 0.99, 0.999]
    assert summary.verdict.valid
    assert summary.pathwise.mean == 0.0
    assert summary.pathwise.same_server == 1.0


def test_littles_law_ties_queue_lengths_to_response_times(run, summary):
    # Both sides from one run: they differ only by the jobs at the edges of the window.
    throughput = summary.outcomes["completed"] / 250.0 / 20
    assert summary.queue_length.mean == pytest.approx(throughput * summary.response.mean, rel=0.1)
    assert summary.queue_length.utilisation == pytest.approx(throughput * summary.inherent_mean, rel=0.05)
    assert summary.queue_length.edges[0] == 50.0
    assert summary.queue_length.edges[-1] == 300.0
    assert summary.number_in_system_mean == pytest.approx(20 * throughput * summary.response.mean, rel=0.1)
    # Tasks are at their servers but while messages are on their way.
    assert summary.queue_length.mean * 20 == pytest.approx(summary.number_in_system_mean, rel=0.01)
    assert np.mean(summary.queue_length.number_in_system) == pytest.approx(summary.number_in_system_mean)


def test_mean_response_covers_mm1(summary):
    # 10/3; six half-widths of a 95 % interval are eleven standard errors.
    assert abs(summary.response.mean - 10 / 3) < 6 * summary.response.half_width


def test_a_run_of_a_few_autocorrelation_times_says_that_it_is_short(summary):
    # 250 time units at load 0.7 are seven times 2 (1 + load) / (1 - load)^2.
    assert 2 < summary.response.effective_samples < 30
    assert not summary.response.reliable


def test_json_holds_no_nan_and_reads_back_equal(summary):
    text = encode([summary, summary])
    assert b"NaN" not in text
    assert decode(text) == [summary, summary]
    assert summary.processes[1].lateness_mean == 0.0


def test_a_run_without_measured_jobs_still_has_a_summary(run, make_nominal):
    nothing = summarise(run, make_nominal(), window=(400.0, 400.0), **SETTINGS)
    assert nothing.response.mean is None
    assert nothing.drop_share is None
    assert not nothing.verdict.valid
    assert decode(encode([nothing])) == [nothing]


def test_what_is_counted_per_task_is_of_all_jobs_also_where_records_are_of_the_latest_alone(run, make_nominal):
    jobs = len(run.columns["job"])
    latest = {name: column[jobs // 2 :] for name, column in run.columns.items()}
    counters = run.counters | {"reservations cancelled": 3 * jobs, "idle reports": jobs}
    kept = msgspec.structs.replace(run, columns=latest, counters=counters, unrecorded={"completed": jobs // 2})
    summary = summarise(kept, make_nominal(), window=(200.0, 300.0), **SETTINGS)
    assert summary.accounting.balanced
    assert (summary.cancellations_per_task, summary.idle_reports_per_task) == pytest.approx((3.0, 1.0))


def test_drops_are_counted_and_have_no_response(run, make_nominal):
    dropping = np.arange(len(run.columns["job"])) % 10 == 0
    columns = run.columns | {
        "outcome": np.where(dropping, JobOutcome.DROPPED, JobOutcome.COMPLETED),
        "response": np.where(dropping, math.nan, run.columns["response"]),
    }
    dropped = msgspec.structs.replace(run, columns=columns)
    found = summarise(dropped, make_nominal(), window=(0.0, 300.0), **SETTINGS)
    assert found.drop_share == pytest.approx(0.1, abs=0.001)
    assert found.response.mean == pytest.approx(run.columns["response"][~dropping].mean())
    assert (found.probes_per_task, found.tasks_per_job) == (2.0, 1.0)


def test_another_schema_or_other_text_is_refused(summary):
    with pytest.raises(ValueError, match="schema 2"):
        decode(encode([msgspec.structs.replace(summary, schema=2)]))
    with pytest.raises(ValueError, match=r"."):
        decode(b"[")


def test_the_window_ends_where_arrivals_stopped(run):
    assert measured_window(run, 50.0, 300.0) == (50.0, 300.0)
    short = msgspec.structs.replace(run, stopped_at=120.0)
    assert measured_window(short, 50.0, 300.0) == (50.0, 120.0)
    assert measured_window(short, 150.0, 300.0) == (150.0, 150.0)


def test_an_automatic_warmup_lasts_two_relaxation_times(run):
    assert measured_window(run, "auto", 300.0, 40.0) == (80.0, 300.0)
    assert measured_window(run, "auto", 300.0, 1.0) == (50.0, 300.0)  # what runs before the duration
    assert measured_window(run, "auto", 300.0, 1000.0) == (150.0, 300.0)  # half of the run
    short = msgspec.structs.replace(run, stopped_at=120.0)
    assert measured_window(short, "auto", 300.0, 40.0) == (60.0, 120.0)


def test_an_automatic_warmup_ends_with_the_transient(run):
    # Response times of jobs that arrive before time 40 are raised far above the others'; records in any order.
    rng = np.random.default_rng(1)
    shuffled = rng.permutation(len(run.columns["job"]))
    columns = {name: values[shuffled] for name, values in run.columns.items()}
    columns["response"] = columns["response"] + 50 * (columns["arrival"] < 40.0)
    start, stop = measured_window(msgspec.structs.replace(run, columns=columns), "auto", 300.0)
    assert 90.0 <= start <= 150.0
    assert stop == 300.0
    nobody = msgspec.structs.replace(run, columns={name: values[:0] for name, values in columns.items()})
    assert measured_window(nobody, "auto", 300.0) == (50.0, 300.0)


def test_replications_are_judged_together(summary):
    def replications(early):
        return [
            msgspec.structs.replace(
                summary, number_in_system_mean=50.0 + i % 3, early_number_in_system_mean=early + i % 3 + 0.1 * i
            )
            for i in range(20)
        ]

    empty = judged_together(replications(40.0))
    assert not any(run.verdict.valid for run in empty)
    assert "over 20 replications" in empty[0].verdict.reasons[0]
    assert all(run.verdict.valid for run in judged_together(replications(49.0)))
    again = judged_together(judged_together(replications(49.0)))
    assert len(again[0].verdict.checks) == len(summary.verdict.checks) + 1
    assert judged_together([summary]) == [summary]
    assert all(run.verdict.valid for run in judged_together([summary] * 3))  # too few
