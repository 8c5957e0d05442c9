"""Whether scraping the metrics of every process once a second makes timers later.

Runs the same cluster with and without scrapes in turn (A B A B ...) and prints the lateness of the node's timers.
Prints figures and ratios; asserts nothing. Run: python tests/benchmarks/scrape.py
"""

from __future__ import annotations

import statistics
import threading
import urllib.request

import one_node

from testbed.cluster.controller import Controller
from testbed.core.records import ProcessReport

ROUNDS = 5


def run(scraped: bool) -> tuple[ProcessReport, list[int]]:
    """Run for about twelve seconds; return the node's report and the sizes of the scrapes."""
    over = threading.Event()
    sizes: list[int] = []
    threads: list[threading.Thread] = []

    def scrape(targets: list[str]) -> None:
        while not over.wait(1.0):
            for target in targets:
                with urllib.request.urlopen(f"http://{target}/metrics", timeout=5) as answer:
                    sizes.append(len(answer.read()))

    def observe(controller: Controller) -> None:
        if scraped and not threads:
            threads.append(
                threading.Thread(target=scrape, args=([group.targets[0] for group in controller.metrics_targets()],))
            )
            threads[0].start()
        if controller.progress and all(progress.time > 118 for progress in controller.progress):
            over.set()

    report = one_node.run(observe)
    over.set()
    for thread in threads:
        thread.join()
    return report, sizes


def main() -> None:
    """Print the lateness with and without scrapes, pair by pair."""
    pairs = []
    for _ in range(ROUNDS):
        plain, _ = run(scraped=False)
        scraped, sizes = run(scraped=True)
        pairs.append((plain, scraped))
        print(
            f"timers late by, without and with {len(sizes)} scrapes of {statistics.mean(sizes):,.0f} bytes: "
            f"p50 {plain.lateness_p50 * 1e3:.3f} and {scraped.lateness_p50 * 1e3:.3f} ms, "
            f"p99 {plain.lateness_p99 * 1e3:.3f} and {scraped.lateness_p99 * 1e3:.3f} ms"
        )
    for name in ("lateness_p50", "lateness_p99", "lateness_mean"):
        ratios = sorted(getattr(scraped, name) / getattr(plain, name) for plain, scraped in pairs)
        print(f"{name}: with / without = {statistics.median(ratios):.2f} ({ratios[0]:.2f} to {ratios[-1]:.2f})")


if __name__ == "__main__":
    main()
