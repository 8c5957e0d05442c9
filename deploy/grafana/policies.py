"""The dashboard that compares the variants of a run."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard
from panels import (
    RESPONSE,
    THEORY,
    Query,
    bars,
    board,
    by_variant,
    comparison,
    final,
    lines,
    predicted,
    total,
)


def policies() -> Dashboard:
    """Return the dashboard."""
    mean = f"{final(RESPONSE + '_sum')} / ({final(RESPONSE + '_count')} > 0)"
    p50, p99 = (f"histogram_quantile({p}, {final(RESPONSE + '_bucket', 'le')}) >= 0" for p in (0.5, 0.99))
    jobs = final("testbed_jobs_total")
    arrived = final("testbed_jobs_arrived_total")
    messages = f"{final('testbed_sent_messages_total')} / ({arrived} > 0)"
    return board(
        "testbed-policies",
        "Policies",
        "A comparison of the variants of a run, including finished ones, within the dashboard's time range.",
        {
            "Comparison": [
                comparison(
                    "Variants",
                    "Over the whole run of each variant so far.",
                    {
                        "mean response time": ("s", Query(mean)),
                        "theory": ("s", Query(predicted())),
                        "difference from theory": ("percentunit", Query(f"{mean} / {predicted()} - 1")),
                        "p50": ("s", Query(p50)),
                        "p99": ("s", Query(p99)),
                        "probes per job": ("short", Query(f"{final('testbed_probes_total')} / ({arrived} > 0)")),
                        "messages per job": ("short", Query(messages)),
                        "jobs": ("short", Query(jobs)),
                    },
                ),
                bars(
                    "Mean response time",
                    "Over the run of each variant so far, and the theory's prediction.",
                    "s",
                    Query(mean),
                    Query(predicted(), "{{variant}}, theory"),
                ),
                bars(
                    "p99 of response time",
                    "Over the run of each variant so far.",
                    "s",
                    Query(p99),
                ),
                bars(
                    "Messages per job",
                    "Over the run of each variant so far.",
                    "short",
                    Query(messages),
                ),
            ],
            "Over time": [
                lines(
                    "Mean response time",
                    "Of the jobs completed in the last 30 seconds.",
                    "s",
                    Query(by_variant("variant:testbed_response_time_seconds:mean_rate30s")),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                    width=12,
                ),
                lines(
                    "p99 of response time",
                    "Of the jobs completed in the last 30 seconds, on a logarithmic axis.",
                    "s",
                    Query(by_variant("variant:testbed_response_time_seconds:quantile_rate30s", quantile="0.99")),
                    width=12,
                    logarithmic=True,
                ),
                lines(
                    "Busy servers",
                    "Fraction of servers that have a task.",
                    "percentunit",
                    Query(by_variant("variant:testbed_utilisation:ratio")),
                ),
                lines(
                    "Mean queue length",
                    "Tasks at a server, including the one in service.",
                    "short",
                    Query(by_variant("variant:testbed_queue_length:mean")),
                ),
                lines(
                    "Number in system",
                    "Jobs that have arrived and not yet ended.",
                    "short",
                    Query(total("testbed_jobs_in_system")),
                ),
            ],
        },
    )
