"""What Prometheus sees of copies, reroutings and replicas agrees with their records."""

from __future__ import annotations

import http.client

import numpy as np
import pytest
import trio
from prometheus_client.parser import text_string_to_metric_families

from testbed.cluster.controller import Controller
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.scenario import decode

pytestmark = pytest.mark.cluster

TIME_UNIT = 0.01


class Scrapes:
    """All samples of all processes at the last look, by name, process and what else tells them apart."""

    def __init__(self) -> None:
        self.samples: dict[tuple[str, frozenset[str]], float] = {}

    def __call__(self, controller: Controller) -> None:
        for group in controller.metrics_targets():
            connection = http.client.HTTPConnection(group.targets[0], timeout=10)
            connection.request("GET", "/metrics")
            text = connection.getresponse().read().decode()
            connection.close()
            for family in text_string_to_metric_families(text):
                for sample in family.samples:
                    own = frozenset([*sample.labels.values(), group.labels["process"]])
                    self.samples[sample.name, own] = sample.value


@pytest.mark.parametrize("action", ["reroute", "replicate"])
def test_copies_are_counted_by_what_became_of_them(action: str) -> None:
    scenario = decode(
        {
            "name": "scraped",
            "seed": 5,
            "run": {"time_unit": "10ms", "warmup": 0, "duration": 60},
            "cluster": {
                "nodes": 1,
                "pools": [{"name": name, "servers": 3, "queue": "central"} for name in ("a", "b")],
            },
            "workload": {"load": 0.4, "dependence": "independent"},
            "dispatch": {"policy": "static"},
            "threshold": {"action": action, "tau": 0.5},
        }
    )
    scrapes = Scrapes()
    measured = trio.run(Controller(scenario, 0, labels={"run": "r", "variant": "v"}, observe=scrapes).run)
    assert measured.failure is None
    copies = measured.copies

    def value(name: str, *labels: str) -> float:
        process = "pools" if name in ("reroutes", "replicas_started", "preemptions") else "dispatcher-0"
        return scrapes.samples[f"testbed_{name}_total", frozenset({process, *labels})]

    first = copies["copy"] == 0
    for which, made in (("first", first), ("later", ~first)):
        for code, fate in (
            (CopyOutcome.WON, "won"),
            (CopyOutcome.SUPERSEDED, "lost"),
            (CopyOutcome.REROUTED, "rerouted"),
        ):
            assert value("copies", which, fate) == np.count_nonzero(made & (copies["fate"] == code))
    assert value("copies_cancelled", "in_service") == np.count_nonzero(copies["met"] == StateAtCancellation.IN_SERVICE)
    for code, fate in ((CopyOutcome.SUPERSEDED, "lost"), (CopyOutcome.REROUTED, "rerouted")):
        wasted = copies["received"][copies["fate"] == code].sum() * TIME_UNIT
        assert value("wasted_service_seconds", fate) == pytest.approx(wasted)
    assert value("reroutes") == (np.count_nonzero(~first) if action == "reroute" else 0)
    assert value("replicas_started") == (np.count_nonzero(~first) if action == "replicate" else 0)
    assert value("preemptions") == copies["preemptions"].sum()
    assert np.count_nonzero(~first) > 20
    assert scrapes.samples["testbed_jobs_waiting", frozenset({"pools"})] == 0
