"""What a dispatching policy may know and do: the view of its dispatcher that it is given as ``self.dispatcher``.

The view is narrow on purpose (testbed/docs/architecture.md, rule 8). It has no table of jobs, no records and no other
agent: a job is a number, and what the scenario lets a policy know of it is read with ``signal`` and ``sizes``.

The functions of a view belong to the objects that place the dispatcher's jobs, send its probes and recover from
failures. They are bound once, when the dispatcher is built, so that a policy's call goes straight to the code that does
the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from testbed.core.agent import Environment, Timer
from testbed.core.placed_pool import PlacedPool
from testbed.core.streams import Stream


class Clock:
    """The clock of a policy. All times are in time units."""

    __slots__ = ("_env", "call_at")

    def __init__(self, env: Environment) -> None:
        self._env = env
        #: ``call_at(when, callback)`` calls ``callback()`` at time ``when``; it returns a Timer, to cancel it.
        self.call_at: Callable[[float, Callable[[], object]], Timer] = env.call_at

    @property
    def now(self) -> float:
        """The time of the event that is being handled."""
        return self._env.now


class SendProbe(Protocol):
    """Ask a server for its queue length on behalf of a job."""

    def __call__(self, server: int, job: int, round: int = 0, /) -> None:
        """The reply carries the number ``round``, with which a policy distinguishes its probe rounds."""


class Admit(Protocol):
    """Have a job join the central queue of a pool."""

    def __call__(self, job: int, pool: int, thresholds: Sequence[float] = (), /) -> None:
        """``pool`` is its index; ``thresholds`` are the job's own, by visit, in time units, if it has any."""


class Rational(Protocol):
    """Chooses the pool and the thresholds that are best for a job of known sizes."""

    def choose(self, sizes: Sequence[float], uniform: float) -> tuple[int, list[float]]:
        """Return the index of the pool where the job starts, and its thresholds by visit, in time units.

        ``sizes`` are its sizes by pool; ``uniform``, a draw from [0, 1), decides between choices that are equally good.
        """
        ...


@dataclass(frozen=True, slots=True)
class DispatcherView:
    """What a policy may know of its dispatcher, and have it do."""

    #: The number of servers, N; servers are 0..N-1.
    servers: int
    #: The pools of servers, in order.
    pools: Sequence[PlacedPool]
    #: The names of the types of jobs.
    types: Sequence[str]
    #: The best choice for known sizes, where the scenario has rational thresholds.
    rational: Rational | None
    #: The clock: ``env.now`` and ``env.call_at(when, callback)``.
    env: Clock
    #: The random stream of the policy's choices.
    rng: Stream
    #: ``stream(use)``: a further random stream of this dispatcher, by what it is used for.
    stream: Callable[[str], Stream]
    #: ``assign(job, server)``: place the next task of the job, or its next copy, on a server.
    assign: Callable[[int, int], None]
    #: ``assign_tied(job, servers)``: place copies that know of each other; the one that starts cancels the others.
    assign_tied: Callable[[int, Sequence[int]], None]
    #: ``admit(job, pool, thresholds=())``: have the job join a pool's central queue.
    admit: Admit
    #: ``probe(server, job, round=0)``: ask for a queue length; ``on_probe_reply`` gets the answer.
    probe: SendProbe
    #: ``probe_all(servers, job, round)``: ask several servers.
    probe_all: Callable[[Sequence[int], int, int], None]
    #: ``reserve(server, job, number)``: put a reservation, with a number of the policy's own, into a server's queue.
    #: Returns the server that gets it: another one where that server is down.
    reserve: Callable[[int, int, int], int]
    #: ``cancel(server, job, number)``: take back a reservation, or answer its Fetch when no task is left for it.
    cancel: Callable[[int, int, int], None]
    #: ``signal(job)``: what is known of a job's type: the index of a type, or the one after the last type for nothing.
    #: Raises dispatchers.knowledge.NotKnownError where the scenario lets no policy know.
    signal: Callable[[int], int]
    #: ``sizes(job)``: a job's size in each central pool, or of each copy or task. Raises NotKnownError.
    sizes: Callable[[int], Sequence[float]]
