"""What a sweep comes to: its table, and differences between variants from replications in pairs."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet
import pytest
from scipy import stats

import testbed
from testbed.scenario import Scenario
from testbed.studies.sweep.plan import FinishedRun, Goal, Plan
from testbed.studies.sweep.quantities import QUANTITIES
from testbed.studies.sweep.result import SweepResult
from testbed.studies.sweep.tidy_table import TYPES
from testbed.theory.predict import Prediction

Tiny = Callable[..., Scenario]
Finished = Callable[..., FinishedRun]

ONE_POINT = {"sweep.grid": {"workload.load": [0.5]}}


def of_means(scenario: Scenario, finished: Finished, means: dict[str, list[float]]) -> SweepResult:
    """A sweep of one point with the mean response times that are given."""
    runs = [finished(0, variant, r, mean) for variant, values in means.items() for r, mean in enumerate(values)]
    return SweepResult(Plan(scenario, Goal()), None, {run.key: run for run in runs})


def test_intervals_of_differences_are_of_pairs_and_hold_the_true_one(tiny: Tiny, finished: Finished) -> None:
    # Both variants see the same noise of a replication, of ten times their own; the true difference is 0.3.
    rng = np.random.default_rng(11)
    scenario = tiny(ONE_POINT)
    held, trials, widths = 0, 300, []
    for _ in range(trials):
        shared = rng.normal(5.0, 1.0, 6)
        means = {
            "random": (shared + rng.normal(0.3, 0.1, 6)).tolist(),
            "jsq": (shared + rng.normal(0, 0.1, 6)).tolist(),
        }
        difference = of_means(scenario, finished, means).difference(0, "random", "jsq")
        assert difference.mean is not None
        assert difference.half_width is not None
        assert difference.mean == pytest.approx(np.mean(means["random"]) - np.mean(means["jsq"]))
        held += abs(difference.mean - 0.3) <= difference.half_width
        widths.append(difference.half_width)
    # The differences are normal, so that Student's interval is exact; false alarm below 1e-4.
    assert stats.binom.cdf(held, trials, 0.95) > 5e-5
    assert stats.binom.sf(held - 1, trials, 0.95) > 5e-5
    assert np.mean(widths) < 0.2  # 0.15 expected; unpaired ones would be 1.5 wide


def test_a_replication_that_one_variant_lacks_is_no_pair(tiny: Tiny, finished: Finished) -> None:
    result = of_means(tiny(ONE_POINT), finished, {"random": [2.0, 4.0, 100.0], "jsq": [1.0, 2.0]})
    difference = result.difference(0, "random", "jsq")
    assert (difference.mean, difference.effective_samples) == (1.5, 2)
    with pytest.raises(KeyError, match="no variant 'jiq'; there are: random, jsq"):
        result.difference(0, "jiq", "jsq")


def test_the_twin_s_difference_agrees_with_exact_theory(tiny: Tiny) -> None:
    settings: dict[str, Any] = {
        **ONE_POINT,
        "run.warmup": 50,
        "run.duration": 200,
        "run.replications": 12,
        "variants": [{"name": "round-robin", "set": {"dispatch.policy": "round-robin"}}],
    }
    result = testbed.sweep(tiny(settings), processes=1)
    predictions = [result.predictions[0, variant] for variant in ("round-robin", "random")]
    assert all(isinstance(prediction, Prediction) and prediction.kind == "exact" for prediction in predictions)
    expected = predictions[0].mean_response_time - predictions[1].mean_response_time  # type: ignore[union-attr]
    difference = result.difference(0, "round-robin", "random")
    assert difference.mean is not None
    assert difference.half_width is not None
    # The interval at a confidence of 1 - 1e-4.
    wider = stats.t.ppf(1 - 5e-5, 11) / stats.t.ppf(0.975, 11)
    assert abs(difference.mean - expected) <= wider * difference.half_width
    assert difference.half_width < abs(expected) / 2  # it tells the two apart
    alone = [run.response.mean for run in result.summaries(0, "random", "twin")]
    assert difference.half_width < stats.t.ppf(0.975, 11) * np.std(alone, ddof=1) / np.sqrt(12)  # pairs help


def rows(table: Any, **where: Any) -> list[dict[str, Any]]:
    return [row for row in table.to_pylist() if all(row[key] == value for key, value in where.items())]


def test_the_table_has_a_row_for_each_run_and_quantity_for_averages_differences_and_theory(tiny: Tiny) -> None:
    result = testbed.sweep(tiny(), processes=1)
    table = result.table()
    assert table.column_names[:4] == ["point", "workload.load", "variant", "against"]
    mean = {"quantity": "response_time_mean"}
    for point, load in enumerate((0.4, 0.6, 0.8)):
        for variant in ("random", "jsq"):
            at = {"point": point, "variant": variant, "against": None, **mean}
            summaries = result.summaries(point, variant, "twin")
            singles = [row for row in rows(table, source="twin", **at) if row["replication"] is not None]
            assert [row["replication"] for row in singles] == [0, 1]
            assert [row["value"] for row in singles] == [summary.response.mean for summary in summaries]
            assert {row["workload.load"] for row in singles} == {load}
            (average,) = rows(table, source="twin", replication=None, **at)
            assert average["value"] == pytest.approx(np.mean([row["value"] for row in singles]))
            assert average["low"] < average["value"] < average["high"]
            assert average["n"] == 2
            (theory,) = rows(table, source="theory", **at)
            prediction = result.predictions[point, variant]
            assert isinstance(prediction, Prediction)
            assert (theory["value"], theory["verdict"]) == (prediction.mean_response_time, prediction.kind)
        (difference,) = rows(table, point=point, against="random", **mean)
        expected = result.difference(point, "jsq", "random")
        assert (difference["variant"], difference["value"]) == ("jsq", pytest.approx(expected.mean))
        assert difference["high"] - difference["value"] == pytest.approx(expected.half_width)
    assert set(table["quantity"].to_pylist()) <= set(QUANTITIES)
    assert set(table["verdict"].to_pylist()) <= {"valid", "suspect", "exact", "limit", "approximation", "bound", None}


def test_what_copies_cost_is_in_the_table_pool_by_pool_with_its_theory(tiny: Tiny) -> None:
    pools = [{"name": name, "servers": 3, "queue": "central"} for name in ("a", "c")]
    settings = {
        "cluster.pools": pools,
        "workload.load": 0.3,
        "dispatch.policy": "static",
        "threshold": {"action": "replicate", "tau": 0.5},
        "variants": [],
        "run.duration": 60,
        "sweep": {"grid": {"threshold.tau": [0.5, 2.0]}},
    }
    result = testbed.sweep(tiny(settings), processes=1)
    table = result.table()
    assert {re.sub(r"\..*", ".POOL", quantity) for quantity in table["quantity"].to_pylist()} <= set(QUANTITIES)
    for point in (0, 1):
        summary = result.summaries(point, "static+replicate", "twin")[0]
        at = {"point": point, "replication": 0}
        for pool in summary.pools:
            load, theory = pool.effective_load, pool.theory_effective_load
            (row,) = rows(table, quantity=f"effective_load.{pool.name}", **at)
            assert (row["value"], row["high"] - row["value"]) == pytest.approx((load.mean, load.half_width))
            (row,) = rows(table, quantity=f"effective_load.{pool.name}", point=point, source="theory")
            assert row["value"] == pytest.approx(theory)
            (row,) = rows(table, quantity=f"wasted_by_losing.{pool.name}", **at)
            assert 0 < row["value"] < 1
            assert row["value"] * pool.service_requirement.mean == pytest.approx(pool.wasted_by_losing)
        found = summary.cancellations
        assert found is not None
        for name in ("copies_per_job", "preemptions_per_job", "cancellations_per_job"):
            (row,) = rows(table, quantity=name, **at)
            assert row["value"] == getattr(found, name) > 0
    lacking = set(testbed.sweep(tiny(ONE_POINT), processes=1).table()["quantity"].to_pylist())
    assert not any("." in quantity or "copies" in quantity for quantity in lacking)


def test_a_single_replication_keeps_its_own_interval_and_makes_no_interval_of_differences(tiny: Tiny) -> None:
    result = testbed.sweep(tiny({**ONE_POINT, "run.replications": 1}), processes=1)
    table = result.table()
    single, average = rows(table, variant="random", against=None, source="twin", quantity="response_time_mean")
    assert average == {**single, "replication": None}
    assert single["low"] is not None
    (difference,) = rows(table, against="random", quantity="response_time_mean")
    assert difference["low"] is None


def test_settings_are_columns_of_their_own_kind(tiny: Tiny) -> None:
    points = [
        {"workload.load": 0.5, "cluster.pools.main.servers": 4, "workload.size": {"kind": "deterministic"}},
        {"workload.load": 1, "cluster.pools.main.servers": 5, "cluster.transport": "tcp"},
    ]
    result = testbed.sweep(tiny({"sweep": {"points": points}}), on=["theory"])
    table = result.table()
    kinds = {name: str(table.schema.field(name).type) for name in table.column_names if "." in name}
    assert kinds == {
        "workload.load": "double",
        "cluster.pools.main.servers": "int64",
        "workload.size": "string",
        "cluster.transport": "string",
    }
    assert table["workload.size"].unique().to_pylist() == ['{"kind": "deterministic"}', None]
    assert set(table["source"].to_pylist()) == {"theory"}


def test_both_files_hold_the_table_and_reading_the_folder_gives_the_same(tiny: Tiny, tmp_path: Path) -> None:
    result = testbed.sweep(tiny(), output=tmp_path, processes=1)
    assert result.folder is not None
    assert pyarrow.parquet.read_table(result.folder / "sweep.parquet").equals(result.table())
    assert pyarrow.csv.read_csv(result.folder / "sweep.csv").num_rows == result.table().num_rows
    again = SweepResult.read(result.folder)
    assert again.complete
    assert again.table().equals(result.table())


def test_a_result_shows_itself_as_text_and_in_a_notebook(tiny: Tiny, finished: Finished) -> None:
    result = of_means(tiny(ONE_POINT), finished, {"random": [2.0, 2.2], "jsq": [1.1, 1.4]})
    for shown in (str(result), result._repr_html_()):
        assert "2.100 ± 1.27" in shown
        assert "-0.850 ± 0.64" in shown  # jsq less random: -0.9 and -0.8
        assert "2.000 exact" in shown
    empty = SweepResult(Plan(tiny(), Goal()))
    assert "jsq" in str(empty)
    assert empty.table().num_rows > 0  # the theory's


def test_the_guide_names_each_column_and_tells_what_each_quantity_is() -> None:
    guide = (files("testbed") / "docs" / "sweeps.md").read_text(encoding="utf-8")
    for quantity, meaning in QUANTITIES.items():
        assert f"| `{quantity}` | {meaning} |\n" in guide
    for column in TYPES:
        assert re.search(rf"^\| .*`{column}`.* \|$", guide, re.MULTILINE)
