"""How many servers are sampled for a job, against the theory's number."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dispatchers.whole_jobs import number_of_probes
from testbed.theory.parallel_jobs import number_of_probes as probes_in_theory


@given(st.integers(1, 200), st.floats(0.01, 50), st.integers(1, 300))
def test_the_number_of_probes_is_that_of_the_theory(tasks: int, d: float, servers: int) -> None:
    assert number_of_probes(tasks, d, servers) == probes_in_theory(tasks, d, servers)


def test_ten_times_one_point_one_is_eleven() -> None:
    assert number_of_probes(10, 1.1, 100) == 11
