"""From an overall probe rate to the clocks' rate: on the twin, in the mean field, from the cache, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.measure.probes import overall_probe_rate
from testbed.measure.summary import measured_window
from testbed.runs import probe_rate as balancing
from testbed.runs.probe_rate import TOLERANCE, calibrated, mean_field_probe_rate, with_probe_rate
from testbed.runtime.twin import simulate
from testbed.scenario import Scenario, ScenarioError, decode
from testbed.studies.validate.choosing import cases_of
from testbed.theory.predict import NoPrediction, Prediction, predict


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def scenario(policy: str = "sharing", overall: float = 0.25, **settings: Any) -> Scenario:
    small = decode(
        {
            "name": "balancing",
            "seed": 3,
            "run": {"warmup": 20, "duration": 100},
            "cluster": {"pools": [{"servers": 20}]},
            "workload": {"load": 0.7},
            "dispatch": {"policy": "random"},
            "balance": {"policy": policy, "overall_probe_rate": overall},
        }
    )
    return small.with_settings(settings)


def measured(of: Scenario, replication: int = 0) -> float:
    run = simulate(of, replication)
    found = overall_probe_rate(run, of.servers, measured_window(run, of.run.warmup, of.horizon))
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("policy", "overall", "more"),
    [
        ("stealing", 0.5, {}),
        ("sharing", 0.25, {}),
        ("sharing", 1.4, {}),  # the limit is 0.49 / 0.3 = 1.63
        ("sharing", 0.5, {"dispatch.policy": "power-of-d"}),
        ("stealing", 0.3, {"workload.size": {"kind": "uniform", "low": 0.0, "high": 2.0}}),
        ("stealing", 0.3, {"cluster.message_delay": 0.1, "balance.victim_choices": 2}),
    ],
)
def test_the_rate_that_is_found_gives_the_overall_rate_on_the_twin(
    policy: str, overall: float, more: dict[str, Any]
) -> None:
    of = scenario(policy, overall, **more)
    found, calibration = calibrated(of, 0)
    assert calibration is not None
    assert found.balance is not None
    assert found.balance.probe_rate == calibration.probe_rate
    again = measured(found)
    assert calibration.overall_probe_rate == pytest.approx(again, rel=1e-12)
    noise = (overall * of.servers * of.run.duration) ** -0.5
    assert again == pytest.approx(overall, rel=max(TOLERANCE, 2 * noise))
    assert "runs of the twin" in str(calibration)


def test_in_a_long_run_the_rate_is_met_within_half_a_percent() -> None:
    of = scenario("sharing", 0.5, **{"cluster.pools.main.servers": 50, "run.duration": 410})
    found, _ = calibrated(of, 0)
    assert measured(found) == pytest.approx(0.5, rel=TOLERANCE)
    assert measured(with_probe_rate(of, mean_field_probe_rate(of))) != pytest.approx(0.5, rel=TOLERANCE)


def test_sharing_needs_a_slower_clock_than_the_mean_field_says() -> None:
    of = scenario("sharing", 1.4)
    _, calibration = calibrated(of, 0)
    assert calibration is not None
    assert calibration.probe_rate < 0.8 * mean_field_probe_rate(of)
    assert measured(with_probe_rate(of, mean_field_probe_rate(of))) > 1.2 * 1.4


def test_each_replication_is_calibrated_on_its_own_workload() -> None:
    rates = [calibrated(scenario(), replication)[1] for replication in (0, 1)]
    assert rates[0] is not None
    assert rates[1] is not None
    assert rates[0].probe_rate != rates[1].probe_rate


def test_what_was_found_is_found_again_without_a_run(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, first = calibrated(scenario(), 0)
    assert first is not None
    assert len(list(cache.rglob("*.json"))) == 1

    def fails(*arguments: object) -> None:
        raise AssertionError("the twin is run")

    with monkeypatch.context() as patch:
        patch.setattr(balancing, "simulate", fails)
        _, second = calibrated(scenario(), 0)
        assert second is not None
        assert (second.probe_rate, second.overall_probe_rate) == (first.probe_rate, first.overall_probe_rate)
        assert second.cached
        assert "an earlier run" in str(second)
        with pytest.raises(AssertionError, match="the twin is run"):
            calibrated(scenario(seed=4), 0)
    for file in cache.rglob("*.json"):
        file.write_text("{")
    _, third = calibrated(scenario(), 0)
    assert third is not None
    assert (third.cached, third.probe_rate) == (False, first.probe_rate)


def test_a_rate_kept_by_another_version_of_the_code_is_not_used(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calibrated(scenario(), 0)
    monkeypatch.setattr(balancing, "version", lambda name: "0.0.0+other")
    _, again = calibrated(scenario(), 0)
    assert again is not None
    assert not again.cached


def test_without_a_place_for_the_cache_it_is_done_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    _, calibration = calibrated(scenario(), 0)
    assert calibration is not None
    assert not calibration.cached


def test_a_rate_that_cannot_be_reached_is_an_error_with_its_key_and_a_remedy() -> None:
    with pytest.raises(ScenarioError) as caught:
        # So little load on so few servers that no task ever waits, and no clock runs.
        calibrated(scenario("sharing", 1.0, **{"workload.load": 0.001, "run.duration": 20.0}), 0)
    assert caught.value.key == "balance.overall_probe_rate"
    assert "choose a rate that the policy can reach, or set balance.probe_rate" in str(caught.value)


def test_the_mean_field_is_used_where_it_is_asked_for() -> None:
    of = scenario("sharing", 0.25, **{"balance.calibration": "mean-field"})
    found, calibration = calibrated(of, 0)
    assert calibration is not None
    assert found.balance is not None
    # Exponential sizes in closed form: r = R / (load^2 - (1 - load) R).
    assert found.balance.probe_rate == pytest.approx(0.25 / (0.49 - 0.3 * 0.25))
    assert (calibration.overall_probe_rate, calibration.runs) == (None, 0)
    assert "mean field" in str(calibration)


@pytest.mark.parametrize(
    "balance",
    [
        None,
        {"policy": "stealing", "probe_rate": 2.0},
        {"policy": "stealing", "probe_rate": 2.0, "overall_probe_rate": 0.5},
        {"policy": "sharing", "max_probes": 2},
    ],
)
def test_where_there_is_nothing_to_find_the_scenario_stays_as_it_is(balance: dict[str, Any] | None) -> None:
    of = scenario(balance=balance)
    assert calibrated(of, 0) == (of, None)


# --- the scenario's errors ---


@pytest.mark.parametrize(
    ("balance", "key", "says"),
    [
        ({"policy": "stealing"}, "balance", "give probe_rate or overall_probe_rate"),
        ({"policy": "stealing", "probe_rate": 1.0, "max_probes": 2}, "balance", "or max_probes"),
        ({"policy": "hybrid", "overall_probe_rate": 1.0}, "balance.overall_probe_rate", "a hybrid has two rates"),
        ({"policy": "hybrid", "probe_rate": 1.0}, "balance.sharing_probe_rate", "a hybrid needs it"),
        (
            {"policy": "sharing", "probe_rate": 1.0, "sharing_probe_rate": 1.0},
            "balance.sharing_probe_rate",
            "for sharing alone it is probe_rate",
        ),
        (
            {"policy": "hybrid", "max_probes": 2, "sharing_probe_rate": 1.0},
            "balance.sharing_probe_rate",
            'only for policy = "hybrid" with rates',
        ),
        ({"policy": "sharing", "probe_rate": 1.0, "steal": "half"}, "balance.steal", "leave it out"),
        ({"policy": "sharing", "probe_rate": 1.0, "victim_choices": 2}, "balance.victim_choices", "leave it out"),
        ({"policy": "stealing", "probe_rate": 0.0}, "balance.probe_rate", "0"),
        ({"policy": "stealing", "probe_rate": -1.0}, "balance.probe_rate", "-1"),
        ({"policy": "stealing", "max_probes": 0}, "balance.max_probes", "0"),
        ({"policy": "steeling", "probe_rate": 1.0}, "balance.policy", "stealing"),
    ],
)
def test_settings_that_do_not_fit_are_one_line_with_their_key(balance: dict[str, Any], key: str, says: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        scenario(balance=balance)
    assert caught.value.key == key
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_server_has_nobody_to_ask() -> None:
    with pytest.raises(ScenarioError, match="there is one server, and tasks can only move between two"):
        scenario(**{"cluster.pools.main.servers": 1})


@pytest.mark.parametrize(
    ("more", "key", "says"),
    [
        ({"workload.size": {"kind": "uniform", "low": 0.0, "high": 2.0}}, "balance.calibration", "phase-type"),
        ({"workload.load": 1.2}, "balance.calibration", "load below 1"),
        ({"balance.overall_probe_rate": 2.0}, "balance.overall_probe_rate", "at most 1.633; ask for fewer"),
    ],
)
def test_what_the_mean_field_cannot_do_is_said_before_anything_runs(
    more: dict[str, Any], key: str, says: str, tmp_path: Path
) -> None:
    settings = {"balance.calibration": "mean-field", **more}
    in_variant = scenario(variants=[{"name": "later", "set": settings}])
    for asked in (scenario(**settings), in_variant):
        with pytest.raises(ScenarioError, match=says) as caught:
            testbed.run(asked, where="twin", output=tmp_path / "runs")
        assert caught.value.key == key
    with pytest.raises(ScenarioError, match=rf"sweep \(.*{says}"):
        testbed.sweep(scenario(sweep={"points": [settings]}), output=tmp_path / "runs")
    with pytest.raises(ScenarioError, match=says):
        cases_of(scenario(expect={"mean_response_time": 1.0}, **settings))
    assert not (tmp_path / "runs").exists()


# --- predictions ---


def prediction(**settings: Any) -> Prediction:
    found = predict(scenario(**settings))
    assert isinstance(found, Prediction), found
    return found


def test_the_prediction_is_the_mean_field_with_its_correction() -> None:
    """Check value 12 of the formula sheet: exponential sizes, load 0.8, r = 2.5: 2.142857 + 1.690714 / N."""
    rate = {"policy": "stealing", "probe_rate": 2.5}
    found = prediction(**{"workload.load": 0.8, "balance": rate})
    assert found.mean_response_time == pytest.approx(2.142857 + 1.690714 / 20, rel=1e-5)
    overall = {"policy": "stealing", "overall_probe_rate": 0.5}
    assert prediction(**{"workload.load": 0.8, "balance": overall}).mean_response_time == pytest.approx(
        found.mean_response_time, rel=1e-9
    )


@pytest.mark.parametrize(("policy", "expected"), [("stealing", 1.73152), ("sharing", 1.629508)])
def test_the_prediction_of_the_traditional_forms_is_the_sheets(policy: str, expected: float) -> None:
    """Check value 10e: Erlang-5, load 0.8, two probes."""
    settings = {"workload.load": 0.8, "workload.size": {"kind": "erlang", "phases": 5}}
    found = prediction(**settings, balance={"policy": policy, "max_probes": 2})
    assert found.mean_response_time == pytest.approx(expected, rel=1e-6)


def test_beyond_the_limit_of_sharing_every_task_is_served_at_once() -> None:
    assert prediction(policy="sharing", overall=5.0).mean_response_time == pytest.approx(1.0)


@pytest.mark.parametrize(
    "settings",
    [
        {"dispatch.policy": "power-of-d"},
        {"balance": {"policy": "hybrid", "probe_rate": 1.0, "sharing_probe_rate": 1.0}},
        {"balance": {"policy": "stealing", "probe_rate": 1.0, "steal": "half"}},
        {"balance": {"policy": "stealing", "probe_rate": 1.0, "victim_choices": 2}},
        {"workload.size": {"kind": "uniform", "low": 0.0, "high": 2.0}},
        {"workload.arrivals": {"kind": "deterministic"}},
        {"cluster.pools.main.buffer": 5},
        {"workload.size": {"kind": "exponential", "mean": 2.0}},
    ],
)
def test_what_has_no_theory_says_so(settings: dict[str, Any]) -> None:
    found = predict(scenario(**settings))
    assert isinstance(found, NoPrediction)
    assert found.reason
