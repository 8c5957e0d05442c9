"""The report of a validation says all that the result does: outcomes, reasons, figures, and how to have it again."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from typer.testing import CliRunner, Result

from testbed.cli import app
from testbed.cli.reporting import write_report
from testbed.measure.control_variate import Estimate
from testbed.present.reports.validation import validation_page
from testbed.studies.store import StudyFolder
from testbed.studies.validate import CaseResult, Finding, Validation, validate
from testbed.studies.validate.findings import EMULATION, LIMIT, SHAPE, THEORY, VERDICT, WORKLOAD, AtSize, OnCluster
from testbed.studies.validate.finite_size import fit
from testbed.studies.validate.validating import save

SERVERS = (20, 50, 100, 200)


def finding(check: str, difference: float, half: float, allowed: tuple[float, float], reason: str) -> Finding:
    low, high = difference - half, difference + half
    passed = low <= allowed[1] and high >= allowed[0]
    return Finding(
        check=check, passed=passed, reason=reason, difference=difference, low=low, high=high, allowed=allowed
    )


def made_case(name: str, **settings: Any) -> CaseResult:
    return CaseResult(
        **{
            "name": name,
            "about": f"about {name}",
            "policy": "random",
            "theory": "M/M/1",
            "kind": "exact",
            "seed": 20,
            "scenario": f'name = "{name}"\n[run]\nduration = 2400.0\n',
            "cluster_scenario": None,
            "sizes": [],
            "fit": None,
            "cluster": None,
            "findings": [],
            **settings,
        }
    )


def limit_case() -> CaseResult:
    sizes = [AtSize(servers=n, theory=2.0, twin=Estimate(2.0 + 6 / n, 0.002, 21.0), replications=24) for n in SERVERS]
    found = fit(SERVERS, [size.error for size in sizes], [1.0] * len(SERVERS))
    findings = [
        finding(WORKLOAD, 0.0, 0.01, (0.0, 0.0), "the work is right"),
        finding(LIMIT, found.extrapolation.value, 0.02, (0.0, 0.0), "the limit is right"),
        finding(SHAPE, 0.0, 0.02, (0.0, 0.0), "the shape is right"),
    ]
    return made_case("power", kind="limit", sizes=sizes, fit=found, findings=findings)


def failing_case() -> CaseResult:
    size = AtSize(servers=10, theory=3.0, twin=Estimate(3.3, 0.01, 21.0), replications=24)
    cluster = OnCluster(
        servers=20, mean=3.42, twin=3.25, error=0.05, half_width=0.01, overhead=0.016, valid=True, reasons=[]
    )
    findings = [
        finding(THEORY, 0.1, 0.03, (0.0, 0.05), "the twin's mean is off the theory's"),
        finding(EMULATION, 0.05, 0.03, (0.0, 0.032), "the cluster's mean is off its twin's"),
        Finding(check=VERDICT, passed=True, reason="the run's verdict: valid"),
    ]
    scenario = 'name = "off on the cluster"\n'
    return made_case("off", sizes=[size], cluster=cluster, findings=findings, cluster_scenario=scenario)


@pytest.fixture(scope="module")
def result() -> Validation:
    return Validation(
        quick=True,
        asked=["power", "my cases"],
        on=["twin", "cluster"],
        cases=[limit_case(), failing_case()],
        unfinished=["never"],
    )


def saved(result: Validation, parent: Path) -> Path:
    """The folder of a validation, with its report."""
    folder = StudyFolder.create(parent, "validation")
    save(result, folder)
    write_report(folder.path)
    return folder.path


@pytest.fixture(scope="module")
def folder(result: Validation, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(msgspec.convert(msgspec.to_builtins(result), Validation), tmp_path_factory.mktemp("validations"))


@pytest.fixture(scope="module")
def html(folder: Path) -> str:
    return (folder / "report.html").read_text()


@pytest.fixture(scope="module")
def page(html: str, read_page: Callable[[str], Any]) -> Any:
    return read_page(html)


def command(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert isinstance(result.exception, SystemExit | None)
    return result


def test_the_command_writes_what_the_validation_wrote_byte_by_byte(html: str, folder: Path, tmp_path: Path) -> None:
    moved = shutil.copytree(folder, tmp_path / "moved")
    (moved / "report.html").unlink()
    done = command("report", moved)
    assert done.exit_code == 0
    assert done.output == f"report: {moved}/report.html\n"
    assert (moved / "report.html").read_text() == html


def test_each_case_has_its_outcome_and_what_was_not_finished_is_said(html: str, page: Any) -> None:
    for badge in ("✓ power: passed", "! off: failed", "– never: not finished"):
        assert f">{badge}</li>" in html
    assert "1 of 2 cases passed." in page.text
    assert "interrupted before these cases were finished: never" in page.text


def test_the_table_has_theory_twin_cluster_differences_intervals_and_reasons(page: Any) -> None:
    headings, power, off = next(rows for caption, rows in page.tables.items() if "Mean response times in" in caption)
    assert power[:5] == ["power", "passed", "2.000 (limit)", f"2.030 ± {0.002 * 2.0796:.3f}", "200"]
    assert power[5].endswith(" ± 2.0%, N → ∞")
    assert power[6:] == ["none", "not run", "-", "-", "-", "all 3 tests passed"]
    assert off[:3] == ["off", "failed", "3.000 (exact)"]
    assert off[4:] == [
        "10", "+10.0% ± 3.0%", "+0.0% to +5.0%", "3.420", "20", "+5.0% ± 3.0%", "1.6%", f"failed: {THEORY}"
    ]  # fmt: skip
    assert len(headings) == len(off)
    assert f"off: {THEORY}: the twin's mean is off the theory's" in page.text


def test_every_test_and_every_number_of_servers_is_there(page: Any, result: Validation) -> None:
    for case in result.cases:
        rows = page.tables[f"Tests of {case.name}"][1:]
        assert [(row[0], row[-2], row[-1]) for row in rows] == [
            (found.check, "passed" if found.passed else "failed", found.reason) for found in case.findings
        ]
        sizes = page.tables[f"Mean response times of {case.name} on the twin, ± 95 %"][1:]
        assert [(row[0], row[1]) for row in sizes] == [(str(size.servers), "24") for size in case.sizes]
    by_fit = [row[-1] for row in page.tables["Mean response times of power on the twin, ± 95 %"][1:]]
    assert by_fit == ["+15.00%", "+6.00%", "+3.00%", "+1.50%"]  # 3/N, which the fit meets


def test_it_is_said_how_sure_the_outcome_is(page: Any) -> None:
    # Four tests of the twin, and a run on the cluster: 4 * 2e-6 + 5e-5 + 1e-4.
    assert "in 5 tests (the twin's at a level of 2e-06, the cluster's of 5e-05)" in page.text
    assert "the probability that any test fails is below 0.0002" in page.text


def test_plots_have_words_for_who_cannot_see_them(page: Any) -> None:
    described = [values["aria-label"] for _, values in page.tags if values.get("role") == "img"]
    assert sum(tag == "svg" for tag, _ in page.tags) == len(described) == 2
    assert f"off: {THEORY} +10.0% ± 3.0%" in described[0]
    assert (
        "power: +15.0% with 20, +6.0% with 50, +3.0% with 100, +1.5% with 200 servers; the limit of the fit"
        in described[1]
    )


def test_how_to_have_it_again_is_there(page: Any, folder: Path) -> None:
    environment = json.loads((folder / "environment.json").read_text())
    assert "testbed validate power 'my cases' --quick\n" in f"{page.text}\n"
    assert 'name = "power"\n[run]\nduration = 2400.0' in page.text
    assert 'name = "off on the cluster"' in page.text
    for known in (environment["platform"], *environment["packages"].values(), environment["python"].split()[0]):
        assert known in page.text
    settings = page.text[page.text.index("Settings", 1000) :]
    for words in (
        "quick: ",
        "the twin, a cluster of real processes",
        "20, 50, 100",
        "120 runs",
        "off; one run of each",
    ):
        assert words in settings


def test_a_case_made_in_python_can_be_had_again_from_the_page(tmp_path: Path, read_page: Callable[[str], Any]) -> None:
    made = saved(Validation(quick=False, asked=None, on=["cluster"], cases=[failing_case()]), tmp_path)
    text = read_page((made / "report.html").read_text()).text
    assert "made in Python" in text
    assert "testbed validate scenario.toml --on cluster" in text
    assert "theory agree" not in text


def test_what_the_page_shows_as_run_is_the_case_as_a_file(tmp_path: Path) -> None:
    text = """
