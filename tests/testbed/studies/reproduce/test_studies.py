"""Every study: what it says of itself is complete, and it runs in a tiny form. Some of its theory, by other means."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from testbed.runs.tables import plain_text
from testbed.scenario import Scenario
from testbed.studies.reproduce import Point, Study, compute, studies
from testbed.studies.reproduce.reference import numbers
from testbed.studies.reproduce.study_files import save
from testbed.studies.reproduce.study_table import studies_tables, study_table
from testbed.studies.store import StudyFolder

STUDIES = list(studies().values())
ONLY_TABLES = ("stealing-sharing-sizes",)
RUNS = 2  # scenarios of a study that are run


def tiny(scenario: Scenario) -> Scenario:
    run = msgspec.structs.replace(scenario.run, warmup=0.0, duration=6.0, replications=2)
    return msgspec.structs.replace(scenario, run=run)


def tiny_points(study: Study) -> list[Point]:
    simulated = 0
    points = []
    for point in study.points(quick=True):
        small = point.twin is not None and point.twin.servers <= 256 and simulated < RUNS
        simulated += small
        points.append(Point(point.settings, tiny(point.twin) if small and point.twin else None, None, point.line))
    return points


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_it_runs_in_a_tiny_form(study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    points = tiny_points(study)
    monkeypatch.setattr(study, "points", lambda quick: points, raising=False)
    result = compute(study, quick=True, processes=1)
    assert not result.missing
    assert {row.quantity for row in result.rows} <= set(study.quantities)
    assert all(math.isfinite(row.value) for row in result.rows if row.source == "theory")
    folder = StudyFolder.create(tmp_path, study.name)
    save(result, folder)
    drawn = sorted(folder.path.glob("*.svg"))
    assert drawn or study.name in ONLY_TABLES
    for plot in drawn:
        assert ElementTree.parse(plot).getroot().tag.endswith("svg")
        assert plot.with_suffix(".png").stat().st_size > 1000
    text = plain_text(study_table(result))
    assert study.name in text
    assert (folder.path / "numbers.csv").read_text(encoding="utf-8").count("\n") == len(result.rows) + 1


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_it_is_fully_described(study: Study) -> None:
    for quick in (True, False):
        points = study.points(quick)
        assert points
        assert all(list(point.settings) == list(study.columns) for point in points)
    assert any(study.name in plain_text(table) for table in studies_tables())
    assert all((study.paper, study.shows, study.takes))
    assert set(study.tabulated or ()) <= set(study.quantities)
    assert set(study.hidden) <= set(study.columns)
    assert {name for name, _ in study.controls.values()} <= set(study.quantities)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_reference_numbers_have_sources_and_points(study: Study) -> None:
    from testbed.studies.reproduce.reference import reference

    found = [row for point in study.points(quick=False) for row in reference(study.name, point.settings)]
    for number in numbers(study.name):
        assert number.source
        assert number.quantity in study.quantities
        assert any(row.quantity == number.quantity and row.value == number.value for row in found)


def test_zero_queueing_delay_of_single_tasks_is_the_closed_form_of_power_of_d() -> None:
    from testbed.studies.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    settings = {"policy": "power-of-d", "servers": 1000, "tasks": 1, "load": 0.9, "d": 2.0}
    # E[T] = sum_i lam^((d^i - d)/(d - 1)); 2.614057 at load 0.9, d = 2 (formula sheet of parallel jobs, C4).
    assert ZeroQueueingDelay().theory(settings)["relative_queueing_delay"] == pytest.approx(1.614057, rel=1e-6)
    alone = settings | {"d": 0.3}  # random routing: M/M/1
    assert ZeroQueueingDelay().theory(alone)["relative_queueing_delay"] == pytest.approx(9.0, rel=1e-9)


def test_zero_queueing_delay_of_parallel_jobs_is_that_of_the_formula_sheet() -> None:
    from testbed.studies.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    settings = {"policy": "batch-filling", "servers": 1000, "tasks": 10, "load": 0.9, "d": 2.0}
    # E[T] = 4.863488 and H_10 = 2.928968 (formula sheet of parallel jobs, C10 and C6).
    theory = ZeroQueueingDelay().theory(settings)
    assert theory["relative_queueing_delay"] == pytest.approx(4.863488 / 2.928968 - 1, rel=1e-6)
    larger = ZeroQueueingDelay().theory(settings | {"tasks": 20})
    assert larger["h / ln k"] == pytest.approx(13.352328, rel=1e-6)  # C16
    assert larger["k ln²N / (√N ε)"] == pytest.approx(301.789331, rel=1e-6)


def test_zero_queueing_delay_has_the_points_of_the_paper() -> None:
    from testbed.studies.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    batch = [p.settings for p in ZeroQueueingDelay().points(quick=False) if p.settings["policy"] == "batch-filling"]
    assert [p["tasks"] for p in batch][:4] == [17, 30, 48, 69]  # floor of ln² 64 = 17.296, 30.749, 48.045, 69.185
    for p in batch:
        spare = 1 - float(p["load"])
        assert spare == pytest.approx(float(p["servers"]) ** -0.3)
        assert float(p["d"]) * spare * math.log(float(p["tasks"])) == pytest.approx(float(p["c"]))
        assert p["side"] == "neither"


def theory(study: str, quantity: str, **settings: object) -> float:
    """Return what a study's theory says, for its table's settings."""
    return studies()[study].theory(settings)[quantity]  # type: ignore[arg-type]


def test_regimes_agree_with_the_formula_sheet() -> None:
    settings = {"regime": "", "servers": 1000, "tasks": 10, "load": 0.9}
    for policy, d, response in (
        ("batch-filling", 1.2, 5.810455),
        ("batch-sampling", 2.0, 5.356494),
        ("per-task-power-of-d", 2.0, 6.207627),
    ):
        # E[T] of the formula sheet of parallel jobs, C10, over H_10.
        found = theory("parallel-jobs-regimes", "response_time_ratio", policy=policy, d=d, **settings)
        assert found == pytest.approx(response / 2.928968, rel=1e-6)


def test_queue_lengths_are_those_of_recursions_by_hand() -> None:
    study, tail = "parallel-jobs-queue-lengths", "queue_length_tail"
    for length in (1, 3, 5):  # random: geometric; per-task power of 2: load^(2^i - 1)
        assert theory(study, tail, policy="random", tasks=10, length=length) == pytest.approx(0.9**length)
        by_hand = 0.9 ** (2**length - 1)
        assert theory(study, tail, policy="per-task-power-of-d", tasks=10, length=length) == pytest.approx(by_hand)
    # As k -> infinity: S_i = 1 - (1 - lam)(1 + lam d)^(i - 1), and S_2 = lam (1 - d (1 - lam)) of batch-sampling.
    limit = theory(study, tail, policy="batch-filling", tasks="infinite", length=2)
    assert limit == pytest.approx(1 - 0.1 * 2.8)
    sampling = theory(study, tail, policy="batch-sampling", tasks="infinite", length=2)
    assert sampling == pytest.approx(0.9 * (1 - 2 * 0.1))
    assert theory(study, tail, policy="batch-filling", tasks="infinite", length=7) == 0.0


def test_one_probe_less_than_the_overhead_needed_misses_the_target() -> None:
    from testbed.theory.parallel_jobs import mean_field

    for target, load in ((0.5, 0.7), (0.05, 0.9)):
        needed = theory("probe-overhead-needed", "probe_overhead_needed", target=target, tasks=5, load=load)
        assert mean_field("batch-filling", load, 5, needed).relative_queueing_delay <= target
        assert mean_field("batch-filling", load, 5, needed - 0.2).relative_queueing_delay > target


def test_validation_has_27_cases_and_the_mean_field_of_the_formula_sheet() -> None:
    name = "stealing-sharing-validation"
    points = studies()[name].points(quick=False)
    assert len(points) == 27
    assert all(point.twin is not None and point.twin.servers == 1000 for point in points)
    # E[T] and the 1/N coefficient at load 0.8, clock rate 2.5 (formula sheet of stealing and sharing, sections 12, 14).
    for scv, response, coefficient in ((0.2, 1.834755, 0.833), (5.0, 3.272856, 6.903), (25.0, 7.8801, 35.601)):
        settings = {"load": 0.8, "scv": scv, "probe_rate": 2.5}
        assert theory(name, "mean_response_time", **settings) == pytest.approx(response, abs=5e-5)
        percent = 100 * coefficient / 1000 / response
        assert theory(name, "excess", **settings) == pytest.approx(percent, rel=1e-3)


@pytest.mark.parametrize("name", ["stealing-sharing-sizes", "stealing-sharing-regions", "stealing-sharing-tails"])
def test_theory_equals_the_check_values_of_the_formula_sheet(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    study = studies()[name]
    points = [Point(point.settings, line=point.line) for point in study.points(quick=True)]  # with nothing to measure
    monkeypatch.setattr(study, "points", lambda quick: points)
    found = [row for row in compute(study, processes=1).rows if not math.isnan(row.value)]
    checked = 0
    for row in found:
        if row.source == "reference":
            mine = next(
                r.value
                for r in found
                if r.source == "theory" and r.quantity == row.quantity and r.settings == row.settings
            )
            assert mine == pytest.approx(row.value, rel=1e-6)
            checked += 1
    assert checked == len(numbers(name)) > 5


def test_the_bound_for_every_size_lies_below_all_boundaries_and_the_one_of_unit_sizes_above() -> None:
    from testbed.studies.reproduce.stealing_sharing.regions import EVERY, RATES, UNIT
    from testbed.studies.reproduce.stealing_sharing.settings import SIZES

    for rate in RATES:
        low, *between, high = (
            theory("stealing-sharing-regions", "load_boundary", size=size, overall_probe_rate=rate)
            for size in (EVERY, *SIZES, UNIT)
        )
        assert all(low < boundary < high for boundary in between)
        if rate >= 0.5:
            assert low**2 / (1 - low) == pytest.approx(rate)


def test_response_times_cross_between_sharing_and_stealing() -> None:
    name, quantity = "stealing-sharing-response-time", "mean_response_time"
    at = {
        (policy, load): theory(name, quantity, size="exponential", policy=policy, load=load)
        for policy in ("stealing", "sharing")
        for load in (0.4, 0.8)
    }
    # (1 + R_o)/(1 + R_o - lam) of stealing; 1 where sharing can't use its probes, lam/((1 - lam)(lam + R_o)) else.
    assert at["stealing", 0.4] == pytest.approx(1.5 / 1.1)
    assert at["sharing", 0.4] == 1.0
    assert at["stealing", 0.8] == pytest.approx(1.5 / 0.7)
    assert at["sharing", 0.8] == pytest.approx(0.8 / (0.2 * 1.3))


@pytest.mark.parametrize(
    ("load", "size", "rate"), [(0.5, "H2(25, 0.5)", 2.5), (0.8, "Erlang-5", 1.0), (0.9, "exponential", 2.5)]
)
def test_after_the_settling_time_the_mean_field_is_steady(load: float, size: str, rate: float) -> None:
    from testbed.studies.reproduce.stealing_sharing.settings import SIZES, settling_time
    from testbed.theory.stealing_sharing import mean_field, transient_mean_field

    time = settling_time(load, SIZES[size].scv, rate)
    steady = mean_field(load, SIZES[size], rate).mean_queue_length
    early, late = transient_mean_field(load, SIZES[size], rate, [time / 4, time]).mean_queue_length
    assert late == pytest.approx(steady, rel=3e-3)
    assert early != pytest.approx(steady, rel=3e-3)  # nor is it far too long
