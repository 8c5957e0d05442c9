"""testbed.run as a library: from a script, a thread, a notebook's loop; what it returns, and how it is interrupted."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
import trio

import testbed
from testbed.cluster.snapshot import Snapshot
from testbed.core.records import Measurements
from testbed.measure.summary import Summary
from testbed.runs import experiment
from testbed.runs.display import Silent
from testbed.runs.result import Result
from testbed.runs.tables import remarks
from testbed.scenario import Dispatch, Scenario, ScenarioError, decode


def scenario(**settings: Any) -> Scenario:
    small = decode(
        {
            "name": "library",
            "seed": 5,
            "run": {"time_unit": "10ms", "warmup": 5, "duration": 30},
            "cluster": {"nodes": 1, "pools": [{"servers": 5}]},
            "workload": {"load": 0.6},
            "dispatch": {"policy": "random"},
            "variants": [{"name": "two choices", "set": {"dispatch.policy": "power-of-d"}}],
        }
    )
    return small.with_settings(settings)


def in_a_loop(call: Callable[[], Result]) -> Result:
    """Call from within a running asyncio loop, as a cell of a notebook does."""

    async def cell() -> Result:
        return call()

    loop = asyncio.new_event_loop()  # not asyncio.run, which takes Ctrl-C for itself
    try:
        return loop.run_until_complete(cell())
    finally:
        loop.close()


def in_a_thread(call: Callable[[], Result]) -> Result:
    results: list[Result] = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    thread.join(60)
    (result,) = results
    return result


PLACES: dict[str, Callable[[Callable[[], Result]], Result]] = {
    "script": lambda call: call(),
    "thread": in_a_thread,
    "notebook": in_a_loop,
}


@pytest.mark.cluster
@pytest.mark.parametrize("place", list(PLACES))
def test_it_runs_on_the_cluster_from_everywhere(place: str) -> None:
    only = scenario(**{"run.duration": 10, "variants": []})
    result = PLACES[place](lambda: testbed.run(only, where="cluster and twin"))
    run = result["random"]
    assert result.folder is None
    assert result.failures == []
    assert not result.interrupted
    assert run.cluster is not None
    assert run.twin is not None
    assert run.summary is run.cluster
    assert run.cluster.pathwise is not None
    assert run.cluster.pathwise.same_server == 1.0
    assert run.cluster.accounting.balanced


@pytest.mark.parametrize("place", list(PLACES))
def test_the_twin_runs_from_everywhere_and_gives_the_same(place: str) -> None:
    result = PLACES[place](lambda: testbed.run(scenario(), where="twin"))
    expected = testbed.run(scenario(), where="twin")
    assert [run.variant for run in result.runs] == ["random", "two choices"]
    assert [run.summary.response for run in result.runs] == [run.summary.response for run in expected.runs]
    assert result["random"].cluster is None
    assert result["random"].summary is result["random"].twin


def test_variants_alternate_within_a_replication() -> None:
    result = testbed.run(scenario(**{"run.replications": 3}), where="twin")
    assert [(run.replication, run.variant) for run in result.runs] == [
        (i, name) for i in range(3) for name in ("random", "two choices")
    ]
    assert list(result.variants()) == ["random", "two choices"]
    assert [run.replication for run in result.variants()["two choices"]] == [0, 1, 2]
    means = {run.summary.response.mean for run in result.variants()["random"]}
    assert len(means) == 3
    with pytest.raises(KeyError):
        result["three choices"]


def test_a_result_shows_itself_as_text_and_in_a_notebook() -> None:
    result = testbed.run(scenario(), where="twin")
    mean = result["two choices"].summary.response.mean
    assert mean is not None
    for shown in (str(result), result._repr_html_()):
        assert "two choices" in shown
        assert f"{mean:.3f}" in shown
        assert "10ms" in shown
    assert "\x1b" not in str(result)
    assert result._repr_html_().startswith("<pre>")
    assert "\x1b" not in result._repr_html_()


@pytest.mark.parametrize(
    ("header", "types", "expected"),
    [
        ("arrival,size", 1, []),
        ("arrival,sizes", 1, ["columns that are not used: sizes; sizes of jobs are drawn at random"]),
        ("arrival,kind", 2, ["columns that are not used: kind; sizes and types of jobs are drawn at random"]),
        ("arrival,type", 2, []),
        ("arrival,type", 1, ["its types of jobs (a, b) are not used: the scenario declares no workload.types"]),
    ],
)
def test_what_a_trace_has_and_the_scenario_does_not_use_is_said(
    tmp_path: Path, header: str, types: int, expected: list[str]
) -> None:
    values = ("a", "b") if "size" not in header else ("1", "2")
    (tmp_path / "t.csv").write_text(f"{header}\n" + "".join(f"{i},{values[i % 2]}\n" for i in range(4)))
    names = [{"name": name, "probability": 1 / types} for name in "ab"[:types]]
    trace = {"kind": "trace", "file": str(tmp_path / "t.csv"), "repeat": True}
    result = testbed.run(scenario(**{"workload.arrivals": trace, "workload.types": names}), where="twin")
    found = [line for line in remarks(result) if line.startswith(str(tmp_path))]
    assert found == [f"{tmp_path}/t.csv: {text}" for text in expected]


def test_a_result_without_runs_shows_itself_too() -> None:
    empty = Result(scenario(), None)
    assert "library" in str(empty)
    assert empty._repr_html_()


def simulate_until_stopped(*arguments: Any) -> Measurements:
    """A twin that somebody presses Ctrl-C at, and that ends when it is told to."""
    signal.raise_signal(
        signal.SIGINT
    ) if threading.current_thread() is threading.main_thread() else signal.pthread_kill(
        threading.main_thread().ident or 0, signal.SIGINT
    )
    stopped = arguments[2]
    end = time.monotonic() + 20
    while not stopped():
        assert time.monotonic() < end, "nobody stopped it"
        time.sleep(0.01)
    return SIMULATE(*arguments)


SIMULATE = experiment.simulate


@pytest.mark.parametrize("place", ["script", "notebook"])
def test_an_interrupt_stops_the_run_saves_and_raises(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiment, "simulate", simulate_until_stopped)
    with pytest.raises(KeyboardInterrupt):
        PLACES[place](lambda: testbed.run(scenario(), where="twin", output=tmp_path))
    (folder,) = tmp_path.iterdir()
    (summary,) = json.loads((folder / "summary.json").read_text())
    assert summary["variant"] == "random"  # the second variant was not begun
    assert summary["accounting"]["arrived"] == 0


class Interrupter(Silent):
    """Presses Ctrl-C when jobs have ended on the cluster."""

    done = False
    concluded: Summary | None = None

    def conclude(self, summary: Summary) -> None:
        self.concluded = summary

    def show(self, snapshot: Snapshot) -> None:
        if snapshot.ended > 20 and not self.done:
            self.done = True
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


@pytest.mark.cluster
@pytest.mark.parametrize("place", ["script", "notebook"])
def test_an_interrupt_of_the_cluster_saves_what_was_measured_and_raises(place: str, tmp_path: Path) -> None:
    long = scenario(**{"run.duration": 5000})
    watcher = Interrupter()
    with pytest.raises(KeyboardInterrupt):
        PLACES[place](lambda: testbed.run(long, output=tmp_path, watcher=watcher))
    (folder,) = tmp_path.iterdir()
    (summary,) = json.loads((folder / "summary.json").read_text())
    assert summary["source"] == "cluster"
    assert summary["accounting"]["arrived"] > 20
    assert summary["accounting"]["problems"] == []
    assert (folder / "jobs.parquet").exists()
    assert watcher.concluded is not None
    assert watcher.concluded.response.mean == summary["response"]["mean"]


@pytest.mark.parametrize("place", list(PLACES))
def test_an_error_comes_out_by_itself_and_not_in_a_group(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    class OddError(Exception):
        pass

    def fail(*arguments: object) -> Measurements:
        raise OddError("the reason")

    def call() -> Result:
        with pytest.raises(OddError, match="the reason"):
            testbed.run(scenario(), where="twin")
        return Result(scenario(), None)

    monkeypatch.setattr(experiment, "simulate", fail)
    PLACES[place](call)


def test_signals_are_as_before_when_the_run_is_over() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    testbed.run(scenario(), where="twin")
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


async def test_it_can_be_awaited_from_trio_as_an_experiment() -> None:
    made = experiment.Experiment(scenario(), "twin", None, Silent())
    with trio.fail_after(30):
        result = await made.run()
    assert len(result.runs) == 2


def test_a_scenario_built_in_python_is_checked_before_it_runs() -> None:
    wrong = msgspec.structs.replace(scenario(), dispatch=Dispatch("random", None))
    for start in (testbed.run, testbed.sweep):
        with pytest.raises(ScenarioError, match=r"dispatch\.parameters: the parameters must be the policy's own"):
            start(wrong)
