"""Computing a study: what its rows hold, that points share runs, and what is left of it after Ctrl-C."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from testbed.runs.tables import plain_text
from testbed.scenario import Scenario
from testbed.studies.progress import Progress
from testbed.studies.reproduce import Point, Study, UnknownStudyError, compute, registry, reproduce
from testbed.studies.reproduce import study as named_study
from testbed.studies.reproduce.study import value_of
from testbed.studies.reproduce.study_files import COLUMNS
from testbed.studies.reproduce.study_table import study_table


@pytest.fixture
def registered(study: Study, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setattr(registry, "STUDIES", (type(study),))
    monkeypatch.setattr("testbed.studies.reproduce.registry.studies", lambda: {"tiny": study})
    return study


def test_points_have_theory_and_the_twin_over_its_replications(study: Study) -> None:
    rows = compute(study, processes=1).rows
    assert [row.value for row in rows if row.source == "theory"] == [0.5, 0.25, 0.125]
    for length, truth in ((1, 0.5), (2, 0.25)):
        row = next(r for r in rows if r.source == "twin" and r.quantity == "tail" and r.settings["length"] == length)
        assert row.replications == 3
        assert row.half_width is not None
        # Five queues for 600 time units: standard error about 0.02.
        assert row.value == pytest.approx(truth, abs=0.08)
    assert not any(row.source == "twin" for row in rows if row.settings["length"] == 3)


def test_points_with_an_equal_scenario_share_its_runs(study: Study) -> None:
    progress = Progress()
    compute(study, processes=1, progress=progress)
    assert (progress.runs_done, progress.runs_expected) == (3, 3)


def test_processes_give_the_same_rows_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    study = named_study("zero-queueing-delay")  # which the processes can import
    points = [Point(point.settings, twin=short(point.twin)) for point in study.points(quick=True)[:2]]
    monkeypatch.setattr(type(study), "points", lambda self, quick: points)
    alone, together = (compute(study, processes=processes).rows for processes in (1, 2))
    assert alone == together
    assert sum(row.source == "twin" for row in alone) == 4


def short(scenario: Scenario | None) -> Scenario:
    assert scenario is not None
    return scenario.with_settings({"run.warmup": 0, "run.duration": 20, "run.replications": 2})


def test_after_an_interruption_what_was_finished_is_saved_and_the_rest_named(registered: Any, tmp_path: Path) -> None:
    calls = 0
    measure = registered.measure

    def interrupted(*arguments: Any) -> dict[str, float]:
        nonlocal calls
        calls += 1
        if calls > 4:  # two points are measured on each run
            raise KeyboardInterrupt
        return dict(measure(*arguments))

    registered.measure = interrupted
    result = reproduce("tiny", output=tmp_path, processes=1)
    assert result.interrupted
    assert result.missing == ["twin at load 0.5, length 1: 1 of 3 replications"]
    assert [row.replications for row in result.rows if row.source == "twin"] == [2, 2, 2, 2]
    assert result.folder is not None
    assert "1 of 3 replications" in (result.folder / "about.md").read_text()
    assert (result.folder / "tail.svg").exists()


def test_an_interruption_during_the_theory_leaves_the_points_before_it(registered: Any) -> None:
    theory = registered.theory

    def interrupted(settings: Any) -> dict[str, float]:
        if settings["length"] == 2:
            raise KeyboardInterrupt
        return dict(theory(settings))

    registered.theory = interrupted
    result = compute(registered, processes=1)
    assert [row.value for row in result.rows] == [0.5]
    assert result.missing[:2] == ["theory at load 0.5, length 2", "theory at load 0.5, length 3"]
    assert result.missing[2] == "twin at load 0.5, length 1: 3 of 3 replications"


def test_the_folder_has_the_numbers_with_documented_columns(registered: Study, tmp_path: Path) -> None:
    result = reproduce("tiny", output=tmp_path, processes=1)
    assert result.folder is not None
    with (result.folder / "numbers.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["load", "length", *COLUMNS]
    assert len(rows) == len(result.rows) == 7
    assert [float(row["value"]) for row in rows] == [row.value for row in result.rows]
    about = (result.folder / "about.md").read_text(encoding="utf-8")
    assert all(f"* `{name}`:" in about for name in rows[0])
    assert "testbed reproduce tiny" in about


def test_the_table_leaves_out_the_points_of_a_line(study: Study) -> None:
    result = compute(study, processes=1)
    text = plain_text(study_table(result))
    assert str(result) == text
    assert "0.250" in text
    assert "0.125" not in text


def test_an_unknown_study_is_refused_with_a_suggestion() -> None:
    with pytest.raises(UnknownStudyError, match='did you mean "zero-queueing-delay"'):
        named_study("zero-queuing-delay")


@pytest.mark.cluster
def test_on_real_processes_it_measures_the_same(study: Study) -> None:
    rows = compute(study, cluster=True, processes=1).rows
    row = next(row for row in rows if row.source == "cluster" and row.quantity == "tail")
    assert row.replications == 2
    assert row.verdict
    # Five queues for 60 time units of 10 ms: standard error about 0.06.
    assert row.value == pytest.approx(value_of(rows, "tail", "twin", length=1) or 0.0, abs=0.3)
