"""The dashboard that shows whether the emulation is valid."""

from __future__ import annotations

from grafana_foundation_sdk.models.dashboard import Dashboard
from panels import Query, board, by_variant, lines, numbers, quantile, selected, total


def emulation_health() -> Dashboard:
    """Return the dashboard."""
    lateness = "testbed_timer_lateness_seconds"
    return board(
        "testbed-emulation-health",
        "Emulation health",
        "Whether the machine is fast enough, so that the measurements show the policy and not the emulator.",
        {
            "Verdict so far": [
                numbers(
                    "Firing alerts",
                    "Of the testbed's own alerts.",
                    "short",
                    Query(
                        'count by (alertname) (ALERTS{alertname=~"Testbed.+", alertstate="firing"}) or vector(0)',
                        "{{alertname}}",
                    ),
                    width=6,
                ),
                numbers(
                    "Processes up", "Processes that answered the latest scrape.", "short", Query(total("up")), width=6
                ),
                numbers(
                    "Timer lateness",
                    "Largest mean timer lateness of a process, as a fraction of the mean response time. Limit: 2 %.",
                    "percentunit",
                    Query(f"max by (variant) ({selected('process:testbed_timer_lateness:share')})"),
                    width=6,
                ),
                numbers(
                    "Dispatch lag",
                    "Mean delay before arrivals were handled, as a fraction of the mean response time. Limit: 2 %.",
                    "percentunit",
                    Query(by_variant("variant:testbed_dispatch_lag:share")),
                    width=6,
                ),
            ],
            "Time": [
                lines(
                    "Timer lateness",
                    "Of timers that fired recently, by process, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, lateness, "process"), "{{process}}, p50"),
                    Query(quantile(0.99, lateness, "process"), "{{process}}, p99"),
                    logarithmic=True,
                ),
                lines(
                    "Dispatch lag",
                    "Delay before recent arrivals were handled, by dispatcher, on a logarithmic axis.",
                    "s",
                    Query(quantile(0.5, "testbed_dispatch_lag_seconds", "process"), "{{process}}, p50"),
                    Query(quantile(0.99, "testbed_dispatch_lag_seconds", "process"), "{{process}}, p99"),
                    logarithmic=True,
                ),
                lines(
                    "Relative to the mean response time",
                    "Mean timer lateness and dispatch lag of the run so far, as fractions of it; the dashed line is "
                    "the limit.",
                    "percentunit",
                    Query(selected("process:testbed_timer_lateness:share"), "{{process}}, timer lateness"),
                    Query(selected("variant:testbed_dispatch_lag:share"), "{{variant}}, dispatch lag"),
                    limit=0.02,
                ),
            ],
            "Processes": [
                lines(
                    "CPU time",
                    "Fraction of one core, by process; the dashed line is the limit.",
                    "percentunit",
                    Query(f"rate({selected('process_cpu_seconds_total')}[$__rate_interval])", "{{process}}"),
                    limit=0.9,
                ),
                lines(
                    "Memory",
                    "Resident memory, by process.",
                    "bytes",
                    Query(selected("process_resident_memory_bytes"), "{{process}}"),
                ),
                lines(
                    "Open files",
                    "Open file descriptors, by process.",
                    "short",
                    Query(selected("process_open_fds"), "{{process}}"),
                ),
                lines(
                    "Scrapes",
                    "Duration of a scrape, as the process and as Prometheus measure it.",
                    "s",
                    Query(selected("testbed_scrape_duration_seconds"), "{{process}}, inside"),
                    Query(selected("scrape_duration_seconds"), "{{process}}, outside"),
                ),
                lines(
                    "Bytes sent",
                    "Bytes of frames per second, by process.",
                    "Bps",
                    Query(f"rate({selected('testbed_sent_bytes_total')}[$__rate_interval])", "{{process}}"),
                ),
                lines(
                    "Rejected frames",
                    "Connections closed since the start because of malformed or foreign frames, by process.",
                    "short",
                    Query(selected("testbed_rejected_frames_total"), "{{process}}"),
                ),
                lines(
                    "Restarts",
                    "Number of restarts of each process of a long-running cluster after its death.",
                    "short",
                    Query(selected("testbed_process_restarts_total"), "{{process}}"),
                ),
            ],
        },
    )
