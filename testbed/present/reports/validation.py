"""The report of a validation: the comparisons, their results, and how sure these are."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path

from testbed.measure.control_variate import Estimate
from testbed.present.reports.drawing import inline_svg
from testbed.present.reports.page import Block, Facts, Folded, Items, Listing, Page, Plot, Section, Table, Text
from testbed.present.reports.provenance import made_with, read_environment
from testbed.runs.tables import KINDS, number, signed_percent
from testbed.studies.validate.case import PLACES
from testbed.studies.validate.figures import differences, over_servers
from testbed.studies.validate.findings import EMULATION, LIMIT, SHAPE, THEORY, VERDICT, WORKLOAD, CaseResult, Finding
from testbed.studies.validate.result import Validation
from testbed.studies.validate.validation_table import conclusion

#: For each test, what it compares, and when it passes.
MEANING = {
    WORKLOAD: "Compares the work that arrived with the expected work. Passes if chance explains the difference.",
    THEORY: "Compares the mean over replications with the formula's mean. Passes if chance and the known error of the "
    "formula explain the difference.",
    LIMIT: "Compares the limit of the twin's error for a growing number of servers N with 0. Passes if chance and the "
    "known error of the formula explain the difference.",
    SHAPE: "Compares the twin's errors with the fit of a + b/N + c/N². Passes if chance explains the residuals.",
    EMULATION: "Compares cluster and twin, job by job on the same arrivals and sizes. Passes if the difference is "
    "explained by chance, the time that messages and timers took by the processes' own clocks, and the same time again "
    "for their effect on the queues.",
    VERDICT: "Passes if the run's own checks find it valid, or give the verdict that the case expects.",
}
CONFIDENCE = 0.95  # of intervals that no test uses


def validation_page(folder: Path) -> Page:
    """Return the report of a validation's folder. Raises OutputError."""
    result = Validation.read(folder)
    environment = read_environment(folder)
    limits = [case for case in result.cases if case.finding(LIMIT) is not None]
    sections = [
        Section("Results", _results(result)),
        Section("How sure is it?", _sureness(result)),
        *([Section("Limits of many servers", _limits(limits))] if limits else []),
        Section("The tests of each case", [_folded(case) for case in result.cases] or [Text("No case was finished.")]),
        _settings(result),
        Section("How to reproduce it", [*_reproduction(result), made_with(environment)]),
    ]
    badges = [(case.name, _outcome(case.passed)) for case in result.cases]
    badges += [(name, "not finished") for name in result.unfinished]
    return Page(_title(result), "report of a validation", _question(result), badges, sections)


def _outcome(passed: bool) -> str:
    return "passed" if passed else "failed"


def _title(result: Validation) -> str:
    names = [*(case.name for case in result.cases), *result.unfinished]
    if result.asked == []:
        return "Validation: the built-in suite"
    return f"Validation: {', '.join(names) if len(names) <= 4 else f'{len(names)} cases'}"


def _question(result: Validation) -> str:
    twin = "the twin, a discrete-event simulation of the same dispatchers and servers"
    questions = []
    if "twin" in result.on:
        questions.append(f"Does queueing theory agree with {twin}?")
        twin = "the twin"
    if "cluster" in result.on:
        questions.append(f"Does a cluster of real processes agree with {twin}?")
    return " ".join([*questions, "Does chance explain the differences?"])


def _results(result: Validation) -> list[Block]:
    passed = sum(case.passed for case in result.cases)
    blocks: list[Block] = [Text(f"{passed} of {len(result.cases)} cases passed.")]
    if result.unfinished:
        unfinished = f"The validation was interrupted before these cases were finished: {', '.join(result.unfinished)}."
        blocks.append(Text(f"{unfinished} This report has no results for them."))
    failures = [f"{case.name}: {found.check}: {found.reason}" for case in result.cases for found in case.failures]
    blocks += [Items(failures)] if failures else []
    if result.cases:
        blocks += [_table(result.cases), _overview(result)]
    return blocks


