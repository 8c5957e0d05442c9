"""Arrival processes: their rates, distributions and dependence, and the streams they draw."""

from collections.abc import Callable

import numpy as np
import pytest
from scipy import stats

from testbed.workload.arrivals import (
    ArrivalProcess,
    DeterministicArrivals,
    MarkovModulatedPoisson,
    Poisson,
    Renewal,
    Trace,
)
from testbed.workload.distributions import Deterministic, Erlang, Exponential, Hyperexponential, PhaseType

BURSTY = MarkovModulatedPoisson(rates=(1.0, 20.0), sojourns=(30.0, 5.0))
PROCESSES: dict[str, ArrivalProcess] = {
    "poisson": Poisson(),
    "deterministic": DeterministicArrivals(),
    "renewal": Renewal(gap=Hyperexponential(scv=4.0, f=0.5, mean=7.0)),
    "mmpp": BURSTY,
    "mmpp with silences": MarkovModulatedPoisson(
        rates=(0.0, 3.0, 0.0), switching=((0.0, 1.0, 0.5), (0.2, 0.0, 0.3), (2.0, 0.0, 0.0))
    ),
}


def over(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("process", [PROCESSES[name] for name in names or PROCESSES], ids=names or PROCESSES)


def rng(seed: int = 1) -> np.random.Generator:
    return np.random.default_rng(seed)


@over()
def test_times_increase_from_zero(process: ArrivalProcess) -> None:
    stream = process.stream(3.0, rng())
    times = np.concatenate([stream.next(n) for n in (1, 500, 0, 7, 1000)])
    assert times.shape == (1508,)
    assert times.dtype == np.float64
    assert times[0] > 0
    assert (np.diff(times) > 0).all()
    assert process.natural_rate is None


@over()
def test_same_generator_gives_the_same_times(process: ArrivalProcess) -> None:
    first, again, other = (process.stream(3.0, rng(seed)).next(300) for seed in (1, 1, 2))
    assert (first == again).all()
    assert process == DeterministicArrivals() or (first != other).all()


@over()
def test_times_do_not_depend_on_how_they_are_asked_for(process: ArrivalProcess) -> None:
    whole = process.stream(3.0, rng()).next(2000)
    stream = process.stream(3.0, rng())
    assert (np.concatenate([stream.next(n) for n in (1, 999, 1000)]) == whole).all()


@over()
@pytest.mark.parametrize("rate", [None, 0.0, -1.0, float("nan"), float("inf")])
def test_rate_must_be_positive(process: ArrivalProcess, rate: float | None) -> None:
    with pytest.raises(ValueError, match="the arrival rate must be a finite number greater than 0, but is"):
        process.stream(rate, rng())


@over("poisson", "renewal")
def test_gaps_are_independent_with_their_law(process: ArrivalProcess) -> None:
    """False alarm: 1e-5 for the distribution, 1.4e-5 for the correlation (4.5 standard errors)."""
    distribution = process.gap_distribution(5.0)
    assert distribution is not None
    assert distribution.mean == pytest.approx(0.2)
    gaps = np.diff(process.stream(5.0, rng()).next(40_001))
    assert stats.kstest(gaps, distribution.cdf).pvalue > 1e-5
    ranks = stats.rankdata(gaps)
    assert abs(np.corrcoef(ranks[1:], ranks[:-1])[0, 1]) < 4.5 / np.sqrt(len(gaps))


def test_gap_distributions_are_named() -> None:
    assert Poisson().gap_distribution(4.0) == Exponential(mean=0.25)
    assert DeterministicArrivals().gap_distribution(4.0) == Deterministic(value=0.25)
    assert Renewal(gap=Erlang(phases=3, mean=5.0)).gap_distribution(4.0) == Erlang(phases=3, mean=0.25)
    assert BURSTY.gap_distribution(4.0) is None


def test_deterministic_arrivals_do_not_drift() -> None:
    stream = DeterministicArrivals().stream(3.0, rng())
    for _ in range(100):
        last = stream.next(1000)[-1]
    assert last == 100_000 / 3


def test_renewal_arrivals_take_only_the_shape_of_the_gap() -> None:
    long, short = (Renewal(gap=Erlang(phases=2, mean=mean)).stream(3.0, rng()).next(100) for mean in (9.0, 0.1))
    assert long == pytest.approx(short)


def test_mmpp_scales_its_rates_to_the_mean_and_leaves_the_switching() -> None:
    assert BURSTY.stationary() == pytest.approx([30 / 35, 5 / 35])
    rates = BURSTY.phase_rates(8.0)
    assert BURSTY.stationary() @ rates == pytest.approx(8)
    assert rates[1] / rates[0] == pytest.approx(20)
    assert BURSTY.generator_matrix() == pytest.approx(np.array([[-1 / 30, 1 / 30], [1 / 5, -1 / 5]]))


def test_mmpp_sojourns_lead_to_each_other_phase_alike() -> None:
    process = MarkovModulatedPoisson(rates=(1.0, 2.0, 3.0), sojourns=(1.0, 2.0, 4.0))
    same = MarkovModulatedPoisson(
        rates=(1.0, 2.0, 3.0), switching=((-1.0, 0.5, 0.5), (0.25, 0.0, 0.25), (0.125, 0.125, -0.25))
    )
    assert process.generator_matrix() == pytest.approx(same.generator_matrix())
    assert process.stationary() == pytest.approx([1 / 7, 2 / 7, 4 / 7])


def counts(process: ArrivalProcess, rate: float, window: float, windows: int) -> np.ndarray:
    """Return arrivals per window, over windows that are each begun anew, so that they are independent."""
    found = []
    for seed in range(windows):
        stream = process.stream(rate, rng(seed))
        times = stream.next(64)
        while times[-1] < window:
            times = np.concatenate([times, stream.next(64)])
        found.append(np.searchsorted(times, window))
    return np.array(found)


@over("mmpp", "mmpp with silences")
def test_mmpp_is_stationary_with_its_mean_rate_and_index_of_dispersion(process: MarkovModulatedPoisson) -> None:
    """Intervals of 4.5 standard errors from the data: false alarm of each below 2e-5.

    Var N(t) of a stationary MMPP is m t + 2 int_0^t (t - u) c(u) du, with c(u) the covariance of the phases' rates;
    here the integral is done numerically, with exp(Q u) from the eigenvectors of Q.
    """
    rate, window = 4.0, 20.0
    number = counts(process, rate, window, 1500)
    expected = rate * window
    assert abs(number.mean() - expected) < 4.5 * number.std() / np.sqrt(len(number))
    values, vectors = np.linalg.eig(process.generator_matrix())
    u = (np.arange(4000) + 0.5) * window / 4000
    rates, stationary = process.phase_rates(rate), process.stationary()
    left, right = (stationary * rates) @ vectors, np.linalg.solve(vectors, rates.astype(complex))
    covariance = ((left * right) @ np.exp(np.outer(values, u))).real - rate**2
    variance = expected + 2 * float(((window - u) * covariance).sum()) * window / 4000
    squares = (number - expected) ** 2
    assert abs(squares.mean() - variance) < 4.5 * squares.std() / np.sqrt(len(number))
    assert variance / expected > 2  # the Poisson process has 1


def test_mmpp_with_equal_rates_is_poisson() -> None:
    """False alarm: 1e-5."""
    times = MarkovModulatedPoisson(rates=(2.0, 2.0), sojourns=(3.0, 1.0)).stream(5.0, rng()).next(40_000)
    assert stats.kstest(np.diff(times), Exponential(mean=0.2).cdf).pvalue > 1e-5


def test_interrupted_poisson_has_hyperexponential_gaps() -> None:
    """With one phase silent, gaps between arrivals are phase-type and independent. False alarm: 1e-5."""
    process = MarkovModulatedPoisson(rates=(1.0, 0.0), sojourns=(2.0, 5.0))
    on = process.phase_rates(2.0)[0]
    distribution = PhaseType(alpha=(1.0, 0.0), S=((-on - 0.5, 0.5), (0.2, -0.2)))
    gaps = np.diff(process.stream(2.0, rng()).next(40_000))
    assert stats.kstest(gaps, distribution.cdf).pvalue > 1e-5


@pytest.fixture
def trace(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Trace]:
    path = tmp_path_factory.mktemp("trace") / "jobs.csv"
    path.write_text("arrival\n10\n11\n11\n14\n")

    def make(repeat: bool = False) -> Trace:
        return Trace(file=str(path), repeat=repeat)

    return make


def test_trace_counts_time_from_its_first_arrival_and_ends(trace: Callable[..., Trace]) -> None:
    stream = trace().stream(None, rng())
    assert [stream.next(3).tolist() for _ in range(3)] == [[0, 1, 1], [4], []]


def test_trace_that_repeats_starts_over_one_mean_gap_after_its_end(trace: Callable[..., Trace]) -> None:
    stream = trace(repeat=True).stream(None, rng())
    mean_gap = 4 / 3
    again = 4 + mean_gap
    expected = [0, 1, 1, 4, again, again + 1, again + 1, again + 4, 2 * again]
    assert np.concatenate([stream.next(5), stream.next(4)]) == pytest.approx(expected)


def test_trace_is_stretched_to_the_rate(trace: Callable[..., Trace]) -> None:
    assert trace().natural_rate == pytest.approx(3 / 4)
    assert trace().gap_distribution(1.0) is None
    assert trace().stream(1.5, rng()).next(9) == pytest.approx([0, 0.5, 0.5, 2])
    times = trace(repeat=True).stream(10.0, rng()).next(4001)
    assert 4000 / times[-1] == pytest.approx(10)
    with pytest.raises(ValueError, match="the arrival rate must be"):
        trace().stream(-1.0, rng())