name = "mine"
[run]
warmup = 10
duration = 20
replications = 3
[[cluster.pools]]
servers = 10
[workload]
load = 0.5
[dispatch]
policy = "random"
[expect]
finite_n = [5, 10, 15, 20]
within = 0.9
"""
    (tmp_path / "mine.toml").write_text(text)
    first = validate([tmp_path / "mine.toml"], on=["twin"], processes=1)
    shown = first["mine"].scenario
    assert shown is not None
    (tmp_path / "shown.toml").write_text(shown)
    again = validate([tmp_path / "shown.toml"], processes=1)
    assert again.cases == first.cases
    assert again.asked == [str(tmp_path / "shown.toml")]


def test_a_validation_of_nothing_but_unfinished_cases_has_a_page(
    tmp_path: Path, read_page: Callable[[str], Any]
) -> None:
    made = saved(Validation(quick=True, asked=[], on=["twin"], cases=[], unfinished=["random", "jiq"]), tmp_path)
    page = read_page((made / "report.html").read_text())
    assert "interrupted before these cases were finished: random, jiq" in page.text
    assert page.tables == {}


# --- what can't be reported ---


def changed(**settings: Any) -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        found = json.loads((folder / "validation.json").read_text())
        kept = {key: value for key, value in (found | settings).items() if value is not None}
        (folder / "validation.json").write_text(json.dumps(kept))

    return change


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda folder: (folder / "validation.json").write_text("{"), "validation.json: damaged, or not what a valid"),
        (lambda folder: (folder / "validation.json").write_text("[]"), "validation.json: damaged, or not what a valid"),
        (changed(cases=[{}]), "`$.cases[0]`); validate again"),
        (
            changed(schema=None, asked=None, on=None),
            "an older version of the testbed (schema 0, and this version reads",
        ),
        (changed(schema=99), "a newer version of the testbed (schema 99, and this version reads schema 1)"),
        (lambda folder: (folder / "environment.json").unlink(), "environment.json: No such file"),
        (lambda folder: (folder / "validation.json").unlink(), "not a folder of a finished run, nor of a sweep or a v"),
    ],
)
def test_a_folder_that_cannot_be_read_is_said_with_status_2(
    damage: Callable[[Path], None], message: str, folder: Path, tmp_path: Path
) -> None:
    copy = shutil.copytree(folder, tmp_path / "copy")
    damage(copy)
    done = command("report", copy)
    assert done.exit_code == 2
    assert message in done.output
    assert done.output.count("\n") == 1


def test_the_folder_of_a_study_is_a_report_itself(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        app, ["reproduce", "stealing-sharing-sizes", "--quick", "--output", str(tmp_path), "--processes", "1"]
    )
    assert done.exit_code == 0, done.output
    (study,) = tmp_path.iterdir()
    done = command("report", study)
    assert done.exit_code == 2
    assert (
        "see about.md in it; `testbed report` takes the folder of a finished run, of a sweep or of a val" in done.output
    )


def test_the_page_is_made_of_the_folder_alone(folder: Path) -> None:
    assert str(folder) not in validation_page(folder).html()
