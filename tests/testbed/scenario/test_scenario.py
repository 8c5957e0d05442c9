"""A scenario: its keys, its defaults, its variants, and the way back into a file."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import msgspec
import pytest

from testbed.scenario import (
    ClusterSettings,
    Dispatch,
    JobType,
    Pool,
    RunSettings,
    Scenario,
    ScenarioError,
    Variant,
    WorkloadSettings,
    decode,
    load,
    resolved,
    variants,
)
from testbed.scenario.policies import policies
from testbed.workload.arrivals import Poisson, Renewal
from testbed.workload.distributions import Erlang, Exponential, Hyperexponential, Uniform

SMALL = """
name = "small"
[cluster]
pools = [{ name = "fast", servers = 2 }, { name = "slow", servers = 3, buffer = 4 }]
[workload]
load = 0.5
load_per = "server"
size = { kind = "erlang", phases = 2, mean = 2.0 }
types = [{ name = "a", probability = 0.4, speed = { fast = 3.0 } }, { name = "b", probability = 0.6 }]
[dispatch]
policy = "power-of-d"
d = 3
timeout = 2.5
"""


def small(**changes: Any) -> Scenario:
    return decode(tomllib.loads(SMALL)).with_settings(changes)


def test_the_shipped_quickstart_is_the_demo() -> None:
    scenario = load("quickstart")
    assert (scenario.servers, scenario.cluster.nodes, scenario.cluster.dispatchers) == (40, 2, 1)
    assert (scenario.load, scenario.run.warmup, scenario.run.duration) == (0.8, 50, 400)
    assert scenario.run.time_unit_seconds == 0.05
    runs = variants(scenario)
    assert [name for name, _ in runs] == ["random", "round-robin", "power-of-d", "jiq"]
    assert [one.dispatch.policy for _, one in runs] == ["random", "round-robin", "power-of-d", "jiq"]
    assert runs[2][1].dispatch.parameters.d == 2
    assert all(one.variants == [] and one.workload == scenario.workload for _, one in runs)


def test_every_key_of_the_file_reaches_its_field() -> None:
    scenario = small()
    assert scenario.cluster.pools == [Pool(name="fast", servers=2), Pool(name="slow", servers=3, buffer=4)]
    assert scenario.workload.size == Erlang(phases=2, mean=2.0)
    parameters = policies()["power-of-d"].Parameters(d=3, timeout=2.5)
    assert scenario.dispatch == Dispatch("power-of-d", parameters)
    assert type(scenario.dispatch.parameters) is type(parameters)


def test_rate_and_load_follow_from_each_other() -> None:
    # load = rate * mean size / N with 5 servers and mean size 2
    assert small().rate == pytest.approx(0.5 * 5 / 2)
    by_rate = small(**{"workload.rate": 2.0})
    assert by_rate.workload.load is None
    assert by_rate.rate == 2.0
    assert by_rate.load == pytest.approx(2.0 * 2 / 5)
    assert by_rate.with_settings({"workload.load": 0.25}).rate == pytest.approx(0.25 * 5 / 2)


@pytest.mark.parametrize(
    ("speeds", "capacity"),
    [
        ({"a": {}, "b": {}}, 5.0),
        ({"a": {"fast": 2.0, "slow": 2.0}, "b": {"fast": 2.0, "slow": 2.0}}, 10.0),
        ({"a": {"fast": 2.0, "slow": 2.0}, "b": {}}, 5 / (0.4 / 2 + 0.6)),  # alike: the mean time for a unit of work
        # The fast pool serves a at 2 * 3 = 6, the slow one b at 3: b is the bottleneck unless fast servers help.
        # 0.4 c / 6 + (0.6 c - 3) / 2 = 1, from the fast pool's time.
        ({"a": {"fast": 3.0}, "b": {}}, 2.5 / (0.4 / 6 + 0.3)),
    ],
)
def test_load_is_the_fraction_of_what_the_servers_can_do(speeds: dict[str, dict[str, float]], capacity: float) -> None:
    types = [{"name": "a", "probability": 0.4}, {"name": "b", "probability": 0.6}]
    for job_type in types:
        job_type["speed"] = speeds[str(job_type["name"])]
    scenario = small(**{"workload.types": types, "workload.load_per": "capacity"})
    assert scenario.load == 0.5
    assert scenario.rate == pytest.approx(0.5 * capacity / 2)  # of mean size 2
    assert scenario.work_per_server == pytest.approx(0.5 * capacity / 5)
    assert scenario.with_settings({"workload.rate": 1.0}).load == pytest.approx(2 / capacity)
    old = scenario.with_settings({"workload.load_per": "server"})
    assert (old.load, old.rate) == (0.5, 0.5 * 5 / 2)


def test_one_type_uses_the_sum_of_the_speeds() -> None:
    types = [{"name": "a", "probability": 1.0, "speed": {"fast": 2.0}}]
    scenario = small(**{"workload.types": types, "workload.load_per": "capacity", "workload.load": 0.85})
    assert scenario.rate == pytest.approx(0.85 * (2 * 2 + 3) / 2)


def test_servers_are_numbered_in_the_order_of_the_pools() -> None:
    scenario = small()
    assert [[scenario.service_rate(job_type, server) for server in range(5)] for job_type in (0, 1)] == [
        [3.0, 3.0, 1.0, 1.0, 1.0],
        [1.0] * 5,
    ]
    for server in (-1, 5):
        with pytest.raises(IndexError, match="servers are 0 to 4"):
            scenario.service_rate(0, server)


def test_an_automatic_warm_up_runs_a_fifth_of_the_duration_ahead() -> None:
    assert small(**{"run.warmup": "auto", "run.duration": 100}).horizon == 120
    assert small(**{"run.warmup": 30, "run.duration": 100}).horizon == 130


def test_jobs_are_given_the_duration_to_finish_unless_said_otherwise() -> None:
    assert small(**{"run.duration": 100}).drain == 100
    assert small(**{"run.drain": 0}).drain == 0


@pytest.mark.parametrize(
    ("text", "seconds"), [("50ms", 0.05), ("0.05s", 0.05), ("2s", 2), ("500us", 5e-4), ("1.5 ms", 1.5e-3)]
)
def test_a_time_unit_is_a_length_with_its_unit(text: str, seconds: float) -> None:
    assert RunSettings(time_unit=text).time_unit_seconds == pytest.approx(seconds)


def test_one_type_of_speed_1_is_the_default() -> None:
    assert load("quickstart").workload.types == [JobType(name="default", probability=1.0)]


def test_a_message_delay_may_be_a_distribution() -> None:
    delay = {"kind": "uniform", "low": 0.1, "high": 0.3}
    assert small(**{"cluster.message_delay": delay}).cluster.message_delay == Uniform(low=0.1, high=0.3)


@pytest.mark.parametrize("scenario", [load("quickstart"), small(), small(**{"cluster.nodes": "per-server"})])
def test_the_resolved_file_gives_the_same_scenario_again(scenario: Scenario) -> None:
    text = resolved(scenario)
    assert decode(tomllib.loads(text)) == scenario
    assert resolved(decode(tomllib.loads(text))) == text


def test_the_resolved_file_shows_the_defaults() -> None:
    tables = tomllib.loads(resolved(small()))
    assert tables["run"] == {
        "time_unit": "50ms",
        "warmup": "auto",
        "duration": 400.0,
        "replications": 1,
        "traced": 0.0,
    }
    assert tables["dispatch"] == {"policy": "power-of-d", "d": 3, "replacement": False, "timeout": 2.5}


def test_a_scenario_is_built_in_python_as_in_a_file() -> None:
    built = Scenario(
        name="small",
        cluster=ClusterSettings(pools=[Pool(name="fast", servers=2), Pool(name="slow", servers=3, buffer=4)]),
        workload=WorkloadSettings(
            load=0.5,
            load_per="server",
            size=Erlang(phases=2, mean=2.0),
            types=[JobType(name="a", probability=0.4, speed={"fast": 3.0}), JobType(name="b", probability=0.6)],
        ),
        dispatch=Dispatch("power-of-d", policies()["power-of-d"].Parameters(d=3, timeout=2.5)),
    )
    assert built == small()
    assert built.checked() == built


def test_what_is_built_in_python_is_checked_as_well() -> None:
    scenario = small()
    with pytest.raises(ScenarioError, match=r"^scenario: cluster\.pools\[0\]\.servers = 0: must be a whole number"):
        msgspec.structs.replace(scenario, cluster=ClusterSettings(pools=[Pool(servers=0)])).checked()
    with pytest.raises(ScenarioError, match=r"^scenario: dispatch\.parameters: the parameters must be the"):
        msgspec.structs.replace(scenario, dispatch=Dispatch("random", scenario.dispatch.parameters)).checked()
    with pytest.raises(ScenarioError, match="a Python object that a scenario file could not hold"):
        msgspec.structs.replace(scenario, name=object()).checked()
    with pytest.raises(ScenarioError, match=r"dispatch: must be a Dispatch"):
        msgspec.structs.replace(scenario, dispatch="random").checked()


def test_parameters_belong_to_their_policy() -> None:
    jsq = small(**{"dispatch.policy": "jsq"})
    assert jsq.dispatch == Dispatch("jsq", policies()["jsq"].Parameters())
    filling = small(**{"dispatch.policy": "batch-filling", "workload.tasks": 2, "cluster.pools.slow.buffer": None})
    assert filling.dispatch.parameters == policies()["batch-filling"].Parameters()
    copying = {"dispatch.policy": "redundancy-d", "cluster.pools.slow.buffer": None, "workload.types": None}
    assert small(**copying).dispatch.parameters == policies()["redundancy-d"].Parameters()
    assert small(**{"dispatch.d": 2, "dispatch.policy": "jiq"} | {"dispatch.d": None}).dispatch.policy == "jiq"
    same = small(**{"dispatch.policy": "power-of-d"})
    assert same.dispatch == small().dispatch
    assert small(**{"dispatch.policy": "random"}).dispatch.parameters == policies()["random"].Parameters()
    with pytest.raises(ScenarioError, match=r"dispatch\.d: unknown key \(known keys of policy \"random\""):
        small(**{"dispatch.policy": "random", "dispatch.d": 2})


@pytest.mark.parametrize("first", ["kind", "value"])
def test_the_keys_of_a_distribution_belong_to_its_kind(first: str) -> None:
    hyper = {"workload.size.kind": "hyperexponential", "workload.size.scv": 5.0}
    ordered = hyper if first == "kind" else dict(reversed(hyper.items()))
    assert small(**ordered).workload.size == Hyperexponential(scv=5.0)  # and not the mean of the Erlang distribution
    assert small(**{"workload.size.kind": "erlang"}).workload.size == Erlang(phases=2, mean=2.0)
    gap = {"kind": "hyperexponential", "mean": 2.0, "scv": 3.0}
    arrivals = small(**{"workload.arrivals": {"kind": "renewal", "gap": gap}})
    other = arrivals.with_settings({"workload.arrivals.gap.kind": "exponential"}).workload.arrivals
    assert other == Renewal(gap=Exponential(mean=1.0))
    assert arrivals.with_settings({"workload.arrivals.kind": "poisson"}).workload.arrivals == Poisson()


def test_a_default_is_written_as_it_is_read() -> None:
    scenario = small(**{"dispatch.policy": "power-of-d"})
    assert resolved(scenario) == resolved(decode(tomllib.loads(resolved(scenario))))
    for name, policy in policies().items():
        text = {"policy": name}
        try:
            scenario = small(dispatch=text, **{"cluster.pools.slow.buffer": None, "workload.types": None})
        except ScenarioError:
            assert policy.admits or policy.name == "static"  # it needs parameters, or central queues
            continue
        again = decode(tomllib.loads(resolved(scenario)))
        assert resolved(again) == resolved(scenario)


def test_a_relative_file_of_a_scenario_built_in_python_is_found_from_any_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "arrivals.csv").write_text("arrival\n0\n1\n2\n")
    monkeypatch.chdir(tmp_path)
    trace = {"workload.arrivals": {"kind": "trace", "file": "arrivals.csv", "repeat": True}}
    scenario = small(**trace)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "scenario.toml").write_text(resolved(scenario))
    assert load(tmp_path / "elsewhere" / "scenario.toml") == scenario


def test_settings_reach_lists_by_name_and_by_index() -> None:
    named = small(**{"cluster.pools.slow.servers": 7, "workload.types.a.speed.slow": 0.5})
    assert named == small(**{"cluster.pools.1.servers": 7, "workload.types.0.speed.slow": 0.5})
    assert named.cluster.pools[1] == Pool(name="slow", servers=7, buffer=4)
    assert named.workload.types[0].speed == {"fast": 3.0, "slow": 0.5}


def test_settings_take_whole_tables_and_none_for_the_default() -> None:
    size = {"kind": "hyperexponential", "scv": 4.0}
    assert small(**{"workload.size": size}).workload.size == Hyperexponential(scv=4.0)
    assert small(dispatch={"policy": "jsq"}).dispatch.parameters.timeout is None
    assert small(**{"dispatch.timeout": None}).dispatch.parameters.timeout is None


def test_the_scenario_itself_runs_first_under_its_policys_name() -> None:
    scenario = msgspec.structs.replace(small(), variants=[Variant(name="busy", set={"workload.load": 0.9})])
    (first, base), (second, busy) = variants(scenario)
    assert (first, second) == ("power-of-d", "busy")
    assert base == small()
    assert busy == small(**{"workload.load": 0.9})
    assert variants(base) == [("power-of-d", base)]


def test_files_are_looked_for_from_the_scenarios_own_folder(tmp_path: Path) -> None:
    (tmp_path / "sizes.csv").write_text("size\n1\n3\n")
    variant = 'variants = [{ name = "v", set = { "workload.size.file" = "sizes.csv" } }]'
    text = SMALL.replace("phases = 2, mean = 2.0", 'file = "sizes.csv"').replace('"erlang"', '"empirical"')
    (tmp_path / "s.toml").write_text(text.replace("[cluster]", f"{variant}\n[cluster]"))
    scenario = load(tmp_path / "s.toml")
    assert scenario.workload.size.mean == 2.0
    assert variants(scenario)[1][1].workload.size.mean == 2.0
    assert decode(tomllib.loads(resolved(scenario))).workload.size.mean == 2.0


def test_a_trace_has_a_rate_and_sizes_of_its_own(tmp_path: Path) -> None:
    # 4 jobs over 3 time units and one more mean gap; mean size 1.5, 5 servers
    (tmp_path / "t.csv").write_text("arrival,size,type\n10,1,a\n11,2,b\n12,2,a\n13,1,a\n")
    trace = {"kind": "trace", "file": str(tmp_path / "t.csv"), "repeat": True}
    scenario = small(**{"workload.arrivals": trace, "workload.load": None})
    assert scenario.mean_size == 1.5
    assert scenario.rate == 1.0
    assert scenario.load == pytest.approx(1.5 / 5)
    assert scenario.with_settings({"workload.load": 0.6}).rate == pytest.approx(0.6 * 5 / 1.5)


def test_a_trace_that_ends_before_the_run_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("arrival\n10\n11\n12\n13\n")
    trace = {"kind": "trace", "file": str(tmp_path / "t.csv")}
    with pytest.raises(ScenarioError, match=r"the trace lasts 4 time units, and the run 480; set repeat = true"):
        small(**{"workload.arrivals": trace, "workload.load": None})


def test_the_shipped_recording_is_had_by_name(tmp_path: Path) -> None:
    text = SMALL.replace("load = 0.5", 'arrivals = { kind = "trace", file = "sample" }')
    types = 'types = [{ name = "interactive", probability = 0.8 }, { name = "batch", probability = 0.2 }]'
    (tmp_path / "s.toml").write_text("\n".join(types if "types" in line else line for line in text.splitlines()))
    assert load(tmp_path / "s.toml").rate == pytest.approx(5.0, rel=0.1)


def test_a_file_comes_before_a_shipped_scenario_of_the_same_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert load("quickstart").name == "quickstart"
    (tmp_path / "quickstart").write_text(SMALL)
    assert Scenario.from_file("quickstart").name == "small"


def test_reading_a_scenario_does_not_load_the_heavy_libraries() -> None:
    # Every process of a cluster reads the scenario; a thousand of them must start in seconds.
    program = (
        "import sys; from testbed.scenario import load; load('quickstart'); "
        "print(sorted({'scipy', 'pyarrow', 'matplotlib'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_the_load_counts_all_tasks_of_a_job():
    from testbed.scenario import load

    base = load("quickstart").with_settings({"variants": [], "workload.load": 0.8})
    for tasks, mean in ((4, 4.0), ({"kind": "table", "values": [1, 5], "shares": [0.5, 0.5]}, 3.0)):
        several = base.with_settings({"workload.tasks": tasks})
        assert several.load == 0.8
        assert several.rate == pytest.approx(base.rate / mean)
        by_rate = several.with_settings({"workload.rate": 2.0})
        assert by_rate.load == pytest.approx(2.0 * mean * base.mean_size / base.servers)


@pytest.mark.parametrize(
    ("settings", "key", "words"),
    [
        ({"workload.tasks": 0}, "workload.tasks", "1"),
        ({"workload.tasks": {"kind": "table", "values": [1], "shares": [0.5]}}, "workload.tasks", "add up to 1"),
        ({"workload.tasks": 1000}, "dispatch", "distinct servers"),
        ({"workload.tasks": 2, "dispatch.policy": "late-binding", "cluster.pools.main.buffer": 5}, "buffer", "leave"),
        (
            {
                "workload.tasks": 2,
                "dispatch.policy": "late-binding",
                "balance": {"policy": "stealing", "max_probes": 1},
            },
            "balance",
            "none to move",
        ),
    ],
)
def test_tasks_that_do_not_fit_are_refused_at_their_key(settings, key, words):
    from testbed.scenario import ScenarioError, load

    base = load("quickstart").with_settings({"variants": [], "dispatch": {"policy": "random"}})
    with pytest.raises(ScenarioError, match=words) as raised:
        base.with_settings(settings)
    assert key in str(raised.value)
