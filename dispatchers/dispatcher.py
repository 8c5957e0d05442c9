"""The dispatcher agent: takes jobs, has its policy place them, and accounts for each until its last task is done.

It is put together from parts, each of which handles messages of its own:

* dispatchers.jobs: the jobs in the system, and the records of those that have ended;
* dispatchers.placement: how jobs are placed and their ends noted, directly or in one of the other ways;
* dispatchers.probes: the probes and reservations;
* dispatchers.recovery, where the scenario asks for it: dispatching again what died with servers;
* dispatchers.switching: the policy, and former ones.

A policy sees none of them, but a view (dispatchers.view) with those of their methods that it may call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from dispatchers.placement import Placement
from dispatchers.policy import Policy
from dispatchers.probes import Probes
from dispatchers.recovery import Recovery
from dispatchers.ticket import Ticket
from dispatchers.view import Clock, DispatcherView
from testbed.core.agent import Agent
from testbed.core.messages import Fetch, Idle, Message, ProbeReply


class Dispatcher(Agent):
    """Receives jobs and places their tasks on servers, as its policy says.

    ``make_policy`` makes the policy from its view: ``partial(MyPolicy, parameters)``. With ``recovery`` the dispatcher
    dispatches again what dies with servers. ``switches`` says whether ``switch`` may be called.

    The response time of a job is the time between its *intended* arrival and the receipt of its last ``Done``, both on
    this dispatcher's clock (testbed/docs/architecture.md, rules 6 and 7).
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {Idle: "on_idle"}

    def __init__(
        self,
        placement: Placement,
        make_policy: Callable[[DispatcherView], Policy],
        recovery: Recovery | None = None,
        *,
        switches: bool = False,
    ) -> None:
        self.jobs = jobs = placement.jobs
        super().__init__(jobs.env, jobs.address)
        self.placement = placement
        self.recovery = recovery
        self.probes = Probes(jobs) if recovery is None else recovery.probes
        self.index = jobs.surroundings.index
        self.in_system = jobs.in_system
        self.arrived = 0
        self.idle_reports = 0
        self.view = self._view()
        self.policies = jobs.policies
        self.policies.begin(make_policy(self.view))
        self._place = self.policy.place
        self._switches = switches
        self._ticket: Callable[[float, float, int, Sequence[float]], Ticket] = Ticket
        if placement.in_copies or jobs.knowledge is not None:
            self._ticket = self._full_ticket
        self.handlers |= _bound(placement)
        # Where the policy never changes its replies go straight to it.
        self.handlers[ProbeReply] = self.policies.on_probe_reply if switches else self.policy.on_probe_reply
        if self.policy.reserves:
            self.handlers[Fetch] = self.policy.on_fetch
        if recovery is not None:
            self.handlers |= _bound(recovery)

    def _view(self) -> DispatcherView:
        jobs, placement, probes, recovery = self.jobs, self.placement, self.probes, self.recovery
        return DispatcherView(
            servers=jobs.surroundings.servers,
            pools=jobs.pools,
            types=jobs.surroundings.types,
            rational=jobs.surroundings.rational,
            env=Clock(self.env),
            rng=jobs.stream("choices"),
            stream=jobs.stream,
            assign=placement.assign if recovery is None or placement.avoids_down_servers else recovery.assign,
            assign_tied=placement.assign_tied,
            admit=placement.admit,
            probe=probes.probe,
            probe_all=probes.probe_all,
            reserve=probes.reserve,
            cancel=probes.cancel,
            signal=jobs.signal,
            sizes=jobs.sizes,
        )

    def _full_ticket(self, arrival: float, lag: float, job_type: int, sizes: Sequence[float]) -> Ticket:
        """Return the ticket of a job with all that a policy may know of it; one in copies is a single task."""
        ticket = Ticket(arrival, lag, job_type, sizes[:1] if self.placement.in_copies else sizes)
        ticket.every_size = sizes
        knowledge = self.jobs.knowledge
        if knowledge is not None and knowledge.signals:
            ticket.signal = knowledge.signal(job_type)
        return ticket

    def arrive(self, job: int, job_type: int, sizes: Sequence[float]) -> None:
        """Take a job whose intended arrival time is now."""
        env = self.env
        self.arrived += 1
        self.in_system[job] = ticket = self._ticket(env.now, env.lateness, job_type, sizes)
        tasks = ticket.remaining
        if tasks == 1:
            self._place(job)
        else:
            self.policy.place_tasks(job, tasks)

    def on_idle(self, idle: Idle) -> None:
        """Pass an idle report on to the policy."""
        self.idle_reports += 1
        self.policy.on_idle(idle.sender)

    @property
    def policy(self) -> Policy:
        """The policy that places the jobs that arrive."""
        return self.policies.current

    def switch(self, policy: Policy, first_job: int) -> None:
        """Have another policy, made with ``view``, place the jobs from number ``first_job`` on."""
        assert self._switches, "the dispatcher was not built to switch policies"
        self.policies.switch(policy, first_job)
        self._place = policy.place

    @override
    def on_down(self, first: int, last: int) -> None:
        """Note that servers ``first`` to ``last`` have died; dispatch again what they had, if the scenario says so."""
        if self.recovery is not None:
            self.recovery.on_down(first, last)

    @override
    def on_up(self, first: int, last: int) -> None:
        if self.recovery is not None:
            self.recovery.on_up(first, last)

    def close(self, is_lost: Callable[[int], bool]) -> None:
        """Write a record for every job still here; it is lost if ``is_lost(server)`` says that its server has died."""
        self.placement.close(is_lost)
        self.jobs.close(is_lost)


def _bound(part: Placement | Recovery) -> dict[type[Message], Callable[[Any], object]]:
    """Return which message goes to which method of a part."""
    return {message: getattr(part, method) for message, method in part.HANDLES.items()}
