from itertools import accumulate, pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from testbed.core.messages import Done, Dropped, Idle, ProbeReply
from testbed.core.records import Occupancy

#: Tasks as (time since the last, size). Multiples of 1/8 are exact in floating point: times can be compared as equal.
EIGHTHS = st.integers(0, 24).map(lambda n: n / 8)
TASKS = st.lists(st.tuples(EIGHTHS, EIGHTHS.map(lambda size: size + 1 / 8)), max_size=40)


def at_distinct_times(tasks):
    """Return arrival times and services, such that no arrival, departure or multiple of 1/8 falls on another.

    A departure is the arrival that began its busy period plus a multiple of 1/8; arrivals differ modulo 1/8.
    """
    arrivals = accumulate(gap for gap, _ in tasks)
    return [when + 1 / 32 + i / 4096 for i, when in enumerate(arrivals)], [size for _, size in tasks]


def simulate_by_hand(arrivals, services, buffer=None):
    """Return per task its departure time, or None if it was dropped: FCFS, written down directly."""
    departures = []
    for arrival, service in zip(arrivals, services, strict=True):
        present = [departure for departure in departures if departure is not None and departure > arrival]
        if buffer is not None and len(present) >= buffer:
            departures.append(None)
        else:
            departures.append(max([arrival, *present]) + service)
    return departures


def test_waits_follow_lindleys_recursion(station):
    rng = np.random.default_rng(3)
    gaps = rng.exponential(1.0, 5000)
    services = rng.exponential(0.9, 5000)
    system = station()
    for arrival, service in zip(np.cumsum(gaps), services, strict=True):
        system.assign_at(arrival, service)
    system.runtime.run()
    waits = [0.0]
    for gap, service in zip(gaps[1:], services, strict=False):
        waits.append(max(0.0, waits[-1] + service - gap))
    done = system.clients[0].of(Done)
    assert max(waits) > 5
    assert [message.job for _, message in done] == list(range(5000))
    np.testing.assert_allclose([message.wait for _, message in done], waits, rtol=0, atol=1e-9)
    np.testing.assert_allclose([message.service for _, message in done], services, rtol=1e-12)


@given(tasks=TASKS, buffer=st.none() | st.integers(1, 4))
def test_each_task_is_done_or_dropped_once_when_it_must(station, tasks, buffer):
    arrivals, services = at_distinct_times(tasks)
    system = station(buffer=buffer)
    for arrival, service in zip(arrivals, services, strict=True):
        system.assign_at(arrival, service)
    system.runtime.run()
    expected = simulate_by_hand(arrivals, services, buffer)
    done = {message.job: (when, message) for when, message in system.clients[0].of(Done)}
    dropped = {message.job: when for when, message in system.clients[0].of(Dropped)}
    assert len(system.clients[0].received) == len(tasks)
    for job, departure in enumerate(expected):
        if departure is None:
            assert dropped[job] == arrivals[job]
        else:
            when, message = done[job]
            assert when == departure
            assert message.wait == departure - services[job] - arrivals[job]
            assert message.service == services[job]
    assert system.server.queue_length == 0


@given(tasks=TASKS, buffer=st.none() | st.integers(1, 4), probes=st.lists(EIGHTHS.map(lambda when: when * 10)))
def test_a_probe_is_answered_with_the_number_of_tasks_present(station, tasks, buffer, probes):
    arrivals, services = at_distinct_times(tasks)
    system = station(buffer=buffer)
    for arrival, service in zip(arrivals, services, strict=True):
        system.assign_at(arrival, service)
    for job, when in enumerate(probes):
        system.probe_at(when, job)
    system.runtime.run()
    departures = simulate_by_hand(arrivals, services, buffer)
    replies = system.clients[0].of(ProbeReply)
    assert len(replies) == len(probes)
    for when, reply in replies:
        assert when == probes[reply.job]
        assert reply.queue_length == sum(
            arrival <= when < departure
            for arrival, departure in zip(arrivals, departures, strict=True)
            if departure is not None
        )


def test_the_buffer_counts_the_task_in_service(station):
    system = station(buffer=1)
    system.assign_at(0.0, 2.0)
    system.assign_at(1.0, 2.0)
    system.assign_at(3.0, 2.0)
    system.runtime.run()
    assert [(when, message.job) for when, message in system.clients[0].of(Done)] == [(2.0, 0), (5.0, 2)]
    assert [(when, message.job) for when, message in system.clients[0].of(Dropped)] == [(1.0, 1)]


