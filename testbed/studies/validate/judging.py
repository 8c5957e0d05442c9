"""The tests of a case: twin against theory, cluster against twin, and the cluster's verdict."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy import stats

from testbed.measure.control_variate import Estimate
from testbed.measure.statistics import replication_interval
from testbed.measure.verdict_checks import percent
from testbed.runs.result import VariantRun
from testbed.scenario import Scenario, resolved
from testbed.studies.validate.case import Case, Expected
from testbed.studies.validate.findings import (
    CLUSTER_LEVEL,
    EMULATION,
    LEVEL,
    LIMIT,
    SHAPE,
    THEORY,
    VERDICT,
    WORKLOAD,
    AtSize,
    CaseResult,
    Finding,
    OnCluster,
)
from testbed.studies.validate.finite_size import FiniteSizeFit, fit
from testbed.studies.validate.twin_reading import TwinReading, estimated

#: An error shrinks faster than 1/N if its product with N falls below this fraction of the first one.
FASTER = 0.25
ROUNDING = 1e-9
PATHWISE = "emulation error"  # the verdict's name for what is tested here as EMULATION


def judge(
    case: Case, expected: Sequence[Expected], twins: Sequence[Sequence[TwinReading]], cluster: VariantRun | None
) -> CaseResult:
    """Return the result of a case.

    ``expected``: for the case's own scenario, and then for each of its ``twins``; ``twins``: for each of these the
    measurements of its replications; ``cluster``: the run on real processes with its twin, None if there is none.
    """
    own, *others = expected
    prediction = own.prediction
    findings = []
    sizes = [
        AtSize(servers=scenario.servers, theory=theory.mean, twin=estimated(readings), replications=len(readings))
        for scenario, theory, readings in zip(case.twins, others, twins, strict=True)
    ]
    if sizes:
        findings.append(_workload(case.twins[0], twins[0]))
    found: FiniteSizeFit | None = None
    if case.servers and sizes:
        if _faster(sizes):
            findings.append(_reached(case, sizes))
        else:
            found = fit(
                [size.servers for size in sizes],
                [size.error for size in sizes],
                [s.servers * s.run.duration * s.run.replications for s in case.twins],
            )
            findings += _fitted(case, found, sizes)
    elif sizes:
        allowed = case.expect.allowance
        findings.append(_difference(THEORY, sizes[0].error, allowed, _against_theory(case, sizes[0])))
    on_cluster = None
    if cluster is not None:
        on_cluster, more = _cluster(case, cluster)
        findings += more
    return CaseResult(
        name=case.name,
        about=case.about,
        policy=case.scenario.dispatch.policy,
        theory=f"{own.mean:.6g}, given" if prediction is None else prediction.name,
        kind="given" if prediction is None else prediction.kind,
        seed=case.scenario.seed,
        scenario=resolved(case.whole) if case.twins else None,
        cluster_scenario=None if case.cluster is None else resolved(case.cluster),
        sizes=sizes,
        fit=found,
        cluster=on_cluster,
        findings=findings,
    )


def _difference(
    check: str, difference: Estimate, allowed: tuple[float, float], what: str, level: float = LEVEL
) -> Finding:
    """Compare an estimated difference with where it may be."""
    half_width = difference.half_width(level) + ROUNDING
    low, high = difference.value - half_width, difference.value + half_width
    passed = low <= allowed[1] and high >= allowed[0]
    chance = "chance explains" if passed else "chance explains only"
    # A fraction of the expected value; its sign matters.
    reason = f"{what} by {difference.value:+z.2%}; {chance} {half_width:.2%}{_besides(allowed)}"
    return Finding(
        check=check,
        passed=passed,
        reason=reason,
        difference=difference.value,
        low=low,
        high=high,
        allowed=allowed,
    )


def _besides(allowed: tuple[float, float]) -> str:
    low, high = allowed
    if max(-low, high) < 1e-6:
        return ""
    return f", and {low:+z.2%} to {high:+z.2%} is allowed"


def _against_theory(case: Case, size: AtSize) -> str:
    known = f" ({case.known_error})" if case.known_error else ""
    return f"the twin's mean {size.twin.value:.4g} is off the theory's {size.theory:.4g}{known}"


def _workload(scenario: Scenario, readings: Sequence[TwinReading]) -> Finding:
    """Test arrivals and sizes. Their means are known whatever the policy does, and the other tests rely on them."""
    offered = [float(np.prod(reading.controls)) for reading in readings]
    interval = replication_interval(offered)
    assert interval.mean is not None
    k = len(offered)
    error = float(np.std(offered, ddof=1)) / k**0.5 if k > 1 else 0.0
    one = 1.0 / (scenario.rate * scenario.run.duration)  # regular arrivals: the window holds one more or less
    return _difference(
        WORKLOAD, Estimate(interval.mean - 1.0, error, k - 1), (-one, one), "the work that arrived is off"
    )


def _faster(sizes: Sequence[AtSize]) -> bool:
    """Return whether the error surely shrinks faster than 1/N, as where no job waits once there are enough servers."""
    first, last = sizes[0], sizes[-1]
    sure = abs(last.error.value) + last.error.half_width(LEVEL)
    return last.servers * sure < FASTER * first.servers * abs(first.error.value)


def _reached(case: Case, sizes: Sequence[AtSize]) -> Finding:
    first, last = sizes[0], sizes[-1]
    left = FASTER * abs(first.error.value) * first.servers / last.servers
    low, high = case.expect.allowance
    what = f"the error shrinks faster than 1/N; with {last.servers} servers {_against_theory(case, last)}"
    return _difference(LIMIT, last.error, (low - left, high + left), what)


def _fitted(case: Case, found: FiniteSizeFit, sizes: Sequence[AtSize]) -> list[Finding]:
    b = found.first_order
    known = f" ({case.known_error})" if case.known_error else ""
    largest = sizes[-1]
    what = (
        f"the twin's error is {b.value:+.2g}/N in first order, {found.error(largest.servers):+z.2%} with "
        f"{largest.servers} servers; in the limit it is off the theory's {largest.theory:.4g}{known}"
    )
    findings = [_difference(LIMIT, found.extrapolation, case.expect.allowance, what)]
    worst = max(found.misfit, key=lambda misfit: abs(misfit.value) / max(misfit.standard_error, 1e-300))
    # The worst of several is tested, each at its part of the level.
    widened = worst.half_width(LEVEL / len(found.misfit)) / max(worst.half_width(LEVEL), 1e-300)
    spread = Estimate(worst.value, worst.standard_error * widened, worst.freedom)
    findings.append(_difference(SHAPE, spread, (0.0, 0.0), "the errors are off a fit of b/N + c/N²"))
    return findings


def _cluster(case: Case, run: VariantRun) -> tuple[OnCluster | None, list[Finding]]:
    summary = run.cluster
    if summary is None or run.failure is not None:
        return None, [Finding(check=VERDICT, passed=False, reason=f"the run failed: {run.failure or 'it is missing'}")]
    pathwise = summary.pathwise
    findings = []
    error = half_width = overhead = twin_mean = None
    if pathwise is not None and pathwise.mean is not None and pathwise.twin_mean:
        error, twin_mean, half_width = pathwise.mean, pathwise.twin_mean, pathwise.interval.half_width
        overhead = max(((summary.overhead_mean or 0.0) - (pathwise.twin_overhead or 0.0)) / twin_mean, 0.0)
        freedom = max(pathwise.interval.effective_samples - 1, 3)
        deviation = (half_width or 0.0) / float(stats.t.isf(0.025, freedom))
        what = (
            f"the cluster's mean {pathwise.emulated_mean:.4g} is off its twin's {twin_mean:.4g}, of which messages and "
            f"timers took {percent(overhead)}; it is off"
        )
        # The messages' own time, and as much again for the effect of their delay on the queues.
        findings.append(
            _difference(EMULATION, Estimate(error, deviation, freedom), (0.0, 2 * overhead), what, CLUSTER_LEVEL)
        )
    else:
        findings.append(Finding(check=EMULATION, passed=False, reason="no job could be compared with the twin's"))
    # The difference from its twin was tested above, at a level of its own.
    reasons = [check.explanation for check in summary.verdict.checks if not check.passed and check.name != PATHWISE]
    wanted = case.expect.verdict
    said = "suspect" if reasons else "valid"
    reason = f"the run's verdict: {'; '.join([said, *reasons])}"
    if said != wanted != "any":
        reason += f"; {wanted} is expected"
    findings.append(Finding(check=VERDICT, passed=wanted in ("any", said), reason=reason))
    return (
        OnCluster(
            servers=summary.servers,
            mean=summary.response.mean,
            twin=twin_mean,
            error=error,
            half_width=half_width,
            overhead=overhead,
            valid=not reasons,
            reasons=reasons,
        ),
        findings,
    )
