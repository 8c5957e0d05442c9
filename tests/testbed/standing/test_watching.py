"""A standing cluster on its page and in a terminal."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from testbed.standing import clusters, connect

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
    wait(browser, lambda: re.match(r"✔ load 0\.6, policy random from time [\d.]+ on", text(browser, "said")))
    wait(browser, lambda: text(browser, "figure-load") == "0.600")
    with connect() as client:
        snapshot = client.status().snapshot
        assert snapshot is not None
        assert snapshot.load == pytest.approx(0.6)
        client.down()
    wait(browser, lambda: text(browser, "state") == "■ Ended: the cluster small has ended")
    place.wait_for(lambda: not place.processes())
    assert text(browser, "figure-load") == "0.600"


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
