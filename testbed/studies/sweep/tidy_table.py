"""A sweep's results as one tidy table: a row per point, variant, replication and quantity.

testbed/docs/sweeps.md explains the columns.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa

from testbed.measure.statistics import replication_interval
from testbed.measure.summary import Summary
from testbed.studies.sweep.quantities import Estimate, from_interval, measured, paired, predicted, predicted_loads
from testbed.theory.predict import Prediction, stability_bound

if TYPE_CHECKING:
    from testbed.studies.sweep.result import SweepResult


class Row(NamedTuple):
    """A row of the table, without the point's settings."""

    point: int
    variant: str
    against: str | None
    source: str
    replication: int | None
    quantity: str
    value: float
    low: float | None
    high: float | None
    n: float | None
    verdict: str | None


TYPES = {
    "point": pa.int32(),
    "variant": pa.string(),
    "against": pa.string(),
    "source": pa.string(),
    "replication": pa.int32(),
    "quantity": pa.string(),
    "value": pa.float64(),
    "low": pa.float64(),
    "high": pa.float64(),
    "n": pa.float64(),
    "verdict": pa.string(),
}


def tidy_table(result: SweepResult) -> pa.Table:
    """Return the table of a sweep: the point's number and settings, and the columns of Row."""
    rows = list(_rows(result))
    points = [point.settings for point in result.plan.points]
    columns = {name: pa.array([row[i] for row in rows], type) for i, (name, type) in enumerate(TYPES.items())}
    settings = {
        key: _settings([point.get(key) for point in points]).take(columns["point"])
        for key in dict.fromkeys(key for point in points for key in point)
    }
    return pa.table({"point": columns.pop("point"), **settings, **columns})


def _settings(values: list[Any]) -> pa.Array:
    """Return the values of one key as numbers, strings or truth values; as JSON if they are of other or mixed types."""
    known = [value for value in values if value is not None]
    if all(isinstance(value, bool) for value in known) or all(isinstance(value, str) for value in known):
        return pa.array(values)
    if all(isinstance(value, int | float) and not isinstance(value, bool) for value in known):
        whole = all(isinstance(value, int) for value in known)
        return pa.array(values, pa.int64() if whole else pa.float64())
    return pa.array([None if value is None else json.dumps(value) for value in values])


def _rows(result: SweepResult) -> Iterator[Row]:
    for point, scenarios in enumerate(result.plan.variants):
        for variant in scenarios:
            for place in result.plan.goal.measured:
                yield from _measured(result, point, variant, place)
            yield from _theory(result, point, variant)


def _measured(result: SweepResult, point: int, variant: str, place: str) -> Iterator[Row]:
    summaries = result.summaries(point, variant, place)
    for summary in summaries:
        for quantity, estimate in measured(summary):
            yield Row(point, variant, None, place, summary.replication, quantity, *estimate, _verdict([summary]))
    for quantity, estimate in _averages(summaries):
        yield Row(point, variant, None, place, None, quantity, *estimate, _verdict(summaries))
    first = next(iter(result.plan.variants[point]))
    if variant != first:
        others = result.summaries(point, first, place)
        verdict = _verdict([*summaries, *others])
        for quantity in dict(_averages(summaries)):
            pairs = paired(summaries, others, quantity)
            difference = from_interval(replication_interval([ours - theirs for ours, theirs in pairs]))
            if difference is not None:
                yield Row(point, variant, first, place, None, quantity, *difference, verdict)


def _averages(summaries: list[Summary]) -> Iterator[tuple[str, Estimate]]:
    """Yield each quantity over replications; with a single one, its own estimate."""
    if len(summaries) == 1:
        yield from measured(summaries[0])
        return
    values: dict[str, list[float]] = {}
    for summary in summaries:
        for quantity, estimate in measured(summary):
            values.setdefault(quantity, []).append(estimate.value)
    for quantity, found in values.items():
        average = from_interval(replication_interval(found))
        if average is not None:
            yield quantity, average


def _theory(result: SweepResult, point: int, variant: str) -> Iterator[Row]:
    prediction = result.predictions.get((point, variant))
    if prediction is None:
        return
    kind = prediction.kind if isinstance(prediction, Prediction) else None
    for quantity, estimate in predicted(prediction):
        yield Row(point, variant, None, "theory", None, quantity, *estimate, kind)
    scenario = result.plan.variants[point][variant]
    for quantity, estimate in predicted_loads(scenario):
        yield Row(point, variant, None, "theory", None, quantity, *estimate, None)
    bound = stability_bound(scenario).bound
    yield Row(point, variant, None, "theory", None, "stability_bound", *Estimate(bound), None)


def _verdict(summaries: list[Summary]) -> str | None:
    if not summaries:
        return None
    return "valid" if all(summary.verdict.valid for summary in summaries) else "suspect"
