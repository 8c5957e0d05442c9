"""The report of a run: results of the cluster and its twin, their comparison with theory, and their verdicts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from testbed.core.outcomes import JobOutcome
from testbed.measure.error_budget import PARTS, ErrorBudget
from testbed.measure.statistics import Interval, departures, number_in_system
from testbed.measure.summary import mean_response
from testbed.present.reports.drawing import Difference, Series, differences, inline_svg, numbers, tails
from testbed.present.reports.measured import FILES, Measured, read_measured
from testbed.present.reports.page import Block, Facts, Folded, Items, Page, Plot, Section, Table, Text, listed
from testbed.present.reports.provenance import read_environment, reproduction, settings
from testbed.runs.tables import KINDS, against, number, quantile, signed_percent, with_interval
from testbed.scenario import Scenario, variants
from testbed.theory.predict import Prediction, predicted_tail

SLICES = 150


def run_page(folder: Path) -> Page:
    """Return the report of a run's folder. Raises OutputError."""
    scenario, measured = read_measured(folder)
    environment = read_environment(folder)
    on_cluster = any("cluster" in one.summaries for one in measured)
    with_twin = any("twin" in one.summaries for one in measured)
    command = "testbed run scenario.toml" + (" --virtual" if not on_cluster else " --twin" if with_twin else "")
    missing = [name for name, _ in variants(scenario) if name not in [one.name for one in measured]]
    sections = [
        Section("Results", [results(measured), *_remarks(measured, missing)]),
        Section("Can the numbers be trusted?", _verdicts(measured)),
        Section("Error budget", _budgets(measured, on_cluster and not with_twin)),
        Section("Plots", _plots(scenario, measured)),
        Section("More numbers", _more(measured)),
        settings(scenario),
        reproduction(folder, command, environment),
    ]
    return Page(
        scenario.name, "report of a run", _question(scenario, measured, on_cluster), _badges(measured), sections
    )


def _question(scenario: Scenario, measured: Sequence[Measured], on_cluster: bool) -> str:
    which = listed([one.name for one in measured])
    where = (
        "on a cluster of real dispatcher and server processes"
        if on_cluster
        else "on the twin, a discrete-event simulation of the same dispatchers and servers"
    )
    return (
        f"How long do jobs take with {which}, at load {scenario.load:.3g} on {scenario.servers} servers? The results "
        f"were measured {where}, and are compared with queueing theory."
    )


def _badges(measured: Sequence[Measured]) -> list[tuple[str, str]]:
    return [(one.name, "valid" if one.valid else "suspect") for one in measured]


def results(measured: Sequence[Measured]) -> Table:
    """Return the table of mean response times."""
    sources = [source for source in FILES if any(source in one.summaries for one in measured)]
    both = len(sources) == 2
    headings = ["variant", *(f"mean response time, {source}" for source in sources), "99 % quantile"]
    headings += ["emulation error"] if both else []
    headings += ["theory", "difference from theory", "verdict"]
    rows = []
    for one in measured:
        mean = mean_response(one.own)
        cells = [one.name]
        cells += [with_interval(mean_response(one.summaries[s])) if s in one.summaries else "-" for s in sources]
        cells.append(number(quantile(one.own, 0.99), 2))
        if both:
            cells.append(_percent(one.emulation_error))
        if isinstance(one.prediction, Prediction):
            theory = one.prediction.mean_response_time
            kind = KINDS.get(one.prediction.kind, one.prediction.kind)
            cells += [f"{number(theory)} ({kind})", against(mean, theory)]
        else:
            cells += ["none", "-"]
        rows.append([*cells, "valid" if one.valid else "suspect"])
    caption = (
        "Response times in time units; ± is a 95 % confidence interval, ~± an unreliable one (the run is too short)"
    )
    return Table(caption, headings, rows, words=[len(headings) - 1])


def _percent(interval: Interval | None) -> str:
    if interval is None or interval.mean is None:
        return "-"
    return signed_percent(interval.mean) + ("" if interval.half_width is None else f" ± {interval.half_width:.1%}")


def _remarks(measured: Sequence[Measured], missing: Sequence[str]) -> list[Block]:
    items = [f"{name}: not run: the run was interrupted or failed before this variant" for name in missing]
    for one in measured:
        if not mean_response(one.own).reliable:
            items.append(f"{one.name}: the run was too short for a reliable interval (~±)")
        if isinstance(one.prediction, Prediction):
            about = f"{one.name}: theory: {one.prediction.name} ({one.prediction.kind}; {one.prediction.source})"
            items.append("; ".join([about, *one.prediction.notes]))
        else:
            items.append(f"{one.name}: no theory: {one.prediction.reason}")
    return [Items(items)]


