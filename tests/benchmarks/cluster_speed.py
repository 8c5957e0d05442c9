"""How much the real cluster carries: power of two choices at load 0.9 and 100 ms units, one dispatcher, one node.

For each N: jobs and messages a second, the mean response time beside its limit, how late timers were, how busy the two
processes were, and the verdict. Then where the time of one job goes: a profile of the dispatcher process by layer.
Prints figures; asserts nothing. Run: python tests/benchmarks/cluster_speed.py [N ...]
"""

from __future__ import annotations

import cProfile
import itertools
import math
import pstats
import sys
import time
from collections import defaultdict
from pathlib import Path

import testbed
from dispatchers.jobs import DispatcherRecords
from testbed.cluster.live_records import LiveRecords
from testbed.core.messages import BATCH, AnyMessage, Assign, Done, Encoder, FrameReader, Message, Probe, ProbeReply
from testbed.measure.histogram import LogHistogram
from testbed.runtime.build import Source, build_dispatcher, build_workload
from testbed.runtime.realtime import RealTimeRuntime
from testbed.scenario import Scenario, load
from testbed.theory.predict import Prediction

SERVERS = (1000, 2500, 4000, 5000)


def scenario(servers: int, duration: float = 150) -> Scenario:
    """Return the benchmark's scenario for that many servers."""
    return load("quickstart").with_settings(
        {
            "name": f"speed-{servers}",
            "run.time_unit": "100ms",
            "run.warmup": 30,
            "run.duration": duration,
            "cluster.nodes": 1,
            "cluster.pools.main.servers": servers,
            "workload.load": 0.9,
            "dispatch": {"policy": "power-of-d", "d": 2},
            "variants": [],
        }
    )


def rate(servers: int) -> None:
    """Run the cluster and print what it carried."""
    result = testbed.run(scenario(servers))
    run = result["power-of-d"]
    summary = run.summary
    seconds = summary.processes[0].seconds
    messages = sum(process.messages_sent for process in summary.processes)
    assert isinstance(run.prediction, Prediction)
    print(
        f"N = {servers:5}: {summary.accounting.arrived / seconds:7,.0f} jobs/s, {messages / seconds:8,.0f} messages/s, "
        f"mean response {summary.response.mean:.3f} (limit {run.prediction.mean_response_time:.3f}), "
        f"verdict {'valid' if summary.verdict.valid else 'SUSPECT'}"
    )
    for process in summary.processes:
        print(
            f"    {process.name:12} {process.cpu_seconds / process.seconds:4.0%} of a core, timers late by "
            f"{process.lateness_p50 * 1e3:.2f} ms (p50), {process.lateness_p99 * 1e3:.2f} ms (p99)"
        )
    for reason in summary.verdict.reasons:
        print(f"    {reason}")


class _WakeUpTimer:
    exact = True

    def arm(self, when: float) -> None: ...

    async def wait(self) -> None: ...

    def close(self) -> None: ...


class _Wire:
    """Stands in for the connection to a node whose servers are idle: real frames both ways, but no socket."""

    def __init__(self) -> None:
        self.outbox: list[Message] = []
        self.answers: list[Message] = []
        self._encoder = Encoder()
        self._reader = FrameReader(BATCH)

    def flush(self) -> None:
        self._encoder.frame(self.outbox)
        for message in self.outbox:
            if isinstance(message, Probe):
                self.answers.append(ProbeReply(message.sender, message.to, message.job, 0, message.round))
            elif isinstance(message, Assign):
                self.answers.append(Done(message.sender, message.to, message.job, message.task, 0.0, 1.0, 1))
        self.outbox.clear()

    def receive(self) -> list[list[AnyMessage]]:
        answers, self.answers = self.answers, []
        return self._reader.feed(self._encoder.frame(answers))


def dispatch(servers: int, jobs: int) -> None:
    """Run the dispatcher process's own code for that many jobs, an iteration for each millisecond, without sockets."""
    settings = scenario(servers)
    runtime = RealTimeRuntime(
        1,
        0,
        time_unit=0.1,
        addresses=servers + 1,
        wake_up_timer=_WakeUpTimer(),
        lateness_seconds=LogHistogram(1e-6, 10.0),
    )
    records = LiveRecords(jobs, 0.1)
    dispatcher = build_dispatcher(runtime, settings, 0, DispatcherRecords(records, None, None))
    runtime.add(dispatcher)
    wire = _Wire()
    runtime.link(wire, range(servers))
    clock = itertools.count()
    runtime.clock = lambda: next(clock) / 200  # two readings per iteration
    Source(runtime, dispatcher, build_workload(settings, 0).for_dispatcher(0), math.inf).start()
    runtime.start(time.monotonic())
    while records.count < jobs:
        runtime.iterate(wire.receive())


LAYERS = {
    "testbed/runtime/realtime": "runtime: iterations, timers, routing",
    "testbed/runtime/loop": "runtime: iterations, timers, routing",
    "testbed/core/agent": "runtime: iterations, timers, routing",
    "testbed/runtime/build": "arrivals",
    "testbed/workload": "arrivals",
    "testbed/core/streams": "random choices",
    "testbed/core/messages": "frames: encode, decode",
    "testbed/measure": "records and live histograms",
    "testbed/cluster": "records and live histograms",
    "dispatchers/dispatcher": "dispatcher: jobs and accounts",
    "dispatchers": "policy",
    "tests": "the stand-in for the node (not part of a dispatcher)",
    "cluster_speed": "the stand-in for the node (not part of a dispatcher)",
}


def profile(servers: int = 2500, jobs: int = 100_000) -> None:
    """Print where the time of a job goes in the dispatcher process, as the profiler sees it."""
    start = time.perf_counter()
    dispatch(servers, jobs)
    plain = time.perf_counter() - start
    profiler = cProfile.Profile()
    profiler.runcall(dispatch, servers, jobs)
    spent: dict[str, float] = defaultdict(float)
    for (file, _, _), (_, _, own, _, callers) in pstats.Stats(profiler).stats.items():  # type: ignore[attr-defined]
        if file == "~":  # built in: its time is its callers'
            for (caller, _, _), (_, _, share, _) in callers.items():
                spent[layer(caller)] += share
        else:
            spent[layer(file)] += own
    total = sum(spent.values())
    print(f"the dispatcher's code for one job at N = {servers}: {plain / jobs * 1e6:.1f} us; of these, by the profiler")
    for name, seconds in sorted(spent.items(), key=lambda item: -item[1]):
        print(f"    {seconds / total:5.1%}  {name}")


def layer(file: str) -> str:
    """Return the layer that a source file belongs to."""
    for part, name in LAYERS.items():
        if part in Path(file).as_posix():
            return name
    return "other"


def main() -> None:
    """Print the rates, then the profile."""
    for servers in [int(word) for word in sys.argv[1:]] or SERVERS:
        rate(servers)
    profile()


if __name__ == "__main__":
    main()
