"""Where the policies for jobs of several tasks put them, and what they refuse."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

import pytest

from testbed.core.messages import Assign, Cancel, Fetch, ProbeReply, Reserve
from testbed.scenario.policies import policies


def placed(bench: Any, policy: str, queue_lengths: list[int], tasks: int, **parameters: Any) -> list[int]:
    """Return the servers of a job's tasks, in order, when servers hold so many."""
    system = bench(policy, len(queue_lengths), **parameters)
    system.set_queue_lengths(*queue_lengths)
    system.act(partial(system.dispatcher.arrive, 0, 0, (1.0,) * tasks))
    at: list[int] = system.dispatcher.in_system[0].at
    return at


def test_batch_filling_puts_several_tasks_on_a_short_queue_and_batch_sampling_does_not(bench: Any) -> None:
    lengths = [0, 3, 3, 3]
    assert placed(bench, "batch-filling", lengths, 3, d=2) == [0, 0, 0]
    assert Counter(placed(bench, "batch-sampling", lengths, 3, d=2))[0] == 1
    assert len(set(placed(bench, "batch-sampling", lengths, 3, d=2))) == 3


def test_jsq_fills_all_queues_to_one_level(bench: Any) -> None:
    assert Counter(placed(bench, "jsq", [4, 0, 1, 9], 5)) == {1: 3, 2: 2}


def test_with_all_servers_probed_the_per_task_rules_fill_too(bench: Any) -> None:
    for policy in ("per-task-power-of-d", "per-task-power-of-kd"):
        assert Counter(placed(bench, policy, [4, 0, 1, 9], 5, d=4)) == {1: 3, 2: 2}


def test_tasks_that_do_not_see_each_other_all_go_to_the_shortest_queue(bench: Any) -> None:
    assert placed(bench, "power-of-d", [4, 0, 1, 9], 5, d=4) == [1] * 5


def test_random_tasks_go_to_distinct_servers_unless_they_may_meet(bench: Any) -> None:
    assert sorted(placed(bench, "random", [0] * 6, 6)) == list(range(6))
    assert len(placed(bench, "random", [0, 0], 6, replacement=True)) == 6


def test_round_robin_deals_the_stream_of_tasks(bench: Any) -> None:
    first, *others = placed(bench, "round-robin", [0] * 4, 6)
    assert others == [(first + i) % 4 for i in range(1, 6)]


def test_jiq_uses_each_idle_server_once(bench: Any) -> None:
    system = bench("jiq", 5)
    system.act(*(system.servers[i].report_idle for i in (1, 3, 4)))
    system.act(partial(system.dispatcher.arrive, 0, 0, (1.0,) * 4))
    assert set(system.dispatcher.in_system[0].at[:3]) == {1, 3, 4}
    assert system.dispatcher.idle_reports == 3


def test_a_batch_that_waits_too_long_goes_to_those_that_replied(bench: Any) -> None:
    for policy, expected in (("batch-filling", {2: 2}), ("batch-sampling", {2: 1})):
        system = bench(policy, 4, d=2, timeout=1.0)
        for server in system.servers:
            server.reply_after = 0.5 if server.address == 2 else None
        system.act(partial(system.dispatcher.arrive, 0, 0, (1.0, 1.0)))
        system.run(2.0)
        at = Counter(system.dispatcher.in_system[0].at)
        assert at.total() == 2
        assert at[2] == expected[2]


def test_a_reply_to_a_probe_round_that_has_ended_does_not_count_for_another(bench: Any) -> None:
    system = bench("batch-filling", 3, d=3, timeout=1.0)
    for server in system.servers:
        server.reply_after = None
    system.act(partial(system.dispatcher.arrive, 0, 0, (1.0,)))
    system.run(2.0)
    policy = system.dispatcher.policy
    policy.place_tasks(0, 1)  # as after a death: the job asks again
    reply = ProbeReply(system.dispatcher.address, 0, 0, 5, round=1)
    policy.on_probe_reply(reply)
    (second,) = policy._open.values()
    assert second.number == 2
    assert second.queue_lengths == {}


