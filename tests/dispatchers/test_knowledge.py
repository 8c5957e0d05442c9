"""What a dispatcher knows of a job's type, and what it does not."""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest
from scipy.stats import chisquare

from dispatchers.dispatcher import Dispatcher
from dispatchers.jobs import DispatcherRecords, Jobs, Surroundings
from dispatchers.knowledge import Knowledge, NotKnownError
from dispatchers.placement import DirectPlacement
from dispatchers.policy import NoParameters, Policy
from dispatchers.static import StaticParameters
from testbed.core.records import JobRecords
from testbed.core.streams import Stream, generator
from testbed.runtime.virtual import VirtualRuntime

TYPES = 3
JOBS = 3000


def knowledge(**known) -> Knowledge:
    return Knowledge(TYPES, Stream(generator(1, 0, "signals")), **known)


@pytest.mark.parametrize("known", [{"noisy": 0.8}, {"noisy": 0.0}, {"revealed": 0.6}, {"revealed": 0.0}])
def test_signals_have_the_probabilities_that_the_theory_is_given(known: dict[str, float]) -> None:
    expected = StaticParameters(knows=known).signal_probabilities(TYPES)
    told = knowledge(**known)
    for job_type, row in enumerate(expected):
        signals = Counter(told.signal(job_type) for _ in range(JOBS))
        possible = [signal for signal, probability in enumerate(row) if probability]
        assert set(signals) <= set(possible)
        if len(possible) > 1:
            seen = [signals[signal] for signal in possible]
            # With this seed; a false alarm of 1e-5 for each of at most 12 tests.
            assert chisquare(seen, [JOBS * row[signal] for signal in possible]).pvalue > 1e-5


def test_known_types_are_told_as_they_are() -> None:
    told = knowledge()
    assert [told.signal(job_type) for job_type in range(TYPES)] == list(range(TYPES))
    assert told.unknown == TYPES


class Ask(Policy):
    """Notes what it is told."""

    name = "ask"
    source = "a test"

    def place(self, job: int) -> None:
        self.told = [self.asked(self.dispatcher.signal, job), self.asked(self.dispatcher.sizes, job)]

    @staticmethod
    def asked(question, job):
        try:
            return question(job)
        except NotKnownError:
            return "not known"


@pytest.mark.parametrize(
    ("known", "told"),
    [
        (None, ["not known", "not known"]),
        (knowledge(), [1, "not known"]),
        (knowledge(signals=False, sizes=True), ["not known", (2.0,)]),
    ],
)
def test_a_policy_is_told_what_the_scenario_says_and_no_more(known, told) -> None:
    records = DispatcherRecords(JobRecords(1))
    placement = DirectPlacement(Jobs(VirtualRuntime(1), 1, Surroundings(0, 1), records, known))
    dispatcher = Dispatcher(placement, partial(Ask, NoParameters()))
    dispatcher.arrive(0, 1, (2.0,))
    assert dispatcher.policy.told == told
