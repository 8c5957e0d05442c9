"""The terminal's picture of a cluster."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

from testbed.cluster.snapshot import ProcessState, Responses, Snapshot, Theory
from testbed.core.records import RESPONSE_BUCKETS
from testbed.measure.histogram import LogHistogram
from testbed.measure.verdict_checks import checked
from testbed.present.live import Lines
from testbed.present.top import Picture, picture, sparkline, watch
from testbed.runs.tables import plain_text


def snapshot(**settings: Any) -> Snapshot:
    histogram = LogHistogram(*RESPONSE_BUCKETS)
    for time in (1.0, 3.5):
        histogram.add(time)
    return Snapshot(
        **{
            "clock": 1e9,
            "scenario": "tiny",
            "variant": "random",
            "replication": 0,
            "policy": "random",
            "load": 0.5,
            "servers": 4,
            "time_unit_seconds": 0.02,
            "time": 60.0,
            "horizon": None,
            "in_system": 3,
            "queue_lengths": [2, 0, 1, 0],
            "responses": Responses(counts=histogram.counts, sum=histogram.sum, half_width=0.25),
            "recent_seconds": 30.0,
            "jobs_per_second": 1234.0,
            "probes_per_job": 2.0,
            "messages_per_job": 6.0,
            "counters": {"tasks moved": 5, "reroutes": 0},
            "theory": Theory(
                load=0.5, stability_bound=1.0, stability_reason="r", name="M/M/1", kind="approximation", mean=2.0
            ),
            "processes": [ProcessState(name="node-0", pid=41, alive=True, restarts=2, cpu_share=0.25)],
            **settings,
        }
    )


def test_the_picture_has_the_figures_beside_theory() -> None:
    text = plain_text(picture(snapshot(), [1, 5, 3], 80), 80)
    heading = "tiny: random policy random, 4 servers, load 0.5 (stability bound 1), time 60 units of 20 ms"
    assert heading in " ".join(text.split())
    for said in ("2.250", "0.25", "theory (approx.)", "2.000", "+12.5%", "1,234 jobs/s, 3 in system"):
        assert said in text
    assert "2.00 probes and 6.00 messages per job" in text
    assert "tasks moved 5" in text
    assert "reroutes" not in text
    assert "2 servers idle, longest queue 2" in text
    assert "1 to 5" in text
    assert all(word in text for word in ("node-0", "41", "running", "25%"))


def test_the_picture_says_what_is_suspect_gone_and_has_happened() -> None:
    late = checked("timer lateness", "5 %", "2 %", False, "timers were late", "use a longer time_unit")
    dead = ProcessState(name="node-1", pid=42, alive=False)
    made = snapshot(checks=[late], processes=[dead], incidents=["process node-1 was killed"], theory=None)
    text = plain_text(picture(made, [], 120))
    assert "suspect: 1 of 1 checks failed" in text
    assert "timers were late: use a longer time_unit" in text
    assert "dead" in text
    assert "! process node-1 was killed" in text


@pytest.mark.parametrize("servers", [1, 160, 5000])
def test_the_bars_of_all_servers_fit_into_two_lines(servers: int) -> None:
    text = plain_text(picture(snapshot(queue_lengths=[1] * servers, servers=servers), [], 80), 80)
    assert sum("█" in line for line in text.splitlines()) <= 2


def test_only_zero_is_blank() -> None:
    assert sparkline([0, 1, 1000]) == " ▁█"
    assert sparkline([0, 0]) == "  "
    assert sparkline([]) == ""


def test_a_terminal_gets_a_picture_and_a_file_gets_lines() -> None:
    assert isinstance(watch(Console(file=io.StringIO(), force_terminal=True)), Picture)
    assert isinstance(watch(Console(file=io.StringIO())), Lines)


def test_the_picture_is_drawn_again() -> None:
    screen = io.StringIO()
    with Picture(Console(file=screen, force_terminal=True, width=100, height=40)) as shown:
        shown.show(snapshot())
        shown.show(snapshot(scenario="too soon"))
    assert "tiny: random" in screen.getvalue()
    assert "too soon" not in screen.getvalue()
