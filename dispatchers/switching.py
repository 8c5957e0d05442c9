"""The policies of a dispatcher: the present one, and former ones that still have jobs in the system.

The policy of a long-running cluster can be replaced while jobs are in the system. Every job belongs to one policy for
all its life: the present one at its arrival. That policy places the job, gets the replies to its probes and the ends of
its tasks, and places it again after a failure. So each policy counts its own jobs, and no reply is taken for one to
another policy's probe. Jobs arrive in the order of their numbers, so that its number says whose a job is. A former
policy is forgotten when its last job has left the system; nobody gets the replies that come later.

A new policy begins without knowledge: one that counts what it has placed counts from zero, while the servers still have
the tasks that its predecessor has placed.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dispatchers.policy import Policy
from testbed.core.messages import Done, ProbeReply


class Policies:
    """The policies of the dispatcher that has the jobs ``in_system``, in their order of arrival."""

    #: The present policy.
    current: Policy
    #: What gets the ends of tasks; None where that would do nothing, so that most jobs don't pay for it.
    on_done: Callable[[Done], object] | None

    def __init__(self, in_system: Mapping[int, object]) -> None:
        self._in_system = in_system
        self._former: list[tuple[int, int, Policy]] = []  # with the first of its jobs, and the one after its last
        self._first = 0  # job of the present policy

    def begin(self, policy: Policy) -> None:
        """Have the first policy place all jobs."""
        self.current = policy
        self.on_done = policy.on_done if type(policy).on_done is not Policy.on_done else None

    def switch(self, policy: Policy, first_job: int) -> None:
        """Have another policy place the jobs from number ``first_job`` on."""
        self._forget()
        self._former.append((self._first, first_job, self.current))
        self._first = first_job
        self.current = policy
        self.on_done = self._on_done

    def all(self) -> list[Policy]:
        """Return the former policies that still have jobs, the oldest first, and the present one."""
        self._forget()
        return [*(policy for _, _, policy in self._former), self.current]

    def of(self, job: int) -> Policy:
        """Return the policy to which a job in the system belongs."""
        return self._find(job) or self.current

    def _find(self, job: int) -> Policy | None:
        """Return the policy to which a job belongs; None if that has no job in the system any more."""
        if job >= self._first:
            return self.current
        for first, after, policy in self._former:
            if first <= job < after:
                return policy
        return None

    def on_probe_reply(self, reply: ProbeReply) -> None:
        """Pass a reply on to the policy that has sent the probe."""
        policy = self._find(reply.job)
        if policy is not None:
            policy.on_probe_reply(reply)

    def _on_done(self, done: Done) -> None:
        policy = self._find(done.job)
        if policy is not None:
            policy.on_done(done)

    def _forget(self) -> None:
        # The first job is the oldest: a dictionary keeps the order in which jobs have come.
        oldest = next(iter(self._in_system), self._first)
        self._former = [former for former in self._former if former[1] > oldest]
