"""What a scrape is made of: counters, gauges and histograms, made anew each time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from prometheus_client.core import CounterMetricFamily, Exemplar, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from testbed.measure.histogram import LogHistogram


def counter(name: str, documentation: str, value: float) -> Metric:
    """Return a counter without labels; ``name`` is without its ``_total``."""
    return CounterMetricFamily(name, documentation, value=value)


def counters(
    name: str, documentation: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """Return a counter for each combination of values of its labels."""
    family = CounterMetricFamily(name, documentation, labels=labels)
    for of_labels, count in values:
        family.add_metric(of_labels, count)
    return family


def gauge(name: str, documentation: str, value: float) -> Metric:
    """Return a gauge without labels."""
    return GaugeMetricFamily(name, documentation, value=value)


def gauges(
    name: str, documentation: str, labels: Sequence[str], values: Iterable[tuple[Sequence[str], float]]
) -> Metric:
    """Return a gauge for each combination of values of its labels."""
    family = GaugeMetricFamily(name, documentation, labels=labels)
    for of_labels, level in values:
        family.add_metric(of_labels, level)
    return family


def histogram(
    name: str,
    documentation: str,
    values: LogHistogram,
    scale: float,
    *,
    keep_every: int = 1,
    examples: Sequence[tuple[int, float] | None] = (),
) -> Metric:
    """Return a histogram, its values times ``scale``; of its bounds every ``keep_every``-th, for each is a series.

    ``examples`` has a job and its value for each bucket, or None; they become exemplars.
    """
    family = HistogramMetricFamily(name, documentation)
    counts, total = values.counts, values.sum
    buckets: list[tuple[str, float] | tuple[str, float, Exemplar]] = []
    cumulated = 0
    example: tuple[int, float] | None = None
    for i, count in enumerate(counts):
        cumulated += count
        if examples:
            example = examples[i] or example
        last = i == len(values.bounds)
        if i % keep_every == 0 or last:
            bound = "+Inf" if last else f"{values.bounds[i] * scale:.6g}"
            if example is None:
                buckets.append((bound, cumulated))
            else:
                buckets.append((bound, cumulated, Exemplar({"job": str(example[0])}, example[1] * scale)))
                example = None
    family.add_metric([], buckets, total * scale)
    return family
