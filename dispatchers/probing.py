"""What policies that probe have in common: collect the replies for a job, and decide when all have come or time is up.

A policy starts a probe round on behalf of a job (``start_round``): one probe to each of some servers. When the last
reply has come, or ``timeout`` time units after the start, ``decide`` is called once, with the replies that have come by
then. A reply that comes later is ignored. Rounds are numbered and replies carry the number, so that a job may have
several. A server that is down does not reply, and is not waited for. Without a time-out a job waits for all others.

All rounds of a policy wait equally long, so they expire in the order in which they were started: a deque and one timer
serve them all. Most rounds end long before they expire; one that has ended leaves the deque when it is found at its
head, and a timer that goes off too early for the present head is set again for that one.

Every random number that ``decide`` will need must be drawn before ``start_round``, on the job's arrival: jobs then use
the policy's stream in their order of arrival, whatever the order of the replies, in the cluster as in its twin. Two
ways: probe the servers in a random order, and let "the first among the shortest" break ties; or draw one number and
pass it as ``draw``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import Any, Final

from typing_extensions import override

from dispatchers.policy import Policy
from dispatchers.view import DispatcherView
from testbed.core.messages import ProbeReply

#: In most rounds no server is down: these share this set.
NO_SERVERS: Final[frozenset[int]] = frozenset()


class ProbeRound:
    """The probes for ``tasks`` tasks of a job.

    ``queue_lengths``: the queue length of each server that has replied. ``down``: servers that are down; no reply
    comes from them.
    """

    __slots__ = ("deadline", "down", "draw", "job", "number", "queue_lengths", "replies", "servers", "tasks")

    def __init__(self, number: int, job: int, servers: Sequence[int], draw: float, tasks: int) -> None:
        self.number = number
        self.job = job
        self.servers = servers
        self.draw = draw
        self.tasks = tasks
        self.queue_lengths: dict[int, int] = {}
        self.down = NO_SERVERS
        self.replies = len(servers)  # that can come in all
        self.deadline: float  # set where the policy has a time-out


class ProbingPolicy(Policy):
    """Base of the policies that probe; ``parameters.timeout`` is a dispatchers.policy.Timeout."""

    def __init__(self, parameters: Any, dispatcher: DispatcherView) -> None:
        super().__init__(parameters, dispatcher)
        self._timeout: float = inf if parameters.timeout is None else parameters.timeout
        self._open: dict[int, ProbeRound] = {}  # by number
        self._started = 0
        self._expiring: deque[ProbeRound] = deque()  # open ones and some that have ended, in order of deadline
        self._timer_is_set = False

    def start_round(self, job: int, servers: Sequence[int], draw: float = 0.0, tasks: int = 1) -> ProbeRound:
        """Probe the servers, all distinct, to place ``tasks`` tasks of a job; return the round."""
        self._started = number = self._started + 1
        self._open[number] = round = ProbeRound(number, job, servers, draw, tasks)
        if self._timeout < inf:
            self._limit(round)
        self.dispatcher.probe_all(servers, job, number)
        return round

    @abstractmethod
    def decide(self, round: ProbeRound) -> None:
        """Place the round's tasks, now that all replies have come or time is up; perhaps none has come."""

    @override
    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Note a reply, and decide if it was the last."""
        round = self._open.get(reply.round)
        if round is None:
            return
        queue_lengths = round.queue_lengths
        queue_lengths[reply.sender] = reply.queue_length
        if len(queue_lengths) == round.replies:
            del self._open[reply.round]
            self.decide(round)

    @override
    def on_unreachable(self, server: int, job: int, round: int) -> None:
        """Wait for a server's reply no longer."""
        found = self._open.get(round)
        if found is not None:
            self._note_down(found, server)

    @override
    def on_down(self, first: int, last: int) -> None:
        """Wait for the replies of dead servers no longer."""
        for round in list(self._open.values()):
            for server in round.servers:
                if first <= server <= last and round.number in self._open:
                    self._note_down(round, server)

    def _note_down(self, round: ProbeRound, server: int) -> None:
        if server in round.queue_lengths or server in round.down:
            return
        round.down |= {server}
        round.replies -= 1
        if len(round.queue_lengths) == round.replies:
            del self._open[round.number]
            self.decide(round)

    def _limit(self, round: ProbeRound) -> None:
        env = self.dispatcher.env
        round.deadline = env.now + self._timeout
        expiring = self._expiring
        while expiring and expiring[0].number not in self._open:
            expiring.popleft()
        expiring.append(round)
        if not self._timer_is_set:
            self._timer_is_set = True
            env.call_at(round.deadline, self._expire)

    def _expire(self) -> None:
        env = self.dispatcher.env
        expiring = self._expiring
        while expiring:
            round = expiring[0]
            if round.number in self._open:
                if round.deadline > env.now:
                    env.call_at(round.deadline, self._expire)
                    return
                del self._open[round.number]
                expiring.popleft()
                self.decide(round)  # may start another round, and so change the deque
            else:
                expiring.popleft()
        self._timer_is_set = False
