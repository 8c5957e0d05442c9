import math
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from testbed.core.outcomes import JobOutcome
from testbed.measure.accounting import check
from testbed.measure.pathwise import compare
from testbed.measure.verdict import judge, with_emulation_error
from testbed.measure.verdict_checks import percent

WINDOW = (50.0, 300.0)


@pytest.fixture(scope="module")
def healthy(simulate_run):
    return simulate_run()


@pytest.fixture(scope="module")
def nominal(make_nominal):
    return make_nominal()


def verdict(run, nominal, window=WINDOW, time_unit_seconds=0.05, arrived=None):
    accounting = check(run.columns, run.counters["jobs arrived"] if arrived is None else arrived)
    return judge(run, accounting, nominal, window, time_unit_seconds)


def failed(found):
    assert found.valid == (not found.reasons)
    return [check.name for check in found.checks if not check.passed]


def with_column(run, name, values):
    return msgspec.structs.replace(run, columns=run.columns | {name: values})


def with_process(run, process):
    return msgspec.structs.replace(run, processes=[*run.processes, process])


def test_a_healthy_run_is_valid_and_every_check_was_made(healthy, nominal):
    found = verdict(healthy, nominal)
    assert failed(found) == []
    assert len(found.checks) == 16
    assert "not tested" not in {check.figure for check in found.checks}


def test_the_twin_is_not_asked_about_processes(healthy, nominal):
    twin = msgspec.structs.replace(healthy, source="twin", processes=[])
    found = verdict(twin, nominal)
    assert found.valid
    assert {check.name for check in found.checks}.isdisjoint(
        {"dispatch lag", "overhead", "timer lateness", "CPU usage", "rejected frames", "exact timers"}
    )
    assert len(found.checks) == 10


def test_time_spent_in_messages_is_suspect_unless_the_scenario_asks_for_it(healthy, nominal):
    mean = healthy.columns["response"].mean()
    slow = with_column(healthy, "overhead", np.full(len(healthy.columns["job"]), 0.11 * mean))
    found = verdict(slow, nominal)
    assert failed(found) == ["overhead"]
    assert "took 11 % of the mean response time: use a longer time_unit" in found.reasons[0]
    meant = verdict(slow, replace(nominal, message_delay=0.01))
    assert "overhead" not in failed(meant)
    assert next(c for c in meant.checks if c.name == "overhead").figure == "not tested"


def test_a_run_that_is_off_its_twin_by_more_than_chance_is_suspect(healthy, nominal):
    accounting = check(healthy.columns, healthy.counters["jobs arrived"])

    def judged(shift):
        off = with_column(healthy, "response", healthy.columns["response"] + shift)
        return judge(off, accounting, nominal, WINDOW, 0.05, compare(off.columns, healthy.columns, WINDOW))

    mean = healthy.columns["response"].mean()
    assert failed(judged(0.02 * mean)) == []
    found = judged(0.07 * mean)
    assert "emulation error" in failed(found)
    assert any("differs from its twin's by" in reason for reason in found.reasons)
    again = with_emulation_error(found, compare(healthy.columns, healthy.columns, WINDOW))
    assert "emulation error" not in failed(again)
    assert [c.name for c in again.checks].count("emulation error") == 1


def test_a_dispatcher_that_lags_is_suspect(healthy, nominal):
    late = with_column(healthy, "lag", np.full(len(healthy.columns["lag"]), 0.1))
    found = verdict(late, nominal)
    assert failed(found) == ["dispatch lag"]
    assert "arrivals were handled 2.8 % of the mean response time late" in found.reasons[0]
    assert "use a longer time_unit, fewer servers or more dispatchers" in found.reasons[0]


def test_late_timers_are_suspect_by_the_process_that_is_worst(healthy, nominal, make_process):
    # The mean response time is about 3.3 units of 50 ms; 7 ms are 4 % of it.
    found = verdict(with_process(healthy, make_process("node 7", lateness_mean=0.007)), nominal)
    assert failed(found) == ["timer lateness"]
    assert "timers of node 7 were 4" in found.reasons[0]
    assert failed(verdict(healthy, nominal, time_unit_seconds=0.001)) == ["timer lateness"]


def test_a_saturated_process_is_suspect(healthy, nominal, make_process):
    found = verdict(with_process(healthy, make_process("node 3", cpu_seconds=19.0)), nominal)
    assert failed(found) == ["CPU usage"]
    assert "node 3 used 95 % of a core" in found.reasons[0]


def test_rejected_frames_and_coarse_timers_are_suspect(healthy, nominal, make_process):
    assert failed(verdict(with_process(healthy, make_process("a", rejected_frames=1)), nominal)) == ["rejected frames"]
    assert failed(verdict(with_process(healthy, make_process("a", exact_timers=False)), nominal)) == ["exact timers"]


