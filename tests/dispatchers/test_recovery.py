"""Which words make a dispatcher dispatch a task again, in the races that a cluster meets once a year."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from dispatchers.policy import Policy
from testbed.core.messages import Assign, Done, Moved, Probe, ProbeReply
from testbed.core.outcomes import JobOutcome
from testbed.scenario.policies import policies

HERE = 4  # the dispatcher's address; servers are 0..3


class ToServer(Policy):
    """Every job goes to server 0."""

    name = "to server 0"
    source = "a test"

    def place(self, job: int) -> None:
        self.dispatcher.assign(job, 0)


def moved(sender: int, to: int, number: int, job: int = 0) -> Moved:
    return Moved(HERE, sender, job, 0, to, number)


@pytest.fixture(scope="module")
def recovering(open_desk: Any) -> Callable[..., Any]:
    """Open the desk of a dispatcher that dispatches lost tasks again, with tasks that move unless told otherwise."""
    return partial(open_desk, policy=ToServer, recovers=True, tasks_move=True)


@pytest.fixture
def desk(recovering: Callable[..., Any]) -> Any:
    found = recovering()
    assert found.arrive() == 0
    return found


def test_a_dead_servers_task_is_placed_again_when_all_others_have_noticed(desk: Any) -> None:
    desk.lost(0)
    desk.noticed(0, 1, 3)
    assert desk.placed == [0]
    desk.noticed(0, 2)
    assert len(desk.placed) == 2
    assert desk.placed[1] in (1, 2, 3)
    desk.tell(Done(HERE, desk.placed[1], 0, 0, 0.0, 1.0))
    assert desk.records.columns()["outcome"].tolist() == [JobOutcome.COMPLETED]
    assert (desk.dispatcher.jobs.dispatched_again, desk.dispatcher.jobs.done_twice) == (1, 0)


def test_a_task_that_was_stolen_from_the_dead_in_time_is_not_placed_again(desk: Any) -> None:
    desk.lost(0)
    desk.tell(moved(2, 2, 1))
    desk.noticed(0, 1, 2, 3)
    assert desk.placed == [0]


def test_nothing_is_placed_again_before_the_dead_can_say_no_more_to_this_dispatcher(desk: Any) -> None:
    desk.noticed(0, 1, 2, 3)
    assert desk.placed == [0]
    desk.tell(Done(HERE, 0, 0, 0, 0.0, 1.0))  # was on its way
    desk.lost(0)
    assert desk.placed == [0]
    assert desk.dispatcher.jobs.done_twice == 0


def test_words_that_come_early_count_when_the_dispatcher_notices_itself(desk: Any) -> None:
    desk.noticed(0, 1, 2, 3)
    desk.lost(0)
    assert len(desk.placed) == 2


def test_where_tasks_never_move_nobody_else_is_waited_for(recovering: Callable[..., Any]) -> None:
    desk = recovering(tasks_move=False)
    desk.arrive()
    desk.lost(0)
    assert len(desk.placed) == 2
    desk.lost(1, 2)
    assert desk.placed[-1] == 3


def test_an_older_move_does_not_count_after_a_later_one(desk: Any) -> None:
    desk.tell(moved(2, 2, 2), moved(1, 1, 1))
    assert desk.dispatcher.in_system[0].at == [2]


def test_word_of_a_move_may_come_after_the_end_of_the_job(desk: Any) -> None:
    desk.tell(moved(2, 2, 2), Done(HERE, 2, 0, 0, 0.0, 1.0), moved(1, 1, 1))
    assert desk.dispatcher.in_system == {}


def test_a_task_whose_new_server_died_before_it_could_tell_is_placed_again(desk: Any) -> None:
    """Server 1 has stolen it and said Received to server 0, but its word to the dispatcher was cut off."""
    desk.tell(moved(0, 1, 1))
    desk.lost(1)
    desk.noticed(1, 0, 2, 3)
    assert len(desk.placed) == 2


def test_a_task_that_the_dead_passed_on_is_not_placed_again(desk: Any) -> None:
    """Server 0 sent it to server 1 and has heard of its death; but server 2 had stolen it from there."""
    desk.lost(1)
    desk.tell(moved(2, 2, 2), moved(0, 1, 1))
    desk.noticed(1, 0, 2, 3)
    assert desk.placed == [0]


def test_a_task_that_went_from_one_dead_server_over_another_is_waited_for(desk: Any) -> None:
    """0 -> 1 -> 2; server 1's word was cut off, and server 2 speaks after it has noticed the first death only."""
    desk.lost(0)
    desk.noticed(0, 2, 3)
    desk.lost(1)
    assert desk.placed == [0]
    desk.tell(moved(2, 2, 2))
    desk.noticed(1, 2, 3)
    assert desk.placed == [0]
    assert desk.dispatcher.in_system[0].at == [2]


