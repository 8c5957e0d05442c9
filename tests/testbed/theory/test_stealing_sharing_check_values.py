"""Every check value of the formula sheet, to its stated digits."""

from __future__ import annotations

import math
import tomllib
from pathlib import Path
from typing import Any

import pytest

from testbed.theory.stealing_sharing import (
    best_policy,
    load_boundary,
    mean_field,
    probe_rate_boundary,
    probe_rate_for,
    traditional_sharing,
    traditional_stealing,
    unit_size_load_boundary,
    unit_size_mean_field,
    vanishing_rate_load_boundary,
)
from testbed.workload.distributions import Deterministic, Erlang, Exponential, Hyperexponential

VALUES: dict[str, Any] = tomllib.loads(Path(__file__).with_name("stealing_sharing_check_values.toml").read_text())
SIZES = {
    "exponential": Exponential(),
    "erlang-5": Erlang(phases=5),
    "h2-5": Hyperexponential(scv=5, f=0.5),
    "h2-25": Hyperexponential(scv=25, f=0.5),
}


def stated(value: str) -> Any:
    """Return what matches ``value`` to its digits: half a unit in the last one, which is the seventh or a later one."""
    number = float(value)
    digits = max(7, len(value.replace(".", "").lstrip("0")))
    unit = 10.0 ** (math.floor(math.log10(abs(number))) + 1 - digits)
    return pytest.approx(number, rel=0, abs=0.5001 * unit)


@pytest.mark.parametrize("case", VALUES["hyperexponential"], ids=lambda c: f"scv={c['scv']}")
def test_hyperexponential_parameters(case: dict[str, Any]) -> None:
    alpha_1, alpha_2, mu_1, mu_2 = Hyperexponential(scv=case["scv"], f=case["f"]).parameters
    assert (alpha_1, 1 - alpha_2) == (stated(case["alpha_1"]), stated(case["alpha_1"]))
    assert (mu_1, mu_2) == (stated(case["mu_1"]), stated(case["mu_2"]))


@pytest.mark.parametrize("case", VALUES["mean_field"], ids=lambda c: c["size"])
def test_mean_field(case: dict[str, Any]) -> None:
    state = mean_field(case["load"], SIZES[case["size"]], case["removal_rate"] / (1 - case["load"]))
    for name in (
        "mean_response_time",
        "pending_probability",
        "idle_arrival_rate",
        "decay_rate",
        "transfer_rate",
    ):
        assert getattr(state, name) == stated(case[name]), name
    assert [state.queue_length_pmf(n) for n in (1, 2, 3)] == [stated(p) for p in case["queue_length_pmf"]]


@pytest.mark.parametrize("case", VALUES["matching"], ids=lambda c: c["size"])
def test_both_policies_at_an_equal_overall_probe_rate(case: dict[str, Any]) -> None:
    load, size, rate = case["load"], SIZES[case["size"]], case["overall_probe_rate"]
    assert best_policy(load, size, rate) == case["best"]
    for policy in ("stealing", "sharing"):
        expected = case[policy]
        state = mean_field(load, size, probe_rate_for(policy, load, size, rate))
        assert state.probe_rate == stated(expected["probe_rate"])
        assert state.mean_response_time == stated(expected["mean_response_time"])
        assert state.pending_probability == stated(expected["pending_probability"])
        assert state.overall_probe_rate(policy) == pytest.approx(rate, rel=1e-12)


@pytest.mark.parametrize(
    ("load", "rate", "best", "stealing", "sharing"),
    [(0.4, 0.2, "sharing", 2.16, 1.14), (0.9, 0.5, "stealing", 4.08, 16.9)],
)
def test_which_policy_wins_depends_on_the_load(
    load: float, rate: float, best: str, stealing: float, sharing: float
) -> None:
    size = SIZES["h2-5"]
    means = [mean_field(load, size, probe_rate_for(p, load, size, rate)) for p in ("stealing", "sharing")]
    assert best_policy(load, size, rate) == best
    assert [m.mean_response_time for m in means] == [
        pytest.approx(stealing, rel=4e-3),
        pytest.approx(sharing, rel=4e-3),
    ]


@pytest.mark.parametrize("case", VALUES["load_boundary"], ids=lambda c: c["size"])
def test_load_boundary(case: dict[str, Any]) -> None:
    assert load_boundary(SIZES[case["size"]], case["overall_probe_rate"]) == stated(case["load"])


@pytest.mark.parametrize("case", VALUES["probe_rate_boundary"], ids=lambda c: c["size"])
def test_probe_rate_boundary(case: dict[str, Any]) -> None:
    assert probe_rate_boundary(case["load"], SIZES[case["size"]]) == stated(case["overall_probe_rate"])


@pytest.mark.parametrize("case", VALUES["vanishing_rate"], ids=lambda c: c["size"])
def test_load_boundary_for_few_probes(case: dict[str, Any]) -> None:
    if case["size"] == "unit":
        assert vanishing_rate_load_boundary(Deterministic()) == stated(case["load"])
        assert unit_size_load_boundary(0.0) == stated(case["load"])
        return
    assert vanishing_rate_load_boundary(SIZES[case["size"]]) == stated(case["load"])
    assert load_boundary(SIZES[case["size"]], 0.0) == stated(case["load"])


def test_unit_sizes() -> None:
    case = VALUES["unit_size"]
    state = unit_size_mean_field(case["load"], case["removal_rate"])
    assert state.pending_probability == stated(case["pending_probability"])
    assert state.mean_response_time == stated(case["mean_response_time"])
    assert unit_size_load_boundary(case["overall_probe_rate"]) == stated(case["load_boundary"])


@pytest.mark.parametrize("case", VALUES["traditional"], ids=lambda c: c["size"])
def test_traditional_strategies(case: dict[str, Any]) -> None:
    load, size, most = case["load"], SIZES[case["size"]], case["max_probes"]
    for name, result in (
        ("stealing", traditional_stealing(load, size, most)),
        ("sharing", traditional_sharing(load, size, most)),
    ):
        assert result.overall_probe_rate == stated(case[name]["overall_probe_rate"])
        assert result.mean_response_time == stated(case[name]["mean_response_time"])
    probe_rate = probe_rate_for("sharing", load, size, traditional_sharing(load, size, most).overall_probe_rate)
    assert mean_field(load, size, probe_rate).mean_response_time == stated(case["sharing_with_clock"])


def test_response_time_tail() -> None:
    case = VALUES["response_time_tail"]
    state = mean_field(case["load"], SIZES[case["size"]], case["removal_rate"] / (1 - case["load"]))
    for moved in ("newest", "oldest"):
        assert [state.response_time_tail(t, moved) for t in case["times"]] == [stated(p) for p in case[moved]]


def test_finite_size_coefficients_of_two_servers() -> None:
    case = VALUES["two_servers"]
    correction = mean_field(case["load"], Exponential(), case["probe_rate"]).finite_size_correction()
    assert correction.mean_response_time == stated(case["c_T"])
    assert correction.pending_probability == stated(case["c_u"])


@pytest.mark.parametrize("row", VALUES["finite_size"]["rows"], ids=lambda r: "-".join(map(str, r[:3])))
def test_finite_size_table(row: list[Any]) -> None:
    policy, size, load, rate, mean, coefficient = row
    state = mean_field(load, SIZES[size], probe_rate_for(policy, load, SIZES[size], rate))
    assert state.mean_response_time == pytest.approx(mean, rel=0, abs=0.501e-4)
    assert state.finite_size_correction().mean_response_time == pytest.approx(coefficient, rel=0, abs=0.501e-3)
