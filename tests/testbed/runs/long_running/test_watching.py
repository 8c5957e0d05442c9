"""A long-running cluster on its page and in a terminal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from testbed.runs.long_running import clusters, connect

pytestmark = pytest.mark.cluster

SECONDS = 60  # that a page may take on a busy machine


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def wait(browser: Any, condition: Callable[[], object]) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, SECONDS, 0.1).until(lambda _: condition())


def test_the_page_of_a_cluster_changes_it_and_outlives_it(browser: Any, place: Any) -> None:
    from selenium.webdriver.common.keys import Keys

    said = place.up("--dash")
    found = re.search(r"page: (http://127\.0\.0\.1:\d+/)\n", said.stderr)
    assert found, said.stderr
    place.wait_for(lambda: [state.dash for state in clusters()] == [found[1]])
    browser.get(found[1])
    wait(browser, lambda: "±" in text(browser, "figure-mean"))
    assert text(browser, "state") == "● Live"
    assert text(browser, "figure-load") == "0.500"
    slider = browser.find_element("id", "load")
    for _ in range(10):
        slider.send_keys(Keys.ARROW_RIGHT)
    browser.find_element("css selector", "#load-form button").send_keys(Keys.ENTER)
    wait(browser, lambda: re.match(r"✔ load 0\.6, policy random from time [\d.]+ on", text(browser, "answer")))
    wait(browser, lambda: text(browser, "figure-load") == "0.600")
    with connect() as client:
        snapshot = client.status().snapshot
        assert snapshot is not None
        assert snapshot.load == pytest.approx(0.6)
        client.down()
    wait(browser, lambda: text(browser, "state") == "■ Ended: the cluster small has ended")
    place.wait_for(lambda: not place.processes())
    assert text(browser, "figure-load") == "0.600"


def check_metrics_after_the_changes(place: Any) -> None:
    """The metrics have the present load, policy and theory; promtool finds no fault in them."""
    (state,) = clusters()
    (targets,) = place.runs.glob("targets-*.json")
    for listed in (targets.read_text(), urllib.request.urlopen(state.http_sd, timeout=10).read()):
        assert {group["labels"]["policy"] for group in json.loads(listed)} == {"power-of-d"}
    address = next(process.metrics for process in state.processes if process.name == "dispatcher-0")
    text = urllib.request.urlopen(f"http://{address}/metrics", timeout=10).read()
    assert b"\ntestbed_load 0.6\n" in text
    assert b'testbed_predicted_response_time_quantile_seconds{probability="0.99"}' in text
    promtool = shutil.which("promtool")
    assert promtool or not os.environ.get("CI")
    if promtool:
        done = subprocess.run([promtool, "check", "metrics"], input=text, capture_output=True, check=False)
        assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_policy_is_changed_on_the_page_and_no_job_is_lost(browser: Any, place: Any) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.select import Select

    def choose(policy: str) -> None:
        browser.find_element("id", "policy").send_keys(policy)
        assert Select(browser.find_element("id", "policy")).first_selected_option.text == policy
        browser.find_element("css selector", "#policy-form button").send_keys(Keys.ENTER)

    def counted(what: str) -> int:
        rows = browser.execute_script(
            "const rows = [...document.querySelectorAll('#counters tbody tr')];"
            "return Object.fromEntries(rows.map(row => [...row.cells].map(cell => cell.textContent)))"
        )
        return int(re.sub(r"\D", "", rows[what]))

    said = place.up("--dash")
    found = re.search(r"page: (http://127\.0\.0\.1:\d+/)\n", said.stderr)
    assert found, said.stderr
    browser.get(found[1])
    wait(browser, lambda: text(browser, "subtitle").startswith("random: random, 10 servers"))
    assert counted("probes") == counted("idle reports") == 0
    choose("jiq")
    wait(browser, lambda: re.match(r"✔ load 0\.5, policy jiq from time [\d.]+ on", text(browser, "answer")))
    wait(browser, lambda: text(browser, "subtitle").startswith("random: jiq, "))
    wait(browser, lambda: counted("idle reports") > 100)
    choose("power-of-d")
    wait(browser, lambda: "✔ load 0.5, policy power-of-d from" in text(browser, "answer"))
    wait(browser, lambda: counted("probes") > 300)
    choose("late-binding")
    wait(browser, lambda: text(browser, "answer").startswith("✘ ") and "reservations" in text(browser, "answer"))
    browser.refresh()
    wait(browser, lambda: text(browser, "subtitle").startswith("random: power-of-d, "))
    assert Select(browser.find_element("id", "policy")).first_selected_option.text == "power-of-d"
    with connect() as client:
        snapshot = client.status().snapshot
        assert snapshot is not None
        assert snapshot.policy == "power-of-d"
        client.set({"workload.load": 0.6})
        check_metrics_after_the_changes(place)
        client.down()
    wait(browser, lambda: text(browser, "state") == "■ Ended: the cluster small has ended")
    (folder,) = (path for path in place.runs.iterdir() if path.is_dir())
    (summary,) = json.loads((folder / "summary.json").read_text())
    assert summary["accounting"]["completed"] == summary["accounting"]["arrived"] > 300
    assert summary["accounting"]["problems"] == []
    jobs = pq.read_table(folder / "jobs.parquet")
    assert set(jobs["probes"].to_pylist()) == {0, 2}
    assert 'policy = "power-of-d"' in (folder / "scenario.toml").read_text()


def test_the_commands_watch_a_cluster_until_it_ends(browser: Any, place: Any, tmp_path: Path) -> None:
    assert place.up().returncode == 0
    testbed = [sys.executable, "-m", "testbed"]
    top = subprocess.Popen([*testbed, "top"], stdout=subprocess.PIPE, text=True)
    dash = subprocess.Popen([*testbed, "dash", "small"], stderr=subprocess.PIPE, text=True)
    with top, dash:
        assert top.stdout is not None
        assert dash.stderr is not None
        assert "jobs/s" in top.stdout.readline() + top.stdout.readline()
        browser.get(dash.stderr.readline().removeprefix("page: ").strip())
        wait(browser, lambda: "±" in text(browser, "figure-mean"))
        with connect() as client:
            client.down()
        wait(browser, lambda: text(browser, "state") == "■ Ended: the cluster small has ended")
        browser.refresh()  # it is there until Ctrl-C
        wait(browser, lambda: "±" in text(browser, "figure-mean"))
        os.kill(dash.pid, signal.SIGINT)
        assert dash.wait(SECONDS) == 0
        assert top.stdout.read().endswith("the cluster small has ended\n")
        assert top.wait(SECONDS) == 0


@pytest.mark.parametrize("command", ["dash", "top"])
def test_what_does_not_stand_is_one_line(command: str, place: Any) -> None:
    call = [sys.executable, "-m", "testbed", command, "nothing"]
    done = subprocess.run(call, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "`testbed up`" in done.stderr
