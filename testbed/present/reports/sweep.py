"""The report of a sweep: its points as plots over the swept keys, and as a table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

from testbed.measure.error_budget import ErrorBudget
from testbed.measure.statistics import Interval
from testbed.measure.summary import mean_response
from testbed.present.reports.drawing import inline_svg
from testbed.present.reports.measured import budget_of
from testbed.present.reports.page import Block, Facts, Items, Page, Plot, Section, Table, Text, listed
from testbed.present.reports.provenance import read_environment, reproduction, settings
from testbed.present.reports.run import budget_table, part_meanings
from testbed.runs.run_folder import OutputError
from testbed.runs.tables import KINDS, against, number, quantile, with_interval
from testbed.scenario.errors import shown_value
from testbed.studies.reproduce.curves import curves
from testbed.studies.reproduce.study import Row, Source
from testbed.studies.sweep.quantities import QUANTITIES, of_pools
from testbed.studies.sweep.result import SweepResult
from testbed.studies.sweep.sweep_table import sweep_remarks
from testbed.theory.predict import Prediction

#: The quantities that are plotted, with the labels of their axes; POOL stands for each pool.
PLOTTED = {
    "response_time_mean": "mean response time [time units]",
    "response_time_p99": "99 % quantile of the response time [time units]",
    "effective_load.POOL": "effective load",
    "emulation_error": "emulation error [fraction of the twin's mean]",
}


def sweep_page(folder: Path) -> Page:
    """Return the report of a sweep's folder. Raises OutputError, or ScenarioError for its scenario."""
    result = SweepResult.read(folder)
    if missing := result.plan.missing(result.runs):
        raise OutputError(
            f"{folder}: the sweep has not finished, {len(missing)} runs or more are missing; continue it with: "
            f"testbed sweep --resume {folder}"
        )
    environment = read_environment(folder)
    plan, goal = result.plan, result.plan.goal
    command = f"testbed sweep scenario.toml --on {','.join(goal.on)}"
    if goal.target is not None:
        command += f" --target {100 * goal.target:g}% --budget {goal.budget}"
    keys = list(dict.fromkeys(key for point in plan.points for key in point.settings))
    values = {key: dict.fromkeys(_shown(point.settings, key) for point in plan.points) for key in keys}
    swept = [(key, ", ".join(found)) for key, found in values.items()]
    sections = [
        Section("Plots", _plots(result, keys)),
        Section("Results", [_results(result, keys), *_differences(result, keys), Items(list(sweep_remarks(result)))]),
        *([Section("Error budget", _budgets(result))] if goal.measured else []),
        settings(plan.scenario, [(f"swept: {key}", found) for key, found in swept]),
        reproduction(folder, command, environment),
    ]
    names = list(dict.fromkeys(name for scenarios in plan.variants for name in scenarios))
    question = (
        f"How does the response time with {listed(names)} depend on {listed(keys)}? "
        f"{len(plan.points)} points, by {listed([_METHODS[place] for place in goal.on])}."
    )
    badges = [(name, "valid" if _valid(result, name) else "suspect") for name in names] if goal.measured else []
    return Page(plan.scenario.name, "report of a sweep", question, badges, sections)


_METHODS = {
    "cluster": "a cluster of real processes",
    "twin": "discrete-event simulation",
    "theory": "queueing theory",
}


def _valid(result: SweepResult, variant: str) -> bool:
    found = [
        run.summary(place)
        for key, run in result.runs.items()
        for place in result.plan.goal.measured
        if key.variant == variant
    ]
    return all(summary.verdict.valid for summary in found if summary is not None)


def _shown(point: Mapping[str, Any], key: str) -> str:
    return "-" if key not in point else shown_value(point[key]) or str(point[key])


