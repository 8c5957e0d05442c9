"""Central queues, thresholds, dependent sizes and types that a pool can't serve: what is meant, and what is refused."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from dispatchers.static import StaticParameters
from testbed.core.placed_pool import PlacedPool
from testbed.runtime.build import build_workload
from testbed.scenario import Dispatch, Scenario, ScenarioError, Threshold, decode, resolved, variants

TWO_POOLS = """
name = "two pools"
[cluster]
pools = [{ name = "a", servers = 2, queue = "central" }, { name = "b", servers = 3, queue = "central" }]
[workload]
rate = 0.5
[[workload.types]]
name = "one"
probability = 0.4
speed = { b = 0.5 }
[[workload.types]]
name = "two"
probability = 0.6
speed = { a = 0.5 }
[dispatch]
policy = "static"
assignment = { a = 0.7, b = 0.3 }
[threshold]
action = "reroute"
tau = { a = 2, b = "inf" }
"""
INF = math.inf


def two_pools(**changes: Any) -> Scenario:
    return decode(tomllib.loads(TWO_POOLS)).with_settings({key.replace("__", "."): v for key, v in changes.items()})


def refused(changes: dict[str, Any]) -> str:
    with pytest.raises(ScenarioError) as caught:
        two_pools().with_settings(changes)
    assert str(caught.value).isprintable()
    return str(caught.value).removeprefix("scenario: ")


def test_pools_know_their_place() -> None:
    scenario = two_pools()
    assert scenario.pools == [PlacedPool("a", 0, 0, 2, central=True), PlacedPool("b", 1, 2, 3, central=True)]
    assert scenario.central_pools == scenario.pools
    mixed = two_pools(threshold=None, cluster__pools__a__queue="per-server")
    assert mixed.central_pools == [PlacedPool("b", 1, 2, 3, central=True)]


def test_a_job_has_a_size_for_each_central_queue() -> None:
    assert two_pools().replicas == 2
    assert two_pools(threshold=None, cluster__pools__a__queue="per-server").replicas == 1
    block = next(build_workload(two_pools(workload__dependence="independent"), 0).blocks(100))
    assert block.size.shape == (100, 2)


def test_variants_of_thresholds_and_dependence_meet_the_same_first_sizes() -> None:
    scenario = two_pools(
        variants=[
            {"name": "never", "set": {"threshold.tau": "inf"}},
            {"name": "independent", "set": {"workload.dependence": "independent"}},
            {"name": "larger", "set": {"cluster.pools.a.servers": 9, "threshold.action": "replicate"}},
        ]
    )
    runs = variants(scenario)
    assert [name for name, _ in runs] == ["static+reroute", "never", "independent", "larger"]
    blocks = [next(build_workload(run, 0).blocks(500)) for _, run in runs]
    for block in blocks[1:]:
        assert (block.size[:, 0] == blocks[0].size[:, 0]).all()
        assert (block.arrival == blocks[0].arrival).all()
        assert (block.job_type == blocks[0].job_type).all()
    assert (blocks[2].size[:, 1] != blocks[0].size[:, 1]).all()


@pytest.mark.parametrize(
    ("tau", "hops", "by_pool", "by_visit"),
    [
        (3, 1, [3, 3], []),
        (0, 4, [0, 0], []),
        ("inf", 1, [INF, INF], []),
        ("rational", 1, [INF, INF], []),
        ({"b": 1, "a": "inf"}, 2, [INF, 1], []),
        ({"b": [1, 2], "a": [3, "inf"]}, 2, [], [[3, INF], [1, 2]]),
    ],
)
def test_thresholds_are_by_pool_or_by_start_and_visit(tau: Any, hops: int, by_pool: Any, by_visit: Any) -> None:
    threshold = Threshold(action="reroute", tau=tau, hops=hops)
    assert threshold.by_pool(["a", "b"]) == by_pool
    assert threshold.by_visit(["a", "b"]) == by_visit


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"threshold.tau": "inf"},
        {"threshold.tau": {"a": [1.5, "inf"], "b": [0, 3]}, "threshold.hops": 2},
        {"threshold.tau": "rational", "dispatch.knows": "sizes", "dispatch.assignment": None},
        {"threshold": {"action": "replicate", "tau": 0, "carry_over": True}, "workload.dependence": 0.25},
        {"dispatch.knows": {"noisy": 0.8}, "dispatch.assignment": {"one": {"a": 1}, "two": {"b": 1}}},
        {
            "dispatch.knows": {"revealed": 0.3},
            "dispatch.assignment": {"one": {"a": 1}, "two": {"b": 1}, "unknown": {"a": 0.5, "b": 0.5}},
        },
        {"workload.types.one.speed.a": 0, "dispatch.assignment": {"b": 1}, "threshold": None},
    ],
)
def test_the_resolved_file_gives_the_same_scenario_again(changes: dict[str, Any]) -> None:
    scenario = two_pools().with_settings(changes)
    again = decode(tomllib.loads(resolved(scenario)))
    assert again == scenario
    assert type(again.dispatch.parameters) is StaticParameters


def test_a_scenario_is_built_in_python_as_in_a_file() -> None:
    base = two_pools()
    built = Scenario(
        name=base.name,
        cluster=base.cluster,
        workload=base.workload,
        dispatch=Dispatch("static", StaticParameters(assignment={"a": 0.7, "b": 0.3})),
        threshold=Threshold(action="reroute", tau={"a": 2.0, "b": "inf"}),
    )
    assert built == base


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        # what goes with central queues
        (
            {"dispatch.policy": "random"},
            'cluster.pools[0].queue = "central": random places jobs on servers; for central',
        ),
        ({"cluster.pools.b.buffer": 3}, "cluster.pools[1].buffer: a central queue is unbounded; leave it out"),
        ({"workload.tasks": 2}, "workload.tasks: with central queues a job has one task; leave it out"),
        ({"balance": {"policy": "stealing", "max_probes": 1}}, "balance: the tasks of central queues don't wait at"),
        ({"cluster.pools.a.queue": "per-server"}, 'cluster.pools[0].queue = "per-server": thresholds are for central '),
        ({"cluster.pools.a.queue": "fifo"}, 'cluster.pools[0].queue = "fifo": must be "central" or "per-server" ('),
        ({"workload.dependence": 1.5}, "workload.dependence = 1.5: must be a number of at least 0 and at most 1 or "),
        # thresholds
        ({"threshold.tau": INF}, 'threshold.tau = inf: must be a finite number, or "inf" in quotes'),
        ({"threshold.tau.a": INF}, 'threshold.tau.a = inf: must be a finite number, or "inf" in quotes'),
        ({"threshold.tau": -1}, 'threshold.tau = -1: must be a number of at least 0 or "inf" or "rational" or a table'),
        ({"threshold.tau": {"a": 1}}, "threshold.tau: must have a threshold for each pool, a, b, and has a"),
        (
            {"threshold.tau": {"a": [1], "b": 2}},
            "threshold.tau: must have a threshold for each pool, or a list for each",
        ),
        ({"threshold.tau": {"a": [1, 2], "b": [1]}}, "threshold.tau: a list must have threshold.hops = 1 thresholds; "),
        ({"threshold.tau": {"a": [], "b": [1]}}, "threshold.tau.a = []: must be a number of at least 0 or "),
        ({"threshold": {"tau": 1}}, 'threshold.action: missing; must be "replicate" or "reroute" ('),
        ({"threshold.hops": 9}, "threshold.hops = 9: must be a whole number of at least 1 and at most 8 ("),
        (
            {"threshold.hops": 2, "threshold.action": "replicate"},
            "threshold.hops = 2: a job is replicated once; leave ",
        ),
        ({"threshold.hops": 2, "threshold.carry_over": True}, "threshold.hops = 2: carry_over is defined for one hop "),
        # rational thresholds
        ({"threshold.tau": "rational"}, "dispatch.knows: a rational threshold needs known sizes; set knows = "),
        (
            {"threshold.tau": "rational", "dispatch.knows": "sizes"},
            "dispatch.assignment: a rational threshold comes with its assignment; leave it out",
        ),
        (
            {
                "threshold.tau": "rational",
                "dispatch.knows": "sizes",
                "dispatch.assignment": None,
                "threshold.carry_over": True,
            },
            "threshold.carry_over: rational thresholds carry nothing over; leave it out",
        ),
        ({"dispatch.knows": "sizes"}, 'dispatch.knows = "sizes": fixed shares make no use of sizes; set threshold.tau'),
        # the assignment
        (
            {"dispatch.assignment": {"a": 0.7}},
            "dispatch: assignment: the fractions of the pools must add up to 1, not 0.7",
        ),
        ({"dispatch.assignment": {"c": 1}}, "dispatch: assignment: there is no pool c (pools: a, b)"),
        (
            {"dispatch.assignment": {"a": 1, "b": "x"}},
            'dispatch.assignment.b = "x": must be a number of at least 0 and ',
        ),
        (
            {"dispatch.assignment": {"a": 1, "one": {"a": 1}}},
            "dispatch: assignment: give either a fraction for each pool, or a table for each signal",
        ),
        (
            {"dispatch.assignment": {"one": {"a": 1}, "two": {"b": 1}}},
            'dispatch: assignment: there is a table for each type, but types are not known; add knows = "types", or '
            "give one for all jobs: assignment = { a = 1.0 }",
        ),
        (
            {"dispatch.assignment": {"one": {"a": 1}}, "dispatch.knows": "types"},
            "dispatch: assignment: the signals of jobs are one, two (dispatch.knows); give a table for each",
        ),
        (
            {"dispatch.assignment": {"one": {"a": 1}, "two": {"b": 0.9}}, "dispatch.knows": "types"},
            "dispatch: assignment.two: the fractions of the pools must add up to 1, not 0.9",
        ),
        ({"dispatch.knows": "types"}, "dispatch: knows: it has no effect without an assignment for each signal"),
        (
            {"dispatch.knows": {"noisy": 0.8}, "dispatch.assignment": {"a": 1}},
            "dispatch: knows: it has no effect without an assignment for each signal",
        ),
        ({"dispatch.knows": "all"}, 'dispatch.knows = "all": must be "nothing" or "sizes" or "types" or a table'),
        ({"dispatch.knows": {"noisy": 2}}, "dispatch.knows.noisy = 2: must be a number of at least 0 and at most 1"),
        ({"dispatch.knows": {"nosy": 0.2}}, "dispatch.knows: must be "),
        ({"dispatch.knows": {"noisy": 0.2, "revealed": 0.2}}, "dispatch: knows: give either noisy or revealed"),
    ],
)
def test_what_does_not_fit_is_named_with_its_remedy(changes: dict[str, Any], line: str) -> None:
    assert refused(changes).startswith(line)


def test_there_must_be_another_pool_to_move_to() -> None:
    pools = [{"name": "a", "servers": 2, "queue": "central"}]
    settings = {"cluster.pools": pools, "workload.types": [{"name": "one", "probability": 1.0}]}
    line = refused({**settings, "dispatch.assignment": None, "threshold.tau": 1})
    assert line == "threshold: there is one pool, and no other to move to; leave the table out"


def pools_named(count: int) -> dict[str, Any]:
    pools = [{"name": f"p{i}", "servers": 1, "queue": "central"} for i in range(count)]
    types = [{"name": "one", "probability": 1.0}]
    return {"cluster.pools": pools, "workload.types": types, "dispatch.assignment": None, "threshold.tau": 1}


def test_a_random_target_is_a_pool_that_was_not_visited() -> None:
    settings = {**pools_named(3), "threshold.target": "random"}
    assert two_pools().with_settings({**settings, "threshold.hops": 2}).threshold is not None
    assert refused({**settings, "threshold.hops": 3}) == (
        'threshold.hops = 3: at random a job goes to pools that it has not been in; set at most 2, or target = "cyclic"'
    )
    assert refused({"threshold.target": "random", "threshold.hops": 2}).endswith('set at most 1, or target = "cyclic"')


def test_there_are_at_most_eight_central_queues_and_two_for_rational_thresholds() -> None:
    assert refused(pools_named(9)).endswith("at most 8 pools can have central queues, not 9")
    rational = {**pools_named(3), "threshold.tau": "rational", "dispatch.knows": "sizes"}
    assert refused(rational) == 'threshold.tau = "rational": rational thresholds are defined for two pools'


def test_rational_rerouting_of_many_types_takes_many_hops() -> None:
    types = [{"name": name, "probability": 0.25} for name in ("k", "l", "m", "n")]
    rational = {"threshold.tau": "rational", "dispatch.knows": "sizes", "dispatch.assignment": None}
    settings = {**rational, "workload.types": types}
    assert refused({**settings, "threshold.hops": 2}) == (
        "threshold.hops = 2: rational thresholds rule out one type after the other, which may take 3 reroutings; "
        "set hops = 3"
    )
    assert two_pools().with_settings({**settings, "threshold.hops": 3})
    assert two_pools().with_settings({**settings, "threshold.action": "replicate"})


def test_thresholds_are_not_for_the_queues_of_servers() -> None:
    settings = {"cluster.pools.a.queue": "per-server", "cluster.pools.b.queue": "per-server"}
    assert refused(settings).startswith('cluster.pools[0].queue = "per-server": thresholds are for central queues')


# Speed 0. Type "one" can't be served in pool a unless said otherwise; tau by pool or visit, hops, what is known.
CANNOT = {"workload.types.one.speed": {"a": 0, "b": 1}}
KNOWN = {"dispatch.knows": "types", "dispatch.assignment": {"one": {"b": 1}, "two": {"a": 1}}}


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold.tau": {"a": 0, "b": "inf"}},
        {"threshold.action": "replicate", "threshold.tau": {"a": 0, "b": 1}},
        {"threshold.tau": {"a": 2, "b": 1}, "threshold.hops": 3, "dispatch.assignment": {"b": 0, "a": 1}},
        {"threshold.tau": {"a": [1, "inf"], "b": [3, 2]}, "threshold.hops": 2, "dispatch.assignment": {"a": 1}},
        {"threshold": None, **KNOWN},
        {"threshold": None, "dispatch.assignment": {"b": 1}},
        {"threshold.tau": "inf", **KNOWN},
    ],
)
def test_a_type_may_be_impossible_in_a_pool_that_it_leaves_or_never_comes_to(changes: dict[str, Any]) -> None:
    assert two_pools().with_settings({**CANNOT, **changes}).workload.types[0].speed["a"] == 0


@pytest.mark.parametrize(
    "changes",
    [
        {"threshold.tau": {"a": "inf", "b": 1}},
        {"threshold": None},
        {"threshold.tau": {"a": 1, "b": 1}},  # from b a large job is rerouted to a, and stays
        {"threshold.tau": {"a": 2, "b": 1}, "threshold.hops": 2},  # a, b, and a again
        {"threshold.tau": {"a": [1, 5], "b": [3, "inf"]}, "threshold.hops": 2},
        {"threshold": None, **KNOWN, "dispatch.knows": {"noisy": 0.9}},
    ],
)
def test_a_type_must_not_stay_for_ever_in_a_pool_that_cannot_serve_it(changes: dict[str, Any]) -> None:
    assert refused({**CANNOT, **changes}).startswith(
        "workload.types[0].speed.a = 0: jobs of this type could come to a and stay there for ever; assign none there"
    )


def test_random_targets_are_looked_at_one_by_one() -> None:
    settings = {**pools_named(3), "threshold.target": "random", "dispatch.assignment": {"p0": 1}}
    types = [{"name": "one", "probability": 1.0, "speed": {"p2": 0}}]
    line = refused({**settings, "workload.types": types})
    assert line.startswith("workload.types[0].speed.p2 = 0: jobs of this type could come to p2")
    assert two_pools().with_settings({**settings, "workload.types": types, "threshold.target": "cyclic"})


def test_some_pool_must_serve_each_type_and_pools_without_queues_all() -> None:
    assert refused({"workload.types.one.speed": {"a": 0, "b": 0}}) == (
        "workload.types[0].speed.a = 0: some pool must serve this type; give one a speed above 0"
    )
    per_server = {"threshold": None, "cluster.pools.a.queue": "per-server"}
    assert refused({**CANNOT, **per_server}) == (
        "workload.types[0].speed.a = 0: must be above 0 but in pools with central queues"
    )


def test_the_sizes_in_a_trace_are_those_of_the_central_pools(tmp_path: Path) -> None:
    file = tmp_path / "jobs.csv"
    file.write_text("arrival,size_b,size_a\n0,1,3\n1,2,5\n2,3,4\n")
    traced = {"workload.arrivals": {"kind": "trace", "file": str(file), "repeat": True}}
    scenario = two_pools().with_settings(traced)
    assert scenario.mean_size == 3.0
    assert next(build_workload(scenario, 0).blocks(3)).size.tolist() == [[3, 1], [5, 2], [4, 3]]
    by_load = scenario.with_settings({"workload.load": 0.6})
    assert by_load.rate == pytest.approx(0.6 * 5 / 3)
    assert refused({**traced, "workload.dependence": 0.5}) == (
        "workload.arrivals: the trace has the sizes in each pool, dependent as they are: leave dependence out"
    )
    file.write_text("arrival,size_b\n0,1\n1,2\n")
    assert "has no column 'size_a'" in refused(traced)