def _table(cases: Sequence[CaseResult]) -> Table:
    on_twin = any(case.sizes for case in cases)
    on_cluster = any(case.finding(VERDICT) is not None for case in cases)
    known = any(_known_error(case) for case in cases)
    headings = ["case", "result", "theory"]
    headings += ["twin", "servers", "twin minus theory"] if on_twin else []
    headings += ["known error of the formula"] if known else []
    headings += ["cluster", "servers", "cluster minus twin", "time of messages and timers"] if on_cluster else []
    rows = []
    for case in cases:
        cells = [case.name, _outcome(case.passed)]
        if case.sizes:
            last = case.sizes[-1]
            cells += [f"{number(last.theory)} ({KINDS.get(case.kind, case.kind)})"]
            main = _main(case)
            at = ", N → ∞" if main is not None and main.check == LIMIT else ""
            cells += [_estimate(last.twin), str(last.servers), _with_tolerance(main) + at]
        else:
            cells += ["-", *(["-"] * 3 if on_twin else [])]
        cells += [_known_error(case) or "none"] if known else []
        if on_cluster:
            cells += _on_cluster(case)
        why = ", ".join(found.check for found in case.failures)
        rows.append([*cells, f"failed: {why}" if why else f"all {len(case.findings)} tests passed"])
    headings.append("reason")
    caption = (
        "Mean response times in time units, ± 95 %. Differences are fractions of the theory's or the twin's mean; ± is "
        "the part that chance explains, at the level of the tests"
    )
    return Table(caption, headings, rows, words=[1, len(headings) - 1])


def _main(case: CaseResult) -> Finding | None:
    return case.finding(THEORY) or case.finding(LIMIT)


def _known_error(case: CaseResult) -> str:
    main = _main(case)
    return _range(main.allowed) if main is not None else ""


def _range(allowed: tuple[float, float] | None) -> str:
    """Return the range of true differences that is allowed; nothing if only a negligible difference is."""
    low, high = allowed or (0.0, 0.0)
    return f"{low:+z.1%} to {high:+z.1%}" if high - low > 1e-3 else ""


def _with_tolerance(found: Finding | None) -> str:
    if found is None or found.difference is None or found.high is None:
        return "-"
    return f"{signed_percent(found.difference)} ± {found.high - found.difference:.1%}"


def _estimate(estimate: Estimate) -> str:
    return f"{number(estimate.value)} ± {number(estimate.half_width(1 - CONFIDENCE))}"


def _error(estimate: Estimate) -> str:
    return f"{estimate.value:+z.2%} ± {estimate.half_width(1 - CONFIDENCE):.2%}"


def _on_cluster(case: CaseResult) -> list[str]:
    cluster = case.cluster
    if cluster is None:
        return ["not run" if case.finding(VERDICT) is None else "no result", "-", "-", "-"]
    part = "-" if cluster.overhead is None else f"{cluster.overhead:.1%}"
    return [number(cluster.mean), str(cluster.servers), _with_tolerance(case.finding(EMULATION)), part]


def _overview(result: Validation) -> Plot:
    worst = "; ".join(
        f"{case.name}: {found.check} {_with_tolerance(found)}"
        for case in result.cases
        for found in case.failures
        if found.difference is not None
    )
    return Plot(
        inline_svg(differences(result), "differences"),
        "The differences with the intervals that chance explains. Grey marks the allowed range of the true difference: "
        "for the twin 0, or the known error of the formula; for the cluster up to twice the time that messages and "
        "timers took. A test fails if its interval does not overlap the grey range.",
        "Dot plot of the differences in the table above, a row for each case. "
        + (f"Outside the allowed range: {worst}." if worst else "All intervals overlap the allowed range."),
    )


def _sureness(result: Validation) -> list[Block]:
    used = {found.check for case in result.cases for found in case.findings}
    blocks: list[Block] = [Text(f"{conclusion(result)}.")]
    if "cluster" in result.on:
        blocks.append(
            Text(
                "The cluster's results depend on the machine: on a busy machine the differences grow, or the runs "
                "become suspect. The twin gives the same numbers on any machine."
            )
        )
    blocks.append(
        Text(
            "The tolerances are computed from the runs: Student's intervals over independent replications, after "
            "subtracting the part that arrivals and sizes explain, whose true means are known (control variates). The "
            "tests:"
        )
    )
    blocks.append(Facts([(check, meaning) for check, meaning in MEANING.items() if check in used]))
    return blocks


