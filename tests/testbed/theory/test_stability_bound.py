"""From scenarios to the load up to which they are stable."""

from __future__ import annotations

import math
from functools import partial

import pytest

from testbed.scenario import JobType, Pool
from testbed.theory.predict import stability_bound
from testbed.workload.arrivals import Trace

FAST_AND_SLOW = [Pool(name="fast", servers=1), Pool(name="slow", servers=3)]
ONE_TYPE = [JobType(name="a", probability=1.0, speed={"fast": 2.0})]
HYPEREXPONENTIAL = {"kind": "hyperexponential", "scv": 20.0}
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


def test_the_bound_is_a_fraction_of_the_capacity_as_the_load_is(scenario):
    for policy, bound in (("jsq", 1.0), ("random", 4 / 5)):
        found = stability_bound(
            scenario(policy, pools=FAST_AND_SLOW, types=ONE_TYPE).with_settings({"workload.load_per": "capacity"})
        )
        assert found.bound == near(bound)
        assert found.load == near(0.8)


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


@pytest.mark.parametrize("policy", ["random", "round-robin", "static"])
@pytest.mark.parametrize("tasks", [3, {"kind": "table", "values": [1, 5], "shares": [0.5, 0.5]}])
def test_the_tasks_of_a_job_are_all_counted(scenario, policy, tasks):
    """Load is work per server: jobs of three tasks come at a third of the rate, and fill the servers at load 1."""
    settings = {"workload.tasks": tasks, "workload.load": 1.2}
    stability = stability_bound(scenario(policy, servers=10).with_settings(settings))
    assert stability.bound == near(1.0)
    assert not stability.stable


@pytest.mark.parametrize(("dependence", "bound"), [("identical", 0.25), (1.0, 0.25), ("independent", 1.0)])
def test_with_a_copy_everywhere_all_servers_serve_one_job(scenario, dependence, bound):
    """Four servers with identical copies are one; with independent exponential ones that one is four times as fast."""
    copied = scenario("redundancy-d", d=4, servers=4).with_settings({"workload.dependence": dependence})
    assert stability_bound(copied).bound == near(bound)
    assert not stability_bound(copied).reason.startswith("at most")


@pytest.mark.parametrize(
    ("policy", "parameters", "settings", "bound"),
    [
        ("redundancy-d", {"d": 2}, {}, 1.0),  # of identical copies one is served in vain
        ("hedge", {"delay": 1.0}, {}, 1.0),
        ("hedge", {"delay": 1.0}, {"workload.dependence": 0.5}, 1.0),  # of exponential sizes none saves anything
        ("redundancy-d", {"d": 2}, {"workload.dependence": 0.5, "workload.size": HYPEREXPONENTIAL}, math.inf),
        ("hedge", {"delay": 1.0}, {"workload.dependence": "independent", "workload.size": HYPEREXPONENTIAL}, math.inf),
        ("tied", {}, {"workload.size": HYPEREXPONENTIAL, "cluster.message_delay": 0.1}, 1.0),
    ],
)
def test_what_copies_carry_is_known_at_most(scenario, policy, parameters, settings, bound):
    """Two independent hyperexponential draws of SCV 20 carry more than 1: their smaller one is less than half."""
    copied = stability_bound(scenario(policy, servers=10, **parameters).with_settings(settings))
    assert copied.bound == near(bound)
    assert copied.reason.startswith("at most")


@pytest.mark.parametrize("size", [0.5, 2.0])
@pytest.mark.parametrize("policy", ["random", "jsq", "round-robin"])
def test_the_bound_is_that_of_the_recorded_sizes(scenario, tmp_path, policy, size):
    (tmp_path / "sizes.csv").write_text("arrival,size\n" + "".join(f"{i},{size}\n" for i in range(10)))
    trace = Trace(file=str(tmp_path / "sizes.csv"), repeat=True)
    found = stability_bound(scenario(policy, arrivals=trace, load=0.6))
    assert (found.bound, found.load, found.stable) == (near(1.0), near(0.6), True)


def test_late_binding_with_delay_counts_the_delays_against_the_recorded_sizes(scenario, tmp_path):
    (tmp_path / "sizes.csv").write_text("arrival,size\n0,0.5\n1,1.5\n2,4\n")
    trace = Trace(file=str(tmp_path / "sizes.csv"), repeat=True)
    found = stability_bound(scenario("late-binding", arrivals=trace, message_delay=0.1))
    assert found.bound == near(2.0 / (2.0 + 2 * 0.1))


@pytest.mark.parametrize(("column", "slowness"), [("", 0.9 / 0.8 + 0.1 / 4), (",size", 0.75 / 0.8 + 0.25 / 4)])
def test_the_types_count_as_the_trace_has_them(scenario, tmp_path, column, slowness):
    """Nine jobs in ten are of the slow type; with sizes, those of the fast type are three times as large."""
    rows = [
        f"{i},{'b' if i % 10 == 9 else 'a'}" + (f",{3 if i % 10 == 9 else 1}" if column else "") for i in range(100)
    ]
    (tmp_path / "types.csv").write_text(f"arrival,type{column}\n" + "\n".join(rows) + "\n")
    types = [
        JobType(name="a", probability=0.5, speed={"main": 0.8}),
        JobType(name="b", probability=0.5, speed={"main": 4.0}),
    ]
    trace = Trace(file=str(tmp_path / "types.csv"), repeat=True)
    found = scenario("jsq", arrivals=trace, types=types, load=0.95)
    assert found.type_fractions == near((0.75, 0.25) if column else (0.9, 0.1))
    assert stability_bound(found).bound == near(1 / slowness)
    assert stability_bound(found.with_settings({"workload.load_per": "capacity"})).bound == near(1.0)
