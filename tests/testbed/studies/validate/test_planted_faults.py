"""The suite is red when it should be: faults planted in policies and runtimes, each caught by its case."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from servers.triggers import SharingClock
from testbed.scenario import Expect
from testbed.studies.validate import Case, CaseResult, validate
from testbed.studies.validate.findings import LIMIT, SHAPE, THEORY, VERDICT

#: 60 servers lie above the limits by 2 % or so; the chance that a test below fails for no reason is 2e-6 for each.
NEAR_LIMIT = {"cluster__pools__main__servers": 60, "run__warmup": 20, "run__duration": 30, "within": 0.03}


def at_once(self: SharingClock, job: int, task: int) -> None:
    """Offer a task as soon as it waits, and never again."""
    self.fire()


def all_to_the_shortest(servers: Sequence[int], queue_lengths: Mapping[int, int], tasks: int) -> list[int]:
    """Forget that the tasks that were placed make a queue longer."""
    return [min(servers, key=lambda server: queue_lengths.get(server, 0))] * tasks


def checked(case: Case) -> CaseResult:
    return validate([case], on=["twin"], processes=1)[case.name]


@pytest.mark.parametrize(
    ("name", "place", "fault"),
    [
        ("sharing", "servers.triggers.SharingClock.on_queued", at_once),
        ("batch-filling", "dispatchers.batch_filling.fill", all_to_the_shortest),
    ],
)
def test_a_policy_with_a_fault_fails_its_case_and_passes_it_without(
    name: str,
    place: str,
    fault: Callable[..., object],
    one_size: Callable[..., Case],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = one_size(name, **NEAR_LIMIT)
    sound = checked(case)
    assert sound.passed, sound.failures
    monkeypatch.setattr(place, fault)
    (failure,) = checked(case).failures
    assert failure.check == THEORY
    assert failure.difference is not None
    assert failure.difference > 0.2
    assert "is off the theory's" in failure.reason


def test_the_fault_of_a_policy_shows_in_the_limit_too(
    one_size: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    case = replace(one_size("batch-filling", run__duration=60, run__warmup=20), servers=(20, 30, 40, 60))
    monkeypatch.setattr("dispatchers.batch_filling.fill", all_to_the_shortest)
    found = checked(case)
    assert [failure.check for failure in found.failures] == [LIMIT]
    shape = found.finding(SHAPE)
    assert shape is not None
    assert shape.passed


@pytest.mark.cluster
def test_a_service_deadline_that_does_not_chain_is_caught_by_the_verdict_on_the_cluster(
    one_size: Callable[..., Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    # The processes of the cluster find planted/sitecustomize.py as they start. It makes their timers late by a tenth
    # of a time unit, which is as it were a coarse clock: chained deadlines bear that.
    path = [str(Path(__file__).parent / "planted"), *filter(None, [os.environ.get("PYTHONPATH")])]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path))
    case = one_size("random")
    settings: dict[str, Any] = {"run.time_unit": "20ms", "run.replications": 1, "run.warmup": 20, "run.duration": 120}
    settings |= {"run.drain": 30, "cluster.nodes": 1}
    case = replace(case, cluster=case.scenario.with_settings(settings), expect=Expect(on=["cluster"]))

    def on_cluster(fault: str) -> CaseResult:
        monkeypatch.setenv("TESTBED_PLANTED", fault)
        return validate([case], on=["cluster"])["random"]

    sound, faulty = on_cluster("late timers"), on_cluster("late timers, deadlines that do not chain")
    # The sound one's verdict may complain of late timers, which on a busy machine move its mean as well: only the busy
    # time of its servers must be that of their services however late they wake.
    assert "servers were busy" not in told(sound)
    assert "servers were busy" in told(faulty)
    assert not faulty.passed


def told(case: CaseResult) -> str:
    verdict = case.finding(VERDICT)
    assert verdict is not None
    return verdict.reason