def test_a_task_is_served_at_the_speed_for_its_type(station):
    system = station(speeds=[1.0, 4.0, 0.5])
    for job_type in (0, 1, 2):
        system.assign_at(0.0, 2.0, job_type)
    system.runtime.run()
    assert [(when, message.service) for when, message in system.clients[0].of(Done)] == [(2, 2), (2.5, 0.5), (6.5, 4)]


def test_a_task_is_reported_to_the_dispatcher_that_placed_it(station):
    system = station(clients=3, buffer=2)
    for sender in (1, 2, 3):
        system.assign_at(0.0, 1.0, sender=sender)
    system.runtime.run()
    assert [[type(message) for _, message in client.received] for client in system.clients] == [
        [Done],
        [Done],
        [Dropped],
    ]


def test_idleness_is_reported_at_the_start_and_when_the_last_task_leaves(station):
    system = station(reports=True)
    system.assign_at(1.0, 1.0)
    system.assign_at(1.5, 1.0)
    system.runtime.run()
    assert [when for when, _ in system.clients[0].of(Idle)] == [0.0, 3.0]


def test_no_report_is_made_unless_it_is_asked_for(station):
    system = station(reports=False)
    system.assign_at(1.0, 1.0)
    system.runtime.run()
    assert system.clients[0].of(Idle) == []


@given(
    tasks=st.lists(st.tuples(EIGHTHS, EIGHTHS, st.integers(1, 3)), max_size=30),
    seed=st.integers(0, 99),
    buffer=st.none() | st.integers(1, 2),
)
def test_a_server_has_one_standing_report_until_its_dispatcher_uses_it(station, tasks, seed, buffer):
    system = station(reports=True, clients=3, seed=seed, buffer=buffer)

    def standing():
        return [client.address for client in system.clients for _ in range(len(client.of(Idle)) - used[client.address])]

    used = {1: 0, 2: 0, 3: 0}
    when = 0.0
    for gap, size, sender in tasks:
        when += gap
        system.runtime.run(when)
        before = standing()
        assert len(before) <= 1
        assert system.server.queue_length > 0 or len(before) == 1
        if sender in before:
            used[sender] += 1
        system.assign_at(when, size + 1 / 16, sender=sender)
        system.runtime.run(when)
        assert standing() == [address for address in before if address != sender]
    system.runtime.run()
    assert len(standing()) == 1


def test_the_dispatcher_that_is_told_is_chosen_uniformly(station):
    told = [0, 0, 0]
    for seed in range(600):
        system = station(reports=True, clients=3, seed=seed)
        for i, client in enumerate(system.clients):
            told[i] += len(client.received)
    assert sum(told) == 600
    assert max(abs(count - 200) for count in told) < 4.6 * (600 * 2 / 9) ** 0.5  # false alarm 2e-5 (three of 4e-6)


@given(tasks=TASKS, buffer=st.none() | st.integers(1, 3), cuts=st.lists(EIGHTHS.map(lambda c: c * 10), min_size=2))
def test_occupancy_is_the_time_spent_at_each_queue_length(station, tasks, buffer, cuts):
    arrivals, services = at_distinct_times(tasks)
    edges = sorted(set(cuts))
    system = station(buffer=buffer)
    for arrival, service in zip(arrivals, services, strict=True):
        system.assign_at(arrival, service)
    for edge in edges:
        system.runtime.run(edge)
        system.meter.close_slice(edge)
    departures = simulate_by_hand(arrivals, services, buffer)
    stays = [(a, d) for a, d in zip(arrivals, departures, strict=True) if d is not None]
    times = sorted({*edges, *(time for stay in stays for time in stay)})
    levels = len(stays) + 1
    expected = np.zeros((len(edges) - 1, levels))
    for start, end in pairwise(times):
        slice_ = np.searchsorted(edges, start, side="right") - 1
        if 0 <= slice_ < len(edges) - 1:
            expected[slice_, sum(a <= start < d for a, d in stays)] += end - start
    got_edges, table = system.meter.table()
    assert got_edges.tolist() == edges
    padded = np.zeros_like(expected)
    width = min(table.shape[1], levels)
    assert not table[:, width:].any()
    padded[:, :width] = table[:, :width]
    np.testing.assert_allclose(padded, expected, rtol=0, atol=1e-9)


def test_occupancy_adds_up_over_servers():
    class At:
        def __init__(self, queue_length):
            self.queue_length = queue_length

    meter = Occupancy()
    meter.servers = [At(0), At(0), At(0)]
    meter.close_slice(0.0)
    meter.change(0, 40, 1.0)  # beyond the levels that are there at first
    meter.servers[1] = At(40)
    meter.close_slice(4.0)
    _, table = meter.table()
    assert table.shape == (1, 41)
    assert table[0, 0] == 3 * 4 - 3
    assert table[0, 40] == 3
    assert table.sum() == 12
