"""The plan of a sweep: what is run in which order, and when a target is reached."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from testbed.scenario import Scenario, ScenarioError
from testbed.studies.sweep.plan import FEWEST, FinishedRun, Goal, Plan, RunKey

Tiny = Callable[..., Scenario]
Finished = Callable[..., FinishedRun]


def test_variants_take_turns_at_each_point_and_points_in_each_replication(tiny: Tiny) -> None:
    missing = Plan(tiny(), Goal()).missing({})
    assert missing == [(p, v, r) for r in range(2) for p in range(3) for v in ("random", "jsq")]


def test_what_was_made_is_not_missing_whatever_the_order(tiny: Tiny, finished: Finished) -> None:
    plan = Plan(tiny(), Goal())
    every = plan.missing({})
    chosen = random.Random(3).sample(every, 7)
    left = plan.missing({key: finished(*key, 1.0) for key in chosen})
    assert left == [key for key in every if key not in chosen]
    assert plan.missing({key: finished(*key, 1.0) for key in every}) == []


def test_theory_alone_needs_no_runs(tiny: Tiny) -> None:
    assert Plan(tiny(), Goal(on=("theory",))).missing({}) == []


def made(plan: Plan, finished: Finished, spread: dict[str, float], limit: int = 10_000) -> dict[RunKey, FinishedRun]:
    """Make what is missing until nothing is, or ``limit`` runs; the mean is 1, with a spread by variant."""
    runs: dict[RunKey, FinishedRun] = {}
    while keys := plan.missing(runs):
        for key in keys:
            if len(runs) == limit:
                return runs
            # Plus and minus by turns: the interval's width follows from the number alone.
            runs[key] = finished(*key, 1.0 + spread[key.variant] * (-1) ** key.replication)
    return runs


def test_with_a_target_replications_go_on_until_each_variant_of_a_point_has_reached_it(
    tiny: Tiny, finished: Finished
) -> None:
    plan = Plan(tiny({"sweep.grid": {"workload.load": [0.5]}}), Goal(target=0.05))
    runs = made(plan, finished, {"random": 0.1, "jsq": 0.01})
    precisions = {precision.variant: precision for precision in plan.precisions(runs)}
    assert all(precision.reached for precision in precisions.values())
    # t(0.975, n - 1) * 0.1 / sqrt(n) is 0.05 at n = 18: both variants get as many, to be compared in pairs.
    assert {precision.replications for precision in precisions.values()} <= {18, 19, 20}
    assert len(runs) == 2 * precisions["random"].replications
    assert precisions["random"].relative_half_width == pytest.approx(0.05, rel=0.1)
    assert precisions["jsq"].relative_half_width == pytest.approx(0.005, rel=0.1)


def test_the_budget_ends_what_the_target_would_not(tiny: Tiny, finished: Finished) -> None:
    plan = Plan(tiny({"sweep.grid": {"workload.load": [0.5]}}), Goal(target=0.001, budget=33))
    runs = made(plan, finished, {"random": 0.1, "jsq": 0.0})
    assert len(runs) == 66
    assert [(p.variant, p.reached, p.replications) for p in plan.precisions(runs)] == [
        ("random", False, 33),
        ("jsq", True, 33),
    ]


def test_runs_without_a_mean_use_up_the_budget(tiny: Tiny, finished: Finished) -> None:
    plan = Plan(tiny({"sweep.grid": {"workload.load": [0.5]}}), Goal(target=0.1, budget=21))
    runs: dict[RunKey, FinishedRun] = {}
    while keys := plan.missing(runs):
        runs.update({key: finished(*key, None) for key in keys})
    assert len(runs) == 42
    assert {p.relative_half_width for p in plan.precisions(runs)} == {None}


@pytest.mark.parametrize("limit", [0, 5, FEWEST, 2 * FEWEST, 2 * FEWEST + 1, 31, 60])
def test_an_interrupted_sweep_comes_to_the_same_replications(tiny: Tiny, finished: Finished, limit: int) -> None:
    plan = Plan(tiny({"sweep.grid": {"workload.load": [0.5]}}), Goal(target=0.03))
    spread = {"random": 0.1, "jsq": 0.05}
    whole = made(plan, finished, spread)
    runs = made(plan, finished, spread, limit)
    while keys := plan.missing(runs):
        key = random.Random(limit).choice(keys)  # in any order, as workers finish
        runs[key] = finished(*key, 1.0 + spread[key.variant] * (-1) ** key.replication)
    assert runs.keys() == whole.keys()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"on": ("twins",)}, "on: there is no 'twins'; give some of cluster, twin, theory"),
        ({"on": ()}, "on: give one or more"),
        ({"on": ("twin", "twin")}, "each once"),
        ({"target": 0.0}, "target: must be a fraction between 0 and 1"),
        ({"target": 5.0}, "such as 0.01 for 1 %, not 5"),
        ({"target": 0.1, "budget": 1}, "budget: must be at least 2"),
    ],
)
def test_a_goal_that_can_t_be_is_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        Goal(**settings)


def test_a_scenario_without_a_sweep_is_refused(tiny: Tiny) -> None:
    with pytest.raises(ScenarioError, match=r"sweep: missing; give \[sweep.grid\]"):
        Plan(tiny({"sweep": None}), Goal())
