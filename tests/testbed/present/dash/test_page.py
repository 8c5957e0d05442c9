"""The page in a browser: what a reader sees, hears from a screen reader, and can do with a keyboard.

Each test fails if the page has written anything to the browser's console.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import testbed
from testbed.cli.app import INTERRUPTED
from testbed.cluster.snapshot import Snapshot
from testbed.present.dash import board as boards
from testbed.present.dash.board import Board, Controls
from testbed.present.dash.finished import finished_board
from testbed.runs.run_folder import read_run
from testbed.scenario import decode

pytestmark = pytest.mark.cluster

Make = Callable[..., Snapshot]
SECONDS = 60  # that a page may take on a busy machine
PHONE = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}

SCENARIO: dict[str, Any] = {
    "name": "seen",
    "run": {"time_unit": "20ms", "warmup": 10, "duration": 100},
    "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
    "workload": {"load": 0.6},
    "dispatch": {"policy": "random"},
    "variants": [{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}],
}


def text(browser: Any, name: str) -> str:
    return str(browser.find_element("id", name).text)


def wait(browser: Any, condition: Callable[[], object]) -> None:
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(browser, SECONDS, 0.1).until(lambda _: condition())


def drawn(browser: Any) -> list[str]:
    return list(browser.execute_script("return [...document.querySelectorAll('.plot:has(.main-svg)')].map(e => e.id)"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = testbed.run(decode(SCENARIO), where="twin", output=tmp_path_factory.mktemp("runs")).folder
    assert made is not None
    return made


@pytest.fixture
def phone(browser: Any) -> Any:
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", PHONE)
    yield browser
    browser.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_finished_run_shows_its_summary_and_the_keyboard_chooses_the_variant(
    browser: Any, served: Any, folder: Path
) -> None:
    from selenium.webdriver.common.keys import Keys

    _, summaries = read_run(folder)
    browser.get(served(finished_board(folder)).address)
    wait(browser, lambda: len(drawn(browser)) == 4)
    assert text(browser, "state") == "■ Ended: the run has ended"
    for row, (name, summary) in enumerate(zip(["random (twin)", "two choices (twin)"], summaries, strict=True)):
        radio = browser.find_elements("css selector", "#variants input")[row]
        if row == 0:
            radio.send_keys(Keys.SPACE)
        else:
            browser.switch_to.active_element.send_keys(Keys.ARROW_DOWN)
        wait(browser, lambda name=name: text(browser, "subtitle").startswith(name))
        mark = "±" if summary.response.reliable else "~±"
        assert summary.response.half_width is not None
        assert text(browser, "figure-mean") == f"{summary.response.mean:.3f} {mark} {summary.response.half_width:.2f}"
        assert text(browser, "figure-p99") == f"{summary.response_quantiles[-2].value:.2f}"
        assert text(browser, "figure-probes") == f"{summary.probes_per_job:.2f}"
        assert text(browser, "figure-messages") == f"{summary.messages_per_job:.2f}"
        assert text(browser, "figure-verdict") == ("✔ valid" if summary.verdict.valid else "✘ suspect")
        assert summary.prediction is not None
        assert f"theory {summary.prediction['mean_response_time']:.3f}" in text(browser, "figure-mean-note")
        checks = browser.find_elements("css selector", "#checks tbody tr")
        assert [check.find_element("css selector", "td").text for check in checks] == [
            check.name for check in summary.verdict.checks
        ]


def test_the_page_goes_on_with_the_run_and_outlives_it(
    browser: Any, served: Any, snapshot: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(boards, "UPDATE_SECONDS", 0.05)
    page = served(Board("tiny"))
    browser.get(page.address)
    wait(browser, lambda: text(browser, "state") == "● Waiting for the first figures")
    page.tell(page.board.show, snapshot())
    wait(browser, lambda: text(browser, "figure-mean") == "2.000 ± 0.25")
    assert "within ±" in text(browser, "figure-mean-note")
    assert "2 idle, 1 with one task, 1 with two" in text(browser, "strip-summary")
    page.tell(
        page.board.show, snapshot(time=20.0, in_system=9, counters={"tasks stolen": 7}, queue_lengths=[9, 0, 0, 0])
    )
    wait(browser, lambda: text(browser, "figure-in-system") == "9")
    assert text(browser, "state") == "● Live, 20 % done"
    assert "the longest queue is 9. Events shown: 7 stolen." in text(browser, "strip-summary")
    wait(browser, lambda: len(drawn(browser)) == 4)
    page.tell(page.board.end, "the run has ended")
    wait(browser, lambda: text(browser, "state") == "■ Ended: the run has ended")
    page.stop()
    assert text(browser, "figure-mean") == "2.000 ± 0.25"


def test_a_phone_shows_all_without_scrolling_sideways(phone: Any, served: Any, folder: Path) -> None:
    phone.get(served(finished_board(folder)).address)
    wait(phone, lambda: text(phone, "figure-mean"))
    for name in ("mean-plot", "tail-plot", "number-plot", "strip-plot"):
        phone.execute_script("document.getElementById(arguments[0]).scrollIntoView()", name)
        wait(phone, lambda name=name: name in drawn(phone))
    wide = phone.execute_script(
        "return [...document.querySelectorAll('body *')].filter(e => e.getBoundingClientRect().right > innerWidth + 1"
        " && !e.closest('.skip, svg, thead')).map(e => e.id || e.outerHTML)"
    )
    assert wide == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(browser: Any, served: Any, folder: Path, scheme: str) -> None:
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    browser.get(served(finished_board(folder)).address)
    wait(browser, lambda: len(drawn(browser)) == 4)
    names = ["text", "quiet", "accent", "theory", "good", "bad"]
    colours = browser.execute_script(
        "const style = getComputedStyle(document.documentElement);"
        "return Object.fromEntries(arguments[0].map(name => [name, style.getPropertyValue('--' + name).trim()]))",
        [*names, "surface", "ground"],
    )
    dark = luminance(colours["ground"]) < luminance(colours["text"])
    assert dark == (scheme == "dark")
    for name in names:
        for ground in ("surface", "ground"):
            assert contrast(colours[name], colours[ground]) >= 4.5, (name, ground)
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it, of #rgb or #rrggbb."""
    digits = colour.removeprefix("#")
    digits = "".join(2 * digit for digit in digits) if len(digits) == 3 else digits
    parts = [int(digits[i : i + 2], 16) / 255 for i in (0, 2, 4)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_everything_has_a_name_and_no_name_is_given_twice(browser: Any, served: Any, folder: Path) -> None:
    browser.get(served(finished_board(folder)).address)
    wait(browser, lambda: len(drawn(browser)) == 4)
    ids = browser.execute_script(
        "return [...document.querySelectorAll('[id]')].filter(e => !e.closest('svg')).map(e => e.id)"
    )
    assert len(ids) == len(set(ids))
    tree = browser.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    roles = ("img", "image", "radio", "button", "slider", "combobox", "region", "figure", "link", "heading")
    found = [
        (node["role"]["value"], node.get("name", {}).get("value", ""))
        for node in tree
        if not node.get("ignored") and node.get("role", {}).get("value") in roles
    ]
    assert [node for node in found if not node[1]] == []
    charts = [name for role, name in found if role in ("img", "image")]
    assert any(name.startswith("Response time so far") and "theory" in name for name in charts)


def test_the_controls_change_what_testbed_set_would(
    browser: Any, served: Any, snapshot: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    from selenium.webdriver.common.keys import Keys

    monkeypatch.setattr(boards, "UPDATE_SECONDS", 0.05)
    asked: list[tuple[str, object]] = []

    async def change(key: str, value: object) -> str:
        asked.append((key, value))
        if value == "jiq":
            raise ValueError("jiq is not possible here")
        return f"{key} is {value} from time 12 on"

    page = served(Board("tiny", Controls(policies=["jiq", "random"])), change=change)
    page.tell(page.board.show, snapshot(horizon=None))
    browser.get(page.address)
    wait(browser, lambda: text(browser, "load-bound") == "now 0.50; stability bound 1.00")
    slider = browser.find_element("id", "load")
    for _ in range(3):
        slider.send_keys(Keys.ARROW_RIGHT)
    assert text(browser, "load-chosen") == "0.53"
    slider.send_keys(Keys.ENTER)
    wait(browser, lambda: text(browser, "answer") == "✔ workload.load is 0.53 from time 12 on")
    policy = browser.find_element("id", "policy")
    assert policy.get_property("value") == "random"
    policy.send_keys("jiq")
    page.tell(page.board.show, snapshot(horizon=None, time=11.0))  # what was chosen stays
    browser.find_element("css selector", "#policy-form button").send_keys(Keys.ENTER)
    wait(browser, lambda: text(browser, "answer").endswith("jiq is not possible here"))
    assert asked == [("workload.load", 0.53), ("dispatch.policy", "jiq")]
    page.tell(page.board.end, "the cluster is down")
    wait(browser, lambda: text(browser, "state") == "■ Ended: the cluster is down")
    assert not browser.find_element("id", "controls").is_displayed()


def test_a_run_shows_itself_live_and_its_summarys_figures_when_it_is_stopped(browser: Any, tmp_path: Path) -> None:
    scenario = tmp_path / "seen.toml"
    scenario.write_text(
        """name = "seen"
[run]
time_unit = "30ms"
warmup = 10
duration = 10000
[cluster]
nodes = 1
pools = [{ servers = 5 }]
[workload]
load = 0.6
[dispatch]
policy = "random"
"""
    )
    command = [sys.executable, "-m", "testbed", "run", str(scenario), "--dash", "--output", str(tmp_path), "--quiet"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.fullmatch(r"page: (http://127\.0\.0\.1:\d+/)\n", line)
        assert found, line
        browser.get(found[1])
        wait(browser, lambda: "±" in text(browser, "figure-mean"))
        assert re.fullmatch(r"● Live, \d+ % done", text(browser, "state"))
        assert text(browser, "figure-verdict").endswith("so far")
        process.send_signal(signal.SIGINT)
        wait(browser, lambda: text(browser, "state") == "■ Ended: the run has ended")
        assert process.wait(SECONDS) == INTERRUPTED
    (path,) = tmp_path.glob("seen-*/summary.json")
    (summary,) = json.loads(path.read_text())
    mark = "±" if summary["response"]["reliable"] else "~±"
    expected = f"{summary['response']['mean']:.3f} {mark} {summary['response']['half_width']:.2f}"
    assert text(browser, "figure-mean") == expected
    assert text(browser, "figure-messages") == f"{summary['messages_per_job']:.2f}"
    assert text(browser, "figure-verdict") == ("✔ valid" if summary["verdict"]["valid"] else "✘ suspect")


def test_a_run_that_is_killed_is_reported_as_stopped(browser: Any, snapshot: Make, tmp_path: Path) -> None:
    program = """
import time
from testbed.present.dash.reporter import PageReporter
from testbed.present.dash.serving import Place
from testbed.runs.display import Silent

place = Place.open()
print(place.address, flush=True)
with PageReporter(Silent(), place, "tiny"):
    time.sleep(60)
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        browser.get(process.stdout.readline().strip())
        wait(browser, lambda: text(browser, "state") == "● Waiting for the first figures")
        os.kill(process.pid, signal.SIGKILL)
    wait(browser, lambda: text(browser, "state") == "■ Ended: the command that this page belongs to has stopped")
