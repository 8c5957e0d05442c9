"""The report of a validation: what was held to what, what came of it, and how sure that is."""

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

#: What each test compares, and what it passes by.
MEANING = {
    WORKLOAD: "The work that came with what should have come; chance must explain the difference.",
    THEORY: "The mean over replications with the formula's; chance, and a known error of the formula, must explain it.",
    LIMIT: "What the twin's error tends to as the number of servers N grows, with 0; the same must explain it.",
    SHAPE: "The errors with the fit of a + b/N + c/N² to them; chance must explain what the fit leaves.",
    EMULATION: "Both, job by job on the same arrivals and sizes; chance, the time that messages and timers took by the "
    "processes' own clocks, and as much again for what that does to the queues, must explain it.",
    VERDICT: "The run with its own checks: it must be valid, or what the case says.",
}
CONFIDENCE = 0.95  # of intervals that are no test's


def validation_page(folder: Path) -> Page:
    """Return the report of a validation's folder. Raises OutputError."""
    result = Validation.read(folder)
    environment = read_environment(folder)
    limits = [case for case in result.cases if case.finding(LIMIT) is not None]
    sections = [
        Section("Results", _results(result)),
        Section("How sure is it?", _sureness(result)),
        *([Section("Limits of many servers", _limits(limits))] if limits else []),
        Section("The tests of each case", [_folded(case) for case in result.cases] or [Text("None was finished.")]),
        _settings(result),
        Section("How to reproduce it", [*_again(result), made_with(environment)]),
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
    twin = "the twin, which runs the dispatchers and servers of real processes on a virtual clock"
    asked = []
    if "twin" in result.on:
        asked.append(f"Does queueing theory describe {twin}?")
        twin = "the twin"
    if "cluster" in result.on:
        asked.append(f"Does a cluster of real processes do the same as {twin}?")
    return " ".join([*asked, "And where they differ, is it chance?"])


def _results(result: Validation) -> list[Block]:
    passed = sum(case.passed for case in result.cases)
    blocks: list[Block] = [Text(f"{passed} of {len(result.cases)} cases passed.")]
    if result.unfinished:
        unfinished = f"It was interrupted before these were finished: {', '.join(result.unfinished)}."
        blocks.append(Text(f"{unfinished} Nothing is said of them here, good or bad."))
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
    headings += ["twin", "servers", "twin less theory"] if on_twin else []
    headings += ["the formula's known error"] if known else []
    headings += ["cluster", "servers", "cluster less twin", "of it messages"] if on_cluster else []
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
        "Mean response times in time units, ± 95 %. Differences are shares of the theory's or the twin's mean, ± what "
        "chance explains at the level of the tests"
    )
    return Table(caption, headings, rows, words=[1, len(headings) - 1])


def _main(case: CaseResult) -> Finding | None:
    return case.finding(THEORY) or case.finding(LIMIT)


def _known_error(case: CaseResult) -> str:
    main = _main(case)
    return _range(main.allowed) if main is not None else ""


def _range(allowed: tuple[float, float] | None) -> str:
    """Where a true difference may be, beside chance; nothing where that is 0, up to rounding or a negligible part."""
    low, high = allowed or (0.0, 0.0)
    return f"{low:+.1%} to {high:+.1%}" if high - low > 1e-3 else ""


def _with_tolerance(found: Finding | None) -> str:
    if found is None or found.difference is None or found.high is None:
        return "-"
    return f"{signed_percent(found.difference)} ± {found.high - found.difference:.1%}"


def _estimate(estimate: Estimate) -> str:
    return f"{number(estimate.value)} ± {number(estimate.half_width(1 - CONFIDENCE))}"


def _error(estimate: Estimate) -> str:
    return f"{estimate.value:+.2%} ± {estimate.half_width(1 - CONFIDENCE):.2%}"


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
        "The differences with what chance explains of them, and grey where the truth may be: for the twin 0, or what "
        "the formula is known to be off by; for the cluster up to twice the time that messages and timers took. A test "
        "fails if its interval does not reach the grey.",
        "Dot plot of the differences in the table above, a row for each case. "
        + (f"Off what is allowed: {worst}." if worst else "All intervals reach what is allowed."),
    )


def _sureness(result: Validation) -> list[Block]:
    made = {found.check for case in result.cases for found in case.findings}
    blocks: list[Block] = [Text(f"{conclusion(result)}.")]
    if "cluster" in result.on:
        blocks.append(
            Text(
                "The cluster depends on the machine: a busy one makes its own part of the differences larger, or its "
                "runs suspect. The twin gives the same numbers on any machine."
            )
        )
    blocks.append(
        Text(
            "The tolerances come from the runs themselves: Student's intervals over independent replications, from "
            "which the part is taken out that arrivals and sizes explain, whose true means are known. What the tests "
            "compare:"
        )
    )
    blocks.append(Facts([(check, meaning) for check, meaning in MEANING.items() if check in made]))
    return blocks


