"""The 99 % quantile that Prometheus estimates from the exposed buckets is within 3 % of that of the records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from prometheus_client.metrics_core import Metric

from testbed.cluster.live_records import LiveRecords
from testbed.cluster.metrics.families import histogram
from testbed.core.outcomes import JobOutcome
from testbed.core.rows import JobRecord
from testbed.runtime.twin import simulate
from testbed.scenario import decode

TIME_UNIT = 0.05


def histogram_quantile(probability: float, family: Metric) -> float:
    """What Prometheus' function of this name computes: linear in the bucket that the rank falls into."""
    buckets = [(float(s.labels["le"]), s.value) for s in family.samples if s.name.endswith("_bucket")]
    rank = probability * buckets[-1][1]
    for (low, below), (high, cumulated) in pairwise([(0.0, 0.0), *buckets]):
        if cumulated >= rank:
            return low if high == float("inf") else low + (high - low) * (rank - below) / (cumulated - below)
    raise AssertionError("the last bucket holds all")


@pytest.mark.parametrize("policy", ["random", "power-of-d"])
@pytest.mark.parametrize(("load", "duration"), [(0.4, 300), (0.9, 150)])
@pytest.mark.parametrize(
    "size",
    [
        {"kind": "exponential"},
        {"kind": "deterministic"},
        {"kind": "hyperexponential", "scv": 10.0, "f": 0.5},
        {"kind": "pareto", "index": 2.2, "minimum": 0.5},
    ],
    ids=lambda size: size["kind"],
)
def test_the_p99_from_buckets_is_within_three_per_cent(
    policy: str, load: float, duration: float, size: dict[str, Any]
) -> None:
    scenario = decode(
        {
            "name": "quantiles",
            "seed": 3,
            "run": {"time_unit": "50ms", "warmup": 0, "duration": duration},
            "cluster": {"pools": [{"servers": 50}]},
            "workload": {"load": load, "size": size},
            "dispatch": {"policy": policy},
        }
    )
    columns = simulate(scenario).columns
    records = LiveRecords(0, TIME_UNIT)
    for row in zip(*(columns[name].tolist() for name in JobRecord.__struct_fields__), strict=True):
        records.write(JobRecord(*row))
    records.catch_up()
    exact = np.quantile(columns["response"][columns["outcome"] == JobOutcome.COMPLETED], 0.99) * TIME_UNIT
    family = histogram("response", "", records.responses, TIME_UNIT, examples=records.examples)
    assert histogram_quantile(0.99, family) == pytest.approx(exact, rel=0.03)


def test_catching_up_in_pieces_is_catching_up_at_once() -> None:
    rng = np.random.default_rng(1)
    whole, pieces = LiveRecords(0, 1.0), LiveRecords(0, 1.0)
    for job in range(5000):
        outcome, response, inherent = int(rng.integers(4)), float(rng.exponential()), float(rng.exponential())
        record = JobRecord(job, 0, 0, outcome, 0.0, 0.1, response, min(inherent, response), 0, 0, 0, 0, 2, 0, 0, 0, 0.0)
        whole.write(record)
        pieces.write(record)
        if rng.random() < 0.01:
            pieces.catch_up()
    whole.catch_up()
    pieces.catch_up()
    for mine, theirs in (
        (whole.responses, pieces.responses),
        (whole.inherent, pieces.inherent),
        (whole.queueing, pieces.queueing),
        (whole.lags, pieces.lags),
    ):
        assert mine.counts == theirs.counts
        assert mine.sum == pytest.approx(theirs.sum)
    assert whole.outcomes == pieces.outcomes
    assert sum(whole.outcomes) == 5000
    assert sum(whole.tasks) == 10_000
    assert whole.examples == pieces.examples
