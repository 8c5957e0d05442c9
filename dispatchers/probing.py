"""What policies that probe have in common: collect the replies for a job, and decide when all have come or time is up.

A policy asks a question on behalf of a job (``ask``): one probe to each of some servers. When the last reply has come,
or ``timeout`` time units after the question, ``decide`` is called once, with the replies that have come by then. A
reply that comes later is ignored. Questions are numbered and replies bear their number, so that a job may have several.
Without a time-out a job waits for its replies for ever, unless it hears that a server has died.

All questions of a policy wait equally long, so they expire in the order in which they were asked: a deque and one timer
serve them all. Most questions are answered long before they expire; an answered one leaves the deque when it is found
at its head, and the timer, when it goes off too early for the present head, is set again for that one.

Every random number that ``decide`` will need must be drawn before ``ask``, on the job's arrival: jobs then use the
policy's stream in their order of arrival, whatever the order of the replies, in the cluster as in its twin. Two ways:
ask the servers in a random order, and let "the first among the shortest" break ties; or draw one number and pass it as
``draw``.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from math import inf
from typing import TYPE_CHECKING, Any

from dispatchers.policy import Policy
from dispatchers.recovery import UNREACHABLE
from testbed.core.messages import ProbeReply

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher


class Question:
    """The probes for ``tasks`` tasks of a job. ``queue_lengths``: of each server that has replied, its queue length."""

    __slots__ = ("deadline", "draw", "job", "number", "queue_lengths", "servers", "tasks")

    def __init__(self, number: int, job: int, servers: Sequence[int], draw: float, tasks: int) -> None:
        self.number = number
        self.job = job
        self.servers = servers
        self.draw = draw
        self.tasks = tasks
        self.queue_lengths: dict[int, int] = {}
        self.deadline = 0.0


class ProbingPolicy(Policy):
    """Base of the policies that probe; ``parameters.timeout`` is a dispatchers.policy.Timeout."""

    def __init__(self, parameters: Any, dispatcher: Dispatcher) -> None:
        super().__init__(parameters, dispatcher)
        self._timeout: float = inf if parameters.timeout is None else parameters.timeout
        self._open: dict[int, Question] = {}  # by number
        self._asked = 0
        self._expiring: deque[Question] = deque()  # open ones and some answered ones, in order of deadline
        self._timer_is_set = False

    def ask(self, job: int, servers: Sequence[int], draw: float = 0.0, tasks: int = 1) -> Question:
        """Probe the servers, all distinct, to place ``tasks`` tasks of a job; return the question."""
        self._asked = number = self._asked + 1
        self._open[number] = question = Question(number, job, servers, draw, tasks)
        if self._timeout < inf:
            self._limit(question)
        self.dispatcher.probe_all(servers, job, number)
        return question

    @abstractmethod
    def decide(self, question: Question) -> None:
        """Place the question's tasks, now that all have replied or time is up; perhaps no one has replied."""

    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Note a reply, and decide if it was the last."""
        question = self._open.get(reply.question)
        if question is None:
            return
        queue_lengths = question.queue_lengths
        queue_lengths[reply.sender] = reply.queue_length
        if len(queue_lengths) == len(question.servers):
            del self._open[reply.question]
            self.decide(question)

    def on_lost(self, first: int, last: int) -> None:
        """Take the dead servers' replies as given."""
        for question in list(self._open.values()):
            for server in question.servers:
                if first <= server <= last and server not in question.queue_lengths:
                    self.on_probe_reply(
                        ProbeReply(self.dispatcher.address, server, question.job, UNREACHABLE, question.number)
                    )

    def _limit(self, question: Question) -> None:
        env = self.dispatcher.env
        question.deadline = env.now + self._timeout
        expiring = self._expiring
        while expiring and expiring[0].number not in self._open:
            expiring.popleft()
        expiring.append(question)
        if not self._timer_is_set:
            self._timer_is_set = True
            env.call_at(question.deadline, self._expire)

    def _expire(self) -> None:
        env = self.dispatcher.env
        expiring = self._expiring
        while expiring:
            question = expiring[0]
            if question.number in self._open:
                if question.deadline > env.now:
                    env.call_at(question.deadline, self._expire)
                    return
                del self._open[question.number]
                expiring.popleft()
                self.decide(question)  # may ask again, and so change the deque
            else:
                expiring.popleft()
        self._timer_is_set = False
