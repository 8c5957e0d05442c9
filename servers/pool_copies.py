"""The copies of jobs in pools with central queues: where each is, and the steps that it can take.

A step changes a copy's state (testbed.core.copy_life), the queues and the lists of servers, and notifies the copy's
server or its job's dispatcher. The pool agent (servers.pool_agent) decides which step to take when.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

from servers.central_queue import CentralPool, Copy, Job, Queue
from servers.thresholds import Rules
from testbed.core.agent import Agent, Environment
from testbed.core.copy_life import OPEN, Event, State
from testbed.core.messages import CopyEnded, Serve, Stop
from testbed.core.outcomes import CopyOutcome, StateAtCancellation
from testbed.core.rows import CopyRecord

#: What a cancellation finds, by the state of the copy.
_STATES_AT_CANCELLATION = {
    State.QUEUED: StateAtCancellation.QUEUED,
    State.SERVED: StateAtCancellation.IN_SERVICE,
    State.PAIRED: StateAtCancellation.IN_SERVICE,
    State.STOPPING: StateAtCancellation.PREEMPTED,
    State.PREEMPTED: StateAtCancellation.PREEMPTED,
    State.WAITING: StateAtCancellation.WAITING,
}


class PoolCopies(Agent):
    """An agent that keeps copies: in its pools' queues, on their servers, or waiting for two servers as a pair.

    ``waiting`` is the number of jobs in queues.
    """

    def __init__(self, env: Environment, address: int, pools: Sequence[CentralPool], rules: Rules) -> None:
        super().__init__(env, address)
        self._rules = rules
        self._pools = [Queue(pool) for pool in pools]
        self._copies: dict[int, Copy] = {}  # on servers, by number
        self._pairs: deque[Copy] = deque()  # that wait for two servers
        self._freed = -1  # the server whose end of service is being handled, if any
        self._numbered = 0

    @property
    def waiting(self) -> int:
        """The number of jobs that wait: in a queue, or as a pair."""
        return sum(len(pool.line) for pool in self._pools) + len(self._pairs)

    # --- in queues ---

    def _make(self, job: Job, pool: int, done_work: float = 0.0) -> Copy:
        self._numbered += 1
        copy = Copy(self._numbered, job, pool, done_work)
        job.made += 1
        job.copies.append(copy)
        return copy

    def _join(self, job: Job, pool: int, done_work: float = 0.0) -> None:
        copy = self._make(job, pool, done_work)
        job.visited.append(pool)
        copy.since = self.env.now
        self._pools[pool].line.append(copy)

    def _rejoin(self, copy: Copy) -> None:
        """Put a copy back at the head of its pool's queue."""
        copy.become(Event.REJOIN)
        copy.since = self.env.now
        self._pools[copy.pool].line.appendleft(copy)

    def _await_pair(self, copy: Copy) -> None:
        copy.become(Event.AWAIT)
        copy.since = self.env.now
        self._pairs.append(copy)

    def _leave_line(self, copy: Copy) -> None:
        (self._pairs if copy.state is State.WAITING else self._pools[copy.pool].line).remove(copy)
        copy.wait += self.env.now - copy.since

    # --- on servers ---

    def _serve(self, copy: Copy, server: int, threshold: float) -> None:
        copy.server = server
        self._pools[copy.pool].serving[server] = copy
        self._copies[copy.number] = copy
        self.env.send(
            Serve(
                server,
                self.address,
                copy.number,
                copy.job.admission.job_type,
                copy.size,
                copy.received,
                threshold,
                self._rules.action == "replicate",
                copy.job.number,
                server == self._freed,
            )
        )

    def _halt(self, copy: Copy, waits: bool) -> None:
        """Stop a copy that will go on later."""
        copy.become(Event.STOP)
        copy.waits = waits
        self.env.send(Stop(copy.server, self.address, copy.number))

    # --- ends ---

    def _cancel(self, copy: Copy) -> None:
        """Cancel a copy, wherever it is."""
        if copy.state is State.CANCELLED:
            return
        copy.state_at_cancellation = _STATES_AT_CANCELLATION[copy.state]
        copy.cancelled = self.env.now
        if copy.state in (State.SERVED, State.PAIRED):
            self._pools[copy.pool].take_server(copy.server)
            self.env.send(Stop(copy.server, self.address, copy.number))
            copy.become(Event.CANCEL)
        elif copy.state is State.STOPPING:
            copy.become(Event.CANCEL)
        else:
            self._leave_line(copy)
            self._end(copy, Event.DISCARD, CopyOutcome.SUPERSEDED)

    def _end(self, copy: Copy, event: Event, outcome: CopyOutcome) -> None:
        """End the life of a copy, and report it to its job's dispatcher."""
        copy.become(event)
        assert copy.state not in OPEN
        self._copies.pop(copy.number, None)
        job = copy.job
        job.copies.remove(copy)
        job.waited += copy.wait
        record = CopyRecord(
            job=job.number,
            copy=copy.order,
            pool=self._pools[copy.pool].index,
            server=copy.server,
            wait=copy.wait,
            received=copy.received,
            preemptions=copy.preemptions,
            outcome=outcome,
            state_at_cancellation=copy.state_at_cancellation,
            delay=self.env.now - copy.cancelled,
        )
        self.env.send(CopyEnded(job.dispatcher, self.address, record))