def _limits(cases: Sequence[CaseResult]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "Here the theory is for infinitely many servers. How far a finite number is off is not assumed but "
            "measured: a + b/N + c/N² is fitted to the twin's errors at several N, and a must be 0. Errors that are "
            "gone long before the largest N are not fitted: the largest N itself is held against the limit."
        )
    ]
    for i, case in enumerate(cases):
        errors = ", ".join(f"{signed_percent(size.error.value)} with {size.servers}" for size in case.sizes)
        fitted = (
            f"the fit tends to {_error(case.fit.extrapolation)}"
            if case.fit is not None
            else "the errors shrink faster than 1/N, and are not fitted"
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
    facts = [("policy", case.policy), ("held to", f"{case.theory} ({case.kind})"), ("seed", str(case.seed))]
    blocks: list[Block] = [Facts(facts), _tests(case)]
    if case.sizes:
        blocks.append(_sizes(case))
    for where, scenario in (("twin", case.scenario), ("cluster", case.cluster_scenario)):
        if scenario is not None:
            blocks.append(Folded(f"What the {where} ran, with all defaults", [Listing(scenario)]))
    return Folded(f"{case.name}: {case.about}: {_outcome(case.passed)}", blocks)


def _tests(case: CaseResult) -> Table:
    rows = [
        [
            found.check,
            _with_tolerance(found),
            "-" if found.low is None or found.high is None else f"{found.low:+.2%} to {found.high:+.2%}",
            "-" if found.allowed is None else f"{found.allowed[0]:+.2%} to {found.allowed[1]:+.2%}",
            _outcome(found.passed),
            found.reason,
        ]
        for found in case.findings
    ]
    headings = ["test", "difference", "interval", "allowed", "outcome", "reason"]
    return Table(f"Tests of {case.name}", headings, rows, words=[4, 5])


def _sizes(case: CaseResult) -> Table:
    headings = ["servers", "replications", "theory", "twin", "twin less theory"]
    headings += ["by the fit"] if case.fit is not None else []
    rows = []
    for size in case.sizes:
        cells = [str(size.servers), str(size.replications), number(size.theory), _estimate(size.twin)]
        cells.append(_error(size.error))
        rows.append([*cells, *([f"{case.fit.error(size.servers):+.2%}"] if case.fit is not None else [])])
    return Table(f"Mean response times of {case.name} on the twin, ± 95 %", headings, rows)


def _settings(result: Validation) -> Section:
    cases = result.cases
    sizes = sorted({size.servers for case in cases for size in case.sizes})
    counts = sorted({size.replications for case in cases for size in case.sizes})
    asked = "made in Python" if result.asked is None else ", ".join(result.asked) or "the built-in suite"
    quick = "quick: fewer servers and shorter runs, and few of the built-in cases on the cluster"
    pairs = [
        ("cases", asked),
        ("form", quick if result.quick else "full"),
        ("on", ", ".join({"twin": "the twin", "cluster": "a cluster of real processes"}[place] for place in result.on)),
    ]
    if sizes:
        runs = sum(size.replications for case in cases for size in case.sizes)
        pairs.append(("servers, twin", ", ".join(map(str, sizes))))
        pairs.append(("replications", f"{', '.join(map(str, counts))} for each number of servers; {runs} runs"))
    on_cluster = [case.name for case in cases if case.finding(VERDICT) is not None]
    if "cluster" in result.on:
        pairs.append(("on the cluster", f"{', '.join(on_cluster) or 'none'}; one run of each"))
    if cases:
        pairs.append(("seeds", ", ".join(map(str, sorted({case.seed for case in cases})))))
    return Section("Settings", [Facts(pairs)])


def _again(result: Validation) -> list[Block]:
    more = [*(["--quick"] if result.quick else []), *([] if {*result.on} == {*PLACES} else ["--on", *result.on])]
    if result.asked is None:
        return [
            Text(
                "The cases were made in Python; what each ran is shown with its tests. Saved as a file, what the twin "
                "ran can be validated again:"
            ),
            Listing(shlex.join(["testbed", "validate", "scenario.toml", *more])),
        ]
    return [
        Text(
            "Give the command, with the version of the testbed below: built-in cases and their seeds are part of it. A "
            "case from a file is shown with its tests, with all defaults; save what the twin ran as a file of its own."
        ),
        Listing(shlex.join(["testbed", "validate", *result.asked, *more])),
    ]