def test_an_old_move_does_not_count_in_a_tasks_next_life(desk: Any) -> None:
    desk.tell(moved(1, 1, 2))  # 0 -> 3 -> 1; the first move is yet to be told
    desk.lost(1)
    desk.noticed(1, 0, 2, 3)
    again = desk.sent[-1]
    assert isinstance(again, Assign)
    assert again.moves == 2
    desk.tell(moved(3, 3, 1))
    assert desk.dispatcher.in_system[0].at == [0]
    desk.tell(moved(2, 2, 3))
    assert desk.dispatcher.in_system[0].at == [2]


def test_no_job_is_placed_on_a_dead_server_or_waits_for_one(desk: Any) -> None:
    desk.lost(0, 2)
    assert [desk.arrive(job) for job in (1, 2, 3)] == [3, 3, 3]


def test_with_no_server_left_jobs_are_lost(desk: Any) -> None:
    desk.lost(0, 1)
    desk.lost(2, 3)
    desk.arrive(1)
    desk.dispatcher.close(lambda server: True)
    assert desk.records.columns()["outcome"].tolist() == [JobOutcome.LOST, JobOutcome.LOST]


@pytest.mark.parametrize("timeout", [None, 5.0])
@pytest.mark.parametrize("policy", ["power-of-d", "jsq"])
def test_no_probe_round_waits_for_servers_that_are_down(
    policy: str, timeout: float | None, recovering: Callable[..., Any]
) -> None:
    kind = policies()[policy]
    parameters = {"d": 4, "timeout": timeout} if policy == "power-of-d" else {"timeout": timeout}
    desk = recovering(policy=kind, parameters=kind.Parameters(**parameters))
    desk.dispatcher.arrive(0, 0, (1.0,))
    asked = [message.to for message in desk.sent if isinstance(message, Probe)]
    assert sorted(asked) == [0, 1, 2, 3]
    desk.tell(ProbeReply(HERE, 2, 0, 3, 1), ProbeReply(HERE, 3, 0, 2, 1))
    desk.lost(0, 1)  # before they could reply
    assert desk.placed == [3]
    desk.dispatcher.arrive(1, 0, (1.0,))
    desk.tell(ProbeReply(HERE, 2, 1, 7, 2), ProbeReply(HERE, 3, 1, 8, 2))
    assert desk.placed == [3, 2]
    assert sum(isinstance(message, Probe) for message in desk.sent) == 6


def test_a_server_that_goes_down_twice_in_a_probe_round_counts_once(recovering: Callable[..., Any]) -> None:
    kind = policies()["power-of-d"]
    desk = recovering(policy=kind, parameters=kind.Parameters(d=4), tasks_move=False)
    desk.dispatcher.arrive(0, 0, (1.0,))
    desk.lost(0)
    desk.dispatcher.on_up(0, 0)
    desk.lost(0)
    (probe_round,) = desk.dispatcher.policy._open.values()
    assert probe_round.down == {0}
    desk.tell(ProbeReply(HERE, 1, 0, 5, 1), ProbeReply(HERE, 2, 0, 4, 1))
    assert desk.placed == []
    desk.tell(ProbeReply(HERE, 3, 0, 6, 1))
    assert desk.placed == [2]