def _verdicts(measured: Sequence[Measured]) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "Every run checks itself. Valid means that the cluster did what the scenario asks for; it does not mean "
            "that the run was long enough. If a run is suspect, read the reasons before you use its numbers."
        )
    ]
    reasons = [
        f"{one.name}{f' #{s.replication + 1}' if one.own[1:] else ''}: {reason}"
        for one in measured
        for s in one.own
        for reason in s.verdict.reasons
    ]
    blocks.append(Items(reasons) if reasons else Text("All checks passed."))
    for one in measured:
        rows = [
            [check.name, *([str(s.replication + 1)] if one.own[1:] else []), check.figure, check.limit or "-",
             "passed" if check.passed else "failed"]
            for s in one.own
            for check in s.verdict.checks
        ]  # fmt: skip
        headings = ["check", *(["replication"] if one.own[1:] else []), "figure", "limit", "result"]
        words = range(1, len(headings))
        table = Table(f"Checks of {one.name} on the {one.source}", headings, rows, words=list(words))
        blocks.append(Folded(f"All checks of {one.name}", [table]))
    return blocks


def _budgets(measured: Sequence[Measured], no_twin: bool) -> list[Block]:
    blocks: list[Block] = [
        Text(
            "The parts of the mean response time, which add up to it. Theory models service and queueing only. The "
            "machine causes the other parts; its effect on the queues shows as a difference in queueing."
        )
    ]
    if no_twin:
        blocks.append(
            Text("The twin, which has no machine overheads, was not run. `testbed twin` replays a run on it.")
        )
    for one in measured:
        table = budget_table(one.name, {source: one.budget(source) for source in one.summaries})
        if table is not None:
            blocks.append(table)
    blocks.append(Folded("Definitions of the parts, and how they are measured", [Facts(part_meanings())]))
    return blocks


def part_meanings() -> list[tuple[str, str]]:
    """Return the name and the definition of each part of a budget."""
    return [(name, f"{meaning[0].upper()}{meaning[1:]}.") for name, meaning in PARTS.values()]


def budget_table(name: str, budgets: dict[str, ErrorBudget | None]) -> Table | None:
    """Return the parts of a variant's mean response time by source, with their difference if there are two."""
    known = {source: budget for source, budget in budgets.items() if budget is not None}
    if not known:
        return None
    both = len(known) == 2
    headings = ["part", *known, *(["difference"] if both else []), "fraction of the mean"]
    rows = []
    for part, (title, _) in PARTS.items():
        values = [getattr(budget, part) for budget in known.values()]
        rows.append(_budget_row(title, values, next(iter(known.values())).total))
    totals = [budget.total for budget in known.values()]
    rows.append(_budget_row("mean response time", totals, totals[0]))
    return Table(f"{name}: parts of the mean response time, in time units", headings, rows, total=True)


def _budget_row(name: str, values: Sequence[float], total: float) -> list[str]:
    cells = [name, *(f"{value:z.4f}" for value in values)]
    if len(values) == 2:
        cells.append(f"{values[0] - values[1]:+z.4f}")
    return [*cells, f"{values[0] / total:z.1%}"]


def _plots(scenario: Scenario, measured: Sequence[Measured]) -> list[Block]:
    ends = [summary.window[1] for one in measured for summary in one.own]
    starts = [summary.window[0] for one in measured for summary in one.own]
    edges = np.linspace(0.0, max(ends), SLICES + 1)
    series = [_series(one, edges) for one in measured]
    names = ", ".join(one.name for one in measured)
    sources = [source for source in FILES if any(source in one.summaries for one in measured)]
    of = " and ".join(sources)
    many = scenario.run.replications > 1
    blocks: list[Block] = [
        Plot(
            inline_svg(tails(series), "tails"),
            f"Distribution of the response time: the fraction of jobs that take longer than t, on the {of}"
            f"{', over all replications' if many else ''}, and in theory if a formula is known.",
            f"Line plot of P(response time > t) on a logarithmic scale, for {names}; the table of quantiles under More "
            "numbers gives its values.",
        ),
        Plot(
            inline_svg(numbers(series, edges, min(starts)), "numbers"),
            f"Number of jobs in the system over time{' in the first replication' if many else ''}; the warm-up, which "
            "is not measured, is shaded. If a line still rises at the end, the run is too short or the load too high.",
            f"Line plot of the number of jobs in the system over time, for {names}.",
        ),
    ]
    found = _differences(measured)
    if found:
        figures = "; ".join(
            f"{one.variant}, {one.between}: {signed_percent(one.value)}"
            + ("" if one.half_width is None else f" ± {one.half_width:.1%}")
            for one in found
        )
        blocks.append(
            Plot(
                inline_svg(differences(found), "differences"),
                "Differences in mean response time with 95 % intervals: "
                f"{'cluster minus twin, job by job, and ' if len(sources) == 2 else ''}measured means minus theory, "
                "which are noisy if the run is short.",
                f"Dot plot of differences in mean response time: {figures}.",
            )
        )
    return blocks


