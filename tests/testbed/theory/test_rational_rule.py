"""The rule for jobs of known sizes: it has the loads that it claims, which are those of the stability bound."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from testbed.theory.rerouting_replication import (
    KnownSizes,
    Model,
    Replicate,
    Reroute,
    ZeroRedundancy,
    processing_time,
    rational_rule,
    stability_bound,
)
from testbed.workload.distributions import Exponential

JOBS = 4000


def used(model: Model, action: Any, rng: np.random.Generator) -> np.ndarray[Any, Any]:
    """The processing time of each of JOBS jobs under the rule, shape (JOBS, 2)."""
    rule = rational_rule(model, KnownSizes(action))
    job_types = rng.choice(len(model.types), JOBS, p=model.types)
    first, other = rng.exponential(model.size.mean, (2, JOBS))
    second = np.where(rng.random(JOBS) < model.theta, first, other)
    result = []
    for job_type, sizes, uniform in zip(job_types, np.stack([first, second], 1), rng.random(JOBS), strict=True):
        start, thresholds = rule.choose(sizes, uniform)
        if not thresholds:
            result.append(processing_time(model, ZeroRedundancy(), [start], job_type, sizes, []))
            continue
        path = [(start + visit) % 2 for visit in range(len(thresholds) + 1)]
        policy = Reroute(hops=len(thresholds)) if action == "reroute" else Replicate()
        result.append(processing_time(model, policy, path, job_type, sizes, thresholds))
    return np.array(result)


CASES = list(
    itertools.product(
        ("reroute", "replicate"), ("identical", "independent", 0.4), ((0.5, 0.5), (0.7, 0.3)), ((5, 5), (2, 5))
    )
)


@pytest.mark.parametrize(("action", "dependence", "p", "n"), CASES)
def test_the_rule_has_the_loads_of_the_bound_for_known_sizes(action, dependence, p, n):
    """Means of 4000 jobs within 5 standard errors: 48 figures, false alarm about 3e-5."""
    model = Model(n, p, ((1.0, 0.2), (0.2, 1.0)), Exponential(mean=10.0), dependence)
    requirement = rational_rule(model, KnownSizes(action)).requirement
    largest = max(b / servers for b, servers in zip(requirement, n, strict=True))
    assert largest == pytest.approx(1 / stability_bound(model, KnownSizes(action)).rate, rel=1e-6)
    times = used(model, action, np.random.default_rng([5, CASES.index((action, dependence, p, n))]))
    errors = (times.mean(axis=0) - requirement) / (times.std(axis=0) / JOBS**0.5)
    assert np.abs(errors).max() < 5


def test_one_pool_may_limit_the_rate_alone():
    """A pool so slow that no job should use it: all time is spent in the other."""
    model = Model((5, 5), (0.5, 0.5), ((1.0, 1.0), (1e-9, 1e-9)), Exponential())
    rule = rational_rule(model, KnownSizes("reroute"))
    assert stability_bound(model, KnownSizes("reroute")).rate == pytest.approx(5.0, rel=1e-6)
    assert rule.requirement[0] == pytest.approx(1.0, rel=1e-6)


def test_three_types_are_ruled_out_one_after_the_other():
    """Speeds 1, 1/2, 1/4 in one order and the other; a job that is left over after two visits stays."""
    model = Model((5, 5), (0.4, 0.2, 0.4), ((1.0, 0.5, 0.25), (0.25, 0.5, 1.0)), Exponential())
    rng = np.random.default_rng(7)
    times = used(model, "reroute", rng)
    requirement = rational_rule(model, KnownSizes("reroute")).requirement
    assert np.abs((times.mean(axis=0) - requirement) / (times.std(axis=0) / JOBS**0.5)).max() < 5
