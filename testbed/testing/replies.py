"""Whether a policy places each job by the replies to this job's own probes.

Servers that reply with made-up queue lengths, which depend on nothing but the job and the server, take away every way
in which the replies to one job could rightly matter to another: no queue that is seen is what an earlier job made of
it, and no task ends before the last job is placed. Jobs' probes and replies overlap. When the replies to one job's
probes are made up anew and another job goes elsewhere, the policy has mixed up their replies.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from dispatchers.policy import Policy
from testbed.core.messages import Assign, AssignCopy, Probe
from testbed.core.records import JobRecords
from testbed.testing.systems import Job, System, most_tasks
from testbed.testing.watched import Trial
from testbed.testing.world import simulate

JOBS = 6
LONG = 1000.0  # time units that a task takes
LENGTHS = 6  # made-up queue lengths are below this


def check_replies(policy: type[Policy], parameters: Any, sizes: list[int]) -> None:
    """Raise AssertionError where replies to one job's probes decide where another job goes."""
    if policy.remembers:
        return
    if hasattr(parameters, "timeout"):
        # Which replies are in time may differ rightly: a task that goes to a server holds up a later job's probe.
        parameters = msgspec.structs.replace(parameters, timeout=None)
    for tasks in (1, 3):
        for dispatchers in (1, 2):
            jobs = [Job(0.4, i, 0, (LONG,) * tasks) for i in range(JOBS)]
            system = System(servers=max(sizes), jobs=jobs, dispatchers=dispatchers, delay=(0.2, 1.0))
            _check(policy, parameters, system)


def _check(policy: type[Policy], parameters: Any, system: System) -> None:
    placed, probed = _places(policy, parameters, system, None)
    for liar in sorted(probed):
        other, _ = _places(policy, parameters, system, liar)
        for (job, task), server in placed.items():
            if job != liar and other.get((job, task)) != server:
                raise AssertionError(
                    f"{policy.name} places job {job} elsewhere when the replies to the probes of job {liar} are "
                    "others: it mixes up their replies, or draws random numbers after replies have come; a policy that "
                    "keeps what it learns of queues for later jobs says so with remembers = True"
                )


def _places(
    policy: type[Policy], parameters: Any, system: System, liar: int | None
) -> tuple[dict[tuple[int, int], int], set[int]]:
    """Return where the tasks go, by job and task, and the jobs with probes; ``liar`` gets other replies."""

    def queue_length(job: int, server: int) -> int:
        return int(np.random.default_rng((job, server, job == liar)).integers(LENGTHS))

    most = most_tasks(policy, parameters, system.servers)
    jobs = [job._replace(sizes=job.sizes[:most]) for job in system.jobs]
    trial = Trial(
        policy, parameters, system.servers, [len(job.sizes) for job in jobs], False, queue_length=queue_length
    )
    simulate(trial, replace(system, jobs=jobs), frozenset(), JobRecords(len(jobs)))
    sent = [message for _, message in trial.decisions]
    places = {(message.job, message.task): message.to for message in sent if isinstance(message, Assign)}
    places |= {(message.job, message.copy): message.to for message in sent if isinstance(message, AssignCopy)}
    return places, {message.job for message in sent if isinstance(message, Probe)}
