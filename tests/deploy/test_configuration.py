"""Prometheus' own tools accept what is in deploy/prometheus, and the limits there are those of a run's verdict."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from testbed.measure.verdict import CPU_LIMIT, FEWEST_TIMERS, LATENESS_LIMIT

PROMETHEUS = Path(__file__).resolve().parent.parent.parent / "deploy" / "prometheus"


def check(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def test_the_configuration_is_valid(promtool: str) -> None:
    said = check(promtool, "check", "config", str(PROMETHEUS / "prometheus.yml"))
    assert "2 rule files found" in said
    assert said.count("rules found") == 2
    assert "FAILED" not in said


def test_rules_and_alerts_do_what_their_tests_say(promtool: str) -> None:
    assert "SUCCESS" in check(promtool, "test", "rules", str(PROMETHEUS / "rules_test.yml"))


def test_every_alert_and_recording_rule_has_a_test() -> None:
    tested = (PROMETHEUS / "rules_test.yml").read_text()
    alerts = (PROMETHEUS / "alerts.yml").read_text()
    names = set(re.findall(r"- alert: (\w+)", alerts))
    assert names == {"TestbedLoadAboveStabilityBound", "TestbedEmulationNotValid", "TestbedProcessGone"}
    for name in names:
        assert f"alertname: {name}" in tested
    for reason in re.findall(r"reason: ([\w ]+)}", alerts):
        assert f"reason: {reason}," in tested
    for rule in set(re.findall(r"- record: (\S+)", (PROMETHEUS / "rules.yml").read_text())):
        assert rule in tested + alerts, rule


def test_alerts_have_the_limits_of_the_verdict() -> None:
    alerts = (PROMETHEUS / "alerts.yml").read_text()
    limits = dict(re.findall(r"expr: (\S+):(?:share|rate30s) > ([\d.]+)", alerts))
    assert {name: float(limit) for name, limit in limits.items()} == {
        "variant:testbed_dispatch_lag": LATENESS_LIMIT,
        "process:testbed_timer_lateness": LATENESS_LIMIT,
        "process:process_cpu_seconds": CPU_LIMIT,
    }
    assert f"testbed_timer_lateness_seconds_count >= {FEWEST_TIMERS})" in (PROMETHEUS / "rules.yml").read_text()
