"""Whether the live page makes timers later: with a browser that has it open, and without a page.

Runs the same cluster in turn without a page, with the page served but not looked at, and with the page open in a
headless Chromium on the same machine (A B C A B C ...), and prints the lateness of the node's timers. That browser
draws on the processors that the cluster runs on, which it does not when it looks from elsewhere: it is given the
lowest priority. Prints figures and ratios, and what the page showed last.
Run: python tests/benchmarks/page.py
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Literal

import one_node
import trio
from selenium import webdriver

from testbed.cluster.controller import Controller
from testbed.cluster.observing import Observer, theory_of
from testbed.core.records import ProcessReport
from testbed.present.dash.reporter import PageReporter
from testbed.present.dash.serving import Place
from testbed.runs.display import Silent
from testbed.theory.predict import predict

ROUNDS = 5
Kind = Literal["no page", "page served", "page open"]
KINDS: tuple[Kind, ...] = ("no page", "page served", "page open")

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1280,3000",
)


@contextmanager
def looking_at(address: str) -> Iterator[webdriver.Chrome]:
    """Have the page open in a browser."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}"):
            options.add_argument(flag)
        service = webdriver.ChromeService(shutil.which("chromedriver"), popen_kw={"preexec_fn": lambda: os.nice(19)})
        driver = webdriver.Chrome(options=options, service=service)
        try:
            driver.get(address)
            yield driver
        finally:
            driver.quit()


def run(kind: Kind) -> tuple[ProcessReport, str]:
    """Run for about twelve seconds; return the node's report and the mean response time that the page showed."""
    scenario = one_node.scenario()
    theory = theory_of(scenario, predict(scenario))
    observer = Observer(scenario, "power-of-d", 0, theory=theory, horizon=scenario.horizon)
    place = Place.open()
    address = place.address
    watcher = Silent() if kind == "no page" else PageReporter(Silent(), place, "lateness")

    def observe(controller: Controller) -> None:
        watcher.show(observer.snapshot(controller.members, controller.incidents))

    with watcher, looking_at(address) if kind == "page open" else nullcontext() as browser:
        trio.run(trio.sleep, 3.0)  # starting a browser is not looking at a page
        report = one_node.run(observe)
        shown = "" if browser is None else browser.find_element("id", "figure-mean").text
    place.sock.close()
    return report, shown


def main() -> None:
    """Print the lateness in each round, and what the page does to it."""
    rounds = []
    for _ in range(ROUNDS):
        found = {kind: run(kind) for kind in KINDS}
        rounds.append({kind: report for kind, (report, _) in found.items()})
        for kind, (report, shown) in found.items():
            print(
                f"{kind:12s} timers late by p50 {report.lateness_p50 * 1e3:.3f}, p99 {report.lateness_p99 * 1e3:.3f} "
                f"ms{f'; the page showed a mean of {shown}' if shown else ''}"
            )
    for kind in KINDS[1:]:
        for name in ("lateness_p50", "lateness_p99", "lateness_mean"):
            ratios = sorted(getattr(each[kind], name) / getattr(each["no page"], name) for each in rounds)
            print(f"{name}: {kind} / no page = {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
