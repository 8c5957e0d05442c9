"""A validation for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from testbed.runs.tables import KINDS, new_table, number
from testbed.studies.validate.case import Case
from testbed.studies.validate.findings import CLUSTER_LEVEL, EMULATION, LEVEL, LIMIT, THEORY, CaseResult, Finding

if TYPE_CHECKING:
    from testbed.studies.validate.result import Validation


def validation_table(result: Validation) -> Table:
    """Return the table: a row per case with theory, twin, cluster, their differences, and whether it passed."""
    table = new_table(
        f"validation{' (quick)' if result.quick else ''}",
        "mean response times in time units. Difference: twin minus theory, ± what chance explains at its level.\n"
        "Cluster: below it the difference from its own twin",
    )
    for heading in ("case", "theory", "twin", "difference", "cluster", "result"):
        table.add_column(heading, justify="left" if heading in ("case", "result") else "right", no_wrap=True)
    for case in result.cases:
        table.add_row(*_cells(case))
    return table


def _cells(case: CaseResult) -> list[str]:
    cells = [case.name]
    if case.sizes:
        last = case.sizes[-1]
        cells.append(f"{number(last.theory)}\n{KINDS.get(case.kind, case.kind)}")
        cells.append(f"{number(last.twin.value)}\nN = {last.servers}")
        main = next(finding for finding in case.findings if finding.check in (THEORY, LIMIT))
        cells.append(_with_tolerance(main) + ("\nas N → ∞" if main.check == LIMIT else ""))
    else:
        cells += ["-", "-", "-"]
    cluster = case.cluster
    emulation = case.finding(EMULATION)
    if cluster is None:
        cells.append("")
    else:
        cells.append(f"{number(cluster.mean)}\n{_with_tolerance(emulation) if emulation else '-'}")
    cells.append("[green]pass[/]" if case.passed else "[bold red]FAIL[/]")
    return cells


def _with_tolerance(finding: Finding) -> str:
    if finding.difference is None or finding.high is None or finding.allowed is None:
        return "-"
    low, high = finding.allowed
    range_allowed = f"\n{low:+z.1%} to {high:+z.1%}" if high - low > 1e-3 and finding.check != EMULATION else ""
    return f"{finding.difference:+z.1%} ± {finding.high - finding.difference:.1%}{range_allowed}"


def validation_remarks(result: Validation) -> Iterator[str]:
    """Yield why cases failed, and the conclusion."""
    for case in result.cases:
        for finding in case.failures:
            yield f"{case.name}: {finding.check}: {finding.reason}"
    yield conclusion(result)


def conclusion(result: Validation) -> str:
    """Say how many cases passed, and the probability of a false alarm."""
    failed = sum(not case.passed for case in result.cases)
    return (
        f"{len(result.cases) - failed} of {len(result.cases)} cases passed, in {result.tests} tests (the twin's at "
        f"a level of {LEVEL:g}, the cluster's of {CLUSTER_LEVEL:g}): if all is right, and the machine fast enough, "
        f"the probability that any test fails is below {result.false_alarm:.1g}"
    )


def cases_table(cases: Sequence[Case]) -> Table:
    """Return the list of cases."""
    table = new_table("cases: testbed validate CASE", "jobs: simulated by the twin; cluster: duration of its run")
    for heading in ("case", "compared with", "over N", "jobs", "cluster"):
        table.add_column(heading, justify="right" if heading in ("jobs", "cluster") else "left")
    for case in cases:
        sizes = f"{case.servers[0]}..{case.servers[-1]}" if case.servers else str(case.scenario.servers)
        seconds = f"{case.cluster_seconds:.0f} s" if case.cluster is not None else "-"
        table.add_row(case.name, case.about, sizes, f"{case.jobs / 1e6:.2f} M", seconds)
    return table
