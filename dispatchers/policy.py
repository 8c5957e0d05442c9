"""What a dispatching policy is.

A policy decides where the tasks of a job go, and nothing else. The dispatcher agent (dispatchers.dispatcher) keeps the
jobs, the records and the accounts. It calls the policy with one method per event, and the policy acts through
``self.dispatcher``, its view of the dispatcher (dispatchers.view.DispatcherView):

* ``dispatcher.servers``: the number of servers, N; servers are 0..N-1
* ``dispatcher.probe(server, job)``: ask for a queue length; the answer comes as ``on_probe_reply``
* ``dispatcher.assign(job, server)``: place the next task of the job there
* ``dispatcher.reserve(server, job, number)`` and ``dispatcher.cancel(server, job, number)``: to bind tasks late
* ``dispatcher.assign_tied(job, servers)``: place copies that cancel each other, where the policy makes ``copies``;
  ``dispatcher.assign`` then places the next copy
* ``dispatcher.signal(job)`` and ``dispatcher.sizes(job)``: what is known of a job, where the scenario allows it
* ``dispatcher.admit(job, pool)``: have the job join a pool's central queue
* ``dispatcher.pools`` and ``dispatcher.types``: the pools of servers, and the names of the types of jobs
* ``dispatcher.rng``: the random stream of this policy's choices; ``dispatcher.stream(use)`` is a further one
* ``dispatcher.env.now`` and ``dispatcher.env.call_at(when, callback)``: the clock

A job is known to its policy by a number. Its type and its size travel with it for the servers to emulate, but are not
shown to a policy (testbed/docs/architecture.md, rule 8). The tasks of a job are interchangeable: a policy gets
the number of tasks to place. A policy that can only place one task is asked for each task of a job in turn.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Final

import msgspec

from dispatchers.view import DispatcherView
from testbed.core.messages import Done, Fetch, ProbeReply

#: What had another name in earlier versions; a policy that still uses it would silently not get the event.
RENAMED: Final = {"on_lost": "on_down", "on_found": "on_up", "enters": "admits"}


class NoParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """For policies that have nothing to set."""


#: The field for a policy that waits for replies.
Timeout = Annotated[
    Annotated[float, msgspec.Meta(gt=0)] | None,
    msgspec.Meta(
        description="time units to wait for replies before the job is placed with what is known; default: no limit",
    ),
]


class Policy:
    """Base of all dispatching policies: subclass it, set the class attributes, implement ``place``.

    Register it under the entry-point group ``loadbalance_testbed.policies`` and run it through
    ``testbed.testing.check_policy``.
    """

    #: The name in a scenario's ``[dispatch] policy``.
    name: ClassVar[str]
    #: The paper or book that the policy comes from.
    source: ClassVar[str]
    #: A frozen msgspec struct: the keys of ``[dispatch]`` other than ``policy``, each with a description.
    Parameters: ClassVar[type[Any]] = NoParameters
    #: Whether servers report to a dispatcher when they become idle (``on_idle``).
    idle_reports: ClassVar[bool] = False
    #: Whether replies to one job's probes may decide where another job goes: a policy with a memory of queues.
    remembers: ClassVar[bool] = False
    #: Whether the policy puts reservations into queues instead of tasks (``on_fetch``).
    reserves: ClassVar[bool] = False
    #: Whether the policy ties copies (``dispatcher.assign_tied``), so that servers cancel each other's.
    ties: ClassVar[bool] = False
    #: Whether the policy can place jobs in the central queues of pools (``dispatcher.admit``).
    admits: ClassVar[bool] = False
    #: Whether the policy can place jobs of known sizes by rational thresholds (``dispatcher.rational``).
    rational: ClassVar[bool] = False
    #: What theory knows of the policy: "module:attribute" of a testbed.theory.policy_theory.PolicyTheory; "": nothing.
    #: It is imported only where theory is asked for, never in the processes of a cluster; subclasses don't inherit it.
    theory: ClassVar[str] = ""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        for old, new in RENAMED.items():
            if old in vars(cls):
                raise TypeError(f"{cls.__name__}.{old} is now called {new}; rename it")

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        self.parameters = parameters
        self.dispatcher = dispatcher

    @classmethod
    def check(cls, parameters: Any, servers: int) -> None:
        """Raise ValueError, saying what would be right, for parameters that don't fit a cluster of ``servers``."""

    @classmethod
    def check_pools(cls, parameters: Any, pools: Mapping[str, int], types: Sequence[str]) -> None:
        """Raise ValueError, saying what would be right, for parameters that don't fit the pools and types of jobs.

        ``pools`` are the numbers of servers by name of the pool, in order, ``types`` the names of the types.
        """

    @classmethod
    def pool_fractions(
        cls, parameters: Any, pools: Mapping[str, int], types: Sequence[str]
    ) -> list[list[float]] | None:
        """Return, by type of job and by pool, the fraction of the type's jobs that go to the pool.

        The arguments are those of ``check_pools``. None where the state of the system decides.
        """
        return None

    @classmethod
    def copies(cls, parameters: Any) -> int:
        """Return the most copies of a job that the policy has in the system: a job then has a size for each."""
        return 1

    @classmethod
    def cancels_on_start(cls, parameters: Any) -> bool:
        """Return whether the dispatcher cancels the other copies of a job as soon as one has started."""
        return False

    @classmethod
    def probes_per_job(cls, parameters: Any, servers: int) -> float:
        """Return the most probes that the policy sends for one task; a bound that the conformance suite checks."""
        return 0

    @classmethod
    def check_tasks(cls, parameters: Any, servers: int, tasks: int) -> None:
        """Raise ValueError, saying what would be right, where jobs of ``tasks`` tasks can't be placed."""

    @classmethod
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        """Return the most probes that the policy sends to place ``tasks`` tasks of a job."""
        return tasks * cls.probes_per_job(parameters, servers)

    @classmethod
    def mean_probes(cls, parameters: Any, servers: int, tasks: int) -> float:
        """Return the mean number of probes for a job of ``tasks`` tasks: its nominal probe overhead times ``tasks``."""
        return cls.probes_for_tasks(parameters, servers, tasks)

    def place(self, job: int) -> None:
        """Place one task of a job: at once, or later when replies have come, but in the end."""
        raise NotImplementedError  # the one hook without a default; no abstract class, for the others may stay empty

    def place_tasks(self, job: int, tasks: int) -> None:
        """Place ``tasks`` tasks of a job, two or more; by default each by itself, one after the other."""
        for _ in range(tasks):
            self.place(job)

    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Take a reply: ``reply.sender`` had ``reply.queue_length`` tasks. It may come after its job was placed."""

    def on_done(self, done: Done) -> None:
        """Note that ``done.sender`` has finished, or dropped, a task that this dispatcher placed."""

    def on_moved(self, old: int, new: int) -> None:
        """Note that a task of this dispatcher has moved from server ``old`` to server ``new``."""

    def on_unreachable(self, server: int, job: int, round: int) -> None:
        """Note that a server will not reply to a probe of a round for a job, because it was down already."""

    def on_down(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` have died; the dispatcher uses others in their place."""

    def on_up(self, first: int, last: int) -> None:
        """Note that servers that had died are up again, with nothing in their queues."""

    def on_idle(self, server: int) -> None:
        """Note that a server has reported that it is idle."""

    def on_fetch(self, fetch: Fetch) -> None:
        """Assign a task of ``fetch.job`` to ``fetch.sender``, whose reservation has its turn, or cancel that."""