def _limits(cases: Sequence[CaseResult]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "The theory of these cases is for infinitely many servers. The error at a finite number is measured: "
            "a + b/N + c/N² is fitted to the twin's errors at several N, and a must be 0. If the errors vanish long "
            "before the largest N, there is no fit, and the result at the largest N is compared with the limit."
        )
    ]
    for i, case in enumerate(cases):
        errors = ", ".join(f"{signed_percent(size.error.value)} with {size.servers}" for size in case.sizes)
        fitted = (
            f"the limit of the fit is {_error(case.fit.extrapolation)}"
            if case.fit is not None
            else "the errors shrink faster than 1/N and are not fitted"
        )
        blocks.append(
            Plot(
                inline_svg(over_servers(case), f"limit-{i}"),
                f"{case.name} ({case.about}): the twin's error against the number of servers; {fitted}.",
                f"Plot of the twin's error over 1/N, {case.name}: {errors} servers; {fitted}.",
            )
        )
    return blocks


def _folded(case: CaseResult) -> Folded:
    facts = [("policy", case.policy), ("compared with", f"{case.theory} ({case.kind})"), ("seed", str(case.seed))]
    blocks: list[Block] = [Facts(facts), _tests(case)]
    if case.sizes:
        blocks.append(_sizes(case))
    for where, scenario in (("twin", case.scenario), ("cluster", case.cluster_scenario)):
        if scenario is not None:
            blocks.append(Folded(f"Scenario of the {where}, with all defaults", [Listing(scenario)]))
    return Folded(f"{case.name}: {case.about}: {_outcome(case.passed)}", blocks)


def _tests(case: CaseResult) -> Table:
    rows = [
        [
            found.check,
            _with_tolerance(found),
            "-" if found.low is None or found.high is None else f"{found.low:+z.2%} to {found.high:+z.2%}",
            "-" if found.allowed is None else f"{found.allowed[0]:+z.2%} to {found.allowed[1]:+z.2%}",
            _outcome(found.passed),
            found.reason,
        ]
        for found in case.findings
    ]
    headings = ["test", "difference", "interval", "allowed", "result", "reason"]
    return Table(f"Tests of {case.name}", headings, rows, words=[4, 5])


def _sizes(case: CaseResult) -> Table:
    headings = ["servers", "replications", "theory", "twin", "twin minus theory"]
    headings += ["by the fit"] if case.fit is not None else []
    rows = []
    for size in case.sizes:
        cells = [str(size.servers), str(size.replications), number(size.theory), _estimate(size.twin)]
        cells.append(_error(size.error))
        rows.append([*cells, *([f"{case.fit.error(size.servers):+z.2%}"] if case.fit is not None else [])])
    return Table(f"Mean response times of {case.name} on the twin, ± 95 %", headings, rows)


def _settings(result: Validation) -> Section:
    cases = result.cases
    sizes = sorted({size.servers for case in cases for size in case.sizes})
    counts = sorted({size.replications for case in cases for size in case.sizes})
    cases_of = "made in Python" if result.asked is None else ", ".join(result.asked) or "the built-in suite"
    quick = "quick: fewer servers, shorter runs, and only a few of the built-in cases on the cluster"
    pairs = [
        ("cases", cases_of),
        ("form", quick if result.quick else "full"),
        ("on", ", ".join({"twin": "the twin", "cluster": "a cluster of real processes"}[place] for place in result.on)),
    ]
    if sizes:
        runs = sum(size.replications for case in cases for size in case.sizes)
        pairs.append(("servers, twin", ", ".join(map(str, sizes))))
        pairs.append(("replications", f"{', '.join(map(str, counts))} for each number of servers; {runs} runs"))
    on_cluster = [case.name for case in cases if case.finding(VERDICT) is not None]
    if "cluster" in result.on:
        pairs.append(("cases on the cluster", f"{', '.join(on_cluster) or 'none'}; one run of each"))
    if cases:
        pairs.append(("seeds", ", ".join(map(str, sorted({case.seed for case in cases})))))
    return Section("Settings", [Facts(pairs)])


def _reproduction(result: Validation) -> list[Block]:
    more = [*(["--quick"] if result.quick else []), *([] if {*result.on} == {*PLACES} else ["--on", *result.on])]
    if result.asked is None:
        return [
            Text(
                "The cases were made in Python; the scenarios of each case are shown with its tests. Save the twin's "
                "scenario as a file, and validate it with:"
            ),
            Listing(shlex.join(["testbed", "validate", "scenario.toml", *more])),
        ]
    return [
        Text(
            "Run this command with the version of the testbed given below, which contains the built-in cases and their "
            "seeds. The scenario of a case from a file is shown with its tests; save the twin's scenario as a file."
        ),
        Listing(shlex.join(["testbed", "validate", *result.asked, *more])),
    ]