def test_where_no_probed_server_is_up_the_job_goes_to_another(recovering: Callable[..., Any]) -> None:
    kind = policies()["power-of-d"]
    desk = recovering(policy=kind, parameters=kind.Parameters(d=2), tasks_move=False)
    desk.dispatcher.arrive(0, 0, (1.0,))
    for server in [message.to for message in desk.of(Probe)]:
        desk.lost(server)
    assert desk.placed
    assert desk.placed[0] not in {message.to for message in desk.of(Probe)}


def test_a_reply_to_the_first_probe_round_of_a_job_is_none_to_its_second(recovering: Callable[..., Any]) -> None:
    kind = policies()["power-of-d"]
    for seed in range(20):
        desk = recovering(policy=kind, parameters=kind.Parameters(d=2, timeout=1.0), seed=seed)
        desk.dispatcher.arrive(0, 0, (1.0,))
        first = [message.to for message in desk.sent if isinstance(message, Probe)]
        desk.tell(ProbeReply(HERE, first[1], 0, 0, 1))
        desk.runtime.run(2.0)  # time is up: it goes to the one that has replied
        desk.lost(first[1])
        del desk.sent[:]
        desk.noticed(first[1], *(server for server in range(4) if server != first[1]))
        second = [message.to for message in desk.sent if isinstance(message, Probe)]
        desk.tell(ProbeReply(HERE, first[0], 0, 0, 1))
        assert desk.placed == []  # not even where the same server is asked again
        desk.tell(*(ProbeReply(HERE, server, 0, 1, 2) for server in second))
        assert desk.placed == [second[0]]


def test_least_outstanding_leaves_the_dead_out_and_counts_what_moves(recovering: Callable[..., Any]) -> None:
    desk = recovering(policy=policies()["least-outstanding"])
    assert sorted(desk.arrive(job) for job in range(4)) == [0, 1, 2, 3]
    at_zero = desk.placed.index(0)
    desk.lost(0)
    desk.tell(moved(1, 1, 1, job=at_zero))
    assert sorted(desk.arrive(job) for job in (4, 5)) == [2, 3]  # server 1 has two
    desk.noticed(0, 1, 2, 3)
    desk.tell(Done(HERE, 1, at_zero, 0, 0.0, 1.0), Done(HERE, 1, desk.placed.index(1), 0, 0.0, 1.0))
    assert [desk.arrive(job) for job in (6, 7)] == [1, 1]
    assert len(desk.placed) == 8
    desk.lost(1, 3)
    desk.arrive(8)


def test_servers_that_are_there_again_are_used_again(recovering: Callable[..., Any]) -> None:
    desk = recovering(tasks_move=False)
    desk.lost(0, 2)
    assert {desk.arrive(job) for job in range(10)} == {3}
    desk.dispatcher.on_up(0, 2)
    assert desk.arrive(10) == recovering().arrive()


def test_servers_that_are_there_again_are_used_once_all_have_noticed_their_death(
    recovering: Callable[..., Any],
) -> None:
    desk = recovering()
    server = desk.arrive(0)
    others = [other for other in range(4) if other != server]
    desk.lost(server)
    desk.noticed(server, *others[:-1])
    desk.dispatcher.on_up(server, server)
    assert all(desk.arrive(job) != server for job in range(1, 20))
    desk.noticed(server, others[-1])
    assert desk.dispatcher.jobs.dispatched_again == 1
    assert desk.arrive(20) == server


def test_what_died_with_the_last_servers_is_placed_when_some_are_there_again(recovering: Callable[..., Any]) -> None:
    desk = recovering(tasks_move=False)
    desk.arrive(0)
    desk.lost(0, 3)
    before = len(desk.placed)
    desk.dispatcher.on_up(0, 3)
    assert len(desk.placed) == before + 1
