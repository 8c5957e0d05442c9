"""What a snapshot says of itself, and that it survives the way over a socket."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import numpy as np
import pytest

from testbed.cluster.snapshot import ProcessState, Responses, Snapshot, Theory
from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.measure.verdict_checks import checked


def responses(values: list[float]) -> Responses:
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    for value in values:
        histogram.add(value)
    return Responses(counts=histogram.counts, sum=histogram.sum, half_width=0.1)


def snapshot(**more: Any) -> Snapshot:
    return Snapshot(
        clock=1e9,
        scenario="s",
        variant="two choices",
        replication=1,
        policy="power-of-d",
        load=0.9,
        servers=2,
        time_unit_seconds=0.05,
        time=10.0,
        horizon=None,
        **more,
    )


def test_mean_and_quantiles_of_response_times() -> None:
    values = np.random.default_rng(1).exponential(2.0, 5000)
    found = responses(values.tolist())
    assert found.count == 5000
    assert found.mean == pytest.approx(values.mean())
    for probability in (0.5, 0.9, 0.99):
        assert found.quantile(probability) == pytest.approx(np.quantile(values, probability), rel=0.15)


def test_no_response_times_have_no_mean_and_no_quantile() -> None:
    for nothing in (Responses(), responses([])):
        assert (nothing.count, nothing.mean, nothing.quantile(0.5)) == (0, None, None)


def test_response_times_beyond_the_buckets_have_a_finite_quantile() -> None:
    found = responses([1e9] * 5)
    quantile = found.quantile(0.99)
    assert found.mean == pytest.approx(1e9)
    assert quantile is not None
    assert math.isfinite(quantile)


def test_a_line_says_the_verdict_so_far() -> None:
    late = checked("timer lateness", "5 %", "2 %", False, "timers were late", "use a longer time_unit")
    assert str(snapshot(arrived=4)) == "4 jobs have arrived"
    assert str(snapshot(responses=responses([1.0, 3.0]), in_system=7)).endswith("in system 7  valid so far")
    assert str(snapshot(responses=responses([1.0]), checks=[late])).endswith("suspect: timer lateness 5 %")
    assert snapshot().name == "two choices #2"


@pytest.mark.parametrize("codec", [msgspec.msgpack, msgspec.json])
def test_a_snapshot_survives_the_way_over_a_socket(codec: Any) -> None:
    sent = snapshot(
        responses=responses([1.0, 2.0]),
        queue_lengths=[0, 255],
        theory=Theory(load=0.5, stability_bound=1.0, stability_reason="r", mean=2.0, quantiles={0.5: 1.0, 0.999: 9.0}),
        checks=[checked("a", "b", "c", True, "d", "e")],
        processes=[ProcessState(name="node-0", pid=1, alive=True, metrics="127.0.0.1:1")],
        outcomes={"completed": 2},
        incidents=["x"],
    )
    assert codec.decode(codec.encode(sent), type=Snapshot) == sent
