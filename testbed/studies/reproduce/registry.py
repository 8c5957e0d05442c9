"""The studies, by name."""

from __future__ import annotations

from testbed.scenario.errors import suggestion
from testbed.studies.reproduce.parallel_jobs.probe_overhead import ProbeOverheadNeeded
from testbed.studies.reproduce.parallel_jobs.queue_lengths import QueueLengths
from testbed.studies.reproduce.parallel_jobs.regimes import Regimes
from testbed.studies.reproduce.parallel_jobs.zero_queueing_delay import ZeroQueueingDelay
from testbed.studies.reproduce.rerouting_replication.approximation import ApproximationError
from testbed.studies.reproduce.rerouting_replication.latency import Latency
from testbed.studies.reproduce.rerouting_replication.stability import StabilityKnowledge, StabilitySlowSpeed
from testbed.studies.reproduce.stealing_sharing.regions import Regions
from testbed.studies.reproduce.stealing_sharing.response_time import ResponseTime, ResponseTimeTail
from testbed.studies.reproduce.stealing_sharing.size_parameters import SizeParameters
from testbed.studies.reproduce.stealing_sharing.validation import Validation
from testbed.studies.reproduce.study import Study

STUDIES: tuple[type[Study], ...] = (
    ZeroQueueingDelay,
    Regimes,
    QueueLengths,
    ProbeOverheadNeeded,
    Validation,
    SizeParameters,
    Regions,
    ResponseTime,
    ResponseTimeTail,
    StabilitySlowSpeed,
    StabilityKnowledge,
    Latency,
    ApproximationError,
)


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
