"""Cases: the built-in suite covers what theory predicts, users' files say what they expect, and wrong ones are told."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from testbed.scenario import Scenario, ScenarioError, decode, resolved
from testbed.scenario.policies import policies
from testbed.studies.validate import Case, built_in, cases_of, chosen
from testbed.studies.validate.case import SIZES, at_size, only_on, places
from testbed.studies.validate.findings import CLUSTER_LEVEL, LEVEL, VERDICT_LEVEL
from testbed.theory.predict import Prediction, predict

QUICK = built_in(quick=True)
CASE = """
name = "mine"
[run]
warmup = 20
duration = 80
[[cluster.pools]]
servers = 20
[workload]
load = 0.6
[dispatch]
policy = "power-of-d"
[expect]
"""


def mine(expect: str, tmp_path: Path, rest: str = "") -> list[Case]:
    file = tmp_path / "mine.toml"
    file.write_text(CASE + expect + rest)
    return chosen([file], quick=True)


@pytest.mark.parametrize("quick", [True, False])
def test_the_suite_has_a_case_for_each_policy_with_a_prediction_and_each_way_to_move_tasks(quick: bool) -> None:
    cases = built_in(quick)
    with_theory = {name for name, policy in policies().items() if policy.theory}
    assert {case.scenario.dispatch.policy for case in cases} == with_theory
    balances = [case.scenario.balance for case in cases if case.scenario.balance is not None]
    assert {(balance.policy, balance.max_probes is not None) for balance in balances} == {
        (policy, traditional) for policy in ("stealing", "sharing") for traditional in (False, True)
    }
    assert {case.scenario.threshold.action for case in cases if case.scenario.threshold is not None} == {
        "reroute",
        "replicate",
    }


@pytest.mark.parametrize("case", QUICK, ids=[case.name for case in QUICK])
def test_each_case_has_a_prediction_at_each_number_of_servers_and_an_error_that_is_known_if_it_approximates(
    case: Case,
) -> None:
    for scenario in (case.twins[0], case.twins[-1]):
        prediction = predict(scenario)
        assert isinstance(prediction, Prediction)
        # A limit is looked for over N, as is what the 1/N term leaves; all else that is not exact has a known error.
        if prediction.kind == "limit":
            assert case.servers
        elif prediction.kind == "approximation":
            assert case.servers or case.known_error
        else:
            assert prediction.kind == "exact"
    assert bool(case.known_error) == (case.expect.allowance != (0.0, 0.0))


def test_the_full_suite_goes_to_a_thousand_servers_and_runs_everything_on_the_cluster() -> None:
    full = built_in()
    assert [case.servers for case in full if case.servers and case.name != "jsq"] == [SIZES] * 18
    assert all(case.cluster is not None for case in full)
    assert sum(case.cluster_seconds for case in full) < 1200  # a third of the hour that it may take


def test_chance_fails_the_quick_suite_with_a_probability_below_a_thousandth() -> None:
    tests = sum(3 if case.servers else 2 for case in QUICK)  # arrivals, and theory or limit and shape
    clusters = sum(case.cluster is not None for case in QUICK)
    assert LEVEL * tests + (CLUSTER_LEVEL + VERDICT_LEVEL) * clusters < 1e-3


def test_at_another_size_the_load_stays_and_the_window_shrinks_so_that_there_are_as_many_jobs() -> None:
    case = next(case for case in QUICK if case.name == "jiq-dispatchers")
    larger = at_size(case.scenario, 40)
    assert (larger.servers, larger.cluster.dispatchers) == (40, 4)
    assert larger.load == case.scenario.load
    assert larger.run.duration * 40 == pytest.approx(case.scenario.run.duration * 20)
    assert at_size(case.scenario, 2000).run.duration == 20  # but not without end
    with pytest.raises(ScenarioError, match=r"with 25 servers dispatchers would have to be 2\.5"):
        at_size(case.scenario, 25)


def test_a_file_with_a_number_is_a_case_on_twin_and_cluster(tmp_path: Path) -> None:
    (case,) = mine("mean_response_time = 1.4\nwithin = 0.02", tmp_path)
    assert (case.name, case.expect.allowance, case.servers) == ("mine", (-0.02, 0.02), ())
    assert case.expected(case.scenario) == (1.4, None)
    assert case.scenario.run.replications == 24
    assert case.cluster is not None
    assert case.cluster.run.replications == 1


def test_finite_n_takes_the_suites_numbers_of_servers_or_those_given(tmp_path: Path) -> None:
    assert mine("finite_n = true", tmp_path)[0].servers == (20, 40, 60, 100)
    (case,) = mine('finite_n = [10, 20, 30, 40]\non = ["twin"]', tmp_path)
    assert [twin.servers for twin in case.twins] == [10, 20, 30, 40]
    assert case.cluster is None


def test_variants_are_cases_of_their_own_each_with_its_theory(tmp_path: Path) -> None:
    variant = '\n[[variants]]\nname = "other"\nset = { "dispatch.policy" = "random" }\n'
    assert [case.name for case in mine("", tmp_path, variant)] == ["mine: power-of-d", "mine: other"]
    with pytest.raises(ScenarioError, match="several variants"):
        mine("mean_response_time = 2", tmp_path, variant)


def test_a_folder_gives_all_its_files_and_names_may_be_mixed(tmp_path: Path) -> None:
    mine("", tmp_path)
    (tmp_path / "second.toml").write_text(CASE.replace('"mine"', '"second"'))
    assert [case.name for case in chosen([tmp_path, "random"], quick=True)] == ["mine", "second", "random"]
    with pytest.raises(ScenarioError, match="named twice"):
        chosen(["random", "random"], quick=True)
    (tmp_path / "third.toml").write_text(CASE)
    both = f"mine: this case is named twice, in {tmp_path / 'mine.toml'} and in {tmp_path / 'third.toml'}"
    with pytest.raises(ScenarioError, match=re.escape(both)):
        chosen([tmp_path], quick=True)


@pytest.mark.parametrize(
    ("expect", "error"),
    [
        ("withn = 0.1", 'expect.withn: unknown key; did you mean "within"?'),
        ("within = [0.1, -0.1]", "expect.within: must be from low to high"),
        ("within = -1", "expect.within = -1: must be a number of at least 0 or a list"),
        ('mean_response_time = "exact"', "expect.mean_response_time"),
        ("finite_n = [10, 20, 30]", "expect.finite_n"),
        ("finite_n = [40, 30, 20, 10]", "in increasing order"),
        ('finite_n = true\non = ["cluster"]', "needs the twin"),
        ('on = ["twin", "twin"]', "must name each place once"),
        ('verdict = "fine"', "expect.verdict"),
    ],
)
def test_a_wrong_expectation_is_told_with_its_key(expect: str, error: str, tmp_path: Path) -> None:
    with pytest.raises(ScenarioError) as raised:
        mine(expect, tmp_path)
    assert error in str(raised.value)
    assert str(tmp_path / "mine.toml") in str(raised.value)


def test_what_can_be_no_case_is_told(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match='no such case, file or folder; did you mean "random"'):
        chosen(["randon"], quick=True)
    with pytest.raises(ScenarioError, match=r"no \.toml files"):
        chosen([tmp_path], quick=True)
    (tmp_path / "bare.toml").write_text(CASE.replace("[expect]", ""))
    with pytest.raises(ScenarioError, match="expect: missing"):
        chosen([tmp_path], quick=True)
    with pytest.raises(ScenarioError, match="leave the sweep out"):
        mine("", tmp_path, '\n[sweep.grid]\n"workload.load" = [0.2, 0.4]\n')
    with pytest.raises(ScenarioError, match="can't set expect"):
        mine("", tmp_path, '\n[[variants]]\nname = "v"\nset = { "expect.within" = 0.1 }\n')


def test_a_scenario_without_theory_needs_a_number(tmp_path: Path) -> None:
    text = CASE.replace("[dispatch]", 'tasks = { kind = "zipf", exponent = 2.0, most = 9 }\n[dispatch]')
    (case,) = cases_of(with_expect(text, {}))
    with pytest.raises(ScenarioError, match=r"give expect\.mean_response_time"):
        case.expected(case.scenario)


def with_expect(text: str, expect: dict[str, Any]) -> Scenario:
    import tomllib

    return decode({**tomllib.loads(text), "expect": expect})


def test_an_expectation_survives_the_way_into_a_file_and_back(tmp_path: Path) -> None:
    import tomllib

    scenario = with_expect(CASE, {"within": [-0.1, 0.2], "finite_n": True, "on": ["twin"]})
    assert decode(tomllib.loads(resolved(scenario))) == scenario


def test_places_can_be_left_out() -> None:
    assert places("cluster, twin") == ["twin", "cluster"]
    with pytest.raises(ValueError, match="one or both of twin, cluster"):
        places("twin,moon")
    on_cluster = only_on(QUICK, ["cluster"])
    assert on_cluster
    assert all(case.cluster is not None and case.twins == [] for case in on_cluster)
    assert all(case.cluster is None for case in only_on(QUICK, ["twin"]))
