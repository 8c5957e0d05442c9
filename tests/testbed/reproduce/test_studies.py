"""Every study: what it says of itself is complete, and it runs in a tiny form. Some of its theory, by other means."""

from __future__ import annotations

import math
from pathlib import Path
from xml.etree import ElementTree

import msgspec
import pytest

from testbed.reproduce import Point, Study, compute, studies
from testbed.reproduce.folder import StudyFolder
from testbed.reproduce.reference import numbers
from testbed.reproduce.table import studies_table, study_table
from testbed.scenario import Scenario
from testbed.tables import plain_text

STUDIES = list(studies().values())
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
    folder = StudyFolder(tmp_path, study)
    folder.save(result)
    drawn = sorted(folder.path.glob("*.svg"))
    assert drawn
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
    assert study.name in plain_text(studies_table())
    assert all((study.paper, study.shows, study.takes))
    assert set(study.tabulated or ()) <= set(study.quantities)
    assert set(study.hidden) <= set(study.columns)
    assert {name for name, _ in study.controls.values()} <= set(study.quantities)


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_its_reference_numbers_have_sources_and_points(study: Study) -> None:
    from testbed.reproduce.reference import reference

    found = [row for point in study.points(quick=False) for row in reference(study.name, point.settings)]
    for number in numbers(study.name):
        assert number.source
        assert number.quantity in study.quantities
        assert any(row.quantity == number.quantity and row.value == number.value for row in found)


def test_zero_queueing_delay_of_single_tasks_is_the_closed_form_of_power_of_d() -> None:
    from testbed.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    settings = {"policy": "power-of-d", "servers": 1000, "tasks": 1, "load": 0.9, "d": 2.0}
    # E[T] = sum_i lam^((d^i - d)/(d - 1)); 2.614057 at load 0.9, d = 2 (formula sheet of parallel jobs, C4).
    assert ZeroQueueingDelay().theory(settings)["relative_queueing_delay"] == pytest.approx(1.614057, rel=1e-6)
    alone = settings | {"d": 0.3}  # random routing: M/M/1
    assert ZeroQueueingDelay().theory(alone)["relative_queueing_delay"] == pytest.approx(9.0, rel=1e-9)


def test_zero_queueing_delay_of_parallel_jobs_is_that_of_the_formula_sheet() -> None:
    from testbed.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    settings = {"policy": "batch-filling", "servers": 1000, "tasks": 10, "load": 0.9, "d": 2.0}
    # E[T] = 4.863488 and H_10 = 2.928968 (formula sheet of parallel jobs, C10 and C6).
    theory = ZeroQueueingDelay().theory(settings)
    assert theory["relative_queueing_delay"] == pytest.approx(4.863488 / 2.928968 - 1, rel=1e-6)
    larger = ZeroQueueingDelay().theory(settings | {"tasks": 20})
    assert larger["h / ln k"] == pytest.approx(13.352328, rel=1e-6)  # C16
    assert larger["k ln²N / (√N ε)"] == pytest.approx(301.789331, rel=1e-6)


def test_zero_queueing_delay_has_the_points_of_the_paper() -> None:
    from testbed.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay

    batch = [p.settings for p in ZeroQueueingDelay().points(quick=False) if p.settings["policy"] == "batch-filling"]
    assert [p["tasks"] for p in batch][:4] == [17, 30, 48, 69]  # floor of ln² 64 = 17.296, 30.749, 48.045, 69.185
    for p in batch:
        spare = 1 - float(p["load"])
        assert spare == pytest.approx(float(p["servers"]) ** -0.3)
        assert float(p["d"]) * spare * math.log(float(p["tasks"])) == pytest.approx(float(p["c"]))
        assert p["side"] == "neither"
