"""The dashboard that tells whether the emulation can be trusted."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard
from panels import Query, board, by_variant, chosen, lines, numbers, quantile, total


def emulation_health() -> Dashboard:
    """Return the dashboard."""
    lateness = "testbed_timer_lateness_seconds"
    return board(
        "testbed-emulation-health",
        "Emulation health",
        "Whether the machine keeps up, so that what is measured is the policy and not the emulator.",
        {
            "Verdict so far": [
                numbers(
                    "Alerts that fire",
                    "Of the testbed's own alerts.",
                    "short",
                    Query(
                        'count by (alertname) (ALERTS{alertname=~"Testbed.+", alertstate="firing"}) or vector(0)',
                        "{{alertname}}",
                    ),
                    width=6,
                ),
                numbers("Processes up", "That answered the latest scrape.", "short", Query(total("up")), width=6),
                numbers(
                    "Timer lateness",
                    "Mean lateness of the latest process's timers, as a share of the mean response time. Limit: 2 %.",
                    "percentunit",
                    Query(f"max by (variant) ({chosen('process:testbed_timer_lateness:share')})"),
                    width=6,
                ),
                numbers(
                    "Dispatch lag",
                    "Mean lateness with which arrivals were handled, as a share of the mean response time. Limit: 2 %.",
                    "percentunit",
                    Query(by_variant("variant:testbed_dispatch_lag:share")),
                    width=6,
                ),
            ],
            "Time": [
                lines(
                    "Timer lateness",
                    "Of the timers that fired lately, by process, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, lateness, "process"), "{{process}}, p50"),
                    Query(quantile(0.99, lateness, "process"), "{{process}}, p99"),
                    logarithmic=True,
                ),
                lines(
                    "Dispatch lag",
                    "How late arrivals were handled lately, by dispatcher, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, "testbed_dispatch_lag_seconds", "process"), "{{process}}, p50"),
                    Query(quantile(0.99, "testbed_dispatch_lag_seconds", "process"), "{{process}}, p99"),
                    logarithmic=True,
                ),
                lines(
                    "Against the mean response time",
                    "Mean timer lateness and dispatch lag of the run so far, as shares; the dashed line is the limit.",
                    "percentunit",
                    Query(chosen("process:testbed_timer_lateness:share"), "{{process}}, timer lateness"),
                    Query(chosen("variant:testbed_dispatch_lag:share"), "{{variant}}, dispatch lag"),
                    limit=0.02,
                ),
            ],
            "Processes": [
                lines(
                    "Processor time",
                    "Share of one core, by process; the dashed line is the limit.",
                    "percentunit",
                    Query(f"rate({chosen('process_cpu_seconds_total')}[$__rate_interval])", "{{process}}"),
                    limit=0.9,
                ),
                lines(
                    "Memory",
                    "Resident size, by process.",
                    "bytes",
                    Query(chosen("process_resident_memory_bytes"), "{{process}}"),
                ),
                lines("Open files", "By process.", "short", Query(chosen("process_open_fds"), "{{process}}")),
                lines(
                    "Scrapes",
                    "How long a scrape takes: in the process, and as Prometheus sees it.",
                    "s",
                    Query(chosen("testbed_scrape_duration_seconds"), "{{process}}, inside"),
                    Query(chosen("scrape_duration_seconds"), "{{process}}, outside"),
                ),
                lines(
                    "Bytes sent",
                    "Bytes of frames a second, by process.",
                    "Bps",
                    Query(f"rate({chosen('testbed_sent_bytes_total')}[$__rate_interval])", "{{process}}"),
                ),
                lines(
                    "Rejected frames",
                    "Connections closed, since the start, for malformed or foreign frames, by process.",
                    "short",
                    Query(chosen("testbed_rejected_frames_total"), "{{process}}"),
                ),
                lines(
                    "Restarts",
                    "How often a process of a standing cluster was started again after it had died.",
                    "short",
                    Query(chosen("testbed_process_restarts_total"), "{{process}}"),
                ),
            ],
        },
    )