@pytest.mark.parametrize(
    ("policy", "parameters", "servers", "tasks", "words"),
    [
        ("random", {}, 3, 4, "set replacement = true"),
        ("random", {"weights": (1.0, 2.0)}, 2, 2, "need replacement = true"),
        ("batch-sampling", {}, 3, 4, "use batch-filling"),
        ("late-binding", {}, 3, 4, "use batch-filling"),
    ],
)
def test_jobs_that_cannot_be_placed_are_refused_with_what_would_do(
    policy: str, parameters: dict[str, Any], servers: int, tasks: int, words: str
) -> None:
    kind = policies()[policy]
    with pytest.raises(ValueError, match=words):
        kind.check_tasks(kind.Parameters(**parameters), servers, tasks)
    kind.check_tasks(kind.Parameters(**parameters), servers, 1)


@pytest.mark.parametrize(
    ("policy", "d", "tasks", "servers", "most", "mean"),
    [
        ("batch-filling", 2, 10, 1000, 20, 20),
        ("batch-filling", 1.1, 10, 1000, 11, 11),
        ("batch-filling", 2, 10, 12, 12, 12),
        ("batch-filling", 0.05, 10, 1000, 0, 0),
        ("batch-sampling", 1, 10, 1000, 0, 0),
        ("batch-sampling", 1.2, 2, 1000, 3, 3),
        ("per-task-power-of-d", 2.5, 4, 1000, 12, 10),
        ("per-task-power-of-d", 1.25, 4, 1000, 8, 2),
        ("per-task-power-of-kd", 2, 4, 1000, 32, 32),
        ("power-of-d", 3, 4, 2, 8, 8),
        ("late-binding", 1.5, 4, 1000, 6, 6),
    ],
)
def test_the_nominal_probes(policy: str, d: float, tasks: int, servers: int, most: float, mean: float) -> None:
    kind = policies()[policy]
    parameters = kind.Parameters(d=d)
    assert kind.probes_for_tasks(parameters, servers, tasks) == most
    assert kind.mean_probes(parameters, servers, tasks) == pytest.approx(mean)


class Sent:
    """A late-binding dispatcher whose messages are kept; the test speaks for the servers."""

    def __init__(self, bench: Any, servers: int, tasks: int, d: float) -> None:
        system = bench("late-binding", servers, d=d)
        self.dispatcher = system.dispatcher
        self.messages: list[Any] = []
        system.runtime.send = self.messages.append
        self.dispatcher.arrive(0, 0, (1.0,) * tasks)
        self.numbers = {message.to: message.number for message in self.messages}
        self.reserved = list(self.numbers)
        assert {type(message) for message in self.messages} == {Reserve}

    def fetch(self, server: int) -> list[Any]:
        self.messages.clear()
        self.dispatcher.policy.on_fetch(Fetch(self.dispatcher.address, server, 0, self.numbers[server]))
        return [(type(message), message.to) for message in self.messages]


def test_late_binding_gives_tasks_to_the_first_to_ask_and_cancels_the_others(bench: Any) -> None:
    sent = Sent(bench, 8, 2, d=2)
    a, b, c, d = sent.reserved
    assert len({a, b, c, d}) == 4
    assert sent.fetch(c) == [(Assign, c)]
    assert sent.fetch(a) == [(Assign, a), (Cancel, b), (Cancel, d)]
    assert sent.fetch(b) == []  # it asked before it heard of the cancellation, which is its answer
    assert (sent.dispatcher.probes.sent, sent.dispatcher.probes.cancellations) == (4, 2)


def test_late_binding_reserves_anew_only_where_a_job_lacks_reservations(bench: Any) -> None:
    sent = Sent(bench, 8, 2, d=1.5)
    a, b, _ = sent.reserved
    sent.messages.clear()
    sent.dispatcher.policy.on_down(a, a)
    assert sent.messages == []
    sent.dispatcher.policy.on_down(b, b)
    assert [type(message) for message in sent.messages] == [Reserve]
