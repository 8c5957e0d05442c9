"""A sweep's results for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import product
from typing import TYPE_CHECKING, Any

from rich.table import Table

from testbed.measure.statistics import Interval
from testbed.measure.summary import mean_response
from testbed.runs.tables import KINDS, against, new_table, number, quantile, signed_percent, with_interval
from testbed.scenario.errors import shown_value
from testbed.theory.predict import Prediction

if TYPE_CHECKING:
    from testbed.studies.sweep.result import SweepResult


def sweep_table(result: SweepResult) -> Table:
    """Return the table of a sweep: a row per point and variant, with its difference from the first variant."""
    plan = result.plan
    keys = list(dict.fromkeys(key for point in plan.points for key in point.settings))
    places = plan.goal.measured
    several = any(len(scenarios) > 1 for scenarios in plan.variants)
    unit = plan.scenario.run.time_unit
    single = plan.scenario.run.replications == 1 and plan.goal.target is None
    interval = "confidence interval" + (", ~± one from too short a run" if single else " over replications")
    table = new_table(plan.scenario.name, f"response times in time units of {unit}; ± is a 95 % {interval}")
    for heading in _headings(keys):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("variant", no_wrap=True)
    for place in places:
        table.add_column(f"mean response\ntime ({place})", justify="right", no_wrap=True)
    if places:
        table.add_column("p99", justify="right", no_wrap=True)
    if len(places) == 2:
        table.add_column("emulation\nerror", justify="right", no_wrap=True)
    if places and several:
        table.add_column("against\nthe first", justify="right", no_wrap=True)
    if "theory" in plan.goal.on:
        table.add_column("theory" + (",\nagainst it" if places else ""), justify="right", no_wrap=True)
    if places:
        table.add_column("verdict", no_wrap=True)
    for point, scenarios in enumerate(plan.variants):
        for variant in scenarios:
            cells = [*_values(plan.points[point].settings, keys), variant, *_measured(result, point, variant)]
            table.add_row(*cells, end_section=variant == list(scenarios)[-1] and several)
    return table


def _headings(keys: list[str]) -> list[str]:
    """Return the last part of each key, or the whole key where two have the same last part."""
    last = [key.rpartition(".")[2] for key in keys]
    return [key.replace(".", ".\n") if last.count(short) > 1 else short for key, short in zip(keys, last, strict=True)]


def _values(settings: Mapping[str, Any], keys: list[str]) -> list[str]:
    return ["-" if key not in settings else shown_value(settings[key]) or str(settings[key]) for key in keys]


def _measured(result: SweepResult, point: int, variant: str) -> list[str]:
    plan = result.plan
    places = plan.goal.measured
    runs = {place: result.summaries(point, variant, place) for place in places}
    means = {place: mean_response(summaries) for place, summaries in runs.items()}
    cells = [with_interval(mean) for mean in means.values()]
    summaries = runs[places[0]] if places else []
    if places:
        cells.append(number(quantile(summaries, 0.99), 2))
    if len(places) == 2:
        errors = [run.pathwise.mean for run in summaries if run.pathwise is not None]
        known = [error for error in errors if error is not None]
        cells.append(signed_percent(sum(known) / len(known) if known else None))
    first = next(iter(plan.variants[point]))
    if places and any(len(scenarios) > 1 for scenarios in plan.variants):
        cells.append("" if variant == first else with_interval(result.difference(point, variant, first), sign="+"))
    if "theory" in plan.goal.on:
        cells.append(_theory(result, point, variant, means[places[0]] if places else None))
    if places:
        valid = all(summary.verdict.valid for summary in summaries)
        cells.append("-" if not summaries else "[green]valid[/]" if valid else "[bold yellow]suspect[/]")
    return cells


def _theory(result: SweepResult, point: int, variant: str, mean: Interval | None) -> str:
    prediction = result.predictions[point, variant]
    if not isinstance(prediction, Prediction):
        return "none"
    value = prediction.mean_response_time
    said = f"{number(value)} {KINDS.get(prediction.kind, prediction.kind)}"
    return said if mean is None or mean.mean is None else f"{said}\n{against(mean, value)}"


def sweep_remarks(result: SweepResult) -> Iterable[str]:
    """Yield remarks on the table: which targets were reached, why runs are suspect, and the source of the theory."""
    plan = result.plan
    goal = plan.goal
    target = f"target of ±{100 * (goal.target or 0):g}%"
    for at in result.precisions:
        width = "no interval" if at.relative_half_width is None else f"±{at.relative_half_width:.2%}"
        every = len(result.summaries(at.point, at.variant, at.place))
        of = f" of the {every} in the table" if every > at.replications else ""
        made = f"{plan.points[at.point]}: {at.variant} ({at.place}): {width} after {at.replications}{of} replications"
        if at.reached:
            yield f"{made}: {target} reached"
        elif at.replications >= goal.budget:
            yield f"{made}: budget used up before the {target} was reached"
        else:
            yield f"{made}: not finished"
    for index, scenarios in enumerate(plan.variants):
        for variant, place in product(scenarios, goal.measured):
            verdicts = [summary.verdict for summary in result.summaries(index, variant, place)]
            suspect = [verdict for verdict in verdicts if not verdict.valid]
            if suspect:
                yield (
                    f"{plan.points[index]}: {variant} ({place}): {len(suspect)} of {len(verdicts)} replications are "
                    f"suspect, the first because: {'; '.join(suspect[0].reasons)}"
                )
    notes: dict[str, None] = {}
    for (_, variant), prediction in result.predictions.items():
        if isinstance(prediction, Prediction):
            notes.setdefault(f"{variant}: theory: {prediction.name} ({prediction.kind}; {prediction.source})")
        else:
            notes.setdefault(f"{variant}: no theory: {prediction.reason}")
    yield from notes
