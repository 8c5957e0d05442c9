"""The response-time distribution against the equations it solves, and the mean field in time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from scipy.integrate import quad, solve_ivp
from scipy.special import ive

from testbed.theory.stealing_sharing import MeanField, Moved, mean_field, transient_mean_field
from testbed.workload.distributions import Erlang, Exponential, Hyperexponential
from testbed.workload.phase_type import PhaseTypeDistribution

Floats = npt.NDArray[np.float64]
MOVED: tuple[Moved, Moved] = ("newest", "oldest")


def waiting_time_tail(state: MeanField, moved: Moved, times: Floats) -> Floats:
    """Return P(W > t) from the differential equation for Z and, where the newest moves, the Bessel integral for B."""
    job, R, delta, load = state._job, state._rate_matrix, state.removal_rate, state.load
    n = len(job.alpha)
    removed = delta if moved == "oldest" else 0.0
    within = job.S - removed * np.eye(n)
    down = np.outer(job.mu, job.alpha) + removed * np.eye(n)

    def drift(_: float, flat: Floats) -> Floats:
        Z = flat.reshape(n, n)
        return np.asarray((Z @ within + R @ Z @ down).ravel())

    Z = solve_ivp(drift, (0, times[-1]), np.eye(n).ravel(), t_eval=times, method="DOP853", rtol=1e-11, atol=1e-13).y
    ahead = np.array([load * (job.beta @ z.reshape(n, n)).sum() for z in Z.T])
    if moved == "oldest":
        return ahead

    def density(s: float) -> float:
        bessel = float(ive(1, 2 * s * np.sqrt(load * delta))) * np.exp(-((np.sqrt(load) - np.sqrt(delta)) ** 2) * s)
        return float(np.sqrt(delta / load) * bessel / s)

    busy = np.array([1 - quad(density, 0, t, epsabs=1e-12, limit=200)[0] if t else 1.0 for t in times])
    return np.asarray(ahead * busy)


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize(
    ("load", "distribution", "probe_rate"),
    [(0.8, Hyperexponential(scv=5), 2.5), (0.7, Erlang(phases=3), 8.0), (0.6, Exponential(), 0.2)],
    ids=["h2", "erlang", "exponential"],
)
def test_tail_is_waiting_and_size_convolved(
    load: float, distribution: PhaseTypeDistribution, probe_rate: float, moved: Moved
) -> None:
    state = mean_field(load, distribution, probe_rate)
    times = np.linspace(0.0, 6.0, 601)
    waiting = waiting_time_tail(state, moved, times)
    # P(T > t) = P(X > t) + int_0^t P(W > s) dP(X > t - s): the trapezoidal rule, Richardson-extrapolated.
    for end in (100, 400, 600):
        survival = 1 - distribution.cdf(times[end] - times[: end + 1])
        estimates = []
        for step in (2, 1):
            s, w = survival[::step], waiting[: end + 1 : step]
            estimates.append(float(np.diff(s) @ (w[1:] + w[:-1])) / 2)
        expected = 1 - distribution.cdf(float(times[end])) + (4 * estimates[1] - estimates[0]) / 3
        assert state.response_time_tail(float(times[end]), moved) == pytest.approx(expected, abs=1e-7)


@pytest.mark.parametrize("moved", MOVED)
@pytest.mark.parametrize(
    ("load", "distribution", "probe_rate"),
    [(0.8, Hyperexponential(scv=25, f=0.3), 2.5), (0.9, Erlang(phases=10), 30.0), (0.7, Hyperexponential(scv=4), 0.0)],
    ids=["h2", "erlang", "no-probes"],
)
def test_tail_integrates_to_the_mean(
    load: float, distribution: PhaseTypeDistribution, probe_rate: float, moved: Moved
) -> None:
    state = mean_field(load, distribution, probe_rate)
    nodes, weights = np.polynomial.legendre.leggauss(16)
    mean, low, width = 0.0, 0.0, 0.25
    while low < 3000:
        times = low + width * (1 + nodes) / 2
        tail = state.response_time_tail(times, moved)
        mean += width / 2 * float(weights @ tail)
        if tail[-1] < 1e-11:
            break
        low, width = low + width, width * 1.4
    assert mean == pytest.approx(state.mean_response_time, rel=1e-8)


def test_tail_takes_arrays_and_starts_at_one_and_refuses_what_is_no_time() -> None:
    state = mean_field(0.8, Hyperexponential(scv=5), 2.5)
    grid = np.array([[0.0, 1.0], [2.0, 30.0]])
    for moved in MOVED:
        tail = state.response_time_tail(grid, moved)
        assert tail.shape == grid.shape
        assert tail[0, 0] == pytest.approx(1.0, abs=1e-14)
        assert tail[1, 1] == state.response_time_tail(30.0, moved)
    for time in (-1.0, float("inf")):
        with pytest.raises(ValueError, match="finite times"):
            state.response_time_tail(time)
    with pytest.raises(ValueError, match='"newest" or "oldest"'):
        state.response_time_tail(1.0, "middle")  # type: ignore[call-overload]  # what an untyped caller may do
    no_waiting = mean_field(0.8, Exponential(), float("inf"))
    assert no_waiting.response_time_tail(2.0) == pytest.approx(np.exp(-2.0), rel=1e-13)


@pytest.mark.parametrize(
    ("load", "distribution", "probe_rate"),
    [(0.7, Hyperexponential(scv=5), 2.5), (0.6, Erlang(phases=3), 5.0), (0.5, Exponential(), 0.0)],
    ids=["h2", "erlang", "no-probes"],
)
def test_steady_state_stays_and_is_reached_from_elsewhere(
    load: float, distribution: PhaseTypeDistribution, probe_rate: float
) -> None:
    steady = mean_field(load, distribution, probe_rate)
    rows = [steady._single]
    for _ in range(80):
        rows.append(rows[-1] @ steady._rate_matrix)
    stays = transient_mean_field(load, distribution, probe_rate, [0.0, 7.0], np.array(rows))
    np.testing.assert_allclose(stays.queue_length_pmf[1], stays.queue_length_pmf[0], atol=1e-10)
    for initial in ([1.0], [0.0, 0.0, 0.0, 0.0, 0.0, 1.0]):
        late = transient_mean_field(load, distribution, probe_rate, [200.0], initial)
        assert late.mean_queue_length[0] == pytest.approx(steady.mean_queue_length, rel=1e-5)
        assert late.pending_probability[0] == pytest.approx(steady.pending_probability, rel=1e-5)
        for policy in ("stealing", "sharing"):
            rate = steady.overall_probe_rate(policy)
            assert late.overall_probe_rate(policy)[0] == pytest.approx(rate, rel=1e-5)


def test_transient_is_the_solution_of_the_equations_state_by_state() -> None:
    """The equations written out for exponential sizes, integrated by Euler steps and extrapolated."""
    load, r, levels, end = 0.7, 1.5, 40, 2.0

    def euler(steps: int) -> Floats:
        f = np.zeros(levels + 2)
        f[0], f[3] = 0.25, 0.75
        for _ in range(steps):
            change = np.zeros_like(f)
            P2 = f[2:].sum()
            change[0] = -load * f[0] + f[1] - r * f[0] * P2
            change[1] = load * f[0] - load * f[1] - f[1] + f[2] + r * f[0] * f[2] + r * f[0] * P2
            for i in range(2, levels + 1):
                change[i] = load * f[i - 1] - load * f[i] - f[i] + f[i + 1] + r * f[0] * (f[i + 1] - f[i])
            f = f + change * (end / steps)
        return f

    one, two, four = euler(500), euler(1000), euler(2000)
    expected = (8 * four - 6 * two + one) / 3  # removes the errors of first and second order
    result = transient_mean_field(load, Exponential(), r, [0.0, end], [0.25, 0.0, 0.0, 0.75])
    np.testing.assert_allclose(result.queue_length_pmf[0, :5], [0.25, 0, 0, 0.75, 0], atol=1e-15)
    np.testing.assert_allclose(result.queue_length_pmf[1, :30], expected[:30], atol=1e-7)


def test_without_arrivals_to_speak_of_a_backlog_is_worked_off_one_by_one() -> None:
    """The probability of no more than k completions by t: tasks of the first server that only leave."""
    result = transient_mean_field(1e-9, Exponential(), 0.0, [2.0], [0.0, 0.0, 0.0, 1.0])
    expected = np.exp(-2.0) * np.array([2.0**2 / 2, 2.0, 1.0])
    np.testing.assert_allclose(result.queue_length_pmf[0, 1:4], expected, rtol=1e-7)


@pytest.mark.parametrize(
    ("times", "initial", "reason"),
    [
        ([1.0, 1.0], [1.0], "increasing"),
        ([-1.0], [1.0], "increasing"),
        ([], [1.0], "increasing"),
        ([1.0], [0.5, 0.4], "sums to 0.9"),
        ([1.0], [1.5, -0.5], "at least 0"),
        ([1.0], [[0.8, 0.4]], "sums to 1.2"),
        ([1.0], [[0.8, 0.1, 0.1]], "for 2 phases"),
    ],
)
def test_transient_refuses(times: list[float], initial: npt.ArrayLike, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        transient_mean_field(0.5, Hyperexponential(scv=4), 1.0, times, initial)


def test_queues_that_outgrow_the_first_cut_are_followed() -> None:
    result = transient_mean_field(0.95, Hyperexponential(scv=5), 0.05, [150.0])
    assert result.queue_length_pmf.shape[1] > 33
    assert result.queue_length_pmf[0, -1] < 1e-9
    assert result.queue_length_pmf[0].sum() == pytest.approx(1.0, abs=1e-12)
