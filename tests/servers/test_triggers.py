"""When a server asks: clocks run exactly while their condition holds, and chains of probes end where they should."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest

from servers.balancer import LATE, MOVED, NO, PROBES, WITHDRAWN, YES, Balancer
from servers.server import Server
from servers.triggers import SharingClock, SharingOnArrival, StealingClock, StealingWhenIdle
from testbed.core.agent import Agent
from testbed.core.messages import (
    Accepted,
    Assign,
    Message,
    Moved,
    MovedTask,
    Offer,
    Probe,
    ProbeReply,
    Received,
    Refused,
    Steal,
    Transfer,
    Withdrawn,
)
from testbed.core.records import Occupancy
from testbed.runtime.virtual import VirtualRuntime

OTHERS = (1, 2, 3)
DISPATCHER = 4


class Peer(Agent):
    """Stands in for another agent: keeps what comes, and answers as a test says."""

    def __init__(self, stage: Stage, address: int) -> None:
        super().__init__(stage.runtime, address)
        self.handlers = dict.fromkeys(
            (Steal, Offer, Accepted, Refused, Withdrawn, Transfer, Received, Probe, Moved), stage.note
        )


class Stage:
    """Server 0 with a balancer and the given trigger, among three scripted others."""

    def __init__(self, trigger: Callable[[Balancer], Any], seed: int = 1, **settings: Any) -> None:
        self.runtime = VirtualRuntime(seed)
        self.came: list[tuple[float, Any]] = []
        self.answer: Callable[[Any], Message | None] = lambda message: None
        meter = Occupancy()
        self.counts = meter.counts
        self.server = Server(self.runtime, 0, speeds=[1.0], meter=meter)
        self.balancer = Balancer(self.server, servers=4, tally=meter, **settings)
        self.balancer.triggers.append(trigger(self.balancer))
        self.server.attach(self.balancer)
        self.runtime.add(self.server)
        peers = [Peer(self, address) for address in (*OTHERS, DISPATCHER)]
        # Done goes to the dispatcher, and is of no interest here.
        peers[-1].handlers = _Anything(self.note)
        for peer in peers:
            self.runtime.add(peer)
        self.jobs = 0

    def note(self, message: Message) -> None:
        self.came.append((self.runtime.now, message))
        answer = self.answer(message)
        if answer is not None:
            self.runtime.send(answer)

    def assign_at(self, when: float, size: float) -> None:
        self.runtime.call_at(when, partial(self.runtime.send, Assign(0, DISPATCHER, self.jobs, 0, 0, size)))
        self.jobs += 1

    def send_at(self, when: float, message: Message) -> None:
        self.runtime.call_at(when, partial(self.runtime.send, message))

    def run(self, until: float) -> None:
        self.runtime.run(until)

    def start(self) -> None:
        self.runtime.start()

    def of(self, kind: type[Message]) -> list[tuple[float, Any]]:
        return [(when, message) for when, message in self.came if type(message) is kind]


class _Anything(dict[type[Message], Callable[[Any], object]]):
    def __init__(self, handler: Callable[[Any], object]) -> None:
        super().__init__()
        self._handler = handler

    def __missing__(self, kind: type[Message]) -> Callable[[Any], object]:
        return self._handler


def refuse(message: Any) -> Message | None:
    """Say no to whatever is asked."""
    if isinstance(message, Steal | Offer):
        return Refused(0, message.to, message.exchange)
    return None


def test_an_idle_server_steals_after_full_exponential_gaps_and_never_at_once() -> None:
    first, gaps = [], []
    for seed in range(400):
        stage = Stage(partial(StealingClock, rate=2.0), seed)
        stage.answer = refuse
        stage.assign_at(0.0, 1.0)
        stage.start()
        stage.run(4.0)
        times = [when for when, _ in stage.of(Steal)]
        assert all(when > 1.0 for when in times)
        first += [when - 1.0 for when in times[:1]]
        gaps += np.diff(times).tolist()
    # Conditioning on a first gap below 3 leaves out e**-6 of the law. False alarm 1e-5.
    assert len(first) > 380
    assert kstest(first, lambda t: -np.expm1(-2.0 * t)).pvalue > 1e-5
    # Within a window of 3 the number of probes is Poisson with mean 6.
    total = len(first) + len(gaps)
    assert abs(total - 400 * 6.0) < 4.5 * (400 * 6.0) ** 0.5  # false alarm 7e-6


def test_a_stealing_clock_does_not_run_while_there_is_work() -> None:
    stage = Stage(partial(StealingClock, rate=50.0))
    stage.answer = refuse
    for when in (1.0, 1.5, 6.0):
        stage.assign_at(when, 2.0)
    stage.start()
    stage.run(10.0)
    times = np.array([when for when, _ in stage.of(Steal)])
    busy = ((times > 1.0) & (times < 5.0)) | ((times > 6.0) & (times < 8.0))
    assert not busy.any()
    assert len(times) > 100


def test_a_sharing_clock_runs_exactly_while_tasks_wait() -> None:
    stage = Stage(partial(SharingClock, rate=50.0))
    stage.answer = refuse
    for when in (1.0, 2.0, 2.5, 9.0):
        stage.assign_at(when, 2.0)  # waiting from 2.0 to 5.0
    stage.start()
    stage.run(12.0)
    times = np.array([when for when, _ in stage.of(Offer)])
    assert times.min() > 2.0
    assert times.max() < 5.0
    assert len(times) > 80


@pytest.mark.parametrize("clock", [StealingClock, SharingClock])
def test_the_next_gap_runs_from_the_last_probe_and_not_from_its_answer(clock: Any) -> None:
    """With no answer at all the probes are the same as with refusals."""
    times = []
    for answer in (refuse, lambda message: None):
        stage = Stage(partial(clock, rate=5.0))
        stage.answer = answer
        if clock is SharingClock:
            stage.assign_at(0.0, 50.0)
            stage.assign_at(0.0, 1.0)
        stage.start()
        stage.run(20.0)
        times.append([when for when, message in stage.came if isinstance(message, Steal | Offer)])
    assert times[0] == times[1]
    assert len(times[0]) > 50


def test_the_victim_is_one_of_the_others_uniformly() -> None:
    stage = Stage(partial(StealingClock, rate=100.0))
    stage.answer = refuse
    stage.start()
    stage.run(30.0)
    chosen = [message.to for _, message in stage.of(Steal)]
    counts = [chosen.count(other) for other in OTHERS]
    assert sum(counts) == len(chosen) > 2000
    assert max(abs(c - len(chosen) / 3) for c in counts) < 4.9 * (len(chosen) * 2 / 9) ** 0.5  # false alarm 3e-6
    assert stage.counts[PROBES] == stage.counts[NO] == len(chosen)


@pytest.mark.parametrize("most", [1, 3])
def test_a_server_that_becomes_idle_asks_a_few_others_one_after_another(most: int) -> None:
    stage = Stage(partial(StealingWhenIdle, max_probes=most))
    stage.start()
    stage.run(0.0)
    assert len(stage.of(Steal)) == 1  # the second only after the answer
    stage.answer = refuse
    stage.send_at(0.0, Refused(0, stage.came[0][1].to, stage.came[0][1].exchange))
    stage.assign_at(1.0, 1.0)
    stage.run(5.0)
    assert [when for when, _ in stage.of(Steal)] == [0.0] * most + [2.0] * most
    assert stage.counts[PROBES] == stage.counts[NO] == 2 * most


def test_a_server_that_has_got_work_does_not_ask_again() -> None:
    stage = Stage(partial(StealingWhenIdle, max_probes=5))
    stage.start()
    stage.assign_at(0.5, 3.0)
    stage.run(1.0)
    ((_, steal),) = stage.of(Steal)
    stage.send_at(1.0, Refused(0, steal.to, steal.exchange))
    stage.run(2.0)
    assert len(stage.of(Steal)) == 1


@pytest.mark.parametrize("most", [1, 3])
def test_a_task_that_finds_its_server_busy_is_offered_to_a_few_others(most: int) -> None:
    stage = Stage(partial(SharingOnArrival, max_probes=most))
    stage.answer = refuse
    for when in (1.0, 1.5, 1.75):
        stage.assign_at(when, 2.0)
    stage.start()
    stage.run(9.0)
    assert [when for when, _ in stage.of(Offer)] == [1.5] * most + [1.75] * most
    assert stage.counts[PROBES] == stage.counts[NO] == 2 * most


def test_a_task_is_not_offered_again_once_it_is_served() -> None:
    stage = Stage(partial(SharingOnArrival, max_probes=5))
    stage.assign_at(0.0, 1.0)
    stage.assign_at(0.5, 1.0)
    stage.start()
    stage.run(1.5)
    ((_, offer),) = stage.of(Offer)
    stage.answer = refuse
    stage.send_at(1.5, Refused(0, offer.to, offer.exchange))
    stage.run(2.5)
    assert len(stage.of(Offer)) == 1


def test_the_task_that_arrived_moves_if_it_still_waits_and_else_the_offer_is_withdrawn() -> None:
    for accepted_at, outcome in ((0.75, Transfer), (1.5, Withdrawn)):
        stage = Stage(partial(SharingOnArrival, max_probes=1))
        for when in (0.0, 0.5, 0.6):
            stage.assign_at(when, 1.0)
        stage.start()
        stage.run(0.7)
        offer = stage.of(Offer)[0][1]
        stage.send_at(accepted_at, Accepted(0, offer.to, offer.exchange))
        stage.run(2.0)
        ((_, message),) = [*stage.of(Transfer), *stage.of(Withdrawn)]
        assert type(message) is outcome
        if isinstance(message, Transfer):
            (task,) = message.tasks
            assert (task.job, task.waited, task.moves) == (1, 0.25, 1)
        assert (stage.counts[YES], stage.counts[WITHDRAWN]) == (1, outcome is Withdrawn)


@pytest.mark.parametrize(("half", "newest", "jobs"), [(False, True, [5]), (False, False, [1]), (True, True, [5, 4, 3])])
def test_a_thief_gets_the_tasks_that_the_settings_say(half: bool, newest: bool, jobs: list[int]) -> None:
    stage = Stage(partial(StealingClock, rate=0.001), half=half, newest=newest)
    for job in range(6):  # five wait
        stage.assign_at(0.1 * job, 9.0)
    stage.send_at(1.0, Steal(0, 2, 77))
    stage.start()
    stage.run(2.0)
    ((_, transfer),) = stage.of(Transfer)
    assert [task.job for task in transfer.tasks] == jobs
    assert [task.waited for task in transfer.tasks] == pytest.approx([1.0 - 0.1 * job for job in jobs])
    assert stage.server.queue_length == 6 - len(jobs)


def test_the_task_in_service_is_never_handed_over() -> None:
    stage = Stage(partial(StealingClock, rate=0.001))
    stage.assign_at(0.0, 9.0)
    stage.send_at(1.0, Steal(0, 2, 77))
    stage.start()
    stage.run(2.0)
    assert [message.exchange for _, message in stage.of(Refused)] == [77]
    assert stage.of(Transfer) == []


def test_a_thief_with_a_choice_steals_from_the_longest_queue() -> None:
    lengths = {1: 2, 2: 5, 3: 4}

    def answer(message: Any) -> Message | None:
        if isinstance(message, Probe):
            return ProbeReply(0, message.to, message.job, lengths[message.to], message.round)
        return refuse(message)

    stage = Stage(partial(StealingWhenIdle, max_probes=1), choices=3)
    stage.answer = answer
    stage.start()
    stage.run(1.0)
    assert sorted(message.to for _, message in stage.of(Probe)) == [1, 2, 3]
    assert [message.to for _, message in stage.of(Steal)] == [2]
    assert (stage.counts[PROBES], stage.counts[NO]) == (3, 3)


def test_a_task_that_comes_to_a_server_with_work_queues_and_is_counted() -> None:
    stage = Stage(partial(StealingWhenIdle, max_probes=1))
    stage.start()
    stage.assign_at(0.5, 3.0)
    stage.run(1.0)
    ((_, steal),) = stage.of(Steal)
    stage.send_at(1.0, Transfer(0, steal.to, steal.exchange, [MovedTask(DISPATCHER, 9, 0, 0, 1.0, 0.25, 3)]))
    stage.run(1.0)
    assert stage.server.queue_length == 2
    assert (stage.counts[MOVED], stage.counts[LATE], stage.counts[YES]) == (1, 1, 1)
    assert [(m.job, m.server, m.moves) for _, m in stage.of(Moved)] == [(9, 0, 3)]
    stage.run(10.0)
    done = [message for _, message in stage.came if type(message).__name__ == "Done" and message.job == 9]
    assert [message.wait for message in done] == [pytest.approx(0.25 + 2.5)]


def test_an_idle_server_is_kept_for_the_offer_that_it_accepted_until_that_is_withdrawn() -> None:
    stage = Stage(partial(StealingClock, rate=0.001))
    stage.start()
    stage.send_at(1.0, Offer(0, 1, 11))
    stage.send_at(1.1, Offer(0, 2, 12))
    stage.send_at(1.2, Withdrawn(0, 1, 11))
    stage.send_at(1.3, Offer(0, 3, 13))
    stage.run(2.0)
    assert [(type(m), m.exchange) for _, m in stage.came] == [(Accepted, 11), (Refused, 12), (Accepted, 13)]


def test_with_all_others_dead_a_server_asks_nobody_and_counts_refusals() -> None:
    stage = Stage(partial(StealingWhenIdle, max_probes=5000))
    stage.balancer.on_down(1, 3)
    stage.start()
    stage.run(1.0)
    assert stage.came == []
    assert stage.counts[PROBES] == stage.counts[NO] == 5000
