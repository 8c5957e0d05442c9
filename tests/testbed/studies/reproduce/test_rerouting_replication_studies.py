"""The studies of rerouting and replication: theory against closed forms, and that the twin runs what they mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from testbed.scenario import Scenario
from testbed.studies.plan import Run
from testbed.studies.reproduce import studies
from testbed.studies.reproduce.reference import reference
from testbed.studies.reproduce.rerouting_replication.case import Case
from testbed.studies.reproduce.rerouting_replication.latency import CHECKED
from testbed.studies.reproduce.rerouting_replication.standard_example import (
    HEAVY_INDEPENDENT,
    IDENTICAL,
    INDEPENDENT,
    POLICIES,
    bound,
    example,
    service_used,
)
from testbed.studies.reproduce.rerouting_replication.standard_example import scenario as example_scenario
from testbed.studies.workers import run_twins
from testbed.theory.predict import stability_bound
from testbed.theory.rerouting_replication import service_requirement

STABILITY = "rerouting-replication-stability"
KNOWLEDGE = "rerouting-replication-knowledge"


@pytest.mark.parametrize("name", [STABILITY, KNOWLEDGE])
def test_bounds_are_the_closed_forms_and_check_values(name: str) -> None:
    study, checked = studies()[name], 0
    for point in study.points(quick=True):
        for row in reference(name, point.settings):
            # The reference has six digits.
            assert study.theory(point.settings)[row.quantity] == pytest.approx(row.value, rel=2e-6)
            checked += 1
    assert checked >= 20


@pytest.mark.parametrize(
    ("policy", "sizes", "signal", "q"),
    [
        ("ZRed", IDENTICAL, "noisy", 0.5),
        ("FRed", INDEPENDENT, "noisy", 0.5),
        ("Rer", IDENTICAL, "noisy", 0.5),
        ("Rep", HEAVY_INDEPENDENT, "noisy", 0.5),
        ("Rep", IDENTICAL, "noisy", 0.8),
        ("Rep", IDENTICAL, "revealed", 0.8),
        ("Rep", INDEPENDENT, "revealed", 0.8),
        ("KS", INDEPENDENT, "noisy", 0.5),
    ],
)
def test_the_twin_is_given_the_assignment_and_thresholds_that_reach_the_bound(
    policy: str, sizes: str, signal: str, q: float
) -> None:
    best = bound(policy, sizes, 0.2, signal, q)
    scenario = scenario_at(policy, sizes, signal, q)
    # What the scenario's own assignment and thresholds carry, computed from the scenario as it is read.
    own = stability_bound(scenario)
    assert own.bound == pytest.approx(best.rate / 10, rel=1e-6)


def scenario_at(policy: str, sizes: str, signal: str, q: float) -> Scenario:
    best = bound(policy, sizes, 0.2, signal, q)
    return example_scenario(
        policy,
        sizes,
        0.2,
        best.thresholds,
        best.assignment,
        load=best.rate / 20,
        signal=signal,
        q=q,
        warmup=0.0,
        duration=600.0,
        replications=1,
    )


def test_replication_gains_from_revealed_types_by_unequal_thresholds_and_the_twin_carries_it() -> None:
    noisy, revealed = (bound("Rep", INDEPENDENT, 0.2, signal, 0.8) for signal in ("noisy", "revealed"))
    assert revealed.rate > 1.01 * noisy.rate
    assert revealed.thresholds is not None
    assert revealed.assignment is not None
    assert np.ptp(revealed.thresholds) > 1
    # Without the search: the processing time in each pool at these thresholds.
    used = service_requirement(example(INDEPENDENT, 0.2), POLICIES["Rep"], revealed.assignment, revealed.thresholds)
    assert used == pytest.approx([5 / revealed.rate] * 2, rel=1e-6)
    ((_, measured),) = run_twins([Run("x", scenario_at("Rep", INDEPENDENT, "revealed", 0.8))], service_used, 1)
    # Some 2100 jobs; the standard deviation of a job's time in a pool is about its mean: 2 % of it, here five times.
    assert measured == pytest.approx(used.tolist(), rel=0.12)


def test_rerouting_gains_nothing_from_revealed_types() -> None:
    noisy, revealed = (bound("Rer", IDENTICAL, 0.2, signal, 0.8).rate for signal in ("noisy", "revealed"))
    assert revealed == pytest.approx(noisy, rel=1e-6)


def test_latencies_at_a_load_are_the_formulas_check_values() -> None:
    # Formula sheet of the paper, section 13, rows 13 and 14: mean sizes 1, tau 2, half an arrival per time unit.
    assert Case(1, "identical", "Rer", 0.5, 0.25, 2.0).latency() == pytest.approx(4.322026, rel=1e-6)
    assert Case(1, "identical", "Rep", 0.5, 0.25, 2.0).latency() == pytest.approx(2.936356, rel=1e-6)
    assert [case.load for case in CHECKED] == pytest.approx([0.7] * 4, rel=2e-5)
    case = Case.with_load(1, "i.i.d.", "Rer", 0.8, 0.6, 2.0)
    assert case.load == pytest.approx(0.6)


def test_the_approximation_is_exact_without_redundancy() -> None:
    # M/G/1 with half of the jobs at speed 1 and half at 0.4: E[S] = 1.75, E[S^2] = (2 + 2 / 0.16) / 2 = 7.25.
    for policy in ("Rer", "Rep"):
        case = Case(1, "identical", policy, 0.5, 0.35, math.inf)
        assert case.latency() == pytest.approx(1.75 + 0.35 * 7.25 / (2 * (1 - 0.35 * 1.75)), rel=1e-9)
