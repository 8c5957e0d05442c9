"""Late binding: put k d reservations into queues for a job of k tasks; the first k servers to reach theirs get a task.

The m = min(N, ceil(k d)) servers are a uniform sample without replacement, in random order. A server whose reservation
reaches the head of its queue asks for a task (``Fetch``) and waits for the answer. When the last task has gone, all
reservations that are left are cancelled, one message each: those that still wait leave their queues, one whose server
is just asking is thereby answered. Every reservation gets one answer, a task or a cancellation, so that messages may
cross. When they take no time, the tasks go to the k sampled servers with the least unfinished work. It needs m >= k: so
d of at least 1, and no fewer servers than a job has tasks.

A reservation counts as a probe; cancellations are counted apart. While a server asks it does nothing: with a message
delay l each task costs it 2 l. Waiting tasks are at the dispatcher, so that there are none to steal or share, and no
buffer to fill. Where reservations die with their servers, new ones are made as far as the job needs them.
"""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from typing_extensions import override

from dispatchers.view import DispatcherView
from dispatchers.whole_jobs import DistinctServersPolicy, number_of_probes
from testbed.core.messages import Fetch


class LateBindingParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters of late binding."""

    d: Annotated[float, msgspec.Meta(ge=1, description="reservations per task; k d is rounded up, and at most N")] = 2


class _Reservations:
    """Of a job: the servers that have one, by its number, and how many tasks are left for them."""

    __slots__ = ("servers", "tasks")

    def __init__(self) -> None:
        self.servers: dict[int, int] = {}
        self.tasks = 0


class LateBinding(DistinctServersPolicy):
    """A task to each of the first k of k d sampled servers that come to serve it."""

    name = "late-binding"
    source = "Ousterhout, Wendell, Zaharia and Stoica 2013 (Sparrow)"
    theory = "testbed.theory.probing_policies:LATE_BINDING"
    Parameters = LateBindingParameters
    reserves = True

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._open: dict[int, _Reservations] = {}  # by job
        self._made = 0

    @classmethod
    @override
    def probes_for_tasks(cls, parameters: Any, servers: int, tasks: int) -> float:
        return number_of_probes(tasks, parameters.d, servers)

    @override
    def place_tasks(self, job: int, tasks: int) -> None:
        dispatcher = self.dispatcher
        reservations = self._open.setdefault(job, _Reservations())
        reservations.tasks += tasks
        servers = dispatcher.servers
        for server in dispatcher.rng.sample(servers, number_of_probes(tasks, self.parameters.d, servers)):
            self._reserve(server, job, reservations)

    def _reserve(self, server: int, job: int, reservations: _Reservations) -> None:
        self._made = number = self._made + 1
        reservations.servers[number] = self.dispatcher.reserve(server, job, number)

    @override
    def on_fetch(self, fetch: Fetch) -> None:
        """Give the server a task; with the last one, cancel the other reservations."""
        job = fetch.job
        reservations = self._open.get(job)
        if reservations is None or fetch.number not in reservations.servers:
            return  # it is cancelled; the Cancel is on its way
        del reservations.servers[fetch.number]
        reservations.tasks -= 1
        self.dispatcher.assign(job, fetch.sender)
        if not reservations.tasks:
            del self._open[job]
            for number, server in reservations.servers.items():
                self.dispatcher.cancel(server, job, number)

    @override
    def on_down(self, first: int, last: int) -> None:
        """Replace the dead servers' reservations, where a job has fewer left than tasks."""
        dispatcher = self.dispatcher
        for job, reservations in self._open.items():
            kept = {number: at for number, at in reservations.servers.items() if not first <= at <= last}
            reservations.servers = kept
            for _ in range(reservations.tasks - len(kept)):
                self._reserve(dispatcher.rng.integer(dispatcher.servers), job, reservations)
