"""The dashboard of one cluster: response time compared with theory, tails, load, queues, messages."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard
from panels import (
    BOUND,
    LOAD,
    MEAN,
    QUANTILE,
    RESPONSE,
    THEORY,
    THEORY_QUANTILE,
    Query,
    board,
    by_variant,
    heat,
    lines,
    mean,
    numbers,
    quantile,
    rate,
    selected,
    total,
)


def cluster() -> Dashboard:
    """Return the dashboard."""
    return board(
        "testbed-cluster",
        "Cluster",
        "The state of a cluster, compared with queueing theory.",
        {
            "Response time and theory": [
                numbers(
                    "Mean response time",
                    "From a job's intended arrival to its completion, over the run so far, and in theory.",
                    "s",
                    Query(by_variant(MEAN), "{{variant}}"),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                ),
                lines(
                    "Mean response time",
                    "Of recently completed jobs, of all jobs since the start, and the theory's prediction.",
                    "s",
                    Query(mean(RESPONSE)),
                    Query(by_variant(MEAN), "{{variant}}, so far"),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                ),
                lines(
                    "Parts of the response time",
                    "Means over recently completed jobs. Inherent delay: the response time if every task started at "
                    "once. Queueing delay: response time minus inherent delay.",
                    "s",
                    Query(mean("testbed_inherent_delay_seconds"), "{{variant}}, inherent delay"),
                    Query(mean("testbed_queueing_delay_seconds"), "{{variant}}, queueing delay"),
                ),
            ],
            "Tails": [
                lines(
                    "Quantiles of response time",
                    "Of recently completed jobs, and the theory's prediction, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, RESPONSE), "{{variant}}, 0.5"),
                    Query(quantile(0.99, RESPONSE), "{{variant}}, 0.99"),
                    Query(
                        f"avg by (variant, probability) ({selected(THEORY_QUANTILE)})",
                        "{{variant}}, {{probability}}, theory",
                    ),
                    logarithmic=True,
                ),
                lines(
                    "Quantiles of response time so far",
                    "Of all jobs since the start, on a logarithmic axis.",
                    "s",
                    Query(f"avg by (variant, quantile) ({selected(QUANTILE)})", "{{variant}}, {{quantile}}"),
                    logarithmic=True,
                ),
                heat("Response times", "Completed jobs by response time. Points are single jobs.", "s", RESPONSE),
            ],
            "Load": [
                lines(
                    "Load",
                    "Fraction of servers that have a task, the scenario's load, and the stability bound: at a "
                    "load from this bound on, queues grow without limit.",
                    "percentunit",
                    Query(by_variant("variant:testbed_utilisation:ratio"), "{{variant}}, busy servers"),
                    Query(by_variant(LOAD), "{{variant}}, load"),
                    Query(by_variant(BOUND), "{{variant}}, stability bound in theory"),
                ),
                lines(
                    "Jobs",
                    "Jobs that arrive per second, and jobs that end per second, by outcome.",
                    "jobs/s",
                    Query(rate("testbed_jobs_arrived_total"), "{{variant}}, arrived"),
                    Query(rate("testbed_jobs_total", "outcome"), "{{variant}}, {{outcome}}"),
                ),
                lines(
                    "Number in system",
                    "Jobs that have arrived and not yet ended.",
                    "short",
                    Query(total("testbed_jobs_in_system")),
                ),
            ],
            "Queues": [
                lines(
                    "Queue length",
                    "Tasks at a server, including the one in service: mean and maximum over servers.",
                    "short",
                    Query(by_variant("variant:testbed_queue_length:mean"), "{{variant}}, mean"),
                    Query(f"max by (variant) ({selected('testbed_longest_queue_length')})", "{{variant}}, longest"),
                ),
                lines(
                    "Tail of queue lengths",
                    "Fraction of servers that have at least this many tasks.",
                    "percentunit",
                    Query(
                        f"{total('testbed_servers_with_queue_length_at_least', 'tasks')} "
                        f"/ ignoring (tasks) group_left () {total('testbed_servers')}",
                        "{{variant}}, {{tasks}} or more",
                    ),
                ),
                lines(
                    "Central queues",
                    "Jobs that wait in the central queues of pools, including pairs of copies.",
                    "short",
                    Query(total("testbed_jobs_waiting")),
                ),
            ],
            "Messages": [
                lines(
                    "Messages by type",
                    "Messages per second between agents.",
                    "msg/s",
                    Query(rate("testbed_sent_messages_total", "kind"), "{{variant}}, {{kind}}"),
                ),
                lines(
                    "Bytes by message type",
                    "Bytes per second of these messages, estimated from a sample of frames.",
                    "Bps",
                    Query(rate("testbed_sent_message_bytes_total", "kind"), "{{variant}}, {{kind}}"),
                ),
                lines(
                    "Per job",
                    "Probes and messages per job that has arrived, over the run so far.",
                    "short",
                    Query(by_variant("variant:testbed_probes:per_job"), "{{variant}}, probes"),
                    Query(by_variant("variant:testbed_messages:per_job"), "{{variant}}, messages"),
                ),
                lines(
                    "Probe success",
                    "Fraction of the dispatchers' recent probes that found an idle server.",
                    "percentunit",
                    Query(
                        f"{rate('testbed_probes_answered_total', found='idle')} "
                        f"/ ({rate('testbed_probes_answered_total')} > 0)"
                    ),
                ),
            ],
            "Tasks that move between servers": [
                lines(
                    "Work stealing and sharing",
                    "Tasks per second that a server stole, that a server accepted from another that offered them, and "
                    "that came too late, after the server had received other work.",
                    "tasks/s",
                    Query(rate("testbed_steals_total"), "{{variant}}, stolen"),
                    Query(rate("testbed_shares_total"), "{{variant}}, shared"),
                    Query(rate("testbed_tasks_moved_too_late_total"), "{{variant}}, too late"),
                    width=12,
                ),
                lines(
                    "Servers' probes by answer",
                    "Probes per second with which servers look for tasks to move.",
                    "probes/s",
                    Query(rate("testbed_balancing_probes_answered_total", "answer"), "{{variant}}, {{answer}}"),
                    width=12,
                ),
            ],
            "Rerouting, replication and cancellation": [
                lines(
                    "At the threshold",
                    "Jobs rerouted per second, and replicas started per second, at their threshold.",
                    "jobs/s",
                    Query(rate("testbed_reroutes_total"), "{{variant}}, rerouted"),
                    Query(rate("testbed_replicas_started_total"), "{{variant}}, replicated"),
                    Query(rate("testbed_preemptions_total"), "{{variant}}, preempted"),
                ),
                lines(
                    "Copies by outcome",
                    "Copies per second of jobs that have ended, by outcome.",
                    "copies/s",
                    Query(rate("testbed_copies_total", "copy", "fate"), "{{variant}}, {{copy}} copy {{fate}}"),
                ),
                lines(
                    "Cancellations",
                    "Cancelled copies per second, by their state at cancellation.",
                    "copies/s",
                    Query(rate("testbed_copies_cancelled_total", "met"), "{{variant}}, {{met}}"),
                ),
                lines(
                    "Wasted service",
                    "Fraction of the servers' recent time that they spent on copies that did not complete their job.",
                    "percentunit",
                    Query(
                        f"{rate('testbed_wasted_service_seconds_total', 'fate')} "
                        f"/ ignoring (fate) group_left () {total('testbed_servers')}",
                        "{{variant}}, {{fate}}",
                    ),
                ),
            ],
        },
    )
