"""The keys of a scenario, as typed structs.

This is the one place where a key is described: the errors, the JSON Schema and docs/scenario.md all read the types and
the descriptions below. All times are in time units, except ``time_unit`` itself.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from itertools import accumulate
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from testbed.core.placed_pool import PlacedPool
from testbed.scenario.balance import Balance
from testbed.scenario.capacity import capacity
from testbed.scenario.expect import Expect
from testbed.scenario.policies import PolicyLike, policies
from testbed.scenario.sweep import Sweep
from testbed.scenario.threshold import Threshold
from testbed.workload.arrivals import ArrivalProcess, Poisson, Trace
from testbed.workload.distribution import FloatArray
from testbed.workload.distributions import Distribution, Exponential
from testbed.workload.task_numbers import MOST as MOST_TASKS
from testbed.workload.task_numbers import FixedNumber, RandomNumbers, TaskNumbers
from testbed.workload.workload import recorded_sizes

#: With warmup = "auto" this fraction of the duration is run before it. The warm-up lasts for that long or longer.
AUTO_WARMUP_SHARE = 0.2

_SECONDS = {"us": 1e-6, "ms": 1e-3, "s": 1.0}
_TIME_UNIT = re.compile(r"([0-9]+(?:\.[0-9]+)?) ?(us|ms|s)")

# Names become parts of paths and of dotted keys. "$" alone would also match before a final newline.
_IDENTIFIER = r"^[A-Za-z][A-Za-z0-9_-]*$(?!\n)"
_TITLE = r"^[A-Za-z0-9][A-Za-z0-9 _=+.,-]*$(?!\n)"


class RunSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """How long to run, and how fast the model's clock goes."""

    time_unit: Annotated[
        str, Meta(description='wall-clock length of one time unit (the mean task size): "50ms", "0.05s", "2s", "500us"')
    ] = "50ms"
    warmup: Annotated[
        Annotated[float, Meta(ge=0)] | Literal["auto"],
        Meta(
            description='time units run before measuring; with "auto" a fifth of the duration is run before it, and '
            "the warm-up lasts for two relaxation times of the queues, at least that fifth and at most half of the run"
        ),
    ] = "auto"
    duration: Annotated[float, Meta(gt=0, description="time units measured after the warm-up")] = 400.0
    replications: Annotated[
        int, Meta(ge=1, description="independent repetitions, each with its own random streams")
    ] = 1
    drain: Annotated[
        Annotated[float, Meta(ge=0)] | None,
        Meta(description="time units that jobs are given to finish once arrivals have stopped; default: the duration"),
    ] = None
    traced: Annotated[
        float, Meta(ge=0, le=1, description="fraction of the jobs whose messages are recorded, for `testbed trace`")
    ] = 0.0

    @property
    def time_unit_seconds(self) -> float:
        """The wall-clock length of a time unit, in seconds. Raises ValueError when ``time_unit`` is not a length."""
        match = _TIME_UNIT.fullmatch(self.time_unit)
        seconds = float(match[1]) * _SECONDS[match[2]] if match else math.nan
        if not 0 < seconds < math.inf:
            raise ValueError('must be a positive length with its unit, such as "50ms", "0.05s", "2s" or "500us"')
        return seconds


