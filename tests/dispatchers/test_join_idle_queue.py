from collections import Counter
from functools import partial

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.join_idle_queue import JoinIdleQueue
from dispatchers.placement import DirectPlacement
from servers.server import Server
from testbed.core.records import JobRecords, Occupancy
from testbed.runtime.virtual import VirtualRuntime


@given(st.data())
def test_a_listed_server_is_used_whenever_there_is_one_and_then_leaves_the_list(bench, data):
    servers = data.draw(st.integers(1, 6))
    system = bench("jiq", servers, seed=data.draw(st.integers(0, 99)))
    listed = set()
    for _ in range(data.draw(st.integers(0, 40))):
        if data.draw(st.booleans()):
            server = data.draw(st.integers(0, servers - 1))
            system.act(system.servers[server].report_idle)
            listed.add(server)
        else:
            server = system.placed[system.arrive()]
            assert server in listed or not listed
            listed.discard(server)
    assert system.probed == {}


def test_the_listed_server_is_chosen_uniformly(bench, assert_uniform):
    system = bench("jiq", 6)
    for server in (1, 3, 4):
        system.act(system.servers[server].report_idle)
    counts = Counter()
    for _ in range(1500):
        server = system.placed[system.arrive()]
        counts[server] += 1
        system.act(system.servers[server].report_idle)
    assert set(counts) == {1, 3, 4}
    assert_uniform(list(counts.values()))


def test_without_a_listed_server_one_is_chosen_uniformly(bench, assert_uniform):
    system = bench("jiq", 4)
    for _ in range(1000):
        system.arrive()
    assert_uniform(np.bincount(list(system.placed.values()), minlength=4))


@given(
    servers=st.integers(1, 5),
    dispatchers=st.integers(1, 3),
    seed=st.integers(0, 99),
    jobs=st.lists(st.tuples(st.floats(0, 1), st.integers(0, 2), st.floats(0.01, 2)), max_size=40),
)
def test_an_idle_server_is_listed_at_exactly_one_dispatcher_and_no_server_at_two(servers, dispatchers, seed, jobs):
    runtime = VirtualRuntime(seed)
    addresses = range(servers, servers + dispatchers)
    records = DispatcherRecords(JobRecords(1))
    agents = [
        Dispatcher(
            DirectPlacement(Jobs(runtime, address, Surroundings(address - servers, servers), records)),
            partial(JoinIdleQueue, JoinIdleQueue.Parameters()),
        )
        for address in addresses
    ]
    hosts = [
        Server(runtime, address, speeds=[1.0], meter=Occupancy(), idle_report_to=addresses)
        for address in range(servers)
    ]
    for agent in (*hosts, *agents):
        runtime.add(agent)
    runtime.start()

    def check() -> None:
        listed = Counter(server for agent in agents for server in agent.policy.listed)
        assert max(listed.values(), default=0) <= 1
        assert {server.address for server in hosts if server.queue_length == 0} <= set(listed)

    check()
    when = 0.0
    for number, (gap, dispatcher, size) in enumerate(jobs):
        when += gap
        runtime.run(when)
        check()
        agent = agents[dispatcher % dispatchers]
        runtime.call_at(when, lambda agent=agent, number=number, size=size: agent.arrive(number, 0, (size,)))
        runtime.run(when)
        check()
    runtime.run()
    check()
