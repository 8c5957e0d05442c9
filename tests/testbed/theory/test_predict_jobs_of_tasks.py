"""From scenarios with jobs of several tasks to predictions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from testbed.scenario import JobType, Scenario
from testbed.theory.predict import NoPrediction, Prediction, predict
from testbed.workload.arrivals import DeterministicArrivals
from testbed.workload.distributions import Erlang

near = partial(pytest.approx, rel=1e-9)


TASKS_POLICIES = {
    "random": {},
    "round-robin": {},
    "power-of-d": {"d": 2},
    "jsq": {},
    "jiq": {},
    "least-outstanding": {},
    "batch-filling": {"d": 1.2},
    "batch-sampling": {"d": 2},
    "per-task-power-of-d": {"d": 2},
    "per-task-power-of-kd": {"d": 1.2},
    "late-binding": {"d": 1.2},
}
#: Formula sheet of Weng and Wang 2021 (parallel jobs), checks C10 and C11, and section 5 (D/M/1, and no waiting: H_10).
IN_THE_LIMIT = {
    "random": 29.289683,
    "batch-filling": 5.810455,
    "batch-sampling": 5.356494,
    "per-task-power-of-d": 6.207627,
    "power-of-d": 6.207627,
    "late-binding": 6.825218,
    "jsq": 2.928968,
    "jiq": 2.928968,
    "least-outstanding": 2.928968,
}


@pytest.fixture
def jobs_of(scenario: Callable[..., Scenario]) -> Callable[..., Scenario]:
    """Return what makes a scenario of jobs of several tasks for 100 servers."""

    def of(tasks: Any, policy: str, load: float = 0.9, **settings: Any) -> Scenario:
        changes = {"workload.tasks": tasks, "workload.load": load}
        return scenario(policy, servers=100, **settings).with_settings(changes)

    return of


@pytest.mark.parametrize("policy", sorted(TASKS_POLICIES))
def test_jobs_of_ten_tasks_have_the_mean_field_of_their_policy(jobs_of: Callable[..., Scenario], policy: str) -> None:
    prediction = predict(jobs_of(10, policy, **TASKS_POLICIES[policy]))
    assert isinstance(prediction, Prediction)
    assert prediction.kind == "limit"
    if policy in IN_THE_LIMIT:
        assert prediction.mean_response_time == near(IN_THE_LIMIT[policy], rel=1e-5)
    inherent = 2.9289683
    relative = prediction.mean_response_time / inherent - 1
    assert prediction.lower_bound == near(inherent, rel=1e-6)
    assert any(f"E[T - T*] / E[T*] is {max(relative, 0):.4g}" in note for note in prediction.notes)
    assert any("finite cluster" in note for note in prediction.notes)
    below = any("lies below" in note for note in prediction.notes)
    assert below == (policy == "random")
    assert sorted(prediction.quantiles.values()) == list(prediction.quantiles.values())


def test_batch_sampling_that_asks_nobody_is_random_routing(jobs_of: Callable[..., Scenario]) -> None:
    prediction = predict(jobs_of(10, "batch-sampling", d=1))
    assert isinstance(prediction, Prediction)
    assert prediction.mean_response_time == near(IN_THE_LIMIT["random"], rel=1e-6)
    assert not any("servers per task" in note for note in prediction.notes)


def test_whole_placement_in_finite_buffers_drops_jobs_and_costs_a_round_trip(jobs_of: Callable[..., Scenario]) -> None:
    """Formula sheet, check C13: k = 4, m = 6, load 0.9, b = 2."""
    plain = predict(jobs_of(4, "batch-filling", d=1.5, buffer=2))
    assert isinstance(plain, Prediction)
    assert plain.mean_response_time == near(2.901505, rel=1e-6)
    assert any("0.1868 of the jobs is dropped" in note for note in plain.notes)
    delayed = predict(jobs_of(4, "batch-filling", d=1.5, buffer=2, message_delay=0.1))
    assert isinstance(delayed, Prediction)
    assert delayed.mean_response_time == near(plain.mean_response_time + 0.6)


def test_a_fast_server_scales_the_time_of_a_job_of_tasks(jobs_of: Callable[..., Scenario]) -> None:
    normal = predict(jobs_of(10, "batch-filling"))
    double = predict(
        jobs_of(10, "batch-filling", load=1.8, types=[JobType(name="a", probability=1.0, speed={"main": 2})])
    )
    assert isinstance(normal, Prediction)
    assert isinstance(double, Prediction)
    assert double.mean_response_time == near(normal.mean_response_time / 2)


@pytest.mark.parametrize(
    ("tasks", "policy", "settings", "words"),
    [
        ({"kind": "zipf", "exponent": 2.0, "most": 50}, "batch-filling", {}, "fixed number of tasks"),
        (10, "batch-filling", {"size": Erlang(phases=2)}, "exponential"),
        (10, "batch-filling", {"arrivals": DeterministicArrivals()}, "Poisson"),
        (10, "batch-filling", {"timeout": 0.2, "message_delay": 0.1}, "timeout of 0.2"),
        (7, "round-robin", {}, "divide 100 servers"),
        (10, "jiq", {"dispatchers": 2}, "one dispatcher"),
        (10, "jsq", {"buffer": 3}, "no limit is derived"),
        (10, "random", {"weights": (1.0, 2.0) * 50, "replacement": True}, "same speed, buffer and fraction"),
    ],
)
def test_jobs_of_tasks_without_a_theory_say_why(
    jobs_of: Callable[..., Scenario], tasks: Any, policy: str, settings: dict[str, Any], words: str
) -> None:
    found = predict(jobs_of(tasks, policy, **{"load": 0.5, **settings}))
    assert isinstance(found, NoPrediction)
    assert words in found.reason


def test_jobs_that_never_find_room_have_no_prediction(jobs_of: Callable[..., Scenario]) -> None:
    prediction = predict(jobs_of(1000, "batch-filling", buffer=2))
    assert isinstance(prediction, NoPrediction)
    assert "every job is dropped" in prediction.reason