class Pool(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A set of servers with the same speeds."""

    name: Annotated[str, Meta(pattern=_IDENTIFIER, description="letters, digits, - and _; begins with a letter")] = (
        "main"
    )
    servers: Annotated[int, Meta(ge=1, le=1_000_000, description="number of servers in the pool")]
    buffer: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="most tasks at a server, the one in service included; default: unbounded"),
    ] = None
    queue: Annotated[
        Literal["per-server", "central"],
        Meta(description="a queue at each server, or one for the whole pool, first come, first served"),
    ] = "per-server"


class ClusterSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The servers, the dispatchers, and how they talk."""

    dispatchers: Annotated[int, Meta(ge=1, le=10_000, description="number of dispatchers, each an OS process")] = 1
    nodes: Annotated[
        Annotated[int, Meta(ge=1)] | Literal["per-server"] | None,
        Meta(
            description='OS processes that host the servers, or "per-server": each server its own process; '
            "default: one per core"
        ),
    ] = None
    transport: Annotated[
        Literal["unix", "tcp"], Meta(description='sockets between processes: "unix", or "tcp" on the loopback')
    ] = "unix"
    on_failure: Annotated[
        Literal["stop", "redispatch"],
        Meta(
            description='when a node process dies: "stop" ends the run, "redispatch" goes on without its servers and '
            "dispatches again what they had"
        ),
    ] = "stop"
    message_delay: Annotated[
        Annotated[float, Meta(ge=0)] | Distribution,
        Meta(description="extra one-way delay of every message in time units, in the cluster and in its twin"),
    ] = 0.0
    pools: Annotated[list[Pool], Meta(min_length=1, description="the pools of servers")]


class JobType(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A type of job."""

    name: Annotated[str, Meta(pattern=_IDENTIFIER, description="letters, digits, - and _; begins with a letter")]
    probability: Annotated[float, Meta(ge=0, le=1, description="fraction of the jobs; the fractions add up to 1")]
    speed: Annotated[
        dict[str, Annotated[float, Meta(ge=0)]],
        Meta(
            description="how fast servers work on this type, by pool name; pools left out: 1; in pools with central "
            "queues also 0: they can't serve it"
        ),
    ] = {}


class WorkloadSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What arrives: exactly one of ``load`` and ``rate``; a trace may do without, and then keeps its own times."""

    load: Annotated[
        Annotated[float, Meta(gt=0)] | None,
        Meta(
            description="arrival rate of work as a fraction of the servers' capacity; at speed 1 that is "
            "rate * mean tasks * mean size / servers"
        ),
    ] = None
    load_per: Annotated[
        Literal["capacity", "server"],
        Meta(
            description='what ``load`` is a fraction of: "capacity", the most work of this mix of types that the '
            'servers can do if each type is served where that is best; "server": one server of speed 1, whatever the '
            "speeds are"
        ),
    ] = "capacity"
    rate: Annotated[
        Annotated[float, Meta(gt=0)] | None, Meta(description="jobs per time unit for the whole cluster")
    ] = None
    arrivals: Annotated[ArrivalProcess, Meta(description="how jobs arrive")] = Poisson()
    size: Annotated[Distribution, Meta(description="service requirement of a task, in time units at speed 1")] = (
        Exponential()
    )
    dependence: Annotated[
        Annotated[float, Meta(ge=0, le=1)] | Literal["identical", "independent"],
        Meta(
            description="of a job's sizes in the pools with central queues, and of its copies under policies that make "
            "copies; a number: the probability that they are identical, being independent otherwise"
        ),
    ] = "identical"
    tasks: Annotated[
        Annotated[int, Meta(ge=1, le=MOST_TASKS)] | RandomNumbers,
        Meta(description="tasks of a job, or the distribution of their number; a job is done with its last task"),
    ] = 1
    types: Annotated[
        list[JobType], Meta(min_length=1, description="the types of jobs; default: one, of speed 1 everywhere")
    ] = msgspec.field(default_factory=lambda: [JobType(name="default", probability=1.0)])

    @property
    def task_numbers(self) -> TaskNumbers:
        """The distribution of the number of tasks of a job."""
        return FixedNumber(value=self.tasks) if isinstance(self.tasks, int) else self.tasks


class Dispatch(msgspec.Struct, frozen=True):
    """A dispatching policy by name, and its parameters. In a file both are keys of the one table ``[dispatch]``."""

    policy: str
    parameters: Any  # the policy's own struct, Policy.Parameters


class Variant(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The same workload under other settings."""

    name: Annotated[
        str, Meta(pattern=_TITLE, max_length=64, description="letters, digits, spaces and any of _ = + . , -")
    ]
    set: Annotated[
        dict[str, Any],
        Meta(
            description="dotted keys and their values in this variant; a pool or a type is named or numbered: "
            '{ "dispatch.policy" = "jiq", "cluster.pools.main.servers" = 20 }'
        ),
    ] = {}


class Scenario(msgspec.Struct, frozen=True, kw_only=True):
    """What to run. One that was read from a file or given other settings is checked; see ``checked`` for the others."""

    name: Annotated[
        str, Meta(pattern=_TITLE, max_length=64, description="letters, digits, spaces and any of _ = + . , -")
    ]
    seed: Annotated[int, Meta(ge=0, description="seed of all random streams")] = 1
    run: Annotated[RunSettings, Meta(description="how long to run, and how fast")] = RunSettings()
    cluster: Annotated[ClusterSettings, Meta(description="the servers, the dispatchers, and how they talk")]
    workload: Annotated[WorkloadSettings, Meta(description="what arrives")]
    dispatch: Annotated[Dispatch, Meta(description="the dispatching policy and its parameters")]
    balance: Annotated[
        Balance | None, Meta(description="how servers move waiting tasks among themselves; default: not at all")
    ] = None
    threshold: Annotated[
        Threshold | None, Meta(description="when jobs in central queues move, or are replicated; default: never")
    ] = None
    variants: Annotated[
        list[Variant],
        Meta(
            description="further runs of the same workload under other settings; the scenario itself runs first, "
            "under its policy's name"
        ),
    ] = []
    sweep: Annotated[
        Sweep | None, Meta(description="other settings under which all of this is run, by `testbed sweep`")
    ] = None
    expect: Annotated[
        Expect | None, Meta(description="what the scenario must give as a case of `testbed validate`; runs ignore it")
    ] = None

    @classmethod
    def from_file(cls, path: str | Path) -> Scenario:
        """Read a TOML file, or a shipped scenario by its name. Raises ScenarioError."""
        from testbed.scenario.scenario_files import load  # which makes scenarios of this class

        return load(path)

    def checked(self) -> Scenario:
        """Return the scenario as a file would give it, for one built in Python. Raises ScenarioError for a fault."""
        return self.with_settings({})

    def with_settings(self, settings: Mapping[str, Any]) -> Scenario:
        """Return the scenario with other values at dotted keys: ``{"workload.load": 0.9}``. Raises ScenarioError.

        None restores a key's default. Setting one of ``workload.load`` and ``workload.rate`` takes the other away;
        setting another policy takes away the parameters that it doesn't know.
        """
        from testbed.scenario.scenario_files import with_settings

        return with_settings(self, settings)

    @property
    def policy_class(self) -> type[PolicyLike]:
        """The class of the dispatching policy."""
        return policies()[self.dispatch.policy]

    @property
    def knows(self) -> Any:
        """What the policy knows of a job: the policy's parameter of that name, or "nothing"."""
        return getattr(self.dispatch.parameters, "knows", "nothing")

    @property
    def pool_fractions(self) -> list[list[float]] | None:
        """The fraction of the jobs of each type that the policy sends to each pool; None where it does not fix them."""
        servers = {pool.name: pool.servers for pool in self.cluster.pools}
        types = [job_type.name for job_type in self.workload.types]
        return self.policy_class.pool_fractions(self.dispatch.parameters, servers, types)

    @property
    def servers(self) -> int:
        """The number of servers, N."""
        return sum(pool.servers for pool in self.cluster.pools)

    @property
    def pools(self) -> list[PlacedPool]:
        """The pools, in order: servers have the addresses 0..N-1, pool by pool."""
        pools = self.cluster.pools
        starts = accumulate((pool.servers for pool in pools), initial=0)
        return [
            PlacedPool(pool.name, index, first, pool.servers, pool.queue == "central")
            for index, (pool, first) in enumerate(zip(pools, starts, strict=False))
        ]

    @property
    def central_pools(self) -> list[PlacedPool]:
        """The pools with a central queue, in order: a job has a size in each of them."""
        return [pool for pool in self.pools if pool.central]

    @property
    def replicas(self) -> int:
        """How many sizes a job of one task has: one for each central queue, or for each copy that the policy makes."""
        return max(self.policy_class.copies(self.dispatch.parameters), len(self.central_pools))

    @property
    def recorded_sizes(self) -> FloatArray | None:
        """The sizes in the arrivals' trace, shape (jobs,) or (jobs, replicas); None if sizes are drawn.

        Raises ValueError where the trace's sizes are unfit.
        """
        workload = self.workload
        if not isinstance(workload.arrivals, Trace):
            return None
        pools = [pool.name for pool in self.central_pools]
        return recorded_sizes(workload.arrivals, self.replicas, workload.dependence, pools)

    @property
    def type_fractions(self) -> tuple[float, ...]:
        """The fraction of the work that each job type brings: as recorded if the arrivals are a trace with types.

        Raises ValueError where the trace's types or sizes are unfit.
        """
        types, arrivals = self.workload.types, self.workload.arrivals
        recorded = None
        if isinstance(arrivals, Trace):
            recorded = arrivals.recording.type_fractions([t.name for t in types], self.recorded_sizes)
        return tuple(t.probability for t in types) if recorded is None else recorded

    @property
    def mean_size(self) -> float:
        """Mean size of a task, in time units: of the recorded sizes if the arrivals are a trace that has them."""
        recorded = self.recorded_sizes
        return self.workload.size.mean if recorded is None else float(recorded.mean())

    @property
    def mean_work(self) -> float:
        """Mean size of all tasks of a job together, in time units."""
        return self.mean_size * self.workload.task_numbers.mean

    @property
    def rate(self) -> float:
        """Jobs per time unit for the whole cluster."""
        workload = self.workload
        if workload.rate is not None:
            return workload.rate
        if workload.load is not None:
            return self.work_per_server * self.servers / self.mean_work
        natural = workload.arrivals.natural_rate
        assert natural is not None, "a valid scenario has a rate"
        return natural

    @property
    def load(self) -> float:
        """Arrival rate of work as a fraction of the capacity, or of one server of speed 1 (``workload.load_per``)."""
        if self.workload.load is not None:
            return self.workload.load
        unit = self.load_unit
        return self.work_per_server / unit if unit > 0 else math.inf

    @property
    def work_per_server(self) -> float:
        """Arrival rate of work per server, at speed 1: rate * tasks * mean size / N."""
        if self.workload.load is not None:
            return self.workload.load * self.load_unit
        return self.rate * self.mean_work / self.servers

    @property
    def load_unit(self) -> float:
        """Work per server and time unit, at speed 1, that is a load of 1."""
        if self.workload.load_per == "server":
            return 1.0
        types = self.workload.types
        speeds = tuple(tuple(t.speed.get(pool.name, 1.0) for t in types) for pool in self.cluster.pools)
        servers = tuple(pool.servers for pool in self.cluster.pools)
        return capacity(servers, speeds, self.type_fractions) / self.servers

    @property
    def horizon(self) -> float:
        """Time units from the start until arrivals stop: warm-up and duration."""
        warmup, duration = self.run.warmup, self.run.duration
        return duration + (AUTO_WARMUP_SHARE * duration if warmup == "auto" else warmup)

    @property
    def drain(self) -> float:
        """Time units that the jobs of the run have to finish in once arrivals have stopped."""
        return self.run.duration if self.run.drain is None else self.run.drain

    def service_rate(self, job_type: int, server: int) -> float:
        """Return the speed of a server, 0..N-1 in the order of the pools, for a job type by index."""
        for pool in self.pools:
            if 0 <= server - pool.first < pool.servers:
                return self.workload.types[job_type].speed.get(pool.name, 1.0)
        raise IndexError(f"there is no server {server}: servers are 0 to {self.servers - 1}")
