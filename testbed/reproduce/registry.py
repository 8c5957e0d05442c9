"""The studies, by name."""

from __future__ import annotations

from testbed.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay
from testbed.reproduce.study import Study
from testbed.scenario.errors import suggestion

STUDIES: tuple[type[Study], ...] = (ZeroQueueingDelay,)


class UnknownStudyError(Exception):
    """There is no study of that name."""


def studies() -> dict[str, Study]:
    """Return all studies by name, in the order of the papers."""
    return {kind.name: kind() for kind in STUDIES}


def study(name: str) -> Study:
    """Return the study of that name. Raises UnknownStudyError, which suggests one."""
    found = studies()
    if name not in found:
        near = suggestion(name, found)
        raise UnknownStudyError(f'there is no study "{name}"{near}: `testbed reproduce --list` names them')
    return found[name]
