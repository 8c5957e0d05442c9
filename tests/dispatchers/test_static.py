"""Static assignment: fixed shares by pool and signal, and servers chosen uniformly in pools without a queue."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest
from scipy.stats import chisquare

from dispatchers.static import Static, StaticParameters
from testbed.core.placed_pool import PlacedPool
from testbed.core.streams import Stream, generator
from testbed.testing import check_policy
from testbed.theory.rerouting_replication import Noisy, Revealed, signal_matrix

POOLS = {"a": 2, "b": 3}
TYPES = ["one", "two", "three"]


class Placing:
    """Stands in for a dispatcher: notes what the policy does with each job."""

    def __init__(self, *central: bool, signal: Any = None, rational: Any = None) -> None:
        self.pools = [
            PlacedPool("a", 0, 0, 2, central=central[0]),
            PlacedPool("b", 1, 2, 3, central=central[1]),
        ]
        self.types = TYPES
        self.rng = Stream(generator(1, 0, "choices"))
        self.rational = rational
        self.sizes = lambda job: (float(job), 2.0 * job)
        if signal is not None:
            self.signal = signal
        self.entered: list[Any] = []
        self.assigned: list[tuple[int, int]] = []

    def admit(self, job: int, pool: int, thresholds: Any = ()) -> None:
        self.entered.append((job, pool, *thresholds))

    def assign(self, job: int, server: int) -> None:
        self.assigned.append((job, server))


def placed(dispatcher: Placing, jobs: int, **parameters: Any) -> Placing:
    policy = Static(StaticParameters(**parameters), dispatcher)
    for job in range(jobs):
        policy.place(job)
    return dispatcher


def test_without_an_assignment_jobs_are_spread_like_the_servers() -> None:
    """False alarm: 1e-5. A dispatcher that is told nothing has no ``signal`` to read here."""
    done = placed(Placing(False, False), 20_000)
    counts = Counter(server for _, server in done.assigned)
    assert chisquare([counts[server] for server in range(5)]).pvalue > 1e-5
    assert [job for job, _ in done.assigned] == list(range(20_000))


def test_shares_are_kept_and_servers_of_a_pool_are_equal() -> None:
    """False alarm: 1e-5."""
    done = placed(Placing(False, False), 20_000, assignment={"b": 0.9, "a": 0.1})
    counts = Counter(server for _, server in done.assigned)
    expected = [0.05, 0.05, 0.3, 0.3, 0.3]
    assert chisquare([counts[server] for server in range(5)], [20_000 * p for p in expected]).pvalue > 1e-5


def test_a_job_joins_the_central_queue_of_its_pool() -> None:
    done = placed(Placing(True, False), 2000, assignment={"a": 0.5, "b": 0.5})
    assert {entered[1:] for entered in done.entered} == {(0,)}
    assert {server for _, server in done.assigned} == {2, 3, 4}
    assert sorted([entered[0] for entered in done.entered] + [job for job, _ in done.assigned]) == list(range(2000))


def test_a_share_of_zero_is_never_and_one_is_always() -> None:
    for pool, name in enumerate(POOLS):
        assert {entered[1] for entered in placed(Placing(True, True), 3000, assignment={name: 1}).entered} == {pool}


def test_each_signal_has_its_shares() -> None:
    """False alarm: 1e-5 for each signal."""
    shares = {"one": 1.0, "two": 0.25, "three": 0.5, "unknown": 0.8}
    dispatcher = Placing(True, True, signal=lambda job: job % 4)
    done = placed(
        dispatcher,
        40_000,
        assignment={signal: {"a": share, "b": 1 - share} for signal, share in shares.items()},
        knows={"revealed": 0.5},
    )
    for signal, share in enumerate(shares.values()):
        first = sum(pool == 0 for job, pool in done.entered if job % 4 == signal)
        if share == 1:
            assert first == 10_000
        else:
            assert chisquare([first, 10_000 - first], [10_000 * share, 10_000 * (1 - share)]).pvalue > 1e-5


def test_the_rational_rule_is_asked_with_the_sizes_and_followed() -> None:
    asked = []

    def choose(sizes: Any, uniform: float) -> tuple[int, list[float]]:
        asked.append(uniform)
        return int(sizes[0]) % 2, [sizes[1]]

    done = placed(Placing(True, True, rational=SimpleNamespace(choose=choose)), 50, knows="sizes")
    assert done.entered == [(job, job % 2, 2.0 * job) for job in range(50)]
    assert len(set(asked)) == 50
    assert all(0 <= uniform < 1 for uniform in asked)


@pytest.mark.parametrize(
    ("knows", "theory"),
    [
        ({"noisy": 0.8}, Noisy(0.8)),
        ({"noisy": 0.0}, Noisy(0.0)),
        ({"revealed": 0.3}, Revealed(0.3)),
        ("types", "types"),
        ("nothing", "nothing"),
        ("sizes", "nothing"),
    ],
)
@pytest.mark.parametrize("types", [1, 2, 3])
def test_signals_have_the_probabilities_of_the_theory(knows: Any, theory: Any, types: int) -> None:
    found = StaticParameters(knows=knows).signal_probabilities(types)
    expected = signal_matrix(theory, types).tolist()
    for row, wanted in zip(found, expected, strict=True):
        assert len(row) == types + 1
        # The theory has a column for each signal that can be: for "nothing" only the last of ours.
        assert row == pytest.approx([0.0] * types + wanted if theory == "nothing" else [*wanted, 0.0][: types + 1])


def test_the_assignment_of_a_type_goes_over_its_signals() -> None:
    known = {"one": {"a": 1.0}, "two": {"b": 1.0}, "three": {"a": 0.5, "b": 0.5}}
    noisy = StaticParameters(assignment=known, knows={"noisy": 0.8})
    # Of type one 0.8 go to a as they should; 0.1 are taken for "two", and half of the 0.1 taken for "three" go to a.
    assert noisy.assigned(POOLS, TYPES) == [
        pytest.approx([0.85, 0.15]),
        pytest.approx([0.15, 0.85]),
        pytest.approx([0.5, 0.5]),
    ]
    assert StaticParameters().assigned(POOLS, TYPES) == [pytest.approx([0.4, 0.6])] * 3


def test_a_table_is_given_for_the_signals_that_can_be_and_no_others() -> None:
    tables = {name: {"a": 1.0} for name in TYPES}
    assert StaticParameters(assignment=tables, knows="types").fractions(POOLS, TYPES)[:3] == [[1, 0]] * 3
    for knows, given, message in (
        ("nothing", tables, 'types are not known; add knows = "types"'),
        ("nothing", {"four": {"a": 1.0}}, "the signals of jobs are unknown"),
        ({"revealed": 0.5}, tables, "the signals of jobs are one, two, three, unknown"),
    ):
        with pytest.raises(ValueError, match=message):
            StaticParameters(assignment=given, knows=knows).fractions(POOLS, TYPES)
    # Revealed with certainty there is no "unknown".
    assert StaticParameters(assignment=tables, knows={"revealed": 1.0}).fractions(POOLS, TYPES)[0] == [1, 0]
    with pytest.raises(ValueError, match='"unknown" is a signal; give the type of that name another one'):
        StaticParameters(assignment={"unknown": {"a": 1}}, knows="types").fractions(POOLS, ["one", "unknown"])


@pytest.mark.parametrize("parameters", [{"assignment": {"main": 1.0}}, {"knows": "types"}])
def test_on_servers_with_queues_it_keeps_the_rules(parameters: dict[str, Any]) -> None:
    check_policy("static", parameters)
