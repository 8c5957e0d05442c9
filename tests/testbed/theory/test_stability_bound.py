"""From scenarios to the load up to which they are stable."""

from __future__ import annotations

import math
from functools import partial

import pytest

from testbed.scenario import JobType, Pool
from testbed.theory.predict import stability_bound

FAST_AND_SLOW = [Pool(name="fast", servers=1), Pool(name="slow", servers=3)]
ONE_TYPE = [JobType(name="a", probability=1.0, speed={"fast": 2.0})]
near = partial(pytest.approx, rel=1e-9)


def test_blind_policies_are_stable_as_long_as_their_busiest_server(scenario):
    assert stability_bound(scenario("random", servers=4, weights=(1.0, 1.0, 2.0, 0.0))).bound == near(0.5)
    for policy in ("random", "round-robin"):
        uneven = stability_bound(scenario(policy, pools=FAST_AND_SLOW, types=ONE_TYPE))
        assert uneven.bound == near(1.0)
        assert "slow" in uneven.reason
        assert uneven.load == 0.8
    slow = [JobType(name="a", probability=0.5, speed={"main": 0.5}), JobType(name="b", probability=0.5)]
    assert stability_bound(scenario("random", types=slow)).bound == near(1 / 1.5)


def test_queue_aware_policies_are_stable_at_most_up_to_the_clusters_capacity(scenario):
    assert stability_bound(scenario("jsq")).bound == 1.0
    assert not stability_bound(scenario("jsq", load=1.0)).stable
    uneven = stability_bound(scenario("jsq", pools=FAST_AND_SLOW, types=ONE_TYPE))
    assert uneven.bound == near(5 / 4)
    assert uneven.reason.startswith("at most")


def test_capacity_sends_each_type_where_it_is_fast(scenario):
    pools = [Pool(name="p", servers=2), Pool(name="q", servers=2)]
    types = [
        JobType(name="a", probability=0.5, speed={"p": 3.0}),
        JobType(name="b", probability=0.5, speed={"q": 3.0}),
    ]
    assert stability_bound(scenario("power-of-d", pools=pools, types=types)).bound == near(3.0)


def test_finite_buffers_are_always_stable(scenario):
    assert stability_bound(scenario("random", buffer=10, load=5.0)).bound == math.inf
    mixed = [Pool(name="fast", servers=1, buffer=3), Pool(name="slow", servers=3)]
    assert stability_bound(scenario("random", pools=mixed)).bound == near(1.0)


def test_late_binding_carries_less_where_messages_take_time(scenario):
    """Each task takes its server two message delays: load (1 + 2 l) < 1."""
    bound = stability_bound(
        scenario("late-binding", servers=100, load=0.9, message_delay=0.1).with_settings({"workload.tasks": 10})
    )
    assert bound.bound == near(1 / 1.2)
    assert not bound.stable
