"""The dashboard that has the variants of a run side by side."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard
from panels import (
    RESPONSE,
    THEORY,
    Query,
    bars,
    board,
    by_variant,
    final,
    lines,
    predicted,
    side_by_side,
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
        "The variants of a run, side by side: also those that are over, within the time that is shown.",
        {
            "Side by side": [
                side_by_side(
                    "Variants",
                    "Over each variant's whole run so far.",
                    {
                        "mean response time": ("s", Query(mean)),
                        "theory": ("s", Query(predicted())),
                        "against theory": ("percentunit", Query(f"{mean} / {predicted()} - 1")),
                        "p50": ("s", Query(p50)),
                        "p99": ("s", Query(p99)),
                        "probes per job": ("short", Query(f"{final('testbed_probes_total')} / ({arrived} > 0)")),
                        "messages per job": ("short", Query(messages)),
                        "jobs": ("short", Query(jobs)),
                    },
                ),
                bars(
                    "Mean response time",
                    "Over each variant's run so far, and as predicted.",
                    "s",
                    Query(mean),
                    Query(predicted(), "{{variant}}, theory"),
                ),
                bars(
                    "p99 of response time",
                    "Over each variant's run so far.",
                    "s",
                    Query(p99),
                ),
                bars(
                    "Messages per job",
                    "Over each variant's run so far.",
                    "short",
                    Query(messages),
                ),
            ],
            "Over time": [
                lines(
                    "Mean response time",
                    "Of the jobs done in the last half minute.",
                    "s",
                    Query(by_variant("variant:testbed_response_time_seconds:mean_rate30s")),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                    width=12,
                ),
                lines(
                    "p99 of response time",
                    "Of the jobs done in the last half minute, on a logarithmic axis.",
                    "s",
                    Query(by_variant("variant:testbed_response_time_seconds:quantile_rate30s", quantile="0.99")),
                    width=12,
                    logarithmic=True,
                ),
                lines(
                    "Busy servers",
                    "Share of the servers that hold a task.",
                    "percentunit",
                    Query(by_variant("variant:testbed_utilisation:ratio")),
                ),
                lines(
                    "Mean queue length",
                    "Tasks at a server, the one in service included.",
                    "short",
                    Query(by_variant("variant:testbed_queue_length:mean")),
                ),
                lines(
                    "Number in system",
                    "Jobs that have arrived and not ended.",
                    "short",
                    Query(total("testbed_jobs_in_system")),
                ),
            ],
        },
    )
