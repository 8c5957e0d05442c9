"""Going over from one policy to another while jobs are on their way.

Every job belongs to one policy for all its life: the one that was in force when it arrived. That one places it, hears
the replies to its probes and the ends of its tasks, and places it again after a death; so that each policy's counts are
of its own jobs, and no question is taken for one of another policy. A dispatcher's jobs arrive in the order of their
numbers, so that a number is enough to tell whose a job is. A former policy is forgotten when its last job has left the
system; replies that come still later are for nobody.

A new policy begins without knowledge: one that counts what it has placed counts from zero, while servers still hold
what its predecessor has placed there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dispatchers.policy import Policy
from testbed.core.messages import Done, ProbeReply

if TYPE_CHECKING:
    from dispatchers.dispatcher import Dispatcher


class Switching:
    """The former policies of a dispatcher, and which jobs are theirs."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._former: list[tuple[int, int, Policy]] = []  # with the first of its jobs, and the one after its last
        self._first = 0  # job of the present policy

    def follow(self, former: Policy, first_job: int) -> None:
        """Note that jobs from ``first_job`` on are not those of ``former``, but of the policy that now is."""
        self._forget()
        self._former.append((self._first, first_job, former))
        self._first = first_job

    def former(self) -> list[Policy]:
        """Return the former policies that still have jobs, the oldest first."""
        self._forget()
        return [policy for _, _, policy in self._former]

    def policy_of(self, job: int) -> Policy | None:
        """Return whose a job is; None if that policy has no job any more."""
        if job >= self._first:
            return self._dispatcher.policy
        for first, after, policy in self._former:
            if first <= job < after:
                return policy
        return None

    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Pass a reply on to the policy that has asked."""
        policy = self.policy_of(reply.job)
        if policy is not None:
            policy.on_probe_reply(reply)

    def on_done(self, done: Done) -> None:
        """Pass the end of a task on to the policy that has placed it."""
        policy = self.policy_of(done.job)
        if policy is not None:
            policy.on_done(done)

    def _forget(self) -> None:
        # The first job is the oldest: a dictionary keeps the order in which jobs have come.
        oldest = next(iter(self._dispatcher.in_system), self._first)
        self._former = [former for former in self._former if former[1] > oldest]
