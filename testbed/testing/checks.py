"""The rules that every policy must keep, checked in many systems."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import msgspec

from dispatchers.dispatcher import Dispatcher
from dispatchers.policy import Policy
from testbed.core.outcomes import CopyOutcome, JobOutcome
from testbed.core.records import JobRecords
from testbed.scenario.policies import policies
from testbed.testing.replies import check_replies
from testbed.testing.systems import System, corners, fitting, most_tasks, random_systems
from testbed.testing.watched import Trial
from testbed.testing.world import simulate


def check_policy(
    policy: type[Policy] | str,
    parameters: Mapping[str, Any] | msgspec.Struct | None = None,
    *,
    examples: int = 100,
    seed: int | None = None,
) -> None:
    """Check that a policy keeps the rules of testbed.testing.

    ``policy`` is a class, or the name of a registered one; ``parameters`` are its parameters, by default their
    defaults. It is tried in ``examples`` random systems, and in some fixed ones. The random systems are the same every
    time, unless a ``seed`` draws others. Raises AssertionError with a sentence that says which rule was broken and the
    smallest system in which it was found, ValueError for parameters that the policy's ``check`` refuses for any of 1 to
    8 servers, and ImportError where hypothesis is missing.
    """
    try:
        import hypothesis
        from hypothesis import HealthCheck, Phase, example, given, settings
        from hypothesis.errors import Flaky
    except ImportError as error:
        raise ImportError(
            "check_policy needs hypothesis: python -m pip install 'loadbalance-testbed[test]'", name="hypothesis"
        ) from error
    checked = cast("type[Policy]", policies()[policy]) if isinstance(policy, str) else policy
    if not (getattr(checked, "name", "") and getattr(checked, "source", "")):
        raise AssertionError(f"{checked.__name__} must have a name and a source")
    given_parameters = (
        parameters if isinstance(parameters, msgspec.Struct) else msgspec.convert(parameters or {}, checked.Parameters)
    )

    def keeps_the_rules(system: System) -> None:
        _check(checked, given_parameters, system)

    sizes = fitting(checked, given_parameters)
    test: Callable[..., None] = given(system=random_systems(sizes))(keeps_the_rules)
    for corner in reversed(list(corners())):  # hypothesis tries the example first that was added last
        nearest = min(sizes, key=lambda servers: abs(servers - corner.servers))
        test = example(system=replace(corner, servers=nearest))(test)
    test = settings(
        max_examples=examples,
        derandomize=seed is None,
        database=None,
        deadline=None,
        report_multiple_bugs=False,
        phases=(Phase.explicit, Phase.generate, Phase.shrink),
        suppress_health_check=(HealthCheck.too_slow,),
    )(test)
    if seed is not None:
        test = hypothesis.seed(seed)(test)
    try:
        test()
        check_replies(checked, given_parameters, sizes)
    except Flaky as error:
        raise AssertionError(
            f"{checked.name} breaks a rule in one run and not in the next of the same system"
        ) from error


def _check(policy: type[Policy], parameters: Any, system: System) -> None:
    has_timeout = hasattr(parameters, "timeout")
    if has_timeout and system.timeout is not None:
        parameters = msgspec.structs.replace(parameters, timeout=system.timeout)
    silent = system.silent if has_timeout and parameters.timeout is not None else frozenset()
    first = _run(policy, parameters, system, silent)
    second = _run(policy, parameters, system, silent)
    if first.decisions != second.decisions:
        raise first.broken("makes other decisions when it is run again with the same seed")


def _run(policy: type[Policy], parameters: Any, system: System, silent: frozenset[int]) -> Trial:
    most = most_tasks(policy, parameters, system.servers)
    jobs = [job._replace(sizes=job.sizes[:most]) for job in system.jobs]
    repeats = system.dies is not None and system.servers > 1
    trial = Trial(policy, parameters, system.servers, [len(job.sizes) for job in jobs], repeats, system.buffer)
    records = JobRecords(len(jobs))
    try:
        dispatchers = simulate(trial, replace(system, jobs=jobs), silent, records)
    except AssertionError:
        raise
    except Exception as error:
        raise trial.broken(f"fails with {error!r}") from error
    for dispatcher in dispatchers:
        if dispatcher.jobs.done_twice:
            raise trial.broken("has a task done twice")
        for job, ticket in dispatcher.in_system.items():
            if trial.copies[job]:
                continue
            if not ticket.at:
                raise trial.broken(f"never places job {job}")
            if len(ticket.at) < trial.tasks[job]:
                raise trial.broken(f"never places task {len(ticket.at)} of job {job}")
        if trial.most_copies > 1:
            _check_copies(trial, dispatcher)
    columns = records.columns()
    if Counter(columns["job"].tolist()) != Counter(range(len(jobs))):
        raise trial.broken("does not have every job end once")
    for number, outcome in zip(columns["job"].tolist(), columns["outcome"].tolist(), strict=True):
        _check_end(trial, number, outcome)
    return trial


def _check_copies(trial: Trial, dispatcher: Dispatcher) -> None:
    """Check that all copies of each job have ended in a record, one of them in the job's completion."""
    assert dispatcher.jobs.records.copies is not None
    columns = dispatcher.jobs.records.copies.columns()
    fates = defaultdict(list)
    for job, copy, fate in zip(*(columns[name].tolist() for name in ("job", "copy", "fate")), strict=True):
        fates[job].append(fate)
        if trial.taken[job, copy] > 1:
            raise trial.broken(f"has a copy of job {job} come to a server twice")
    if dispatcher.placement.awaiting_cancellation:
        raise trial.broken("has copies of finished jobs that never end")
    for job, ended in fates.items():
        if ended.count(CopyOutcome.WON) != 1 and job not in dispatcher.in_system:
            raise trial.broken(f"has {ended.count(CopyOutcome.WON)} copies of job {job} win")
        if len(ended) != trial.copies[job]:
            raise trial.broken(f"places {trial.copies[job]} copies of job {job}, of which {len(ended)} end")


def _check_end(trial: Trial, job: int, outcome: int) -> None:
    tasks = trial.tasks[job]
    times = [trial.taken[job, task] for task in range(tasks)]
    if outcome not in (JobOutcome.COMPLETED, JobOutcome.DROPPED):
        raise trial.broken("ends a job that is neither completed nor dropped")
    if trial.repeats and outcome == JobOutcome.DROPPED:
        return  # a task that was dispatched again may have met a full buffer when others had been served
    if outcome == JobOutcome.DROPPED and trial.served[job]:
        raise trial.broken(f"has tasks of job {job} served, which is dropped")
    if trial.most_copies > 1:
        return  # see _check_copies
    if outcome == JobOutcome.COMPLETED or tasks == 1:
        if set(times) != {1} and not (trial.repeats and min(times) > 0):
            raise trial.broken(f"does not have every task of job {job} come to a server once")
    elif any(times):
        raise trial.broken(f"sends tasks of job {job}, which is dropped")