def test_a_run_that_was_cut_short_says_why(healthy, nominal):
    broken = msgspec.structs.replace(healthy, failure="node 1 was killed by SIGKILL")
    found = verdict(broken, nominal)
    assert failed(found) == ["run ended as planned"]
    assert "node 1 was killed by SIGKILL" in found.reasons[0]


def test_a_job_that_is_not_accounted_for_is_suspect(healthy, nominal):
    found = verdict(healthy, nominal, arrived=healthy.counters["jobs arrived"] + 1)
    assert failed(found) == ["jobs accounted for"]


def test_jobs_cut_off_at_the_end_are_suspect(healthy, nominal):
    outcome = healthy.columns["outcome"].copy()
    outcome[-60:] = JobOutcome.IN_SYSTEM  # over 1 % of the measured jobs
    found = verdict(with_column(healthy, "outcome", outcome), nominal)
    assert failed(found) == ["unfinished jobs"]
    assert "60 of " in found.reasons[0]


def test_arrivals_of_another_distribution_are_suspect(healthy, nominal):
    # Gaps from the same mean as the Poisson process, but the scenario said Erlang-2.
    rate = nominal.rate
    erlang = replace(nominal, gap_cdf=lambda x: 1 - np.exp(-2 * rate * x) * (1 + 2 * rate * x), arrival_dispersion=0.5)
    found = verdict(healthy, erlang)
    assert failed(found) == ["arrivals' goodness of fit"]
    assert "is not the scenario's" in found.reasons[0]


def test_a_dispatcher_that_bunches_its_arrivals_is_suspect(healthy, nominal):
    arrival = healthy.columns["arrival"]
    bunched = with_column(healthy, "lag", np.ceil(arrival / 0.5) * 0.5 - arrival)
    found = verdict(bunched, nominal)
    assert failed(found) == ["dispatch lag", "arrivals' goodness of fit"]
    assert "bunch arrivals" in found.reasons[1]


def test_a_load_other_than_the_nominal_one_is_suspect(healthy, nominal):
    # Standard error sqrt(2 / (14 * 250)) = 2.4 %: 4 of them and 0.5 % make 10 %.
    found = verdict(healthy, replace(nominal, load=0.8))
    assert failed(found) == ["arrived load"]
    assert verdict(healthy, replace(nominal, load=0.72)).valid


def test_arrivals_that_a_death_took_are_not_reported_as_a_fault(healthy, nominal):
    died = msgspec.structs.replace(healthy, incidents=["process dispatcher-0 was killed; started again"])
    found = verdict(died, replace(nominal, load=0.8))
    assert failed(found) == ["run ended as planned", "arrived load"]
    assert "at a dispatcher while it was dead are missing" in found.reasons[1]
    assert not any("please report it" in reason for reason in found.reasons)


def test_drops_count_as_arrived_work_but_not_as_served(simulate_run, nominal):
    run = simulate_run(seed=8)
    dropping = np.arange(len(run.columns["job"])) % 5 == 0
    columns = {name: values[~dropping] for name, values in run.columns.items()}
    served = msgspec.structs.replace(run, columns=columns)
    assert "arrived load" in failed(verdict(served, nominal, arrived=int((~dropping).sum())))
    outcome = np.where(dropping, JobOutcome.DROPPED, JobOutcome.COMPLETED)
    assert "arrived load" not in failed(verdict(with_column(run, "outcome", outcome), nominal))
    # The servers were busy with the fifth that is now said to be dropped:
    assert "served load" in failed(verdict(with_column(run, "outcome", outcome), nominal))


def test_servers_that_are_busy_longer_than_their_tasks_are_suspect(simulate_run, nominal):
    slow = simulate_run(slow_server=1.05)
    found = verdict(slow, nominal)
    assert failed(found) == ["served load"]
    assert "lose or gain time between tasks" in found.reasons[0]


