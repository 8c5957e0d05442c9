"""Where an automatic warm-up ends, and whether a window is far enough from an empty start."""

from __future__ import annotations

import math

import numpy as np
import pytest

from testbed.measure.empty_start import (
    automatic_start,
    distance,
    estimated_relaxation_time,
    first_quarter,
    growth_over_replications,
)
from testbed.measure.statistics import number_over
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, decode
from testbed.studies.sweep.sweeping import twin_summary


def random_routing(duration: float, warmup: float | str = "auto") -> Scenario:
    return decode(
        {
            "name": "empty",
            "run": {"warmup": warmup, "duration": duration},
            "cluster": {"pools": [{"servers": 20}]},
            "workload": {"load": 0.8, "size": {"kind": "hyperexponential", "scv": 4.0}},
            "dispatch": {"policy": "random"},
        }
    )


@pytest.mark.parametrize(("warmup", "valid"), [("auto", False), (80.0, False), (448.0, True)])
def test_a_window_close_to_an_empty_start_is_not_valid(warmup: float | str, valid: bool) -> None:
    # The relaxation time is 224.
    scenario = random_routing(400.0, warmup)
    summary = twin_summary(scenario, simulate(scenario))
    assert summary.verdict.valid == valid
    if not valid:
        assert "at least 449 time units each" in summary.verdict.reasons[0]


def test_the_mean_with_an_automatic_warmup_is_right_where_the_verdict_is_valid() -> None:
    scenario = random_routing(1000.0)
    summaries = [twin_summary(scenario, simulate(scenario, i)) for i in range(6)]
    assert all(summary.verdict.valid for summary in summaries)
    assert all(summary.window[0] == pytest.approx(448.6, abs=0.1) for summary in summaries)
    means = np.array([summary.response.mean for summary in summaries])
    # 11.0 is exact (Pollaczek-Khinchine); 13.0 is the quantile of Student's distribution with 5 degrees of freedom at
    # 1 - 2.5e-5, so that the probability of a false alarm is 5e-5.
    assert abs(means.mean() - 11.0) < 13.0 * means.std(ddof=1) / np.sqrt(6)


def test_an_unknown_relaxation_time_is_estimated(make_nominal, simulate_run) -> None:
    run = simulate_run(load=0.3)  # its relaxation time is 4.9
    window = (0.0, 300.0)
    own = estimated_relaxation_time(run.columns, window)
    assert 1 < own < 30
    assert automatic_start(run.columns, window, 0.0, None) == 2 * own
    assert automatic_start(run.columns, window, 149.0, None) == 149.0
    early = distance(run.columns, make_nominal(load=0.3, relaxation_time=None), (0.0, own), 0.0)
    assert not early.passed
    assert distance(run.columns, make_nominal(load=0.3, relaxation_time=None), (50.0, 300.0), 0.0).passed
    slow = simulate_run(load=1.2)
    assert estimated_relaxation_time(slow.columns, window) == math.inf
    assert automatic_start(slow.columns, window, 0.0, None) == 150.0
    unknown = distance(slow.columns, make_nominal(load=1.2, relaxation_time=None), (150.0, 300.0), 0.0)
    assert "too slowly" in unknown.explanation


def test_the_queues_of_a_long_running_cluster_begin_to_fill_at_a_change_of_settings(make_nominal, simulate_run) -> None:
    run = simulate_run()
    assert automatic_start(run.columns, (100.0, 300.0), 30.0, 1.0) == 130.0
    nominal = make_nominal(relaxation_time=30.0)
    assert not distance(run.columns, nominal, (200.0, 300.0), 195.0).passed
    assert distance(run.columns, nominal, (200.0, 300.0), 100.0).passed


def test_the_first_quarter_is_that_of_the_window(simulate_run) -> None:
    run = simulate_run()
    assert first_quarter(run.columns, (100.0, 300.0)) == pytest.approx(number_over(run.columns, (100.0, 150.0)).mean())


def test_growth_over_replications_is_seen_where_no_replication_shows_it() -> None:
    rng = np.random.default_rng(7)
    whole = rng.normal(100.0, 10.0, 40)
    steady = growth_over_replications(whole + rng.normal(0.0, 10.0, 40), whole)
    growing = growth_over_replications(whole - 12.0 + rng.normal(0.0, 10.0, 40), whole)
    assert steady.passed
    assert not growing.passed
    small = growth_over_replications(whole - 1.0, whole)  # certain, and too small to matter
    assert small.passed
    assert growth_over_replications([1.0, 1.0], [9.0, 9.0]).figure == "not tested"