def _plots(result: SweepResult, keys: Sequence[str]) -> list[Block]:
    """Draw each quantity over the first key that has numbers, with a series for each variant and other settings."""
    points = [point.settings for point in result.plan.points]
    numeric = [
        key
        for key in keys
        if all(isinstance(p.get(key), int | float) and not isinstance(p.get(key), bool) for p in points)
    ]
    varied = [key for key in numeric if len({point[key] for point in points}) > 1]
    if not varied:
        return [Text("There is no plot, since no swept key has several numbers as values; see the table.")]
    x = varied[0]
    others = [key for key in keys if key != x]
    rows = _rows(result, points, x, others)
    blocks: list[Block] = []
    sources = ", ".join(dict.fromkeys(row.source for row in rows))
    scenario = result.plan.scenario
    caption = f"{scenario.name}; seed {scenario.seed}; {scenario.run.replications} replications or more"
    order = list(PLOTTED)
    for quantity in sorted(dict.fromkeys(row.quantity for row in rows), key=lambda each: order.index(of_pools(each))):
        mine = [row for row in rows if row.quantity == quantity]
        label, what = PLOTTED[of_pools(quantity)], QUANTITIES[of_pools(quantity)]
        if pool := quantity.partition(".")[2]:
            label, what = f"{label} of pool {pool}", what.replace("the pool", f"pool {pool}")
        figure = curves(mine, quantity, x=x, by=["variant", *others], x_label=x, y_label=label, caption=caption)
        blocks.append(
            Plot(
                inline_svg(figure, f"plot-{len(blocks)}"),
                f"{what[0].upper()}{what[1:]} against {x}. Lines are theory, filled marks the twin, hollow marks the "
                "cluster; bars are 95 % intervals over replications.",
                f"Plot of {what} against {x}, from {sources}; the table of results gives the values.",
            )
        )
    return blocks


def _rows(result: SweepResult, points: Sequence[Mapping[str, Any]], x: str, others: Sequence[str]) -> list[Row]:
    rows = []
    for found in result.table().to_pylist():
        if (
            found["replication"] is not None
            or found["against"] is not None
            or of_pools(found["quantity"]) not in PLOTTED
        ):
            continue
        point = points[found["point"]]
        where = {"variant": found["variant"], x: point[x], **{key: _shown(point, key) for key in others}}
        width = None if found["high"] is None else found["high"] - found["value"]
        source: Source = found["source"]
        rows.append(Row(where, found["quantity"], source, found["value"], width))
    return rows


def _results(result: SweepResult, keys: Sequence[str]) -> Table:
    plan = result.plan
    places = plan.goal.measured
    headings = [*keys, "variant", *(f"mean response time, {place}" for place in places)]
    headings += ["99 % quantile"] if places else []
    headings += ["theory", *(["difference from theory", "verdict"] if places else [])]
    rows = []
    for index, scenarios in enumerate(plan.variants):
        for variant in scenarios:
            found = {place: result.summaries(index, variant, place) for place in places}
            means: list[Interval] = [mean_response(summaries) for summaries in found.values()]
            cells = [*(_shown(plan.points[index].settings, key) for key in keys), variant, *map(with_interval, means)]
            own = found[places[0]] if places else []
            cells += [number(quantile(own, 0.99), 2)] if places else []
            prediction = result.predictions.get((index, variant))
            if isinstance(prediction, Prediction):
                theory = prediction.mean_response_time
                cells.append(f"{number(theory)} ({KINDS.get(prediction.kind, prediction.kind)})")
                cells += [against(means[0], theory)] if places else []
            else:
                cells += ["none", *(["-"] if places else [])]
            if places:
                cells.append("valid" if all(summary.verdict.valid for summary in own) else "suspect")
            rows.append(cells)
    caption = "Response times in time units; ± is a 95 % confidence interval over replications"
    words = [len(headings) - 1] if places else []
    return Table(caption, headings, rows, names=len(keys) + 1, words=words)


def _differences(result: SweepResult, keys: Sequence[str]) -> list[Block]:
    plan = result.plan
    rows = []
    for (index, scenarios), place in product(enumerate(plan.variants), plan.goal.measured):
        first, *others = scenarios
        for variant in others:
            found = result.difference(index, variant, first, place=place)
            at = [_shown(plan.points[index].settings, key) for key in keys]
            rows.append([*at, f"{variant} minus {first}", place, with_interval(found, sign="+")])
    if not rows:
        return []
    caption = "Differences between mean response times, by replication, on the same arrivals and sizes"
    return [Table(caption, [*keys, "variants", "on", "difference"], rows, names=len(keys) + 2)]


def _budgets(result: SweepResult) -> list[Block]:
    plan = result.plan
    blocks: list[Block] = [
        Text("The parts of the mean response time at each point, averaged over replications. They add up to the mean.")
    ]
    for index, scenarios in enumerate(plan.variants):
        for variant, scenario in scenarios.items():
            budgets: dict[str, ErrorBudget | None] = {
                place: budget_of(scenario, result.summaries(index, variant, place)) for place in plan.goal.measured
            }
            table = budget_table(f"{variant}, {plan.points[index]}", budgets)
            if table is not None:
                blocks.append(table)
    return [*blocks, Facts(part_meanings())]
