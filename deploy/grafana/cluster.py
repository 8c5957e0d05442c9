"""The dashboard of one cluster: response time against theory, tails, load, queues, messages."""

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
    chosen,
    heat,
    lines,
    mean,
    numbers,
    quantile,
    rate,
    total,
)


def cluster() -> Dashboard:
    """Return the dashboard."""
    return board(
        "testbed-cluster",
        "Cluster",
        "How a cluster does, beside what queueing theory says of it.",
        {
            "Response time against theory": [
                numbers(
                    "Mean response time",
                    "From a job's intended arrival to its completion, over the run so far; and what theory predicts.",
                    "s",
                    Query(by_variant(MEAN), "{{variant}}"),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                ),
                lines(
                    "Mean response time",
                    "Of the jobs done lately, of all since the start, and as predicted.",
                    "s",
                    Query(mean(RESPONSE)),
                    Query(by_variant(MEAN), "{{variant}}, so far"),
                    Query(by_variant(THEORY), "{{variant}}, theory"),
                ),
                lines(
                    "What response time is made of",
                    "Means of the jobs done lately. Inherent delay: the response time had every task started at once; "
                    "queueing delay is the rest.",
                    "s",
                    Query(mean("testbed_inherent_delay_seconds"), "{{variant}}, inherent delay"),
                    Query(mean("testbed_queueing_delay_seconds"), "{{variant}}, queueing delay"),
                ),
            ],
            "Tails": [
                lines(
                    "Quantiles of response time",
                    "Of the jobs done lately, and as predicted, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, RESPONSE), "{{variant}}, 0.5"),
                    Query(quantile(0.99, RESPONSE), "{{variant}}, 0.99"),
                    Query(
                        f"avg by (variant, quantile) ({chosen(THEORY_QUANTILE)})", "{{variant}}, {{quantile}}, theory"
                    ),
                    logarithmic=True,
                ),
                lines(
                    "Quantiles of response time so far",
                    "Of all jobs since the start, on a logarithmic axis.",
                    "s",
                    Query(f"avg by (variant, quantile) ({chosen(QUANTILE)})", "{{variant}}, {{quantile}}"),
                    logarithmic=True,
                ),
                heat("Response times", "Jobs done lately, by response time. Points are single jobs.", "s", RESPONSE),
            ],
            "Load": [
                lines(
                    "Load",
                    "Share of the servers that hold a task, beside the load asked for and the stability bound: "
                    "from there on queues grow without end.",
                    "percentunit",
                    Query(by_variant("variant:testbed_utilisation:ratio"), "{{variant}}, busy servers"),
                    Query(by_variant(LOAD), "{{variant}}, load"),
                    Query(by_variant(BOUND), "{{variant}}, stability bound in theory"),
                ),
                lines(
                    "Jobs",
                    "Jobs a second that arrive, and that end, by outcome.",
                    "jobs/s",
                    Query(rate("testbed_jobs_arrived_total"), "{{variant}}, arrived"),
                    Query(rate("testbed_jobs_total", "outcome"), "{{variant}}, {{outcome}}"),
                ),
                lines(
                    "Number in system",
                    "Jobs that have arrived and not ended.",
                    "short",
                    Query(total("testbed_jobs_in_system")),
                ),
            ],
            "Queues": [
                lines(
                    "Queue length",
                    "Tasks at a server, the one in service included: on average, and the most.",
                    "short",
                    Query(by_variant("variant:testbed_queue_length:mean"), "{{variant}}, mean"),
                    Query(f"max by (variant) ({chosen('testbed_longest_queue_length')})", "{{variant}}, longest"),
                ),
                lines(
                    "Tail of queue lengths",
                    "Share of the servers that hold at least so many tasks.",
                    "percentunit",
                    Query(
                        f"{total('testbed_servers_with_queue_length_at_least', 'tasks')} "
                        f"/ ignoring (tasks) group_left () {total('testbed_servers')}",
                        "{{variant}}, {{tasks}} or more",
                    ),
                ),
                lines(
                    "Central queues",
                    "Jobs that wait in the central queues of pools, pairs of copies included.",
                    "short",
                    Query(total("testbed_jobs_waiting")),
                ),
            ],
            "Messages": [
                lines(
                    "Messages by kind",
                    "Messages a second between agents.",
                    "msg/s",
                    Query(rate("testbed_sent_messages_total", "kind"), "{{variant}}, {{kind}}"),
                ),
                lines(
                    "Bytes by kind",
                    "Bytes a second of these messages, estimated from some of their frames.",
                    "Bps",
                    Query(rate("testbed_sent_message_bytes_total", "kind"), "{{variant}}, {{kind}}"),
                ),
                lines(
                    "Per job",
                    "Probes and messages for a job that has ended, over the run so far.",
                    "short",
                    Query(by_variant("variant:testbed_probes:per_job"), "{{variant}}, probes"),
                    Query(by_variant("variant:testbed_messages:per_job"), "{{variant}}, messages"),
                ),
                lines(
                    "Probe success",
                    "Share of the dispatchers' probes, lately, that found a server idle.",
                    "percentunit",
                    Query(
                        f"{rate('testbed_probes_answered_total', found='idle')} "
                        f"/ ({rate('testbed_probes_answered_total')} > 0)"
                    ),
                ),
            ],
            "Tasks that move between servers": [
                lines(
                    "Steals and shares",
                    "Tasks a second that a server stole, or took from another that offered them; and those that came "
                    "too late, to a server that had got work meanwhile.",
                    "tasks/s",
                    Query(rate("testbed_steals_total"), "{{variant}}, stolen"),
                    Query(rate("testbed_shares_total"), "{{variant}}, shared"),
                    Query(rate("testbed_tasks_moved_too_late_total"), "{{variant}}, too late"),
                    width=12,
                ),
                lines(
                    "Servers' probes by answer",
                    "Questions a second with which servers look for tasks to move.",
                    "probes/s",
                    Query(rate("testbed_balancing_probes_answered_total", "answer"), "{{variant}}, {{answer}}"),
                    width=12,
                ),
            ],
            "Rerouting, replication and cancellation": [
                lines(
                    "At the threshold",
                    "Jobs a second that were rerouted, and replicas that were started, at their threshold.",
                    "jobs/s",
                    Query(rate("testbed_reroutes_total"), "{{variant}}, rerouted"),
                    Query(rate("testbed_replicas_started_total"), "{{variant}}, replicated"),
                    Query(rate("testbed_preemptions_total"), "{{variant}}, preempted"),
                ),
                lines(
                    "Copies by fate",
                    "Copies a second of jobs that have ended, by what became of them.",
                    "copies/s",
                    Query(rate("testbed_copies_total", "copy", "fate"), "{{variant}}, {{copy}} copy {{fate}}"),
                ),
                lines(
                    "Cancellations",
                    "Copies a second that were cancelled, by what the cancellation found.",
                    "copies/s",
                    Query(rate("testbed_copies_cancelled_total", "met"), "{{variant}}, {{met}}"),
                ),
                lines(
                    "Wasted service",
                    "Share of all servers' time that went, lately, into copies that were not their job's end.",
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