def test_unfinished_jobs_may_have_been_served_for_as_long_as_they_were_there(healthy, nominal):
    # Every third job of the second half has no completion on record: a sixth of the busy time is not in the records.
    outcome = healthy.columns["outcome"].copy()
    outcome[len(outcome) // 2 :: 3] = JobOutcome.IN_SYSTEM
    outcome[len(outcome) // 2 + 1 :: 50] = JobOutcome.LOST
    assert "served load" not in failed(verdict(with_column(healthy, "outcome", outcome), nominal))


def test_unfinished_jobs_explain_no_more_than_the_time_since_they_came(healthy, nominal):
    # Four of 3500 jobs are unfinished, of which three came at the end; records lack a tenth of the services.
    outcome = healthy.columns["outcome"].copy()
    outcome[np.searchsorted(healthy.columns["arrival"], [280.0, 295.0, 296.0, 297.0])] = JobOutcome.IN_SYSTEM
    shorter = with_column(with_column(healthy, "outcome", outcome), "inherent", 0.9 * healthy.columns["inherent"])
    assert "served load" in failed(verdict(shorter, nominal))


def test_unfinished_jobs_do_not_explain_servers_less_busy_than_the_records(healthy, nominal):
    outcome = healthy.columns["outcome"].copy()
    outcome[-40:] = JobOutcome.IN_SYSTEM
    outcome[np.searchsorted(healthy.columns["arrival"], np.arange(50, 90))] = (
        JobOutcome.LOST
    )  # over 0.2 of the window's time
    longer = with_column(with_column(healthy, "outcome", outcome), "inherent", 1.1 * healthy.columns["inherent"])
    assert "served load" in failed(verdict(longer, nominal))


def served_load(found):
    return next(check for check in found.checks if check.name == "served load")


def test_services_are_counted_by_task_where_tasks_are_on_record(healthy, nominal):
    # Each job has two tasks, one after the other at the same server, each with half of the service.
    job, half = healthy.columns["job"], healthy.columns["work"] / 2
    end = healthy.columns["arrival"] + healthy.columns["response"]
    both = {"job": np.tile(job, 2), "service": np.tile(half, 2), "end": np.concatenate((end - half, end))}
    paired = with_column(healthy, "tasks", np.full(len(job), 2, np.int32))
    paired = with_column(paired, "inherent", half)
    found = served_load(verdict(msgspec.structs.replace(paired, tasks=both), nominal))
    assert found.passed
    assert "0 unfinished tasks" in found.limit
    assert found.figure == served_load(verdict(healthy, nominal)).figure
    # The second tasks of the later half of the jobs have no record:
    some = {name: column[: len(job) + len(job) // 2] for name, column in both.items()}
    found = served_load(verdict(msgspec.structs.replace(paired, tasks=some), nominal))
    assert f"{len(job) - len(job) // 2} unfinished tasks" in found.limit
    assert found.passed


def test_no_task_on_record_leaves_all_busy_time_to_unfinished_tasks(healthy, nominal):
    none = {"job": np.array([], np.int64), "service": np.array([]), "end": np.array([])}
    found = served_load(verdict(msgspec.structs.replace(healthy, tasks=none), nominal))
    assert "services recorded 0.0000" in found.figure
    assert found.passed


def test_the_busy_time_that_died_with_a_process_is_not_missed(simulate_run, nominal):
    slow = simulate_run(slow_server=1.05)
    for change in ({"failure": "node 1 was killed"}, {"incidents": ["node 1 was killed"]}):
        found = verdict(msgspec.structs.replace(slow, **change), nominal)
        assert failed(found) == ["run ended as planned"]
        assert served_load(found).figure == "not tested"


def test_a_run_shorter_than_two_relaxation_times_is_suspect(healthy, nominal):
    found = verdict(healthy, replace(nominal, relaxation_time=1559.75))
    assert failed(found) == ["run length", "distance from the empty start"]
    assert found.reasons[:1] == [
        "the run lasted 0.19 relaxation times of 1560 time units, the time in which such queues forget that they began "
        "empty: use a longer warmup and duration (at least 3120 time units together)"
    ]
    late = (100.0, 300.0)
    assert "run length" in failed(verdict(healthy, replace(nominal, relaxation_time=150.1), window=late))
    for enough in (150.0, 0.0, None):  # the run lasts 300 time units
        assert "run length" not in failed(verdict(healthy, replace(nominal, relaxation_time=enough), window=late))


def test_a_window_close_to_the_empty_start_is_suspect(healthy, nominal):
    memory = replace(nominal, relaxation_time=100.0)
    found = verdict(healthy, memory)  # the window begins at 50
    assert failed(found) == ["distance from the empty start"]
    assert "use a longer warmup and duration (at least 200 time units each)" in found.reasons[0]
    assert verdict(healthy, memory, window=(200.0, 300.0)).valid
    for enough in (20.0, 0.0, None):
        assert verdict(healthy, replace(nominal, relaxation_time=enough)).valid


def test_the_twin_and_a_run_stopped_early_are_asked_how_long_they_ran(healthy, nominal):
    memory = replace(nominal, relaxation_time=140.0)
    late = (230.0, 300.0)
    twin = msgspec.structs.replace(healthy, source="twin", processes=[])
    assert verdict(twin, memory, window=late).valid
    assert "run length" in failed(verdict(msgspec.structs.replace(twin, stopped_at=270.0), memory, window=late))
    assert "run length" in failed(verdict(twin, memory, window=(50.0, 270.0)))


def test_a_scenario_without_a_steady_state_is_suspect(healthy, nominal):
    found = verdict(healthy, replace(nominal, stable=False))
    assert failed(found) == ["load below the stability bound"]
    assert "there is no steady state, and the results depend on the length of the run" in found.reasons[0]
    unknown = verdict(healthy, replace(nominal, stable=False, load=None))
    assert unknown.reasons[0].startswith("the load is not below")


def test_a_cluster_whose_overload_is_not_in_the_scenario_is_suspect_for_its_trend(simulate_run, make_nominal):
    run = simulate_run(load=1.2, horizon=300.0)
    found = verdict(run, make_nominal(load=1.2))  # as if the policy's bound were higher than it is
    assert failed(found) == ["trend of the number in system"]
    assert "unstable at this load, or the warm-up is too short" in found.reasons[0]


def test_a_run_that_ended_before_any_job_was_completed_has_its_end_for_its_only_reason(healthy, nominal):
    nothing = {name: column[:0] for name, column in healthy.columns.items()}
    unborn = msgspec.structs.replace(healthy, columns=nothing, failure="dispatcher-0 was killed", stopped_at=60.0)
    found = verdict(unborn, replace(nominal, relaxation_time=None), arrived=0)
    assert failed(found) == ["run ended as planned"]
    assert all("unknown" not in check.explanation and "nan" not in check.figure for check in found.checks)
    unfinished = with_column(healthy, "outcome", np.full(len(healthy.columns["job"]), JobOutcome.IN_SYSTEM, np.int8))
    assert failed(verdict(unfinished, nominal)) == ["unfinished jobs"]


def test_what_cannot_be_tested_says_so(healthy, nominal):
    blind = replace(nominal, gap_cdf=None, load=None, arrival_dispersion=None, work_scv=math.inf)
    found = verdict(healthy, blind)
    assert found.valid
    untested = {check.name: check.explanation for check in found.checks if check.figure == "not tested"}
    assert set(untested) == {"arrivals' goodness of fit", "arrived load"}
    heavy = verdict(healthy, replace(nominal, work_scv=math.inf))
    assert any("infinite variance" in check.explanation for check in heavy.checks)
    unknown = verdict(healthy, replace(nominal, arrival_dispersion=None))
    assert any("sampling error of these arrivals" in check.explanation for check in unknown.checks)
    no_slices = msgspec.structs.replace(healthy, occupancy=np.zeros((0, 1)), occupancy_edges=np.array([]))
    assert any("busy time was not recorded" in check.explanation for check in verdict(no_slices, blind).checks)


def test_a_window_without_jobs_is_suspect_and_nothing_breaks(healthy, nominal):
    for window in ((400.0, 500.0), (400.0, 400.0)):
        found = verdict(healthy, nominal, window=window)
        assert "unfinished jobs" in failed(found)
        assert any("none of 0 jobs" in reason for reason in found.reasons)


def test_a_passing_check_says_what_was_found_without_a_remedy(healthy, nominal):
    assert all(": use" not in check.explanation for check in verdict(healthy, nominal).checks)


def test_healthy_runs_are_rarely_suspect(simulate_run, nominal):
    # 25 runs, of which each check fails with a chance of 1e-3 at most (the trend; the others below 1e-4): more than
    # two suspects have a chance below 1e-5.
    suspects = sum(
        not verdict(simulate_run(horizon=150.0, seed=100 + i), nominal, (30.0, 150.0)).valid for i in range(25)
    )
    assert suspects <= 2


@pytest.mark.parametrize(
    ("share", "text"), [(0.0043, "0.43 %"), (0.041, "4.1 %"), (0.95, "95 %"), (math.nan, "unknown")]
)
def test_shares_are_written_as_percentages(share, text):
    assert percent(share) == text


def test_regular_arrivals_may_miss_one_at_the_edge_of_the_window(healthy, nominal):
    regular = replace(nominal, work_scv=0.0, arrival_dispersion=0.0, rate=1.0, servers=1, load=0.5, gap_cdf=None)

    def arrived_load(first):
        jobs = np.arange(first, 100.0)
        columns = {name: values[: len(jobs)].copy() for name, values in healthy.columns.items()}
        columns |= {"arrival": jobs, "work": np.full(len(jobs), 0.5), "tasks": np.ones(len(jobs), dtype=int)}
        run = msgspec.structs.replace(healthy, columns=columns)
        checks = verdict(run, regular, window=(0.0, 100.0)).checks
        return next(check for check in checks if check.name == "arrived load")

    assert arrived_load(1.0).passed  # 99 arrivals
    assert arrived_load(1.5).passed
    assert not arrived_load(3.0).passed  # 97
