"""The pool agent: the central queues of the pools, and what happens to a job at its threshold.

One agent holds one FCFS queue for each pool. Its decisions about replicas concern two pools in one instant (a pair
starts on both at once, and a completion frees a server of each); agents with one queue each would have to agree first
and would leave servers idle while they did. The agent exchanges messages with servers and dispatchers over sockets,
like all agents.

Source of the rules: Raaijmakers, Borst and Boxma, "Threshold-based rerouting and replication for resolving job-server
affinity relations" (arXiv 2005.13353). A server counts as free as soon as the agent has sent it a Stop, since
messages to it stay in order. Its ``Stopped`` reports how much the copy has received; until then it is in no queue.
testbed.core.copy_life describes the states of a copy, whose names are used below. servers.pool_copies implements the
single steps of a copy's life; this module decides when to take them.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, nan
from typing import ClassVar

from typing_extensions import override

from servers.central_queue import CentralPool, Copy, Job
from servers.pool_copies import PoolCopies
from servers.thresholds import Rules, Thresholds
from testbed.core.agent import Environment
from testbed.core.copy_life import Event, State
from testbed.core.messages import Admit, JobDone, Message, Reached, Served, Stopped
from testbed.core.outcomes import CopyOutcome, StateAtCancellation


class PoolAgent(PoolCopies):
    """Queues jobs, has idle servers serve them, and reroutes or replicates them at their thresholds.

    ``reroutes``, ``replicas`` and ``preemptions`` count.
    """

    HANDLES: ClassVar[dict[type[Message], str]] = {
        Admit: "on_admit",
        Reached: "on_reached",
        Served: "on_served",
        Stopped: "on_stopped",
    }

    def __init__(self, env: Environment, address: int, *, pools: Sequence[CentralPool], rules: Rules) -> None:
        super().__init__(env, address, pools, rules)
        self.reroutes = 0
        self.replicas = 0
        self.preemptions = 0
        self._position = {pool.index: i for i, pool in enumerate(pools)}
        self._admitted = 0
        self._thresholds = Thresholds(rules, self._pools, env.stream("pool agent/targets"))

    # --- queues ---

    def on_admit(self, admission: Admit) -> None:
        """Put a job at the tail of its pool's queue."""
        self._admitted += 1
        job = Job(admission, self._admitted)
        pool = self._position[admission.pool]
        instead = None if self._pools[pool].alive else self._thresholds.next_pool(pool)
        self._join(job, pool if instead is None else instead)
        self._dispatch()

    def _dispatch(self, freed: int = -1) -> None:
        """Start what can start: first pairs that wait, then the oldest head of a queue whose pool has an idle server.

        ``freed`` is the server that has just reported the end of a service.
        """
        self._freed = freed
        while True:
            self._start_pairs()
            ready = [pool for pool in self._pools if pool.line and pool.idle]
            if not ready:
                self._freed = -1
                return
            pool = min(ready, key=lambda pool: pool.line[0].job.order)
            copy = pool.line.popleft()
            copy.wait += self.env.now - copy.since
            threshold = self._thresholds.of(copy)
            if copy.received >= threshold and copy.received < pool.whole(copy):
                self._cross(copy)
            else:
                copy.become(Event.START)
                self._serve(copy, pool.idle.popleft(), threshold)

    # --- thresholds ---

    def on_reached(self, reached: Reached) -> None:
        """Reroute or replicate a job."""
        copy = self._copies.get(reached.copy)
        stays = self._rules.action == "replicate"
        if copy is None or copy.state is State.STOPPING:
            return  # preempted at the same time: it crosses the threshold again when it goes on
        if copy.state is State.CANCELLED:
            if not stays:  # it has stopped, and the cancellation will find nothing
                copy.received = reached.received
                self._end(copy, Event.CONFIRMED, CopyOutcome.SUPERSEDED)
            return
        copy.received = reached.received
        if not stays:
            self._pools[copy.pool].take_server(copy.server)
        self._cross(copy)
        self._dispatch(freed=-1 if stays else reached.sender)

    def _cross(self, copy: Copy) -> None:
        """Apply the rules to a copy that has reached its threshold, in service or about to start."""
        target = self._thresholds.target(copy)
        if self._rules.action == "replicate":
            if target is not None:
                self._pair(copy, target)
        elif target is not None:
            self.reroutes += 1
            self._move(copy, target)
        else:  # the other pools have died since
            copy.become(Event.STOP)
            self._rejoin(copy)

    def _move(self, copy: Copy, target: int) -> None:
        """Have a job start afresh in another pool."""
        copy.job.past += copy.received
        self._end(copy, Event.REROUTE, CopyOutcome.REROUTED)
        self._join(copy.job, target, self._thresholds.work(copy))

    # --- replicas ---

    def _pair(self, copy: Copy, target: int) -> None:
        """Start a replica, or have the job wait until both copies can be served at once."""
        server = self._available(target)
        if copy.state is State.SERVED:
            if server is not None:
                copy.become(Event.PAIR)
                self._replicate(copy, target, server)
            else:
                copy.target = target
                self._halt(copy, waits=True)
                self._pools[copy.pool].take_server(copy.server)
        elif server is not None:
            copy.become(Event.START_PAIR)
            self._serve(copy, self._pools[copy.pool].idle.popleft(), inf)
            self._replicate(copy, target, server)
        else:
            copy.target = target
            self._await_pair(copy)

    def _replicate(self, copy: Copy, target: int, server: int) -> None:
        self.replicas += 1
        replica = self._make(copy.job, target, self._thresholds.work(copy))
        replica.become(Event.START_PAIR)
        replica.original = False
        replica.base = copy.received
        copy.partner, replica.partner = replica, copy
        self._serve(replica, server, inf)

    def _available(self, pool: int) -> int | None:
        """Take a server for a pair: an idle one, or the one of a job that is preempted; None if all serve pairs."""
        queue = self._pools[pool]
        if queue.idle:
            return queue.idle.popleft()
        copy = queue.preemptible()
        if copy is None:
            return None
        self.preemptions += 1
        copy.preemptions += 1
        del queue.serving[copy.server]
        self._halt(copy, waits=False)
        return copy.server

    def _start_pairs(self) -> None:
        """Start the pairs that have waited for two servers, the first first."""
        for copy in list(self._pairs):
            assert copy.target is not None
            if not self._pools[copy.pool].has_room or not self._pools[copy.target].has_room:
                continue
            self._pairs.remove(copy)
            copy.wait += self.env.now - copy.since
            mine, theirs = self._available(copy.pool), self._available(copy.target)
            assert mine is not None
            assert theirs is not None
            copy.become(Event.START_PAIR)
            self._serve(copy, mine, inf)
            self._replicate(copy, copy.target, theirs)

    def on_stopped(self, stopped: Stopped) -> None:
        """Put a stopped copy where it waits to go on, or note that its cancellation has taken effect."""
        copy = self._copies.get(stopped.copy)
        if copy is None:
            return
        copy.received = stopped.received
        if copy.state is State.CANCELLED:
            self._end(copy, Event.CONFIRMED, CopyOutcome.SUPERSEDED)
            return
        del self._copies[copy.number]
        if copy.waits and copy.target is not None and self._pools[copy.target].alive:
            self._await_pair(copy)
        else:
            self._rejoin(copy)
        self._dispatch()

    # --- ends ---

    def on_served(self, served: Served) -> None:
        """Note that a copy is done; the first copy that is done completes its job."""
        copy = self._copies.get(served.copy)
        if copy is None:
            return
        copy.received = served.received
        job = copy.job
        if job.done:
            copy.state_at_cancellation = StateAtCancellation.ALREADY_DONE
            self._end(copy, Event.TOO_LATE, CopyOutcome.SUPERSEDED)
            return
        job.done = True
        # A replica whose original has died was cancelled, but is the first to finish all the same.
        copy.state_at_cancellation = StateAtCancellation.NOT_CANCELLED
        copy.cancelled = nan
        queue, freed = self._pools[copy.pool], -1
        if queue.serving.get(copy.server) is copy:
            queue.take_server(copy.server)
            freed = served.sender
        self._end(copy, Event.FINISH, CopyOutcome.WON)
        wait = job.waited + sum(other.wait for other in job.copies)
        for other in list(job.copies):
            self._cancel(other)
        self.env.send(
            JobDone(
                job.dispatcher,
                self.address,
                job.number,
                served.sender,
                job.made,
                wait,
                job.past + copy.base + copy.received,
                served.lateness,
            )
        )
        self._dispatch(freed)

    # --- servers that go down and come up ---

    @override
    def on_down(self, first: int, last: int) -> None:
        """Go on without servers ``first`` to ``last``: their copies start again, at the head of the queue."""
        lost = [copy for copy in self._copies.values() if first <= copy.server <= last]
        for pool in self._pools:
            pool.forget(first, last)
        for copy in sorted(lost, key=lambda copy: -copy.joined):
            self._lose(copy, copy.partner in lost)
        for number in range(len(self._pools)):
            target = self._thresholds.next_pool(number)
            if target is not None:
                self._leave_dead(number, target)
        self._dispatch()

    @override
    def on_up(self, first: int, last: int) -> None:
        for pool in self._pools:
            pool.remember(first, last)
        self._dispatch()

    def _lose(self, copy: Copy, both: bool) -> None:
        """Note that the server of a copy has died; ``both``: that of its partner as well."""
        job, partner, state = copy.job, copy.partner, copy.state
        copy.received = nan
        self._end(copy, Event.LOSE, CopyOutcome.DIED)
        if job.done or state is State.CANCELLED:
            return
        if state is State.PAIRED and partner is not None and not both:
            if copy.original:
                self._cancel(partner)
            else:
                self._halt(partner, waits=False)
                self._pools[partner.pool].take_server(partner.server)
        if copy.original:
            again = self._make(job, copy.pool, copy.done_work)
            again.joined = copy.joined
            again.since = self.env.now
            self._pools[copy.pool].line.appendleft(again)

    def _leave_dead(self, number: int, target: int) -> None:
        """Move the jobs that wait in a pool whose last server has died; pairs no longer wait for it."""
        pool = self._pools[number]
        if pool.alive:
            return
        for copy in [copy for copy in self._pairs if copy.target == number]:
            self._leave_line(copy)
            self._rejoin(copy)
        for copy in [*pool.line, *(copy for copy in self._pairs if copy.pool == number)]:
            self._leave_line(copy)
            self._move(copy, target)