def _series(one: Measured, edges: np.ndarray) -> Series:
    response: dict[str, np.ndarray] = {}
    present: dict[str, np.ndarray] = {}
    for source, summaries in one.summaries.items():
        parts = []
        for summary in summaries:
            jobs = one.jobs(source, summary.replication)
            start, stop = summary.window
            inside = (jobs["arrival"] >= start) & (jobs["arrival"] < stop) & (jobs["outcome"] == JobOutcome.COMPLETED)
            parts.append(jobs["response"][inside])
            if summary.replication == summaries[0].replication:
                present[source] = number_in_system(jobs["arrival"], departures(jobs), edges)
        response[source] = np.concatenate(parts)
    known = isinstance(one.prediction, Prediction)
    return Series(
        one.name,
        response,
        present,
        predicted_tail(one.scenario) if known else None,
        one.scenario.rate * one.prediction.mean_response_time if isinstance(one.prediction, Prediction) else None,
    )


def _differences(measured: Sequence[Measured]) -> list[Difference]:
    found = []
    for one in measured:
        error = one.emulation_error
        if error is not None and error.mean is not None:
            found.append(Difference(one.name, "cluster minus twin", error.mean, error.half_width))
        if isinstance(one.prediction, Prediction):
            theory = one.prediction.mean_response_time
            for source, summaries in one.summaries.items():
                mean = mean_response(summaries)
                if mean.mean is not None:
                    width = None if mean.half_width is None else mean.half_width / theory
                    found.append(Difference(one.name, f"{source} minus theory", mean.mean / theory - 1, width))
    return found


def _more(measured: Sequence[Measured]) -> list[Block]:
    blocks: list[Block] = [_quantiles(measured), _counts(measured)]
    pools = _pools(measured)
    return [*blocks, *([pools] if pools is not None else []), *_copies(measured)]


def _quantiles(measured: Sequence[Measured]) -> Table:
    levels = [q.probability for q in measured[0].own[0].response_quantiles]
    rows = []
    for one in measured:
        for source, summaries in one.summaries.items():
            rows.append([one.name, source, *(number(quantile(summaries, p)) for p in levels)])
        if isinstance(one.prediction, Prediction) and one.prediction.quantiles:
            rows.append([one.name, "theory", *(number(one.prediction.quantiles.get(p)) for p in levels)])
    return Table(
        "Quantiles of the response time", ["variant", "source", *(f"{100 * p:g} %" for p in levels)], rows, names=2
    )


def _counts(measured: Sequence[Measured]) -> Table:
    headings = ["variant", "source", "jobs", "completed", "dropped", "lost", "unfinished", "probes per job"]
    headings += ["messages per job", "utilisation", "mean queue length", "mean number in system"]
    rows = []
    for one in measured:
        for source, summaries in one.summaries.items():
            outcomes = [
                sum(s.outcomes.get(name, 0) for s in summaries)
                for name in ("completed", "dropped", "lost", "in system")
            ]
            means = [
                _mean([s.probes_per_job for s in summaries]),
                _mean([s.messages_per_job for s in summaries]),
                _mean([s.queue_length.utilisation for s in summaries]),
                _mean([s.queue_length.mean for s in summaries]),
                _mean([s.number_in_system_mean for s in summaries]),
            ]
            rows.append([one.name, source, str(sum(outcomes)), *map(str, outcomes), *(number(mean) for mean in means)])
    return Table("Measured jobs by outcome, and their costs", headings, rows, names=2)


def _pools(measured: Sequence[Measured]) -> Table | None:
    rows = []
    for one in measured:
        for source, summaries in one.summaries.items():
            for i, pool in enumerate(summaries[0].pools):
                uses = [summary.pools[i] for summary in summaries]
                load = _mean([use.effective_load.mean for use in uses])
                means = [
                    _mean([use.service_requirement.mean for use in uses]),
                    _mean([use.useful for use in uses]),
                    _mean([use.wasted_by_rerouting for use in uses]),
                    _mean([use.wasted_by_losing for use in uses]),
                ]
                rows.append(
                    [one.name, source, pool.name, number(load), number(pool.theory_effective_load), *map(number, means)]
                )
    headings = ["variant", "source", "pool", "effective load", "in theory", "service per job", "useful"]
    headings += ["wasted by rerouting", "wasted by superseded copies"]
    return Table("Service used in each pool, in time units per job", headings, rows, names=3) if rows else None


def _copies(measured: Sequence[Measured]) -> list[Block]:
    rows = []
    for one in measured:
        for source, summaries in one.summaries.items():
            for summary in summaries:
                found = summary.cancellations
                if found is not None:
                    states = ", ".join(f"{count} {state}" for state, count in found.by_state.items() if count)
                    outcomes = ", ".join(f"{count} {state}" for state, count in found.by_outcome.items() if count)
                    of = f"{source} #{summary.replication + 1}" if summaries[1:] else source
                    means = (found.copies_per_job, found.preemptions_per_job, found.cancellations_per_job)
                    delays = [number(found.delay_p50, 4), number(found.delay_p99, 4)]
                    rows.append([one.name, of, *map(number, means), *delays, outcomes or "-", states or "-"])
    headings = ["variant", "source", "copies per job", "preemptions per job", "cancellations per job"]
    headings += ["cancellation delay, median", "99 % quantile", "copies by outcome", "copies by state at cancellation"]
    return [Table("Copies of jobs", headings, rows, names=2, words=[7, 8])] if rows else []


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) / len(known) if known else None
