"""The quantities of a sweep's table, by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from testbed.measure.statistics import Interval
from testbed.measure.summary import Summary
from testbed.scenario import Scenario
from testbed.scenario.modes import has_copies
from testbed.theory.pool_loads import pool_requirements
from testbed.theory.predict import NoPrediction, Prediction

#: The meaning of each. Times are in time units. POOL stands for the name of a pool. The quantities from there on to the
#: delays belong to scenarios whose jobs may have several copies or be served in several pools.
QUANTITIES = {
    "response_time_mean": "mean response time",
    "response_time_p50": "median of the response time",
    "response_time_p90": "90 % quantile of the response time",
    "response_time_p99": "99 % quantile of the response time",
    "response_time_p999": "99.9 % quantile of the response time",
    "inherent_delay_mean": "mean of the longest service of a job's tasks",
    "queueing_delay_mean": "mean of response time minus inherent delay",
    "relative_queueing_delay": "mean queueing delay divided by mean inherent delay",
    "waiting_time_mean": "mean over jobs of the longest waiting time of their tasks",
    "overhead_mean": "mean of the part of the response time that is neither waiting nor service",
    "dispatch_lag_mean": "mean time by which dispatchers handle arrivals late",
    "number_in_system_mean": "time average of the number of jobs in the system, wherever they wait",
    "queue_length_mean": "time average of a server's queue length, the task in service included; jobs that wait in a "
    "central queue are at no server",
    "utilisation": "fraction of the time in which a server is busy",
    "probes_per_job": "probes that dispatchers send for a job",
    "probes_per_task": "probes that dispatchers send for a task",
    "messages_per_job": "messages of all types per job",
    "overall_probe_rate": "probes that servers send to move tasks, per server and time unit",
    "drop_share": "fraction of the jobs that were dropped",
    "effective_load.POOL": "processing time that a job uses in the pool, times the arrival rate, per server",
    "wasted_by_rerouting.POOL": "fraction of it that jobs had received when they left",
    "wasted_by_losing.POOL": "fraction of it that went to copies that did not win",
    "copies_per_job": "copies per job",
    "preemptions_per_job": "preemptions per job, of all its copies",
    "cancellations_per_job": "cancelled copies per job",
    "cancellation_delay_p50": "median time from the end (or cancelling start) of a copy until another has stopped",
    "cancellation_delay_p99": "99 % quantile of that time",
    "jobs": "number of measured jobs",
    "emulation_error": "cluster minus twin, job by job, as a fraction of the twin's mean response time",
    "stability_bound": "largest stable load",
}


class Estimate(NamedTuple):
    """A value, its 95 % interval if there is one, and the number of independent observations behind it."""

    value: float
    low: float | None = None
    high: float | None = None
    n: float | None = None


def from_interval(interval: Interval) -> Estimate | None:
    """Return the mean of an interval with its bounds; None where there is no mean."""
    if interval.mean is None:
        return None
    if interval.half_width is None:
        return Estimate(interval.mean, n=interval.effective_samples)
    low, high = interval.mean - interval.half_width, interval.mean + interval.half_width
    return Estimate(interval.mean, low, high, interval.effective_samples)


def quantile_name(probability: float) -> str:
    """Return the name of a quantile of the response time: response_time_p99."""
    return f"response_time_p{f'{100 * probability:g}'.replace('.', '')}"


def of_pools(quantity: str) -> str:
    """Return the key of QUANTITIES for a quantity: effective_load.POOL for effective_load.one."""
    name, dot, _ = quantity.partition(".")
    return f"{name}.POOL" if dot else quantity


def measured(summary: Summary) -> Iterator[tuple[str, Estimate]]:
    """Yield the quantities of one run."""
    response = from_interval(summary.response)
    if response is not None:
        yield "response_time_mean", response
    for quantile in summary.response_quantiles:
        if quantile.value is not None:
            yield (
                quantile_name(quantile.probability),
                Estimate(quantile.value, quantile.low, quantile.high, summary.response.effective_samples),
            )
    values = {
        "inherent_delay_mean": summary.inherent_mean,
        "queueing_delay_mean": summary.queueing_delay_mean,
        "relative_queueing_delay": summary.relative_queueing_delay,
        "waiting_time_mean": summary.wait_mean,
        "overhead_mean": summary.overhead_mean,
        "dispatch_lag_mean": summary.dispatch_lag_mean,
        "number_in_system_mean": summary.number_in_system_mean,
        "queue_length_mean": summary.queue_length.mean,
        "utilisation": summary.queue_length.utilisation,
        "probes_per_job": summary.probes_per_job,
        "probes_per_task": summary.probes_per_task,
        "messages_per_job": summary.messages_per_job,
        "overall_probe_rate": summary.overall_probe_rate,
        "drop_share": summary.drop_share,
        "jobs": float(sum(summary.outcomes.values())),
    }
    for name, value in values.items():
        if value is not None:
            yield name, Estimate(value)
    yield from _of_copies(summary)
    if summary.pathwise is not None and summary.pathwise.mean is not None:
        half_width = summary.pathwise.interval.half_width
        mean = summary.pathwise.mean
        if half_width is None:
            yield "emulation_error", Estimate(mean)
        else:
            n = summary.pathwise.interval.effective_samples
            yield "emulation_error", Estimate(mean, mean - half_width, mean + half_width, n)


def _of_copies(summary: Summary) -> Iterator[tuple[str, Estimate]]:
    for pool in summary.pools:
        load = from_interval(pool.effective_load)
        if load is not None:
            yield f"effective_load.{pool.name}", load
        used = pool.service_requirement.mean
        for name, wasted in (
            ("wasted_by_rerouting", pool.wasted_by_rerouting),
            ("wasted_by_losing", pool.wasted_by_losing),
        ):
            if used and wasted is not None:
                yield f"{name}.{pool.name}", Estimate(wasted / used)
    found = summary.cancellations
    if found is None:
        return
    values = {
        "copies_per_job": found.copies_per_job,
        "preemptions_per_job": found.preemptions_per_job,
        "cancellations_per_job": found.cancellations_per_job,
        "cancellation_delay_p50": found.delay_p50,
        "cancellation_delay_p99": found.delay_p99,
    }
    for name, value in values.items():
        if value is not None:
            yield name, Estimate(value)


def predicted_loads(scenario: Scenario) -> Iterator[tuple[str, Estimate]]:
    """Yield the theory's effective loads of the pools, if a run of the scenario would measure them."""
    requirements = pool_requirements(scenario) if has_copies(scenario) else None
    if requirements is None:
        return
    for pool, requirement in zip(scenario.pools, requirements, strict=True):
        yield f"effective_load.{pool.name}", Estimate(requirement * scenario.rate / pool.servers)


def predicted(prediction: Prediction | NoPrediction) -> Iterator[tuple[str, Estimate]]:
    """Yield the quantities that the theory predicts."""
    if isinstance(prediction, Prediction):
        yield "response_time_mean", Estimate(prediction.mean_response_time)
        for probability, value in prediction.quantiles.items():
            yield quantile_name(probability), Estimate(value)


def paired(ours: Sequence[Summary], theirs: Sequence[Summary], quantity: str) -> list[tuple[float, float]]:
    """Return the values of a quantity in the replications that both variants have."""
    values = [
        {
            summary.replication: estimate.value
            for summary in summaries
            for name, estimate in measured(summary)
            if name == quantity
        }
        for summaries in (ours, theirs)
    ]
    return [(values[0][r], values[1][r]) for r in sorted(values[0].keys() & values[1].keys())]
