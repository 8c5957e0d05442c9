"""Differences of runs come with intervals that hold what is known to be true, and say how the runs were paired."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from testbed.cli import app
from testbed.core.outcomes import JobOutcome
from testbed.present.reports.comparison import (
    BY_REPLICATION,
    JOB_BY_JOB,
    NOT_PAIRED,
    Comparison,
    compare_runs,
    contenders,
)

MakeRun = Callable[..., Path]


def compared(*names: Path | str) -> list[Comparison]:
    return compare_runs(contenders([str(name) for name in names]))


def holds(comparison: Comparison, value: float) -> bool:
    interval = comparison.difference
    assert interval is not None
    assert interval.mean is not None
    assert interval.half_width is not None
    return abs(interval.mean - value) <= interval.half_width + 1e-9


def test_a_known_difference_is_found_to_the_digit_job_by_job(make_run: MakeRun, tmp_path: Path) -> None:
    fast, slow = make_run(tmp_path, longer=0.1), make_run(tmp_path, longer=0.25)
    first, second = compared(f"{fast}:random", f"{slow}:random")
    assert first.difference is None
    assert second.pairs == JOB_BY_JOB
    assert second.difference is not None
    assert second.difference.mean == pytest.approx(0.15, abs=1e-12)
    assert holds(second, 0.15)
    alone = second.run.own[0].response.half_width
    assert second.difference.half_width is not None
    assert alone is not None
    assert second.difference.half_width < alone / 3  # what the pairs are for
    assert second.relative == pytest.approx(0.15 / (first.run.own[0].response.mean or 0))


def test_variants_of_one_run_meet_the_same_jobs_and_are_paired_by_them(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path, settings={"run.replications": 2})
    first, second = compared(folder)
    assert (first.label, second.label) == ("random", "two choices")
    assert second.pairs == JOB_BY_JOB
    means = []
    for replication in (0, 1):
        mine, theirs = (one.run.jobs("twin", replication) for one in (second, first))
        _, i, j = np.intersect1d(mine["job"], theirs["job"], return_indices=True)
        both = (mine["outcome"][i] == JobOutcome.COMPLETED) & (theirs["outcome"][j] == JobOutcome.COMPLETED)
        both &= (mine["arrival"][i] >= 10) & (mine["arrival"][i] < 70)
        means.append(np.mean(mine["response"][i][both] - theirs["response"][j][both]))
    assert second.difference is not None
    assert second.difference.mean == pytest.approx(np.mean(means))


def test_other_seeds_are_compared_by_replication_and_single_runs_are_not_paired(
    make_run: MakeRun, tmp_path: Path
) -> None:
    # Fixed seeds, so that the outcome is the same always; the true difference is the 0.5 that was added.
    several = {"run.replications": 6}
    fast = make_run(tmp_path, longer=0.0, settings=several)
    slow = make_run(tmp_path, longer=0.5, settings={**several, "seed": 77})
    _, second = compared(f"{fast}:two choices", f"{slow}:two choices")
    assert second.pairs == BY_REPLICATION
    assert holds(second, 0.5)
    assert not holds(second, -0.5)
    single = make_run(tmp_path, longer=0.5, settings={"seed": 8})
    _, alone = compared(f"{make_run(tmp_path, longer=0.0)}:two choices", f"{single}:two choices")
    assert alone.pairs == NOT_PAIRED
    assert holds(alone, 0.5)


@pytest.mark.parametrize("settings", [{"workload.load": 0.5}, {"cluster.pools.main.servers": 6}, {"seed": 4}])
def test_jobs_of_another_workload_are_never_paired(
    settings: dict[str, float], make_run: MakeRun, tmp_path: Path
) -> None:
    folder, other = make_run(tmp_path), make_run(tmp_path, settings=settings)
    _, second = compared(f"{folder}:random", f"{other}:random")
    assert second.pairs == NOT_PAIRED


def test_the_command_says_by_how_much_and_how_they_were_paired(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    result = CliRunner().invoke(app, ["compare", str(folder)])
    assert result.exit_code == 0
    line = next(line for line in result.output.splitlines() if "two choices" in line)
    _, second = compared(folder)
    assert second.difference is not None
    assert f"{second.difference.mean:.3f}" in line
    assert "job by job" in line
    assert max(map(len, result.output.splitlines())) <= 80


def test_what_cannot_be_compared_is_said_with_status_2(make_run: MakeRun, tmp_path: Path) -> None:
    folder = make_run(tmp_path)
    sweep = tmp_path / "sweep"
    sweep.mkdir()
    (sweep / "sweep.json").write_text("{}")
    for names, message in (
        ([str(folder), str(sweep)], f"{sweep}: is a sweep; `testbed compare` takes the folders of runs"),
        ([f"{folder}:random"], "only one variant of one run; name another run to compare it with"),
        ([f"{folder}:none", f"{folder}"], "has no variant 'none'; it has: random, two choices"),
        ([str(tmp_path / "nowhere"), str(folder)], "not a folder of a finished run"),
    ):
        result = CliRunner().invoke(app, ["compare", *names])
        assert result.exit_code == 2
        assert message in result.output
