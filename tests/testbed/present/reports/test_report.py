"""A report is whole: one valid page that needs nothing else, with the figures of the run, the same every time."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

import testbed
from testbed.cli import app
from testbed.measure.error_budget import PARTS
from testbed.present.reports.measured import budget_of
from testbed.present.reports.page import Facts, Folded, Items, Listing, Page, Plot, Section, Table, Text
from testbed.present.reports.provenance import settings
from testbed.present.reports.run import run_page
from testbed.present.reports.sweep import sweep_page
from testbed.runs.run_folder import OutputError, read_run
from testbed.runs.tables import number, with_interval
from testbed.scenario import decode
from testbed.theory.predict import Prediction

ReadPage = Callable[[str], Any]

TINY = {
    "name": "tiny sweep",
    "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
    "workload": {"load": 0.6},
    "dispatch": {"policy": "random"},
    "variants": [{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}],
}


@pytest.fixture(scope="module")
def html(run_of_both: Path) -> str:
    return run_page(run_of_both).html()


@pytest.fixture(scope="module")
def page(html: str, read_page: ReadPage) -> Any:
    return read_page(html)


def test_plots_have_words_for_who_cannot_see_them_and_tables_have_headings(page: Any) -> None:
    assert sum(tag == "svg" for tag, _ in page.tags) == 3
    described = [values for tag, values in page.tags if values.get("role") == "img"]
    assert len(described) == 3
    assert all(values["aria-label"] for values in described)
    assert all(values.get("scope") in ("col", "row") for tag, values in page.tags if tag == "th")
    headings = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert headings[0] == 1
    assert set(headings[1:]) == {2}
    assert ("html", {"lang": "en"}) in page.tags


def test_results_are_those_of_the_summary(page: Any, run_of_both: Path) -> None:
    _, summaries = read_run(run_of_both)
    table = next(rows for caption, rows in page.tables.items() if caption.startswith("Response times"))
    assert [row[0] for row in table[1:]] == ["random", "two choices"]
    for row in table[1:]:
        mine = {summary.source: summary for summary in summaries if summary.variant == row[0]}
        assert row[1:3] == [with_interval(mine["cluster"].response), with_interval(mine["twin"].response)]
        assert row[3] == number(mine["cluster"].response_quantiles[2].value, 2)
        pathwise = mine["cluster"].pathwise
        assert pathwise is not None
        assert row[4].startswith(f"{pathwise.mean:+.1%} ± ")
        assert row[-1] == ("valid" if mine["cluster"].verdict.valid else "suspect")
        for reason in mine["cluster"].verdict.reasons:
            assert reason in page.text


def test_the_error_budget_adds_up_in_every_column(page: Any) -> None:
    budgets = [rows for caption, rows in page.tables.items() if "parts of the mean" in caption]
    assert len(budgets) == 2
    for rows in budgets:
        assert rows[0] == ["part", "cluster", "twin", "difference", "fraction of the mean"]
        assert [row[0] for row in rows[1:]] == [*(words for words, _ in PARTS.values()), "mean response time"]
        for column in (1, 2, 3):
            *parts, total = (float(row[column]) for row in rows[1:])
            assert sum(parts) == pytest.approx(total, abs=4e-4)  # seven roundings to four digits
        assert float(rows[-1][3]) == pytest.approx(0.1, abs=1e-4)
        assert float(rows[3][1]) == pytest.approx(0.1 / 4, abs=1e-4)  # dispatch delay
        assert float(rows[4][1]) == pytest.approx(0.1 / 5, abs=1e-4)  # timer lateness


def test_how_to_make_it_again_is_there(page: Any, run_of_both: Path) -> None:
    environment = json.loads((run_of_both / "environment.json").read_text())
    assert "testbed run scenario.toml --twin" in page.text
    assert (run_of_both / "scenario.toml").read_text() in page.text
    for known in (environment["platform"], *environment["packages"].values(), environment["python"].split()[0]):
        assert known in page.text


def test_the_same_run_gives_the_same_page_byte_by_byte(html: str, run_of_both: Path) -> None:
    assert run_page(run_of_both).html() == html


def test_whatever_text_comes_in_is_escaped(read_page: ReadPage) -> None:
    bad = '<script>alert("1")</script>&amp;'
    blocks = [
        Text(bad),
        Items([bad]),
        Facts([(bad, bad)]),
        Table(bad, [bad, bad], [[bad, bad]], words=[1]),
        Plot("<svg></svg>", bad, bad),
        Listing(bad),
    ]
    html = Page(bad, bad, bad, [(bad, bad)], [Section(bad, [*blocks, Folded(bad, blocks)])]).html()
    assert "<script" not in html
    reader = read_page(html)
    assert reader.text.count(bad) >= 20
    assert not any(tag == "script" for tag, _ in reader.tags)


def test_a_run_of_the_twin_alone_has_a_report_too(
    make_run: Callable[..., Path], tmp_path: Path, read_page: ReadPage
) -> None:
    html = run_page(make_run(tmp_path, settings={"run.replications": 2})).html()
    page = read_page(html)
    assert "testbed run scenario.toml --virtual" in page.text
    assert ["part", "twin", "fraction of the mean"] in [rows[0] for rows in page.tables.values()]


def test_pools_with_central_queues_and_copies_are_shown(tmp_path: Path, read_page: ReadPage) -> None:
    scenario = testbed.Scenario.from_file("rerouting").with_settings({"run.warmup": 5, "run.duration": 40})
    result = testbed.run(scenario, where="twin", output=tmp_path)
    assert result.folder is not None
    tables = read_page(run_page(result.folder).html()).tables
    pools = next(rows for caption, rows in tables.items() if caption.startswith("Service used in each pool"))
    for run in result.runs:
        assert run.twin is not None
        for pool in run.twin.pools:
            assert [run.variant, "twin", pool.name, number(pool.effective_load.mean)] in [row[:4] for row in pools]
    copies = tables["Copies of jobs"]
    costs = ["copies per job", "preemptions per job", "cancellations per job"]
    assert copies[0][2:5] == costs
    for run, row in zip(result.runs, copies[1:], strict=True):
        assert run.twin is not None
        found = run.twin.cancellations
        assert found is not None
        assert row[2:5] == [number(getattr(found, cost.replace(" ", "_"))) for cost in costs]


@pytest.mark.parametrize("central", [(True, True), (True, False)])
def test_the_message_delay_in_the_error_budget_is_that_of_the_way_that_jobs_take(central: tuple[bool, bool]) -> None:
    """By the pool agent four messages to a server and back, else two; the twin has nothing else that takes time."""
    pools = [{"name": "a", "servers": 2, "queue": "central"}, {"name": "b", "servers": 3}]
    if all(central):
        pools[1]["queue"] = "central"
    scenario = decode(
        {
            "name": "mix",
            "run": {"warmup": 0, "duration": 200},
            "cluster": {"message_delay": 0.2, "pools": pools},
            "workload": {"load": 0.3},
            "dispatch": {"policy": "static"},
        }
    )
    summary = testbed.run(scenario, where="twin").runs[0].summary
    shares = [pool.completed_share or 0.0 for pool in summary.pools]
    assert sum(shares) == pytest.approx(1.0)
    assert 0.2 < shares[0] < 0.6
    budget = budget_of(scenario, [summary])
    assert budget is not None
    assert budget.message_delay == pytest.approx(0.8 if all(central) else 0.2 * (4 * shares[0] + 2 * shares[1]))
    assert budget.rest == pytest.approx(0.0, abs=1e-9)


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = {"warmup": 5, "duration": 20, "replications": 2}
    scenario = decode({**TINY, "run": run, "sweep": {"grid": {"workload.load": [0.3, 0.6]}}})
    result = testbed.sweep(scenario, output=tmp_path_factory.mktemp("sweeps"))
    assert result.folder is not None
    return result.folder


def test_a_sweep_has_its_points_as_plots_and_as_a_table(sweep: Path, read_page: ReadPage) -> None:
    html = sweep_page(sweep).html()
    page = read_page(html)
    result = testbed.SweepResult.read(sweep)
    table = next(rows for caption, rows in page.tables.items() if caption.startswith("Response times"))
    assert [row[:2] for row in table[1:]] == [[x, v] for x in ("0.3", "0.6") for v in ("random", "two choices")]
    for row, (point, variant) in zip(
        table[1:], [(p, v) for p in (0, 1) for v in ("random", "two choices")], strict=True
    ):
        means = [summary.response.mean or 0 for summary in result.summaries(point, variant, "twin")]
        assert row[2].startswith(f"{sum(means) / len(means):.3f} ")
        prediction = result.predictions[point, variant]
        assert isinstance(prediction, Prediction)
        assert row[4].startswith(f"{prediction.mean_response_time:.3f} ")
    assert sum(tag == "svg" for tag, _ in page.tags) == 2
    assert "testbed sweep scenario.toml --on twin,theory" in page.text
    assert sweep_page(sweep).html() == html


def test_a_sweep_over_a_threshold_plots_the_effective_load_of_each_pool(tmp_path: Path, read_page: ReadPage) -> None:
    scenario = testbed.Scenario.from_file("replication").with_settings(
        {"run.warmup": 5, "run.duration": 40, "sweep": {"grid": {"threshold.tau": [0.5, 2.0]}}}
    )
    result = testbed.sweep(scenario, output=tmp_path)
    assert result.folder is not None
    page = read_page(sweep_page(result.folder).html())
    plots = [values["aria-label"] for _, values in page.tags if values.get("role") == "img"]
    for pool in scenario.pools:
        what = f"processing time that a job uses in pool {pool.name}"
        assert sum(what in plot and "twin, theory" in plot for plot in plots) == 1


def test_an_unfinished_sweep_has_no_report(sweep: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(sweep, tmp_path / "cut")
    lines = (folder / "runs.jsonl").read_text().splitlines(keepends=True)
    (folder / "runs.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(OutputError, match=r"not finished, 1 runs or more are missing; continue it with: testbed sweep"):
        sweep_page(folder)


# --- the command ---


def command(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, SystemExit | None)
    return result


def test_the_file_is_in_the_runs_folder_unless_another_is_named(run_of_both: Path, html: str, tmp_path: Path) -> None:
    folder = shutil.copytree(run_of_both, tmp_path / "run")
    assert command("report", folder).exit_code == 0
    assert (folder / "report.html").read_text() == html
    assert command("report", folder, "--output", tmp_path / "other.html").output == f"report: {tmp_path}/other.html\n"
    assert (tmp_path / "other.html").read_text() == html


def unfinished(folder: Path) -> None:
    environment = json.loads((folder / "environment.json").read_text())
    (folder / "environment.json").write_text(json.dumps(environment | {"seconds": None}))


def other_schema(folder: Path) -> None:
    text = (folder / "summary.json").read_text()
    (folder / "summary.json").write_text(text.replace('"schema": 1', '"schema": 99'))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "not a folder of a finished run"),
        (lambda folder: (folder / "summary.json").unlink(), "not a folder of a finished run"),
        (unfinished, "the run has not finished"),
        (lambda folder: (folder / "summary.json").write_text("[{"), "summary.json: damaged (Input data was truncated)"),
        (other_schema, "has schema 99, but this version of testbed reads schema 1"),
        (lambda folder: (folder / "environment.json").write_text("[1]"), "not in this version"),
        (lambda folder: (folder / "environment.json").unlink(), "No such file or directory; every run, sweep and"),
        (lambda folder: (folder / "environment.json").write_text("{"), "environment.json: damaged ("),
        (lambda folder: (folder / "jobs.parquet").write_bytes(b"PAR1"), "does not hold the jobs of a run"),
        (lambda folder: (folder / "report.html").mkdir(), "is a folder; name the file to write with --output"),
    ],
)
def test_what_cannot_be_reported_is_said_with_status_2(
    damage: Callable[[Path], None], message: str, run_of_both: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(run_of_both, tmp_path / "run")
    damage(folder)
    result = command("report", folder)
    assert result.exit_code == 2
    assert message in result.output
    assert result.output.count("\n") == 1


def test_a_place_that_cannot_be_written_is_said_with_status_2(run_of_both: Path, tmp_path: Path) -> None:
    result = command("report", run_of_both, "--output", tmp_path / "none" / "r.html")
    assert result.exit_code == 2
    assert "No such file or directory; choose a file that you may write with --output" in result.output


def test_a_run_that_completed_no_job_is_reported_as_just_that(
    make_run: Callable[..., Path], tmp_path: Path, read_page: ReadPage
) -> None:
    html = run_page(make_run(tmp_path, settings={"run.warmup": 10, "workload.load": 1e-6})).html()
    page = read_page(html)
    assert "none of 0 jobs that arrived in the measured window was completed" in page.text
    assert not [caption for caption in page.tables if "parts of the mean" in caption]


def test_the_settings_show_speeds_and_what_the_load_is_a_fraction_of() -> None:
    def facts(workload: dict[str, Any]) -> dict[str, str]:
        pools = [{"name": "slow", "servers": 5}, {"name": "fast", "servers": 5}]
        scenario = decode(TINY | {"cluster": {"nodes": 1, "pools": pools}, "workload": workload})
        (found,) = settings(scenario).blocks
        assert isinstance(found, Facts)
        return dict(found.pairs)

    assert facts({"load": 0.6})["load"] == "0.6"
    assert "speeds" not in facts({"load": 0.6})
    types = [{"name": "a", "probability": 1.0, "speed": {"fast": 2.0}}]
    shown = facts({"load": 0.6, "types": types})
    assert shown["load"] == "0.6 of the capacity, which is 1.5 per server"
    assert shown["speeds"] == "2 in fast"
    old = facts({"load": 0.6, "load_per": "server", "types": types})
    assert old["load"] == "0.6 of one server of speed 1"
    two = [{"name": "a", "probability": 0.5, "speed": {"fast": 2.0}}, {"name": "b", "probability": 0.5}]
    assert facts({"load": 0.6, "types": two})["speeds"] == "a: 2 in fast"
